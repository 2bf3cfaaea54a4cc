"""Random points, and the farthest points in random directions: corners of a box, a ball's surface.

No gradients: for sets of few dimensions, and for networks whose gradients vanish.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from anybound.search.attack import Attack, Tried
from anybound.search.attacks._descent import batches
from anybound.search.margins import Margins


@dataclass(frozen=True)
class Sampling(Attack):
    """Up to `points` per clause at once, `rounds` times (for ever if 0)."""

    points: int = 4096
    rounds: int = 0

    def run(self, margins: Margins, starts: Tensor, generator: torch.Generator) -> Iterator[Tried]:
        del starts
        for x in batches(margins, self.points, self.rounds, generator):
            yield Tried(x, margins.values(x))
            direction = torch.randn(x.shape, generator=generator, dtype=x.dtype)
            border = margins.project(margins.center() + margins.downhill(direction))
            yield Tried(border, margins.values(border))
