"""The momentum iterative fast gradient sign method with restarts (Dong et al. 2018).

v^{t+1} = μ v^t + ∂m(x^t) / mean|∂m(x^t)|,     x^{t+1} = project(x^t + γ_t · downhill(v^{t+1}))
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
class MIFGSM(Attack):
    """Momentum carries over the kinks where the largest row or a neuron's side changes.

    The other parameters are as in `PGD`."""

    restarts: int = 512
    steps: int = 40
    momentum: float = 0.75
    step: float = 0.5
    decay: float = 0.93
    rounds: int = 0

    def run(self, margins: Margins, starts: Tensor, generator: torch.Generator) -> Iterator[Tried]:
        del starts
        for x in batches(margins, self.restarts, self.rounds, generator):
            step = random_steps(x, self.step, self.step, generator)
            yield from descend(
                margins, x, step, steps=self.steps, decay=self.decay, momentum=self.momentum
            )
