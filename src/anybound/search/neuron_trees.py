"""Bounds of hidden neurons by branch and bound: for networks whose bounds grow from layer to layer.

A bound of ẑ_i is the minimum of a linear function over the layers before it, as a clause is: splitting their neurons
raises it, and what it gains makes every later layer tighter. In deep networks that is worth far more than splitting for
the property itself. So each side of each ambiguous neuron gets a small tree,

    min ẑ_i  >=  min over leaves of q(leaf's slopes),      max ẑ_i  =  −min(−ẑ_i),

layer by layer, all trees of a group side by side: a round splits the lowest leaf of each. A tree ends when the neuron
is proved stable, or after so many sub-problems. Leaves count with their rigorous values.

A layer is given up after its first group where that gained little, as it does in shallow networks.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from anybound.bound.bounds import Bounds
from anybound.bound.compact.network import CompactNetwork
from anybound.bound.compact.objective import CompactObjective
from anybound.bound.compact.roots import RootBounds
from anybound.bound.compact.sparse import SparseNetwork
from anybound.budget import Budget
from anybound.model.domains.box import Box
from anybound.model.network import Network
from anybound.search.bounder import Expansion
from anybound.search.branchings.filtered import Filtered
from anybound.search.relu_bounder import ReluBatch, ReluBounder
from anybound.search.rule import NOTHING_LEFT, BranchingRule, Index, Vector
from anybound.spec.problem import Objective

_POLISHED = (
    -2
)  # in the place of the neuron that is split next: nothing was left, and no more can be done
_MARGIN = 1e-4  # float32 bounds above it are worth a rigorous evaluation


@dataclass(frozen=True)
class NeuronTrees:
    """`subproblems` for each side of each neuron, in groups of so many neurons.

    A layer is given up if its first group narrows by less than `least_gain` of its width. With `programs`, linear ones
    settle leaves with nothing left to split: exact, but slow."""

    subproblems: int = 32
    group: int = 64
    least_gain: float = 0.05
    rule: BranchingRule = field(default_factory=Filtered)
    programs: bool = False

    def bounds(
        self, sparse: SparseNetwork, box: Box, within: Bounds, budget: Budget, threads: int = 1
    ) -> tuple[Bounds, float]:
        """Bounds `[1, 1, total]` cut with those given, and the largest gain of a layer, as a share of its width."""
        run = _Pass(self, sparse.network, budget, threads)
        return RootBounds().bounds(sparse, box, within, run.tighten), run.gain


class _Pass:
    """One pass over the layers."""

    def __init__(self, plan: NeuronTrees, network: Network, budget: Budget, threads: int) -> None:
        self.plan, self.network, self.budget, self.threads = plan, network, budget, threads
        self.gain = 0.0

    def tighten(self, compact: CompactNetwork, k: int, neuron: Index, l: Tensor, u: Tensor) -> None:
        """Cut the bounds of the ambiguous neurons of layer k, in place."""
        if len(compact.ambiguous) == 0:
            return
        groups = np.array_split(neuron, -(-len(neuron) // self.plan.group))
        for number, group in enumerate(groups):
            if self.budget.is_spent():
                return
            at = torch.from_numpy(group)
            before = (u[at] - l[at]).sum()
            low, high = self._both_sides(compact, k, at)
            l[at], u[at] = l[at].maximum(low), u[at].minimum(high)
            gain = float(1 - (_bent_width(l[at], u[at])) / before)
            if number == 0:
                self.gain = max(self.gain, gain)
                if gain < self.plan.least_gain:
                    return

    def _both_sides(self, compact: CompactNetwork, k: int, at: Tensor) -> tuple[Tensor, Tensor]:
        sign = torch.tensor([1.0, -1.0], dtype=torch.float64).repeat(len(at))
        rows = Objective.neurons(self.network.upto(k), at.repeat_interleave(2), sign)
        objective = CompactObjective.of(rows, compact)
        bounder = ReluBounder(compact, objective, threads=self.threads, programs=self.plan.programs)
        lower = torch.from_numpy(Trees(bounder, self.plan, 2 * len(at)).grow(self.budget))
        return lower[::2], -lower[1::2]


def _bent_width(l: Tensor, u: Tensor) -> Tensor:
    """The width of what is still ambiguous about 0: a neuron proved stable has none."""
    return torch.where((l < 0) & (u > 0), u - l, 0.0).sum()


class Leaves(NamedTuple):
    """Open leaves, the neuron that each is split at next, and rigorous lower bounds, `[N]`."""

    batch: ReluBatch
    neuron: Index
    proved: Vector

    def take(self, index: Index) -> Leaves:
        return Leaves(self.batch.take(index), self.neuron[index], self.proved[index])

    def joined(self, other: Leaves) -> Leaves:
        pairs: Iterable[tuple[NDArray[Any], NDArray[Any]]] = zip(
            self.batch, other.batch, strict=True
        )
        batch = ReluBatch._make(np.concatenate(pair) for pair in pairs)
        neuron, proved = (self.neuron, other.neuron), (self.proved, other.proved)
        return Leaves(batch, np.concatenate(neuron), np.concatenate(proved))


class Trees:
    """Trees of rows 2i and 2i + 1, the sides of neuron i, grown together."""

    def __init__(self, bounder: ReluBounder, plan: NeuronTrees, rows: int) -> None:
        self.bounder, self.plan, self.rows = bounder, plan, rows
        self.state = plan.rule.init(bounder.neurons)
        self.generator = np.random.default_rng(0)
        self.floor = np.full(rows, np.inf)  # the lowest of the closed leaves
        self.spent = np.zeros(rows, np.int64)
        self.is_stuck = np.zeros(rows, bool)  # the lowest leaf has nothing left to split

    def grow(self, budget: Budget) -> Vector:
        """Rigorous lower bounds, `[rows]`."""
        every = np.arange(self.rows)
        roots = self.bounder.roots(every, np.zeros_like(every))
        leaves = self._settled(roots, np.full(self.rows, -np.inf))
        while not budget.is_spent():
            lowest = self._lowest(leaves)
            done = leaves.neuron[lowest] == _POLISHED
            self.is_stuck[leaves.batch.row[lowest[done]]] = True
            lowest = lowest[~done]
            if len(lowest) == 0:
                break
            rest = np.delete(np.arange(len(leaves.neuron)), lowest)
            leaves = leaves.take(rest).joined(self._expanded(leaves.take(lowest)))
        lower = self.floor.copy()
        np.minimum.at(lower, leaves.batch.row, leaves.proved)
        return lower

    def _lowest(self, leaves: Leaves) -> Index:
        """The lowest open leaf of every tree that may go on growing."""
        order = np.lexsort((leaves.proved, leaves.batch.row))
        row = leaves.batch.row[order]
        first = np.ones(len(row), bool)
        first[1:] = row[1:] != row[:-1]
        is_proved = np.bincount(row, minlength=self.rows) == 0
        is_stable = np.repeat(is_proved.reshape(-1, 2).any(1), 2)
        ended = is_stable | self.is_stuck | (self.spent >= self.plan.subproblems)
        return order[first & ~ended[row]]

    def _expanded(self, leaves: Leaves) -> Leaves:
        """The children of leaves; those with nothing left to split are bounded with all effort instead."""
        parents = leaves.take(np.flatnonzero(leaves.neuron >= 0))
        self.spent[parents.batch.row] += 2
        children = self.bounder.children(parents.batch, parents.neuron, _MARGIN, inputs=False)
        added = self._settled(children, np.repeat(parents.proved, 2))
        whole = leaves.take(np.flatnonzero(leaves.neuron == NOTHING_LEFT))
        if len(whole.neuron) == 0:
            return added
        polished = self._settled(self.bounder.polish(whole.batch, _MARGIN), whole.proved)
        return added.joined(polished._replace(neuron=np.full(len(polished.neuron), _POLISHED)))

    def _settled(self, expansion: Expansion, proved: Vector) -> Leaves:
        """Close what is rigorously positive; the rest, and where to split it next.

        `proved` is what holds already: an ancestor's bound."""
        batch: ReluBatch = expansion.batch
        proved = np.fmax(self.bounder.certify(batch), proved)  # a NaN is none
        closed = proved > 0
        np.minimum.at(self.floor, batch.row[closed], proved[closed])
        batch.bound[~closed] = np.minimum(batch.bound[~closed], 0.5 * _MARGIN)
        left = np.flatnonzero(~closed)
        batch, coefficient = batch.take(left), expansion.coefficient[left]
        if len(left) == 0:
            return Leaves(batch, left, proved[left])
        view = self.bounder.open_problems(Expansion(batch, coefficient, expansion.input), _MARGIN)
        neuron = self.plan.rule.choose(self.state, view, self.generator)
        return Leaves(batch, neuron, proved[left])
