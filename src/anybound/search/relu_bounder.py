"""Bounds of sub-problems whose neurons are split, on the compact engine.

A batch is a struct of arrays: which clause is to be refuted, the splits, the slopes and weights to start from, and the
bound so far. Nothing is done per sub-problem in Python.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from anybound.bound.compact.kernels import Work
from anybound.bound.compact.native import Fixed
from anybound.bound.compact.network import CompactNetwork
from anybound.bound.compact.objective import CompactObjective
from anybound.bound.compact.problems import Children, Parents
from anybound.bound.compact.rigorous import ExactWork, exact_workspace, rigorous
from anybound.bound.compact.solve import Climb, Solved, solve, workspace
from anybound.search.bounder import Expansion
from anybound.search.linear_leaf import solve_leaf
from anybound.search.rule import Index, Matrix, Vector

Signs = NDArray[np.int8]
Half = NDArray[np.float16]
T = TypeVar("T")
_LEAST = 64  # sub-problems that are worth a thread of their own


class ReluBatch(NamedTuple):
    """N sub-problems, `[N, …]`; A is the number of ambiguous neurons at the root, M that of rows in a clause."""

    row: Index  # the clause
    sign: Signs  # [N, A]: +1 where split to x >= 0, −1 to x <= 0, else 0
    slope: Half  # [N, A]: slopes, or the split's multiplier where the sign is not 0
    weight: Half  # [N, M]: of the clause's rows
    bound: Matrix
    node: Index  # its number in the tree

    def take(self, index: Index) -> ReluBatch:
        return ReluBatch._make(column[index] for column in self)

    @property
    def parents(self) -> Parents:
        single = (column.astype(np.float32) for column in (self.slope, self.weight))
        return Parents(self.row, self.sign, *single)


@dataclass(frozen=True, eq=False)
class ReluBounder:
    """One objective over one compact network."""

    network: CompactNetwork
    objective: CompactObjective
    root: Climb = Climb(steps=40, slope_step=0.1, decay=0.93)
    climb: Climb = Climb()
    last: Climb = Climb(steps=60, slope_step=0.1, split_step=1.0, decay=0.95)
    threads: int = 1
    programs: bool = True  # whether linear programs settle what polishing leaves open

    @cached_property
    def neurons(self) -> int:
        """A."""
        return len(self.network.ambiguous)

    @cached_property
    def _executor(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(max(1, self.threads - 1))  # beside this thread

    @cached_property
    def _workspaces(self) -> list[tuple[Fixed[Work], Fixed[ExactWork]]]:
        """Buffers of each thread."""
        made = (self.network, self.objective)
        return [(workspace(*made), exact_workspace(*made)) for _ in range(self.threads)]

    def roots(self, row: Index, node: Index) -> Expansion:
        parents = Parents.roots(self.network, row, self.objective.weights(row))
        bound = np.full(len(row), -np.inf, np.float32)
        half = _half(parents.slope), _half(parents.weight)
        start = ReluBatch(row, parents.sign, *half, bound, node)
        return self._expand(start, Children.same(len(row)), self.root, np.inf, inputs=True)

    def children(
        self, parents: ReluBatch, neuron: Index, threshold: float, *, inputs: bool
    ) -> Expansion:
        parent = np.repeat(np.arange(len(neuron)), 2)
        sign = np.tile(np.array([1, -1], np.int8), len(neuron))
        children = Children(parent, np.repeat(neuron, 2), sign)
        return self._expand(parents, children, self.climb, threshold, inputs=inputs)

    def probe(self, parents: ReluBatch, problem: Index, neuron: Index, sign: Signs) -> Matrix:
        """The bounds of children at their parents' slopes, without a step."""
        children = Children(problem, neuron, sign)
        return self._solve(parents, children, Climb(steps=1), np.inf, (False, False, False)).bound

    def polish(self, batch: ReluBatch, threshold: float) -> Expansion:
        """By a long ascent; what that leaves open by linear programs, which settle it."""
        same = Children.same(len(batch.row))
        polished = self._expand(batch, same, self.last, threshold, inputs=True)
        left = np.flatnonzero(~(polished.batch.bound > threshold))
        return self._settled(polished, left) if self.programs and len(left) else polished

    def _settled(self, expansion: Expansion, left: Index) -> Expansion:
        """The sub-problems `left` with the multipliers and minimisers of linear programs, where these are better."""
        batch: ReluBatch = expansion.batch.take(left)
        point = expansion.input[left]
        for i, (clause, sign) in enumerate(zip(batch.row, batch.sign, strict=True)):
            leaf = solve_leaf(self.network, self.objective, int(clause), sign)
            if leaf is not None:
                batch.slope[i] = _half(leaf.multiplier)
                batch.weight[i] = _half(leaf.weight)
                point[i] = leaf.point
        bound = self.probe(
            batch, np.arange(len(left)), np.full(len(left), -1), np.zeros(len(left), np.int8)
        )
        better = bound > batch.bound
        at = left[better]
        columns: Iterable[tuple[NDArray[Any], NDArray[Any]]] = zip(
            expansion.batch, batch._replace(bound=bound), strict=True
        )
        for old, new in columns:
            old[at] = new[better]
        expansion.input[left] = point
        return expansion

    def open_problems(self, expansion: Expansion, threshold: float) -> OpenBatch:
        return OpenBatch(self, expansion.batch, expansion.coefficient, threshold)

    def certify(self, batch: ReluBatch) -> Vector:
        """Of max_r f_r >= Σ_r w_r f_r / Σ_r w_r; half precision makes the sum of weights exact."""
        parents = batch.parents

        def run(part: slice, thread: int) -> Vector:
            mine = Parents._make(column[part] for column in parents)
            same, work = Children.same(len(mine.row)), self._workspaces[thread][1]
            return rigorous(self.network, self.objective, mine, same, mine.slope, work=work)

        bound = np.concatenate(self._in_parts(len(batch.row), run))
        total = parents.weight.astype(np.float64).sum(1)
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(total == 1, bound, np.nextafter(bound / total, -np.inf))

    def _expand(
        self,
        parents: ReluBatch,
        children: Children,
        climb: Climb,
        threshold: float,
        *,
        inputs: bool,
    ) -> Expansion:
        solved = self._solve(parents, children, climb, threshold, (True, True, inputs))
        at = children.parent
        sign = parents.sign[at]
        split = np.flatnonzero(children.neuron >= 0)
        sign[split, children.neuron[split]] = children.sign[split]
        bound = np.maximum(
            solved.bound, parents.bound[at]
        )  # a child is never worse than its parent
        half = _half(solved.slope), _half(solved.weight)
        batch = ReluBatch(parents.row[at], sign, *half, bound, parents.node[at])
        return Expansion(batch, solved.coefficient, solved.input)

    def _solve(
        self,
        parents: ReluBatch,
        children: Children,
        climb: Climb,
        threshold: float,
        keep: tuple[bool, bool, bool],
    ) -> Solved:
        start = parents.parents

        def run(part: slice, thread: int) -> Solved:
            mine = Children._make(column[part] for column in children)
            return solve(
                self.network, self.objective, start, mine, climb,
                stop_above=threshold, keep=keep, work=self._workspaces[thread][0],
            )  # fmt: skip

        parts = self._in_parts(len(children.parent), run)
        if len(parts) == 1:
            return parts[0]
        return Solved(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))

    def _in_parts(self, count: int, run: Callable[[slice, int], T]) -> list[T]:
        """In as many threads as there are, this one among them, each with a part of the sub-problems."""
        pieces = min(self.threads, max(1, count // _LEAST))
        if pieces == 1:
            return [run(slice(None), 0)]
        ends = np.linspace(0, count, pieces + 1).astype(int)
        parts = [slice(a, b) for a, b in pairwise(ends)]
        others = range(1, pieces)
        jobs = [self._executor.submit(run, parts[i], i) for i in others]
        try:
            return [run(parts[0], 0), *(job.result() for job in jobs)]
        finally:
            wait(jobs)  # an interrupt leaves none at work on buffers that are used again


@dataclass(frozen=True, eq=False)
class OpenBatch:
    """An expansion's sub-problems that did not close, as branching rules see them."""

    bounder: ReluBounder
    batch: ReluBatch
    coefficient: Matrix
    threshold: float

    @property
    def bound(self) -> Matrix:
        return self.batch.bound

    def intercepts(self) -> Matrix:
        rows = self.bounder.network.rows
        offset = rows.offset[self.bounder.network.ambiguous].astype(np.float32)
        score = np.maximum(-self.coefficient, 0) * offset
        return np.where(self.batch.sign == 0, score, np.float32(-1))

    def probe(self, problem: Index, neuron: Index, sign: Signs) -> Matrix:
        return self.bounder.probe(self.batch, problem, neuron, sign)


def _half(slope: Matrix | Vector) -> Half:
    """In half precision, without infinities: any value is a valid slope or multiplier."""
    return np.clip(slope, -60_000, 60_000).astype(np.float16)
