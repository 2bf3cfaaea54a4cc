"""Proofs of clauses by splits of neurons, on the compact engine between the checker's bounds.

1. All clauses together, for a few sub-problems: most close there.
2. What is left, clause by clause, after tightening by the negated property.

A leaf closes by the slopes that will be written, rounded; where that is not enough, it is split on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from anybound.bound.bounds import Bounds
from anybound.bound.compact.network import CompactNetwork
from anybound.bound.compact.objective import CompactObjective
from anybound.bound.compact.refine import Refined
from anybound.bound.compact.sparse import SparseNetwork
from anybound.bound.compact.tighten import Tightening
from anybound.budget import Budget
from anybound.certificate import ClauseProof, Index, Slopes, Step, preorder
from anybound.certifying.input_set import CLEARANCE, InputSet, Vector
from anybound.certifying.intermediate import SLOPE_BITS
from anybound.search.branchings.filtered import Filtered
from anybound.search.engine import Ended, SearchPlan, SearchResult, search
from anybound.search.relu_bounder import ReluBatch, ReluBounder
from anybound.spec.problems import ClauseRows
from anybound_check.bounds import Region, Splits
from anybound_check.proof import paths

COARSER_BITS = (2, 3, 4, 5)  # of slopes, tried when the search is done


@dataclass(frozen=True)
class NeuronPlan:
    """The numbers of the search; `together` is how many sub-problems all clauses get at first."""

    search: SearchPlan = field(default_factory=lambda: SearchPlan(Filtered()))
    together: int = 300
    tightening: Tightening = field(default_factory=Tightening)


@dataclass(frozen=True, eq=False)
class RoundedBounder(ReluBounder):
    """A bounder that closes leaves by their rounded slopes; in float32 semantics by the checker
    itself, as only it knows what rounding may do there."""

    task: InputSet | None = None
    region: Region | None = None
    members: Sequence[ClauseRows] = ()

    def certify(self, batch: ReluBatch) -> Vector:
        unit = 2.0**SLOPE_BITS
        rounded = np.rint(batch.slope.astype(np.float32) * unit) / unit
        slope = np.where(batch.sign == 0, rounded.clip(0, 1), batch.slope).astype(np.float16)
        batch = batch._replace(slope=slope)
        if self.task is None or not self.task.checker.single:
            return super().certify(batch) - CLEARANCE
        return self._checked(self.task, batch)

    def _checked(self, task: InputSet, batch: ReluBatch) -> Vector:
        """The checker's bounds, clause by clause."""
        found = np.full(len(batch.row), -np.inf)
        for row in np.unique(batch.row):
            at = np.flatnonzero(batch.row == row)
            member = self.members[int(row)]
            found[at] = self._bounds(task, batch.take(at), member)
        return found - CLEARANCE

    def _bounds(self, task: InputSet, batch: ReluBatch, member: ClauseRows) -> Vector:
        if self.region is None:
            raise ValueError("no region to bound in")
        neuron = task.numbering.neuron[self.network.neuron]
        owner, split = np.nonzero(batch.sign)
        sign, beta = (x[owner, split].astype(float) for x in (batch.sign, batch.slope))
        splits = Splits(neuron[split], owner, sign, np.zeros(len(owner)), beta)
        weight = batch.weight[:, : member.rows.stop - member.rows.start].astype(np.float64)
        return task.bound(self.region, member, weight, neuron, batch.slope.astype(float), splits)


