"""Figures madry8 and sgd8: how run time and gap to optimality are distributed, as violins on log axes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from anybound.experiments.canvas import PAGE, figure, panels, plain, shorten
from anybound.experiments.gaps import Margins
from anybound.experiments.style import Look

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["FLOOR", "draw"]

FLOOR = 1e-4  # smaller gaps are drawn here
_LEFT_OUT = (
    "IP"  # as in the paper: it is far off the others; the additional pointwise figure has it
)


def draw(margins: Margins) -> Figure:
    """One line per method: its seconds (a value per image) and its gaps (a value per margin)."""
    rows = [row for row in margins.by_row if row != _LEFT_OUT]
    made = figure(
        PAGE,
        1.1 + 0.27 * len(rows),
        f"Run time and gap to optimality (lower is better): {margins.caption}",
    )
    times, gaps = panels(made, 1, 2, sharey=True)[0]
    for place, row in enumerate(rows):
        look = margins.style.looks[row]
        _violin(times, place, margins.seconds(row), look)
        gap = np.maximum(margins.gap(row).ravel(), FLOOR)
        if (gap > FLOOR).mean() > _MEANT:  # else it is the optimum that gaps are measured from
            _violin(gaps, place, gap, look)
        else:
            where = gaps.get_yaxis_transform()
            gaps.text(0.02, place, "the best bound", transform=where, va="center", fontsize=7.5)
    times.set_yticks(range(len(rows)), [shorten(row) for row in rows])
    times.invert_yaxis()
    for axes, label in (
        (times, "CPU seconds per image"),
        (gaps, "gap to the best bound, per margin"),
    ):
        axes.set_xscale("log")
        axes.set_xlabel(label)
        plain(axes)
        axes.tick_params(axis="y", length=0)
    return made


_MEANT = 0.05  # the least share of gaps above the floor that makes a distribution


def _violin(axes: Axes, place: int, values: NDArray[np.float64], look: Look) -> None:
    """The density over the values' logarithm, a bar from the 5th to the 95th per cent, a dot at the median."""
    logs = np.log10(np.maximum(values, 1e-9))
    low, middle, high = np.percentile(logs, [5, 50, 95])
    if np.ptp(logs) > _NARROW and len(logs) > 2:
        grid, width = _density(logs)
        axes.fill_between(
            10**grid,
            place - 0.42 * width,
            place + 0.42 * width,
            color=look.colour,
            alpha=0.75 * look.alpha,
            linewidth=0,
        )
    axes.plot(10 ** np.array([low, high]), [place, place], color="#222222", linewidth=1.0)
    axes.plot(10**middle, place, "o", color="white", markeredgecolor="#222222", markersize=3.5)


_NARROW = 1e-3  # decades


def _density(logs: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """A Gaussian kernel estimate on a grid, its highest value 1."""
    from scipy.stats import gaussian_kde

    grid = np.linspace(logs.min(), logs.max(), 50)
    density = gaussian_kde(logs)(grid)
    return grid, np.asarray(density / density.max())
