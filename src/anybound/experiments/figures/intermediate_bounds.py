"""The study's figure intermediate-bounds: the mean bound of the margins against time, by strategy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from anybound.experiments.canvas import (
    PAGE,
    figure,
    legend_below,
    log_ticks,
    panels,
    plain,
    shorten,
)
from anybound.experiments.tables.intermediate_bounds import Strategies

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["draw"]

_MARKS = "os^Dvp"


def draw(found: Sequence[Strategies]) -> Figure | None:
    """Colour is the method of the last layer, the mark the strategy; time is that of both together."""
    if not found:
        return None
    made = figure(
        PAGE, 3.6, "What tighter bounds of hidden layers bring to the margins (higher is better)"
    )
    row = panels(made, 1, len(found))[0]
    for axes, strategies in zip(row, found, strict=True):
        for label in strategies.rows:
            look = strategies.style.looks[label]
            points = [strategies.mean(name, label) for name in strategies.names]
            x = [p.between_seconds + p.seconds for p in points]
            axes.plot(x, [p.bound for p in points], color=look.colour, linewidth=0.8, alpha=0.6)
            for mark, point, at in zip(_MARKS, points, x, strict=False):
                axes.plot(at, point.bound, mark, color=look.colour, markersize=5)
            axes.plot([], [], "-", color=look.colour, linewidth=2, label=shorten(label, 40))
        for mark, name in zip(_MARKS, strategies.names, strict=False):
            axes.plot([], [], mark, color="#555555", markersize=5, label=f"hidden layers: {name}")
        log_ticks(axes, "x", *strategies.span)
        axes.set_xlabel("CPU seconds per image, hidden and last layer")
        axes.set_title(strategies.caption, fontsize=8.5)
        plain(axes)
    row[0].set_ylabel("mean lower bound of the margins")
    legend_below(made, row)
    return made