class NeuronProofs:
    """The state: which clauses are open, and the proofs of the others."""

    def __init__(self, task: InputSet, plan: NeuronPlan, budget: Budget) -> None:
        self.task, self.plan, self.budget = task, plan, budget
        self.sparse = SparseNetwork(task.network)
        self.objective = task.safety.problem.objective.to(task.box.lower.dtype)
        self.proofs: dict[int, ClauseProof] = {}
        self.subproblems = 0

    def prove(self, members: Sequence[ClauseRows]) -> dict[int, ClauseProof]:
        """Proofs by clause, of as many of these as there is time for."""
        limited = replace(self.plan.search, subproblems=self.plan.together)
        self._search(members, self.task.region, self.task.bounds(self.task.region), limited, ())
        left = [member for member in members if member.clause not in self.proofs]
        for member in left:
            if self.budget.is_spent():
                break
            self._alone(member)
        return self.proofs

    def _alone(self, member: ClauseRows) -> None:
        """One clause, on bounds that hold where it is reached."""
        task, region, steps = self.task, self.task.region.copy(), list[Step]()

        def judge(network: CompactNetwork, row: Index, refined: Refined) -> Bounds:
            for step in _steps(task, network, row, refined, member):
                if not (region.empty[0] or self.budget.is_spent()):
                    useful = task.improve(region, step, member)
                    steps.extend([] if useful is None else [useful])
            return task.bounds(region)

        bounds = self.plan.tightening.bounds(
            self.sparse, task.bounds(region), task.box, self.objective, member.rows, judge
        )
        if region.empty[0]:
            number = task.number[member.clause]
            rows = member.rows.stop - member.rows.start
            self.proofs[member.clause] = ClauseProof(number, steps, weights=np.ones((1, rows)))
        else:
            self._search([member], region, bounds, self.plan.search, steps)

    def _search(
        self,
        members: Sequence[ClauseRows],
        region: Region,
        bounds: Bounds,
        plan: SearchPlan,
        steps: Sequence[Step],
    ) -> SearchResult:
        network = CompactNetwork.of(self.sparse, bounds, self.task.box)
        rows = [member.rows for member in members]
        objective = CompactObjective.of(self.objective, network, rows)
        bounder = RoundedBounder(network, objective, task=self.task, region=region, members=members)
        every = np.arange(len(members))
        result = search(bounder, every, plan, self.budget, keep_leaves=True)
        self.subproblems += result.subproblems
        neuron = self.task.numbering.neuron[network.neuron]
        kept = _Leaves.of(result, neuron)
        for place in np.flatnonzero((result.lower > 0) | (result.ended is Ended.PROVED)):
            member = members[int(place)]
            proof = kept.proof(int(place), self.task.number[member.clause], member, steps)
            self.proofs[member.clause] = self.task.coarsest(region, member, proof, COARSER_BITS)
        return result


@dataclass(frozen=True, eq=False)
class _Leaves:
    """All closed leaves of a search, `leaf[node]` being a node's place among them."""

    result: SearchResult
    neuron: Index
    batch: ReluBatch
    leaf: Index

    @classmethod
    def of(cls, result: SearchResult, neuron: Index) -> _Leaves:
        batches: Sequence[Any] = result.leaves  # ReluBatch, as the bounder's
        leaf = np.full(len(result.tree), -1)
        if not batches:
            empty = np.zeros((0, len(neuron)), np.float16)
            none = np.zeros(0, np.int64)
            bound = np.zeros(0, np.float32)
            batch = ReluBatch(none, empty.astype(np.int8), empty, empty[:, :0], bound, none)
            return cls(result, neuron, batch, leaf)
        batch = ReluBatch(*(np.concatenate(columns) for columns in zip(*batches, strict=True)))
        leaf[batch.node] = np.arange(len(batch.node))
        return cls(result, neuron, batch, leaf)

    def proof(
        self, root: int, number: int, member: ClauseRows, steps: Sequence[Step]
    ) -> ClauseProof:
        """The tree below one of the roots, as a proof of the checker's clause `number`."""
        tree = self.result.tree
        order = preorder(tree.parent, tree.split, root)
        own = self.batch.take(self.leaf[order.leaf])
        split, inner = order.split.copy(), order.split >= 0
        split[inner] = self.neuron[split[inner]]
        rows = member.rows.stop - member.rows.start
        free = own.sign == 0
        used = free.any(0)
        values = np.where(free, own.slope, 0)[:, used].clip(0, 1)
        above = [[order.split[node] for node, _ in path] for _, path in paths(order.split.tolist())]
        beta = [own.slope[i, path] for i, path in enumerate(above)]
        return ClauseProof(
            number,
            steps,
            split,
            slopes=Slopes(self.neuron[used], values, SLOPE_BITS),
            beta=np.concatenate(beta) if len(split) > 1 else None,
            weights=None if rows == 1 else own.weight[:, :rows].astype(np.float32),
        )


def _steps(
    task: InputSet, network: CompactNetwork, row: Index, refined: Refined, member: ClauseRows
) -> list[Step]:
    """What tightening proposes for lower bounds of some rows and then for upper ones, by layer."""
    first = task.checker.network.first
    place = np.searchsorted(network.ambiguous, row)
    neuron = task.numbering.neuron[network.neuron[place]]
    columns = task.numbering.neuron[network.neuron]
    values = np.where(refined.coefficient > 0, refined.slope, 0).clip(0, 1)
    weight = refined.scale[:, None] * refined.weight[:, : member.rows.stop - member.rows.start]
    steps = []
    layer = np.searchsorted(first, neuron, side="right") - 1
    for activation in np.unique(layer):
        at = np.flatnonzero(layer == activation)
        both = np.concatenate([at, len(row) + at])
        own = neuron[at] - first[activation]
        slopes = Slopes(columns, values[both], SLOPE_BITS)
        steps.append(Step(int(activation), own, own, slopes, np.maximum(weight[both], 0)))
    return steps
