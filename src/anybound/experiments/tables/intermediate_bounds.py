"""The study's table intermediate-bounds: what strategies for hidden layers take, and what methods make of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from anybound.experiments.curve import Tightened
from anybound.experiments.style import Style
from anybound.experiments.table import Cell, Table

__all__ = ["Mean", "Strategies", "table"]


@dataclass(frozen=True)
class Mean:
    """Over images: seconds of either part, ambiguous neurons, the mean bound, margins proved to be positive."""

    between_seconds: float
    seconds: float
    ambiguous: float
    bound: float
    proved: int


@dataclass(frozen=True)
class Strategies:
    """The records of one network, on images that every method was run on with every strategy."""

    network: str
    caption: str
    names: tuple[str, ...]
    rows: tuple[str, ...]
    style: Style
    cells: Mapping[tuple[str, str], Sequence[Tightened]]

    @staticmethod
    def of(found: Sequence[Tightened], role: str) -> Strategies | None:
        """Those of a role; None if there is no such image."""
        mine = [t for t in found if t.role == role]
        style = Style.of((t.row, t.family) for t in found)
        names = tuple(dict.fromkeys(t.strategy for t in mine))
        rows = tuple(r for r in style.labels if r in {t.row for t in mine})
        known = {(t.strategy, t.row, t.image): t for t in mine}
        pairs = [(name, row) for name in names for row in rows]
        images = sorted({t.image for t in mine})
        whole = [i for i in images if all((*pair, i) in known for pair in pairs)]
        if not whole:
            return None
        cells = {pair: [known[(*pair, i)] for i in whole] for pair in pairs}
        caption = (
            f"{mine[0].network}, ε = {mine[0].epsilon}, {len(whole)} image{'s' * (len(whole) != 1)}"
        )
        return Strategies(mine[0].network, caption, names, rows, style, cells)

    def mean(self, strategy: str, row: str) -> Mean:
        """A method on a strategy's bounds."""
        found = self.cells[strategy, row]
        lower = np.array([t.lower for t in found])
        return Mean(
            float(np.mean([t.between_seconds for t in found])),
            float(np.mean([t.seconds for t in found])),
            float(np.mean([t.ambiguous for t in found])),
            float(lower.mean()),
            int((lower > 0).sum()),
        )

    @property
    def span(self) -> tuple[float, float]:
        """From below the least to above the most seconds of both parts."""
        means = [self.mean(name, row) for name in self.names for row in self.rows]
        seconds = [m.between_seconds + m.seconds for m in means]
        return min(seconds) / 1.4, max(seconds) * 1.4


def table(found: Strategies) -> Table:
    """A line per strategy and method."""
    lines: list[list[Cell]] = []
    for name in found.names:
        for row in found.rows:
            m = found.mean(name, row)
            lines.append(
                [f"{name}: {row}", m.between_seconds, m.seconds, m.ambiguous, m.bound, m.proved]
            )
    head = (
        "hidden layers: last layer",
        "hidden s",
        "last s",
        "ambiguous",
        "mean bound",
        "margins > 0",
    )
    note = "CPU seconds of one thread, means over images."
    return Table(f"Intermediate bounds: {found.caption}", head, lines, [note])
