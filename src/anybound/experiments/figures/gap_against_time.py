"""The study's figures same-start and combinations: mean gap against time on log axes, a panel per network."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from anybound.experiments.canvas import PAGE, figure, legend_below, panels, plain, shorten
from anybound.experiments.progress import Risen
from anybound.experiments.study import COMBINED, SAME_START

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["draw_combined", "draw_same_start"]


def draw_same_start(found: Sequence[Risen]) -> Figure | None:
    """Slopes, Supergradient and Proximal, and a user's methods, from WK's ρ."""
    return _draw(found, [SAME_START], "Gap against time, all from WK's dual point")


def draw_combined(found: Sequence[Risen]) -> Figure | None:
    """One method after another, beside each alone."""
    return _draw(found, [SAME_START, COMBINED], "Gap against time: one method after another")


def _draw(found: Sequence[Risen], parts: Sequence[str], title: str) -> Figure | None:
    if not found:
        return None
    made = figure(PAGE, 3.4, title)
    row = panels(made, 1, len(found), sharey=True)[0]
    for axes, risen in zip(row, found, strict=True):
        for label in (name for part in parts for name in risen.rows(part)):
            look = risen.style.looks[label]
            alone = len(parts) > 1 and label in risen.rows(SAME_START)
            axes.plot(
                *risen.gap(label),
                color=look.colour,
                linestyle=(0, (2, 1.2)) if alone else "-",
                linewidth=1.1 if alone else 1.6,
                label=shorten(label, 40),
            )
        axes.set(xscale="log", yscale="log", xlabel="CPU seconds per image")
        axes.set_title(risen.caption, fontsize=8.5)
        plain(axes)
    row[0].set_ylabel("mean gap to the best bound found")
    legend_below(made, row)
    return made
