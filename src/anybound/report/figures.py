"""Pictures as PNG files, drawn with matplotlib (the extra `report`) from plain arrays.

Nothing global is touched: figures are made directly, without pyplot.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from anybound.errors import MissingDependency

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["Curve", "Intervals", "draw_bounds", "draw_curves", "draw_images"]

FloatArray = NDArray[np.float64]
Intervals = tuple[FloatArray, FloatArray]  # lower and upper, [n] each
Curve = tuple[Sequence[float], Sequence[float]]  # seconds and values

_LOOSE, _TIGHT, _POINT, _LIMIT = "#b9c4d6", "#2f6fb3", "#d1495b", "#777777"
_DPI = 150


def draw_images(path: Path, images: Mapping[str, FloatArray]) -> None:
    """Images `[height, width]` or `[height, width, 3]` with values in [0, 1], side by side."""
    figure = _figure(2.2 * len(images), 2.5)
    for axes, (title, image) in zip(_row(figure, len(images)), images.items(), strict=True):
        axes.imshow(image, cmap="gray", vmin=0.0, vmax=1.0, interpolation="nearest")
        axes.set_title(title, fontsize=9)
        axes.set_axis_off()
    figure.savefig(path, dpi=_DPI)


def draw_bounds(
    path: Path, title: str, bounds: Mapping[str, Intervals], outputs: FloatArray
) -> None:
    """Bounds per class as vertical intervals, loosest first, around the network's outputs.

    The frame shows the last ones in full; looser ones may leave it.
    """
    figure = _figure(6.4, 3.6)
    axes = figure.add_subplot()
    for (name, (lower, upper)), color, width in zip(
        bounds.items(), (_LOOSE, _TIGHT), (9.0, 5.0), strict=False
    ):
        label = f"{name} ({lower.min():.4g} … {upper.max():.4g})"
        axes.vlines(range(len(lower)), lower, upper, color=color, linewidth=width, label=label)
    margin = 0.25 * float((upper.max() - lower.min()) or 1.0)
    axes.set_ylim(lower.min() - margin, upper.max() + margin)
    best = int(lower.argmax())
    axes.axhline(lower[best], color=_LIMIT, linewidth=0.8, linestyle="--")
    axes.plot(outputs, "o", color=_POINT, markersize=4, label="at the centre")
    axes.set_xticks(range(len(outputs)))
    axes.set_xlabel("class")
    axes.set_ylabel("output")
    _finish(figure, axes, title, path)


def draw_curves(path: Path, title: str, curves: Mapping[str, Curve]) -> None:
    """Lower bounds over time; what reaches above zero is proved."""
    figure = _figure(6.4, 3.6)
    axes = figure.add_subplot()
    for name, (seconds, values) in curves.items():
        axes.plot([1e3 * s for s in seconds], values, drawstyle="steps-post", label=name)
    axes.axhline(0.0, color=_LIMIT, linewidth=0.8, linestyle="--")
    axes.set_xlabel("milliseconds")
    axes.set_ylabel("lower bound of the margin")
    _finish(figure, axes, title, path)


def _figure(width: float, height: float) -> Figure:
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingDependency(
            "pictures need matplotlib: pip install 'anybound[report]'"
        ) from None
    return Figure(figsize=(width, height), layout="constrained")


def _row(figure: Figure, count: int) -> list[Axes]:
    return [figure.add_subplot(1, count, i + 1) for i in range(count)]


def _finish(figure: Figure, axes: Axes, title: str, path: Path) -> None:
    axes.set_title(title, fontsize=10)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    figure.legend(loc="outside lower center", ncols=3, fontsize=8, frameon=False)
    figure.savefig(path, dpi=_DPI)
