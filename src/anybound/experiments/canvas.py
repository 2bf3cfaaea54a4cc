"""Figures as PNG and SVG files, with matplotlib (the extra `report`); nothing global is touched.

A page with margins is 7 inches across; letters are 7 points and more.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anybound.errors import MissingDependency

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "PAGE",
    "figure",
    "legend_below",
    "log_ticks",
    "panels",
    "plain",
    "save",
    "shorten",
]

PAGE = 7.0  # inches
_DPI = 150
_STYLE: Any = {  # Any: matplotlib knows its keys by name
    "font.size": 8,
    "axes.titlesize": 8.5,
    "axes.labelsize": 8,
    "xtick.labelsize": 7.5,
    "ytick.labelsize": 7.5,
    "legend.fontsize": 7.5,
    "axes.linewidth": 0.6,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "svg.hashsalt": "anybound",  # the same records make the same file
    "svg.fonttype": "path",
}


def figure(width: float, height: float, title: str) -> Figure:
    """An empty figure with a title above."""
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingDependency("figures need matplotlib: pip install 'anybound[report]'") from None
    with mpl.rc_context(_STYLE):
        made = Figure(figsize=(width, height), layout="constrained")
        made.suptitle(title, fontsize=9)
    return made


def panels(made: Figure, rows: int, columns: int, **options: Any) -> list[list[Axes]]:
    """Axes by row and column. Any: handed on to matplotlib unseen."""
    import matplotlib as mpl

    with mpl.rc_context(_STYLE):
        grid = made.subplots(rows, columns, squeeze=False, **options)
    return [list(line) for line in grid]


def plain(axes: Axes) -> None:
    """No frame above and to the right, a faint grid."""
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.grid(visible=True, which="major", linewidth=0.4, color="#dddddd")
    axes.set_axisbelow(True)


def log_ticks(axes: Axes, name: str, low: float, high: float) -> None:
    """A log axis (x or y) with few labels that never collide: digits within two decades, else powers of ten."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullFormatter

    axes.set(**{f"{name}scale": "log", f"{name}lim": (low, high)})
    axis = axes.xaxis if name == "x" else axes.yaxis
    if high / low < _TWO_DECADES:
        axis.set_major_locator(FixedLocator(_ticks(low, high)))
        axis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:.4g}"))
    else:
        axis.set_major_locator(LogLocator(numticks=5))
    axis.set_minor_formatter(NullFormatter())


def legend_below(made: Figure, row: Sequence[Axes], columns: int = 3) -> None:
    """One legend for all panels, each label once."""
    found: dict[str, Artist] = {}
    for axes in row:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            found.setdefault(label, handle)
    made.legend(
        list(found.values()),
        list(found),
        loc="outside lower center",
        ncols=columns,
        frameon=False,
        fontsize=7.5,
    )


_TWO_DECADES = 120.0
_DIGITS = ((1.0,), (1.0, 3.0), (1.0, 2.0, 5.0), (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0))


def _ticks(low: float, high: float) -> list[float]:
    """The fewest kinds of digits that give two ticks."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for digits in _DIGITS:
        ticks = [d * 10.0**e for e in decades for d in digits if low <= d * 10.0**e <= high]
        if len(ticks) > 1:
            break
    return ticks


def save(made: Figure, folder: Path, name: str) -> Sequence[Path]:
    """`name.png` and `name.svg`."""
    import matplotlib as mpl

    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{name}.{suffix}" for suffix in ("png", "svg")]
    with mpl.rc_context(_STYLE):
        for path in paths:
            vector = path.suffix == ".svg"
            dpi = 2 * _DPI if vector else _DPI  # of the little in it that is not
            made.savefig(path, dpi=dpi, metadata={"Date": None} if vector else None)
    paths[1].write_text(_PLACES.sub(_rounded, paths[1].read_text("utf-8")), "utf-8")
    return paths


_PLACES = re.compile(r'(?<=\s)(d|x|y)="([^"]*)"')
_DECIMALS = re.compile(r"(\.\d\d)\d+")


def _rounded(place: re.Match[str]) -> str:
    """Coordinates to hundredths of a point, which nobody sees, in half the bytes."""
    return f'{place[1]}="{_DECIMALS.sub(_first, place[2])}"'


def _first(decimals: re.Match[str]) -> str:
    return decimals[1]


def shorten(text: str, most: int = 26) -> str:
    """A label that fits beside a figure: a method of somebody's own may be long."""
    return text if len(text) <= most else text[: most - 1] + "…"
