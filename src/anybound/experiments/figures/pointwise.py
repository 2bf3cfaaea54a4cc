"""Figures madry8-pointwise and sgd-pointwise: two methods against each other, point by point.

Above the time (a point per image), below the gap (a point per margin); the darker, the more points; the dotted
line is equality. A method of a user's own is compared with Proximal.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from anybound.experiments.canvas import PAGE, figure, log_ticks, panels, plain, shorten
from anybound.experiments.gaps import Margins

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["compare", "draw", "pairs"]

FLOOR = 1e-4  # smaller gaps are drawn here


def draw(margins: Margins) -> Figure | None:
    """The paper's two comparisons, and those of methods beyond the paper; None where there is none."""
    return compare(margins, pairs(margins), "Pointwise comparison")


def pairs(margins: Margins) -> list[tuple[str, str]]:
    """(horizontal, vertical): the one on the vertical axis is the one expected to be better."""
    proximal = margins.last("Proximal")
    wanted = [
        (margins.last("DSG+"), margins.last("Supergradient")),
        (margins.last("Supergradient"), proximal),
        (proximal, margins.last("Slopes")),
        *((proximal, row) for row in margins.own),
    ]
    return [(a, b) for a, b in wanted if a is not None and b is not None]


def compare(margins: Margins, chosen: Sequence[tuple[str, str]], title: str) -> Figure | None:
    """A column for each pair, time above gap; after three of them it goes on below."""
    if not chosen:
        return None
    columns = min(len(chosen), _COLUMNS)
    lines = -(-len(chosen) // columns)
    height = 0.7 + 1.85 * lines * PAGE / max(columns, 2)
    made = figure(PAGE, height, f"{title}: {margins.caption}")
    grid = panels(made, 2 * lines, columns)
    for place in range(lines * columns):
        line, column = divmod(place, columns)
        above, below = grid[2 * line][column], grid[2 * line + 1][column]
        if place < len(chosen):
            _pair(above, below, margins, *chosen[place])
        else:
            above.set_axis_off()
            below.set_axis_off()
    return made


_COLUMNS = 3


def _pair(above: Axes, below: Axes, margins: Margins, a: str, b: str) -> None:
    """Times of two methods, and their gaps."""
    _panel(above, margins.seconds(a), margins.seconds(b), a, b, "CPU s")
    x, y = (np.maximum(margins.gap(row).ravel(), FLOOR) for row in (a, b))
    _panel(below, x, y, a, b, "gap")
    share = f"{shorten(b, 20)} better\non {margins.better(b, a):.0f} % of margins"
    below.set_title(share, fontsize=7.5)


def _panel(
    axes: Axes, x: NDArray[np.float64], y: NDArray[np.float64], a: str, b: str, what: str
) -> None:
    """Points coloured by how many are near, and the line of equality."""
    density = _density(np.log10(x), np.log10(y))
    order = np.argsort(density)
    axes.scatter(
        x[order],
        y[order],
        c=0.35 + 0.65 * density[order],
        cmap="Blues",
        vmin=0.0,
        vmax=1.0,
        s=7,
        linewidths=0,
        rasterized=True,  # a hundred images are thousands of points
    )
    middle = np.sqrt(min(x.min(), y.min()) * max(x.max(), y.max()))
    reach = max(1.25 * max(x.max(), y.max()) / middle, _LEAST)
    low, high = middle / reach, middle * reach
    axes.plot([low, high], [low, high], ":", color="#222222", linewidth=0.9)
    log_ticks(axes, "x", low, high)
    log_ticks(axes, "y", low, high)
    axes.set_box_aspect(1)
    axes.set_xlabel(f"{shorten(a, 22)}, {what}")
    axes.set_ylabel(f"{shorten(b, 22)}, {what}")
    plain(axes)


_LEAST = 2.0  # an axis spans at least its square


def _density(x: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.float64]:
    """How many points are near each, at most 1; 1 everywhere for points that fill no area."""
    from scipy.stats import gaussian_kde

    points = np.stack([x, y])
    if points.shape[1] < _FEW or np.linalg.matrix_rank(np.cov(points), tol=1e-9) < len(points):
        return np.ones(len(x))
    density = gaussian_kde(points)(points)
    return np.asarray(density / density.max())


_FEW = 5
