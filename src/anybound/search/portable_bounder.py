"""Bounds of sub-problems on the portable engine: any network, input set and bounding method.

What a sub-problem is and how its dual point is kept, `duals` says; the bound reported is always that of the ρ that is
kept, in float32, and `certify` evaluates the same ρ rigorously.

Shapes: N sub-problems × 1 function; A ambiguous neurons at the root, M rows of the longest clause.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from anybound.bound.backward import crown_slopes
from anybound.bound.compact.network import CompactNetwork, supports
from anybound.bound.compact.objective import CompactObjective
from anybound.bound.compact.sparse import SparseNetwork
from anybound.bound.decomposition import Decomposition
from anybound.bound.method import Method, maximise
from anybound.bound.methods.slopes import Slopes
from anybound.bound.methods.supergradient import Supergradient
from anybound.bound.methods.then import Then
from anybound.bound.schedules import Decay, Geometric
from anybound.budget import Budget
from anybound.layers import Layers
from anybound.memory import Pieces
from anybound.model.domains.box import Box
from anybound.search.bounder import Expansion
from anybound.search.cells import Cells
from anybound.search.duals import HALF_LIMIT, Duals, Work
from anybound.search.linear_leaf import solve_leaf
from anybound.search.portable_view import PortableView
from anybound.search.rule import Index, Matrix, Vector
from anybound.search.tightening import Inherit, Tightening

T = TypeVar("T")
WORKING = 256 << 20  # bytes that a batch is worked on with, at most
FEW = 100  # neurons to split: with many, splitting another is cheaper than longer ascents
STALLED = 0.01  # of what is still needed: where neurons are few, a second split of one that gains less needs them


class PortableBatch(NamedTuple):
    """N sub-problems, `[N, …]`."""

    row: Index  # the clause
    lower: Matrix  # [N, A]
    upper: Matrix
    beta: NDArray[np.float16]  # [N, A]
    weight: Matrix  # [N, M]
    bound: Matrix
    node: Index

    def take(self, index: Index) -> PortableBatch:
        return PortableBatch._make(column[index] for column in self)

    @property
    def work(self) -> Work:
        cells = Cells(torch.from_numpy(self.lower), torch.from_numpy(self.upper))
        return Work(torch.from_numpy(self.row), cells, torch.from_numpy(self.weight))


@dataclass(frozen=True)
class WeightAscent:
    """How the weights of a clause's rows are climbed in: after each of some rounds by `step`, and
    by half of it after a round that brought nothing; between them ρ climbs by a method of its own."""

    rounds: int
    method: Method[Any]
    step: float = 1.0


@dataclass(frozen=True)
class Effort:
    """The ascent of one kind of sub-problem."""

    method: Method[Any]
    weights: WeightAscent


SHORT = Slopes(6, Decay(0.1, 0.8), Decay(0.1, 0.8))
ROOT = Effort(Slopes(30, Decay(0.2, 0.95)), WeightAscent(8, SHORT))
CHILD = Effort(Slopes(8, Decay(0.2, 0.9), Decay(0.1, 0.9)), WeightAscent(3, SHORT))
LAST = Effort(
    Then(Slopes(60, Decay(0.1, 0.95), Decay(0.3, 0.95)), Supergradient(600, Geometric(0.1, 1e-6))),
    WeightAscent(8, Supergradient(100, Geometric(1e-2, 1e-5))),
)


class _Climbed(NamedTuple):
    """The weights `[N, M]`, and for them the dual, its ρ and the method's own value `[N, 1]`."""

    weight: Tensor
    dual: Decomposition
    rho: Layers
    value: Tensor


