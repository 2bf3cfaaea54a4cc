"""Descent from points that others consider promising, such as the dual's minimisers z_0.

    z_0 = argmin over the input set of g_0ᵀz,     g_0 = −W_1ᵀρ_1

is where the relaxed network is worst, and often close to where the network itself is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from anybound.search.attack import Attack, Tried
from anybound.search.attacks._descent import descend
from anybound.search.margins import Margins


@dataclass(frozen=True)
class Minimiser(Attack):
    """A few steps from every start; nothing without starts."""

    steps: int = 10
    step: float = 0.1
    decay: float = 0.8

    def run(self, margins: Margins, starts: Tensor, generator: torch.Generator) -> Iterator[Tried]:
        del generator
        for some in torch.split(starts, margins.room_for(max(1, starts.shape[1])), dim=1):
            if some.shape[1]:
                x = margins.project(some)
                step = torch.full((), self.step, dtype=x.dtype)
                yield from descend(margins, x, step, steps=self.steps, decay=self.decay)
