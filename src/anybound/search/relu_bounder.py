"""Bounds of sub-problems whose neurons are split, on the compact engine.

A batch is a struct of arrays: which function of the objective is bounded, the splits, the slopes to start from, and the
bound so far. Nothing is done per sub-problem in Python.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from anybound.bound.compact.network import CompactNetwork
from anybound.bound.compact.objective import CompactObjective
from anybound.bound.compact.problems import Children, Parents
from anybound.bound.compact.rigorous import rigorous
from anybound.bound.compact.solve import Climb, Solved, solve
from anybound.search.bounder import Expansion
from anybound.search.rule import Index, Matrix, Vector

Signs = NDArray[np.int8]


class ReluBatch(NamedTuple):
    """N sub-problems, `[N, …]`; A is the number of ambiguous neurons at the root."""

    row: Index  # which function of the objective is bounded
    sign: Signs  # [N, A]: +1 where split to x >= 0, −1 to x <= 0, else 0
    slope: NDArray[np.float16]  # [N, A]: slopes, or the split's multiplier where the sign is not 0
    bound: Matrix
    node: Index  # its number in the tree

    def take(self, index: Index) -> ReluBatch:
        return ReluBatch._make(column[index] for column in self)

    @property
    def parents(self) -> Parents:
        return Parents(self.row, self.sign, self.slope.astype(np.float32, copy=False))


@dataclass(frozen=True, eq=False)
class ReluBounder:
    """One objective over one compact network."""

    network: CompactNetwork
    objective: CompactObjective
    root: Climb = Climb(steps=40, slope_step=0.1, decay=0.93)
    climb: Climb = Climb()
    last: Climb = Climb(steps=60, slope_step=0.1, split_step=1.0, decay=0.95)
    threads: int = 1

    @cached_property
    def neurons(self) -> int:
        """A."""
        return len(self.network.ambiguous)

    @cached_property
    def _executor(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(self.threads)

    def roots(self, row: Index, node: Index) -> Expansion:
        parents = Parents.roots(self.network, row)
        bound = np.full(len(row), -np.inf, np.float32)
        start = ReluBatch(row, parents.sign, _half(parents.slope), bound, node)
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

    def polish(self, batch: ReluBatch) -> ReluBatch:
        same = Children.same(len(batch.row))
        polished: ReluBatch = self._expand(batch, same, self.last, np.inf, inputs=False).batch
        return polished

    def open_problems(self, expansion: Expansion, threshold: float) -> OpenBatch:
        return OpenBatch(self, expansion.batch, expansion.coefficient, threshold)

    def certify(self, batch: ReluBatch) -> Vector:
        parents = batch.parents
        same = Children.same(len(batch.row))
        return rigorous(self.network, self.objective, parents, same, parents.slope)

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
        batch = ReluBatch(parents.row[at], sign, _half(solved.slope), bound, parents.node[at])
        return Expansion(batch, solved.coefficient, solved.input)

    def _solve(
        self,
        parents: ReluBatch,
        children: Children,
        climb: Climb,
        threshold: float,
        keep: tuple[bool, bool, bool],
    ) -> Solved:
        """In as many threads as there are, each with a part of the children."""

        def run(part: slice) -> Solved:
            mine = Children._make(column[part] for column in children)
            return solve(
                self.network,
                self.objective,
                parents.parents,
                mine,
                climb,
                stop_above=threshold,
                keep=keep,
            )

        count = len(children.parent)
        pieces = min(self.threads, max(1, count // 64))
        if pieces == 1:
            return run(slice(None))
        ends = np.linspace(0, count, pieces + 1).astype(int)
        parts = list(self._executor.map(run, [slice(a, b) for a, b in pairwise(ends)]))
        return Solved(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


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


def _half(slope: Matrix) -> NDArray[np.float16]:
    """In half precision, without infinities: any value is a valid slope or multiplier."""
    return np.clip(slope, -60_000, 60_000).astype(np.float16)