@dataclass(frozen=True, eq=False)
class PortableBounder:
    """One problem's clauses, in float64, between root bounds."""

    duals: Duals
    root: Effort = ROOT
    child: Effort = CHILD
    last: Effort = LAST
    tightening: Tightening = Inherit()
    budget: Budget = field(default_factory=Budget)

    @cached_property
    def neurons(self) -> int:
        return len(self.duals.root.index)

    def roots(self, row: Index, node: Index) -> Expansion:
        clause = torch.from_numpy(row)
        work = Work(clause, self.duals.root.cells(len(row)), self.duals.clauses.start(clause))
        with torch.inference_mode():
            parts = self._in_pieces(
                len(row), lambda at: self._bound(work.take(at), None, self.root, np.inf)
            )
        expansion = _joined(parts)
        return expansion._replace(batch=expansion.batch._replace(node=node))

    def children(
        self, parents: PortableBatch, neuron: Index, threshold: float, *, inputs: bool
    ) -> Expansion:
        with torch.inference_mode():
            chosen = torch.from_numpy(neuron)
            parts = self._in_pieces(
                len(neuron),
                lambda at: self._children(parents.take(at.numpy()), chosen[at], threshold),
            )
        expansion = _joined(parts)
        return expansion if inputs else expansion._replace(input=expansion.input[:0])

    def polish(self, batch: PortableBatch, threshold: float) -> Expansion:
        with torch.inference_mode():
            parts = self._in_pieces(
                len(batch.row), lambda at: self._polished(batch.take(at.numpy()), threshold)
            )
        polished = _joined(parts)
        polished = polished._replace(batch=polished.batch._replace(node=batch.node))
        worse = np.flatnonzero(~(polished.batch.bound >= batch.bound))
        _put(polished.batch, worse, batch.take(worse))
        left = np.flatnonzero(~(polished.batch.bound > threshold))
        return self._settled(polished, left)

    def certify(self, batch: PortableBatch) -> Vector:
        with torch.inference_mode():
            work, beta = batch.work, torch.from_numpy(batch.beta)
            parts = self._in_pieces(
                len(batch.row), lambda at: self.duals.rigorous(work.take(at), beta[at])
            )
            return np.asarray(torch.cat(parts).numpy())

    def open_problems(self, expansion: Expansion, threshold: float) -> PortableView:
        batch: PortableBatch = expansion.batch
        return PortableView(
            self.duals,
            batch.work,
            torch.from_numpy(batch.beta),
            torch.from_numpy(expansion.coefficient),
            batch.bound,
            threshold,
            self._pieces,
        )

    def _children(self, parents: PortableBatch, neuron: Tensor, threshold: float) -> Expansion:
        work, twice = parents.work, torch.arange(len(neuron)).repeat_interleave(2)
        start = self.duals.decode(self.duals.of(work), torch.from_numpy(parents.beta)).rho
        cells = self._tighten(self.duals.root.split(work.cells, neuron))
        children = work.take(twice)._replace(cells=cells)
        expansion = self._bound(children, start.like(start.data[twice]), self.child, threshold)
        at, before = twice.numpy(), parents.bound[twice.numpy()]
        gained = expansion.batch.bound - before > STALLED * (threshold - before)
        again = self.duals.root.is_cut(work.cells, neuron)[twice].numpy()
        stalled = np.flatnonzero(again & ~gained & (self.neurons <= FEW))
        if len(stalled):
            expansion = _replaced(
                expansion, stalled, self._polished(expansion.batch.take(stalled), np.inf)
            )
        # a child is never worse than its parent
        bound = np.maximum(expansion.batch.bound, before)
        batch = expansion.batch._replace(bound=bound, node=parents.node[at])
        return expansion._replace(batch=batch)

    def _polished(self, batch: PortableBatch, threshold: float) -> Expansion:
        work = batch.work
        start = self.duals.decode(self.duals.of(work), torch.from_numpy(batch.beta)).rho
        return self._bound(work, start, self.last, threshold)

    def _bound(
        self, work: Work, warm: Layers | None, effort: Effort, threshold: float
    ) -> Expansion:
        """The sub-problems bounded; `node` is left to the caller."""
        weight, dual, rho, value = self._climb(work, warm, effort, threshold)
        lines = crown_slopes(dual.hull)
        beta = self.duals.encode(dual, rho, lines)
        kept = self.duals.decode(dual, beta, lines)
        bound = dual.value_at(*kept)[:, 0]
        if effort.method.reports_own:
            bound = bound.fmin(value[:, 0])
        bound = bound.nan_to_num(-torch.inf, -torch.inf, -torch.inf)
        bound = torch.where(work.cells.empty, torch.inf, bound)
        node = torch.zeros_like(work.clause)
        columns = (work.clause, *work.cells, beta, weight, bound, node)
        z0 = dual.input_minimum(kept.g.input)[0][:, 0].flatten(1)
        coefficient = self.duals.root.gather(kept.g.hidden.data)
        batch = PortableBatch(*(column.numpy() for column in columns))
        return Expansion(batch, coefficient.numpy(), z0.numpy())

    def _climb(self, work: Work, warm: Layers | None, effort: Effort, threshold: float) -> _Climbed:
        """An ascent in ρ, then short ones with steps in the weights where that may help."""
        dual = self.duals.of(work)
        found = maximise(dual, effort.method, self.budget, stop_above=threshold, warm=warm)
        best = _Climbed(work.weight, dual, found.rho, found.value)
        left = (found.value[:, 0] <= threshold) & self.duals.clauses.has_choice[work.clause]
        at = left.nonzero().squeeze(1)
        if len(at) == 0:
            return best
        part = _Climbed(
            work.weight[at],
            self.duals.of(work.take(at)),
            found.rho.like(found.rho.data[at]),
            found.value[at],
        )
        part = self._climb_weights(work.take(at), part, effort.weights, threshold)
        weight = work.weight.index_copy(0, at, part.weight)
        rho = found.rho.like(found.rho.data.index_copy(0, at, part.rho.data))
        value = found.value.index_copy(0, at, part.value)
        return _Climbed(weight, self.duals.of(work._replace(weight=weight)), rho, value)

    def _climb_weights(
        self, work: Work, best: _Climbed, ascent: WeightAscent, threshold: float
    ) -> _Climbed:
        """Rounds of a step in the weights and an ascent in ρ; the best of each sub-problem is kept."""
        step = torch.full_like(best.value, ascent.step)
        slope = self.duals.row_values(work, best.dual, best.rho)
        for _ in range(ascent.rounds):
            if self.budget.is_spent() or bool((best.value > threshold).all()):
                break
            weight = self.duals.clauses.climb(work.clause, best.weight, slope, step)
            tried = self._with_weights(work, best, weight, ascent.method, threshold)
            there = self.duals.row_values(work, tried.dual, tried.rho)
            better = tried.value > best.value
            # a step that fails has crossed a ridge: go along it, by the mean of both sides' slopes
            slope = torch.where(better, there, (slope + there) / 2)
            step = torch.where(better, step, step * 0.7)
            best = self._better(work, best, tried, better)
        return best

    def _with_weights(
        self, work: Work, best: _Climbed, weight: Tensor, method: Method[Any], threshold: float
    ) -> _Climbed:
        """An ascent for other weights, from the same lines."""
        dual = self.duals.of(work._replace(weight=weight))
        start = self.duals.carried_over(best.dual, best.rho, dual)
        found = maximise(dual, method, self.budget, stop_above=threshold, warm=start)
        return _Climbed(weight, dual, found.rho, found.value)

    def _better(self, work: Work, old: _Climbed, new: _Climbed, better: Tensor) -> _Climbed:
        """`new` where it is better `[N, 1]`, else `old`."""
        weight = torch.where(better, new.weight, old.weight)
        rho = torch.where(better.unsqueeze(-1), new.rho.data, old.rho.data)
        dual = self.duals.of(work._replace(weight=weight))
        return _Climbed(weight, dual, old.rho.like(rho), old.value.maximum(new.value))

    def _tighten(self, cells: Cells) -> Cells:
        """Cells with what the splits imply, and marked empty where that is infeasible."""
        if isinstance(self.tightening, Inherit):
            return cells
        root, problem = self.duals.root, self.duals.problem
        within = root.between(cells.nonempty(), torch.float64)
        bounds = self.tightening.tighten(problem.network, problem.domain, within)
        outward = bounds.to(torch.float32)
        lower, upper = (root.gather(side.data) for side in (outward.lower, outward.upper))
        tight = Cells(lower.maximum(cells.lower), upper.minimum(cells.upper))
        return tight.marked(cells.empty | bounds.is_empty())

    @cached_property
    def _pieces(self) -> Pieces:
        given = self.budget.memory
        return self.duals.pieces(WORKING if given is None else min(WORKING, given // 4))

    @cached_property
    def _leaves(self) -> tuple[CompactNetwork, CompactObjective] | None:
        """What linear programs of leaves are made of, where one bend a neuron leaves them linear."""
        problem, clauses = self.duals.problem, self.duals.clauses
        if supports(problem.network, problem.domain) or not isinstance(problem.domain, Box):
            return None
        sparse = SparseNetwork(problem.network)
        network = CompactNetwork.of(sparse, self.duals.bounds, problem.domain)
        rows = [own[used].tolist() for own, used in zip(clauses.index, clauses.used, strict=True)]
        slices = [slice(own[0], own[-1] + 1) for own in rows]
        return network, CompactObjective.of(problem.objective, network, slices)

    def _settled(self, expansion: Expansion, left: Index) -> Expansion:
        """The sub-problems `left` with the multipliers and minimisers of linear programs, where these are better.

        A split at the bend, x >= 0 or x <= 0, adds ±p to ρ = −s·g, p being its inequality's multiplier."""
        if self._leaves is None or len(left) == 0:
            return expansion
        network, objective = self._leaves
        place = np.searchsorted(self.duals.root.index.numpy(), network.neuron)
        batch: PortableBatch = expansion.batch.take(left)
        for i, clause in enumerate(batch.row):
            above, below = batch.lower[i, place] >= 0, batch.upper[i, place] <= 0
            sign = above.astype(np.int8) - (below & ~above)
            leaf = solve_leaf(network, objective, int(clause), sign)
            if leaf is not None:
                batch.beta[i] = 0
                batch.beta[i, place] = (sign * leaf.multiplier).clip(-HALF_LIMIT, HALF_LIMIT)
                batch.weight[i] = leaf.weight
                expansion.input[left[i]] = leaf.point
        bound = self.certify(batch).astype(np.float32)
        better = bound > batch.bound
        _put(
            expansion.batch, left[better], batch._replace(bound=bound).take(np.flatnonzero(better))
        )
        return expansion

    def _in_pieces(self, count: int, work: Callable[[Tensor], T]) -> list[T]:
        return self._pieces.run(count, lambda first, last: work(torch.arange(first, last)))


def _replaced(expansion: Expansion, at: Index, better: Expansion) -> Expansion:
    """With other sub-problems in these places."""
    _put(expansion.batch, at, better.batch)
    expansion.coefficient[at], expansion.input[at] = better.coefficient, better.input
    return expansion


def _put(batch: PortableBatch, at: Index, better: PortableBatch) -> None:
    """Write other sub-problems into these places."""
    columns: Iterable[tuple[NDArray[Any], NDArray[Any]]] = zip(batch, better, strict=True)
    for old, new in columns:
        old[at] = new


def _joined(parts: list[Expansion]) -> Expansion:
    if len(parts) == 1:
        return parts[0]
    batches = zip(*(part.batch for part in parts), strict=True)
    batch = PortableBatch(*(np.concatenate(columns) for columns in batches))
    return Expansion(
        batch,
        np.concatenate([part.coefficient for part in parts]),
        np.concatenate([part.input for part in parts]),
    )
