"""What figures and tables of incomplete verification show, computed from measurements.

The gap of a margin is the best bound that any row achieved on it, less the row's own (the paper's "gap to the best
achieved solution"): where the LP was solved to optimality, that is the gap to the relaxation's optimum.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from anybound.experiments.measurement import Measurement
from anybound.experiments.style import FAMILIES, Style

__all__ = ["Margins"]

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Margins:
    """The measurements of one network, images that all rows have been run on, in order."""

    network: str
    epsilon: str
    role: str
    images: tuple[int, ...]
    style: Style
    by_row: Mapping[str, Sequence[Measurement]]

    @staticmethod
    def of(measurements: Sequence[Measurement], role: str) -> Margins | None:
        """Those of a role; None if there is no image that all rows have been run on."""
        mine = [m for m in measurements if m.role == role]
        style = Style.of((m.row, m.family) for m in measurements)
        rows = dict.fromkeys(m.row for m in mine)
        known = {(m.row, m.image): m for m in mine}
        images = sorted({m.image for m in mine})
        whole = tuple(i for i in images if all((row, i) in known for row in rows))
        if not whole:
            return None
        by_row = {
            label: [known[label, i] for i in whole] for label in style.labels if label in rows
        }
        return Margins(mine[0].network, mine[0].epsilon, role, whole, style, by_row)

    def lower(self, row: str) -> FloatArray:
        """Proved bounds, `[images, margins]`."""
        return np.array([m.lower for m in self.by_row[row]])

    def gap(self, row: str) -> FloatArray:
        """Gap to the best achieved, `[images, margins]`."""
        best = np.max([self.lower(other) for other in self.by_row], axis=0)
        return np.asarray(best - self.lower(row))

    def seconds(self, row: str) -> FloatArray:
        """CPU seconds of one thread, `[images]`."""
        return np.array([m.cpu_seconds for m in self.by_row[row]])

    def better(self, row: str, other: str) -> float:
        """The share of margins on which a row's bound is above another's, in per cent."""
        return 100.0 * float((self.lower(row) > self.lower(other)).mean())

    def originally_better(self, row: str, other: str) -> tuple[float, int] | None:
        """The same share of the original code's bounds, and on how many images; None where none are known."""
        both = [
            (np.array(a.original), np.array(b.original))
            for a, b in zip(self.by_row[row], self.by_row[other], strict=True)
            if a.original and b.original
        ]
        if not both:
            return None
        return 100.0 * float(np.mean([a > b for a, b in both])), len(both)

    def from_original(self, row: str) -> float | None:
        """The largest difference between a row's bounds and the original code's; None where none are known."""
        pairs = [(np.array(m.lower), np.array(m.original)) for m in self.by_row[row] if m.original]
        return max((float(np.abs(a - b).max()) for a, b in pairs), default=None)

    def with_family(self, family: str) -> list[str]:
        """Labels of a family, in order."""
        return [label for label, found in self.by_row.items() if found[0].family == family]

    def last(self, family: str) -> str | None:
        """The row of a family with the most iterations."""
        labels = self.with_family(family)
        return max(labels, key=lambda label: self.by_row[label][0].iterations, default=None)

    @property
    def own(self) -> list[str]:
        """Rows of a user's own."""
        return [label for label, found in self.by_row.items() if found[0].family not in FAMILIES]

    @property
    def caption(self) -> str:
        """Which network, radius and images."""
        count = len(self.images)
        return f"{self.network}, ε = {self.epsilon}, {count} image{'s' * (count != 1)}"
