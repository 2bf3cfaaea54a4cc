"""Attacks that go on while a search splits: they get a share of its time, and its minimisers as starts.

Where the relaxation of a sub-problem is worst (z_0) is often close to where the network is; sub-problems
deeper in the tree lead there ever more closely. A search that finds nothing spends little on it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray

from anybound.budget import Budget
from anybound.outcome import Witness
from anybound.search.attack import Attack
from anybound.search.attacks.minimiser import Minimiser
from anybound.search.witness import Chase, WitnessFinder

SHARE = 0.1  # of the time since the hunt began
_MOST = 256  # minimisers that are looked at
_BEST = 8  # of them, for each clause, are descended from
_DESCENT = Minimiser(steps=10)


@dataclass(eq=False)
class Hunt:
    """On the clauses of the finder's only safety problem."""

    finder: WitnessFinder
    attacks: Sequence[Attack]
    budget: Budget
    seed: int = 0
    spent: float = 0.0
    chase: Chase = field(init=False)

    def __post_init__(self) -> None:
        generator = torch.Generator().manual_seed(self.seed)
        self.chase = Chase(self.finder, self.attacks, generator)

    def for_seconds(self, seconds: float) -> Witness | None:
        """Attack for so long."""
        clock = Budget()
        witness = self.chase.go_on(self.budget.at_most(seconds))
        self.spent += clock.elapsed()
        return witness

    def look(self, minimisers: NDArray[np.floating]) -> Witness | None:
        """Try some minimisers `[N, inputs]`, descend from the best, and go on with all attacks for the
        share of time that they have not had yet."""
        clock = Budget()
        witness = self._try(minimisers)
        if witness is None:
            due = SHARE * self.budget.elapsed() - self.spent
            witness = self.chase.go_on(self.budget.at_most(due))
        self.spent += clock.elapsed()
        return witness

    def _try(self, minimisers: NDArray[np.floating]) -> Witness | None:
        (safety,) = self.finder.safety_problems
        points = minimisers[:_MOST].astype(np.float32)
        x = torch.from_numpy(points).reshape(1, -1, *safety.problem.network.input_shape)
        everywhere = x.expand(len(safety.clauses), -1, *x.shape[2:])
        margin, witness = self.chase.try_points(0, everywhere)
        if witness is None:
            best = margin.topk(min(_BEST, margin.shape[1]), dim=1, largest=False).indices
            self.chase.add(_DESCENT, [x[0][best]])
        return witness
