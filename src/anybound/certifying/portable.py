"""Proofs of clauses by splits of neurons at points, on the portable engine: for activations that curve.

The search ascends as it always does; what it finds, a leaf's lines and multipliers, is rounded as it will be written
and bounded by the checker. A leaf closes by that bound alone; where it is not enough, it is split on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch

from anybound.budget import Budget
from anybound.certificate import ClauseProof, Index, Slopes, preorder
from anybound.certifying.input_set import CLEARANCE, InputSet, Vector
from anybound.certifying.intermediate import LARGEST_SLOPE
from anybound.search.branchings.filtered import Filtered
from anybound.search.clauses import Clauses
from anybound.search.duals import Duals
from anybound.search.engine import Ended, SearchPlan, SearchResult, search
from anybound.search.portable_bounder import PortableBatch, PortableBounder
from anybound.spec.problems import ClauseRows
from anybound_check.bounds import Splits
from anybound_check.proof import paths

FINE = 12  # bits of slopes while searching
COARSER = (4, 6, 8, 10)  # tried afterwards


class _Written(NamedTuple):
    """Leaves as they are written: slopes [N, A] and all multipliers of a neuron's splits together [N, A]."""

    slopes: Vector
    beta: Vector
    weight: Vector  # [N, m]

    def take(self, at: Index) -> _Written:
        return _Written._make(column[at] for column in self)


@dataclass(frozen=True, eq=False)
class _CheckedBounder(PortableBounder):
    """A bounder that closes leaves by the checker's bounds of what will be written."""

    task: InputSet | None = None
    members: Sequence[ClauseRows] = ()

    def certify(self, batch: PortableBatch) -> Vector:
        if self.task is None:
            return super().certify(batch)
        found = np.full(len(batch.row), -np.inf)
        for row in np.unique(batch.row):
            at = np.flatnonzero(batch.row == row)
            own, member = batch.take(at), self.members[int(row)]
            written = self.written(own, member)
            splits = self._splits(own, written.beta)
            columns, region = self.columns(self.task), self.task.region
            found[at] = self.task.bound(
                region, member, written.weight, columns, written.slopes, splits
            )
        return found - CLEARANCE

    def columns(self, task: InputSet) -> Index:
        """The checker's numbers of the neurons."""
        neurons: Index = task.numbering.neuron[self.duals.root.index.numpy()]
        return neurons

    def written(self, batch: PortableBatch, member: ClauseRows) -> _Written:
        """The lines and multipliers closest to the leaves' dual points, rounded."""
        root, unit = self.duals.root, 2.0**FINE
        with torch.inference_mode():
            parts = self._in_pieces(len(batch.row), lambda at: self._lines(batch.take(at.numpy())))
        slope, beta = (root.gather(torch.cat(column)) for column in zip(*parts, strict=True))
        rounded = np.rint(np.nan_to_num(slope.numpy()).clip(0, LARGEST_SLOPE) * unit) / unit
        weight = batch.weight[:, : member.rows.stop - member.rows.start].astype(np.float64)
        limited = np.nan_to_num(beta.numpy()).clip(-6e4, 6e4)
        return _Written(rounded, limited.astype(np.float16).astype(np.float64), weight)

    def _lines(self, batch: PortableBatch) -> tuple[torch.Tensor, torch.Tensor]:
        """Slopes and multipliers, [N, 1, total] each."""
        dual = self.duals.of(batch.work, torch.float64)
        rho, (_, g) = self.duals.decode(dual, torch.from_numpy(batch.beta))
        lines, beta = self.duals.lines(dual, rho, g)
        return torch.where(g.data < 0, lines.upper, lines.lower), beta

    def _splits(self, batch: PortableBatch, beta: Vector) -> Splits:
        """Each cut end of a cell; the multiplier goes to one of a cell's ends."""
        (low,), (high,) = (side.numpy() for side in self.duals.root.cells(1))
        above, below = batch.lower > low, batch.upper < high
        parts = []
        for is_cut, side, ends, total in (
            (above, 1.0, batch.lower, beta),
            (below, -1.0, batch.upper, np.where(above, 0.0, -beta)),
        ):
            owner, column = np.nonzero(is_cut)
            parts.append((column, owner, np.full(len(owner), side), ends[is_cut], total[is_cut]))
        column, owner, sign, at, own = (np.concatenate(part) for part in zip(*parts, strict=True))
        if self.task is None:
            raise ValueError("no checker to bound by")
        return Splits(self.columns(self.task)[column], owner, sign, at.astype(float), own)


def prove_on_portable(
    task: InputSet, members: Sequence[ClauseRows], budget: Budget
) -> dict[int, ClauseProof]:
    """Proofs by clause, of as many of these as there is time for."""
    problem = task.safety.problem
    ranges = [range(member.rows.start, member.rows.stop) for member in members]
    duals = Duals(problem, task.bounds(task.region), Clauses.of(problem.objective, ranges))
    bounder = _CheckedBounder(duals, budget=budget, task=task, members=members)
    rows = np.arange(len(members))
    result = search(bounder, rows, SearchPlan(Filtered()), budget, keep_leaves=True)
    proved = np.flatnonzero((result.lower > 0) | (result.ended is Ended.PROVED))
    return {
        members[i].clause: _coarsest(bounder, task, result, i, members[i]) for i in proved.tolist()
    }


def _coarsest(
    bounder: _CheckedBounder, task: InputSet, result: SearchResult, root: int, member: ClauseRows
) -> ClauseProof:
    """The tree below a root, with the coarsest slopes that prove it."""
    order = preorder(result.tree.parent, result.tree.split, root)
    leaves: Sequence[PortableBatch] = result.leaves  # type: ignore[assignment]  # as the bounder's
    batch = PortableBatch(*(np.concatenate(columns) for columns in zip(*leaves, strict=True)))
    place = np.full(len(result.tree), -1)
    place[batch.node] = np.arange(len(batch.node))
    batch, columns = batch.take(place[order.leaf]), bounder.columns(task)
    written = bounder.written(batch, member)
    at, beta = _cuts(order.split, batch, written.beta)
    proof = ClauseProof(
        task.number[member.clause],
        slopes=Slopes(columns, written.slopes, FINE),
        weights=None if written.weight.shape[1] == 1 else written.weight,
    )
    if len(order.split) > 1:
        numbers = np.where(order.split < 0, -1, columns[order.split])
        proof = replace(proof, split=numbers, at=at, beta=beta)
    return task.coarsest(task.region, member, proof, COARSER)


def _cuts(split: Index, batch: PortableBatch, total: Vector) -> tuple[Vector, Vector]:
    """Where each node is split: the lowest end of the cells above it; and the splits' multipliers, all of
    a neuron's at the last of its splits above a leaf."""
    at, beta = np.where(split < 0, 0.0, np.inf), list[float]()
    for leaf, (_, path) in enumerate(paths(split.tolist())):
        last = {split[node]: node for node, _ in path}
        for node, sign in path:
            neuron = split[node]
            if sign > 0:
                at[node] = min(at[node], float(batch.lower[leaf, neuron]))
            beta.append(sign * total[leaf, neuron] if last[neuron] == node else 0.0)
    return at, np.array(beta)
