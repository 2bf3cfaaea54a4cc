"""Random points, and the farthest points in random directions: corners of a box, a ball's surface.

No gradients: for sets of few dimensions, and for networks whose gradients vanish. A point is tried for all clauses at
once, which costs little more than for one.
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
    """Up to `points` at once, `rounds` times (for ever if 0)."""

    points: int = 4096
    rounds: int = 0

    def run(self, margins: Margins, starts: Tensor, generator: torch.Generator) -> Iterator[Tried]:
        del starts
        for x in batches(margins.any_clause(), self.points, self.rounds, generator):
            yield _tried(margins, x)
            direction = torch.randn(x.shape, generator=generator, dtype=x.dtype)
            yield _tried(margins, margins.project(margins.center() + margins.downhill(direction)))


def _tried(margins: Margins, x: Tensor) -> Tried:
    """Points `[1, S, *input_shape]` for every clause."""
    return Tried(x.expand(margins.clauses, *x.shape[1:]), margins.values(x))
