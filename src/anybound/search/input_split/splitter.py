"""Bounds of boxes: a network folded over the root box, and the kernels with their buffers, one set per thread."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import cached_property
from queue import SimpleQueue
from typing import NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray

from anybound.bound.bounds import Bounds
from anybound.bound.compact.machine import LANES64
from anybound.bound.compact.sparse import SparseNetwork
from anybound.search.input_split.folded import Folded, Index, Vector
from anybound.search.input_split.kernel import bound_boxes
from anybound.search.input_split.zonotope import Work, make_work
from anybound.spec.problem import Problem

Flags = NDArray[np.bool_]

_SHARE = 16  # boxes below which another thread is not worth its start


class Boxes(NamedTuple):
    """N boxes of the D varying inputs: lower, upper `[N, D]`, and which of C clauses are open in them, `[N, C]`."""

    lower: Vector
    upper: Vector
    is_open: Flags

    def part(self, index: slice | Index) -> Boxes:
        return Boxes._make(column[index] for column in self)


class Bounded(NamedTuple):
    """What is known of N boxes after bounding them.

    `bound` `[N, C]` is rigorous: the least value of the clause's best combination of rows; +∞ where the clause was not
    open. `choice` `[N]` is the input to split, −1 if none can be. `point` `[N, D]` is where the worst clause's bound is
    attained to first order, `value` `[N]` the least margin of an open clause there, in plain float64. `weight` `[N, R]`
    are the weights of open clauses' rows. `lower`, `upper` `[N, D]` are what is left of the boxes: beyond, no clause is
    violated that was open; bounds hold on what is left."""

    bound: Vector
    choice: Index
    point: Vector
    value: Vector
    weight: Vector
    lower: Vector
    upper: Vector


@dataclass(frozen=True, eq=False)
class InputSplitter:
    """One problem over one box; build it with `of`."""

    folded: Folded
    symbols: int
    threads: int = 1
    clips: bool = False  # whether boxes are cut down to what can violate a clause

    @classmethod
    def of(
        cls,
        problem: Problem,
        bounds: Bounds,
        clauses: Sequence[Sequence[int]],
        *,
        symbols: int = 128,
        threads: int = 1,
        clips: bool = False,
    ) -> Self:
        """The problem between rigorous bounds of its hidden layers; clause c has the objective's rows `clauses[c]`.

        Up to `symbols` ambiguous neurons are told apart in a box. The zonotope of the root cuts the bounds down once,
        and what it shows to be constant is folded away as well."""
        sparse = SparseNetwork(problem.network)
        with np.errstate(over="ignore", invalid="ignore"):  # of NaN nothing is ever proved
            first = cls(Folded.of(sparse, problem, bounds, clauses), symbols)
            tighter = bounds.intersect(first._root_bounds(problem, bounds))
            return cls(Folded.of(sparse, problem, tighter, clauses), symbols, threads, clips)

    @property
    def root(self) -> Boxes:
        """The whole box, every clause open."""
        folded = self.folded
        is_open = np.ones((1, len(folded.clause) - 1), np.bool_)
        return Boxes(folded.lower[None], folded.upper[None], is_open)

    @property
    def cost(self) -> int:
        """About how many multiplications a box may take."""
        return sum(int(layer.matrix.nnz) for layer in self.folded.layers) * self._stride

    def bound(self, boxes: Boxes) -> Bounded:
        """Bounds of all boxes, in as many threads as there are."""
        count, out = len(boxes.lower), _unknown(boxes, self._rows)
        pieces = max(1, min(self.threads, count // _SHARE))
        ends = [count * piece // pieces for piece in range(pieces + 1)]
        parts = [slice(a, b) for a, b in itertools.pairwise(ends)]
        if pieces == 1:
            self._in_turn(boxes, out)
        else:
            jobs = [
                self._executor.submit(
                    self._in_turn,
                    boxes.part(part),
                    Bounded._make(column[part] for column in out),
                )
                for part in parts
            ]
            try:
                for job in jobs:
                    job.result()
            finally:
                wait(jobs)  # an interrupt leaves none at work
        return out

    def whole(self, points: Vector) -> Vector:
        """Points of the varying inputs as points of the network's input, `[N, inputs]`."""
        full = np.repeat(self.folded.fixed[None], len(points), axis=0)
        full[:, self.folded.inputs] = points
        return full

    def _in_turn(self, boxes: Boxes, out: Bounded) -> None:
        work = self._works.get()
        try:
            self._bound_with(work, boxes, out)
        finally:
            self._works.put(work)

    def _bound_with(self, work: Work, boxes: Boxes, out: Bounded) -> None:
        contiguous = tuple(np.ascontiguousarray(column) for column in boxes)
        bound_boxes(self.folded.net, work, self._stride, self.clips, contiguous, tuple(out))

    @property
    def _rows(self) -> int:
        return int(self.folded.clause[-1])

    @property
    def _stride(self) -> int:
        """Numbers in the longest row: centre, inputs, symbols, whole vectors."""
        own = min(self.symbols, sum(len(layer.bias) for layer in self.folded.hidden))
        return -(-(1 + len(self.folded.inputs) + own) // LANES64) * LANES64

    @cached_property
    def _works(self) -> SimpleQueue[Work]:
        works: SimpleQueue[Work] = SimpleQueue()
        for _ in range(self.threads):
            works.put(make_work(self.folded.net, self._stride))
        return works

    @cached_property
    def _executor(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(self.threads)

    def _root_bounds(self, problem: Problem, bounds: Bounds) -> Bounds:
        """Bounds of the hidden layers by the zonotope of the root; those of constants stay as they are."""
        work = make_work(self.folded.net, self._stride)
        self._bound_with(work, self.root, _unknown(self.root, self._rows))
        layout = problem.network.layout
        lower, upper = bounds.lower.data.double().clone(), bounds.upper.data.double().clone()
        for k, layer in enumerate(self.folded.hidden, start=1):
            place = torch.from_numpy(layer.neuron + layout.offsets[k - 1])
            span = slice(self.folded.first[k], self.folded.first[k + 1])
            low, high = (torch.from_numpy(x[span].copy()) for x in (work.lower, work.upper))
            lower[0, 0, place] = torch.where(low.isnan(), -torch.inf, low)
            upper[0, 0, place] = torch.where(high.isnan(), torch.inf, high)
        return Bounds(bounds.lower.like(lower), bounds.upper.like(upper))


def _unknown(boxes: Boxes, rows: int) -> Bounded:
    """Room for the bounds of boxes, by so many rows."""
    count = len(boxes.lower)
    return Bounded(
        np.full(boxes.is_open.shape, np.inf),
        np.empty(count, np.int64),
        np.zeros(boxes.lower.shape),
        np.empty(count),
        np.zeros((count, rows)),
        np.empty(boxes.lower.shape),
        np.empty(boxes.lower.shape),
    )
