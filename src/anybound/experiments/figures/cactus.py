"""Figure verification-main: how many properties are solved within a time, a panel per network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from anybound.experiments.canvas import (
    PAGE,
    figure,
    legend_below,
    log_ticks,
    panels,
    plain,
    shorten,
)
from anybound.experiments.decided import Decided

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["draw", "draw_panels"]


def draw(found: Sequence[Decided]) -> Figure | None:
    """One panel per network; None without any."""
    return draw_panels({f"{d.network}": d for d in found}, "Properties solved within a time")


def draw_panels(named: Mapping[str, Decided | None], title: str) -> Figure | None:
    """One panel each, one legend below; times recorded elsewhere are dashed."""
    present = [d for d in named.values() if d is not None]
    if not present:
        return None
    made = figure(PAGE, 3.2, title)
    row = panels(made, 1, len(named), sharey=True)[0]
    low, high = _range(present)
    for axes, (name, decided) in zip(row, named.items(), strict=True):
        axes.set_title(_name(name, decided), fontsize=8.5)
        axes.set_xlabel("CPU seconds")
        log_ticks(axes, "x", low, high)
        plain(axes)
        if decided is not None:
            _curves(axes, decided, high)
    row[0].set_ylabel("% of properties solved")
    row[0].set_ylim(-3, 103)
    legend_below(made, row)
    return made


def _name(name: str, decided: Decided | None) -> str:
    if decided is None:
        return f"{name}: no properties"
    many = "property" if decided.count == 1 else "properties"
    seconds = sorted({min(decided.limits), max(decided.limits)}) if decided.limits else []
    limit = ", " + " to ".join(f"{s:g}" for s in seconds) + " s" if seconds else ""
    return f"{name}\n{decided.count} {many}{limit}"


def _curves(axes: Axes, decided: Decided, high: float) -> None:
    for row in decided.rows:
        look = decided.style.looks[row]
        times, share = decided.curve(row)
        elsewhere = row in decided.elsewhere
        spent = [p.seconds for p in decided.rows[row] if not p.solved]
        end = high if elsewhere or not spent else max(spent)
        x = np.concatenate([[1e-9], times, [max(end, times[-1] if len(times) else 0.0)]])
        y = np.concatenate([[0.0], share, share[-1:] if len(share) else [0.0]])
        axes.plot(
            x,
            y,
            drawstyle="steps-post",
            color=look.colour,
            linestyle=(0, (4, 2)) if elsewhere else "-",
            linewidth=1.1 if elsewhere else 1.6,
            alpha=0.8 if elsewhere else 1.0,
            label=shorten(row, 40),
        )


def _range(found: Sequence[Decided]) -> tuple[float, float]:
    """From below the first solved property to beyond the last time."""
    times = [p.seconds for d in found for row in d.rows.values() for p in row]
    least = [p.seconds for d in found for row in d.rows.values() for p in row if p.solved]
    return max(min(least, default=0.01) / 1.5, 1e-3), max(times) * 1.3
