"""Tightening by the negated property: bounds of neurons on the inputs that violate a clause.

Where f <= 0 is what is left to refute, with f = Σ_r w_r f_r and any w >= 0, every γ >= 0 gives

    min {±ẑ_i : f <= 0}  >=  min (±ẑ_i + γ f)  >=  q(slopes, γ)

with one γ and one w for each side of each neuron, ascended along with the slopes. Bounds so found hold on the
violating inputs only: they serve to prove that there are none. When some interval becomes empty,
that is proved.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch

from anybound.bound.bounds import Bounds
from anybound.bound.compact.network import CompactNetwork
from anybound.bound.compact.objective import Aim, CompactObjective
from anybound.bound.compact.problems import Children, Parents
from anybound.bound.compact.refine import Adam, Refined, refine
from anybound.bound.compact.rigorous import rigorous
from anybound.bound.compact.rows import Index
from anybound.bound.compact.sparse import SparseNetwork
from anybound.model.domains.box import Box
from anybound.spec.problem import Objective

# Bounds from what was proposed for lower bounds of the rows ẑ, and then of −ẑ: for who decides otherwise.
Judge = Callable[[CompactNetwork, Index, Refined], Bounds]


@dataclass(frozen=True)
class Tightening:
    """Rounds over the last so many hidden layers, with Adam's steps in each."""

    rounds: Sequence[int] = (1, 1, 2, 2)
    adam: Adam = field(default_factory=lambda: Adam(steps=15, decay=0.93))

    def bounds(
        self,
        sparse: SparseNetwork,
        bounds: Bounds,
        box: Box,
        objective: Objective,
        clause: slice,
        judge: Judge | None = None,
    ) -> Bounds:
        """The bounds of one sub-problem cut by the rows `clause` of the objective being <= 0."""
        hidden = sparse.network.n - 1
        for depth in self.rounds:
            layers = range(max(1, hidden - depth + 1), hidden + 1)
            network = CompactNetwork.of(sparse, bounds, box)
            goal = CompactObjective.of(objective, network, [clause])
            only = np.zeros(1, np.int64)
            start = Parents.roots(network, only, goal.weights(only))
            found = refine(network, goal, start, Children.same(1), self.adam)
            start = start._replace(slope=found.slope, weight=found.weight)
            bounds = self.cut(network, goal, start, layers, bounds, judge)
            if bool(bounds.is_empty().any()):
                break
        return bounds

    def cut(
        self,
        network: CompactNetwork,
        objective: CompactObjective,
        parent: Parents,
        layers: Sequence[int],
        bounds: Bounds,
        judge: Judge | None = None,
    ) -> Bounds:
        """One round for one sub-problem, from its slopes; its split neurons are left as they
        are."""
        node = np.searchsorted(network.first, network.ambiguous, side="right") - 1
        chosen = np.flatnonzero(np.isin(node, np.asarray(layers)) & (parent.sign[0] == 0))
        if len(chosen) == 0:
            return bounds
        row = network.ambiguous[chosen]
        refined, aim = self._refined(network, objective, parent, row)
        if judge is not None:
            return judge(network, row, refined)
        children = Children.of(np.zeros(len(aim.scale), np.int64))
        slope, weight = refined.slope, refined.weight
        value = rigorous(network, objective, parent, children, slope, aim, weight)
        at = torch.from_numpy(network.neuron[chosen])
        lower, upper = bounds.lower.data.clone(), bounds.upper.data.clone()
        low, high = torch.from_numpy(value[: len(chosen)]), torch.from_numpy(-value[len(chosen) :])
        lower[0, 0, at] = lower[0, 0, at].maximum(low)
        upper[0, 0, at] = upper[0, 0, at].minimum(high)
        return Bounds(bounds.lower.like(lower), bounds.upper.like(upper))

    def _refined(
        self, network: CompactNetwork, objective: CompactObjective, parent: Parents, row: Index
    ) -> tuple[Refined, Aim]:
        """What is proposed for lower bounds of ẑ and then of −ẑ of some rows, where f <= 0."""
        count = 2 * len(row)
        weight = np.repeat(np.array([1, -1], np.float32), len(row))
        aim = Aim(np.zeros(count, np.float32), np.tile(row, 2), weight)
        children = Children.of(np.zeros(count, np.int64))
        width = (network.rows.upper - network.rows.lower)[row]
        refined = refine(
            network, objective, parent, children, self.adam, aim,
            scale_unit=np.tile(width, 2).astype(np.float32),
        )  # fmt: skip
        return refined, aim._replace(scale=refined.scale)
