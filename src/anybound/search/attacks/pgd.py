"""Projected gradient descent with restarts and decaying steps (Madry et al. 2018).

x^{t+1} = project(x^t + γ_t · downhill(∂m(x^t)))
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from anybound.search.attack import Attack, Tried
from anybound.search.attacks._descent import batches, descend, random_steps
from anybound.search.margins import Margins


@dataclass(frozen=True)
class PGD(Attack):
    """Up to `restarts` points per clause at once, each with a step size of its own.

    `rounds` = 0 goes on for ever."""

    restarts: int = 4096
    steps: int = 20
    largest_step: float = 0.5
    smallest_step: float = 0.02
    decay: float = 0.87
    rounds: int = 0

    def run(self, margins: Margins, starts: Tensor, generator: torch.Generator) -> Iterator[Tried]:
        del starts
        for x in batches(margins, self.restarts, self.rounds, generator):
            step = random_steps(x, self.largest_step, self.smallest_step, generator)
            yield from descend(margins, x, step, steps=self.steps, decay=self.decay)
