"""What the study's figures and tables show, computed from its records.

The gap at a time is the best mean bound that any row reached on an image, less the mean bound that the row had by then.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from anybound.experiments.curve import Curve
from anybound.experiments.style import Style

__all__ = ["Risen"]

FloatArray = NDArray[np.float64]
_FLOOR = 1e-5


@dataclass(frozen=True)
class Risen:
    """The curves of one network, on images that all rows have been run on."""

    role: str
    network: str
    epsilon: str
    images: tuple[int, ...]
    style: Style
    by_row: Mapping[str, Sequence[Curve]]
    best: FloatArray

    @staticmethod
    def of(found: Sequence[Curve], role: str) -> Risen | None:
        """Those of a role; None if there is no such image."""
        mine = [c for c in found if c.role == role]
        style = Style.of((c.row, c.family) for c in found)
        rows = dict.fromkeys(c.row for c in mine)
        known = {(c.row, c.image): c for c in mine}
        images = sorted({c.image for c in mine})
        whole = tuple(i for i in images if all((row, i) in known for row in rows))
        if not whole:
            return None
        by_row = {r: [known[r, i] for i in whole] for r in style.labels if r in rows}
        ends = [[max(c.mean) for c in curves] for curves in by_row.values()]
        best = np.max(ends, axis=0)
        return Risen(role, mine[0].network, mine[0].epsilon, whole, style, by_row, best)

    def rows(self, part: str) -> list[str]:
        """Rows of a part of the study."""
        return [row for row, found in self.by_row.items() if found[0].part == part]

    def gap(self, row: str) -> tuple[FloatArray, FloatArray]:
        """Times, and the gap at them averaged over images: from when all images have a bound to when all have ended."""
        found = self.by_row[row]
        first = max(c.seconds[0] for c in found)
        last = max(c.seconds[-1] for c in found)
        times = np.geomspace(max(first, 1e-5), max(last, 1.01 * first, 1.1e-5), 150)
        gaps = [
            best - np.asarray(c.mean)[np.searchsorted(c.seconds, times, side="right").clip(1) - 1]
            for c, best in zip(found, self.best, strict=True)
        ]
        return times, np.maximum(np.mean(gaps, axis=0), _FLOOR)

    def end(self, row: str) -> tuple[float, float]:
        """Mean seconds and mean gap in the end."""
        found = self.by_row[row]
        gaps = [best - max(c.mean) for c, best in zip(found, self.best, strict=True)]
        return float(np.mean([c.seconds[-1] for c in found])), float(np.mean(gaps))

    def until(self, row: str, gap: float) -> float | None:
        """Seconds until the mean gap is as small (within 1 %), or None."""
        times, gaps = self.gap(row)
        there = np.flatnonzero(gaps <= max(1.01 * gap, _FLOOR))
        return float(times[there[0]]) if len(there) else None

    @property
    def caption(self) -> str:
        """Which network, radius and images."""
        count = len(self.images)
        return f"{self.network}, ε = {self.epsilon}, {count} image{'s' * (count != 1)}"
