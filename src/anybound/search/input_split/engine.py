"""Branch and bound by splitting the input box.

    take boxes from the stack → bound them from scratch → close clauses whose bound is positive
    → clip the others to what can violate a clause
    → cut that in two through the input that makes most of the error → back to the stack

Every bound is rigorous in float64, so a positive one closes; nothing has to be evaluated again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np

from anybound.budget import Budget
from anybound.memory import is_out_of_memory
from anybound.outcome import Progress
from anybound.search.engine import Ended
from anybound.search.input_split.folded import Index, Vector
from anybound.search.input_split.narrow import POSITIVE
from anybound.search.input_split.splitter import Bounded, Boxes, InputSplitter
from anybound.search.input_split.tree import BoxTree
from anybound.search.pool import Pool

_WORK = 150_000_000  # multiplications in a round: some ten milliseconds, so that budgets are kept
_CANDIDATES = 8  # points handed over at once
_TELL_EVERY = 0.05  # seconds, at least, between reports

# Told of input points `[N, inputs]` that look unsafe, the most unsafe first; returns whether one is a witness.
Inspect = Callable[[Vector], bool]
# Told of the clauses' rigorous lower bounds, and of the number of boxes so far.
Advance = Callable[[Vector, int], None]


class Cut(Enum):
    """The input that a box is cut through.

    `ERROR`: what makes most of the bound's error, by gradients and by the inputs' shares in the width of ambiguous
    neurons. `LONGEST`: the longest edge, relative to the root's."""

    ERROR = "error"
    LONGEST = "longest"


@dataclass(frozen=True)
class BoxPlan:
    """How a search is run; the planner chooses."""

    symbols: int = 128  # ambiguous neurons that are told apart in a box
    batch: int = 256  # boxes at once, at most
    memory: int = 2 << 30  # bytes of the stack and of the tree
    subproblems: int | None = None  # stop after so many
    cut: Cut = Cut.ERROR
    clips: bool = True  # boxes to what can violate a clause


@dataclass(frozen=True, eq=False)
class BoxResult:
    """`lower`: the clauses' rigorous lower bounds, the lowest of all leaves. `upper`: the least margin at a point."""

    ended: Ended
    lower: Vector
    upper: float
    subproblems: int
    tree: BoxTree
    trace: Sequence[Progress]


def search(
    splitter: InputSplitter, plan: BoxPlan, budget: Budget, inspect: Inspect | None = None
) -> BoxResult:
    """Prove that every clause is unreachable, or say how far it came."""
    run = BoxSearch(splitter, plan, inspect)
    return run.result(run.run(budget))


class BoxSearch:
    """A search that can be interrupted and gone on with."""

    def __init__(
        self,
        splitter: InputSplitter,
        plan: BoxPlan,
        inspect: Inspect | None = None,
        advance: Advance | None = None,
    ) -> None:
        self.splitter, self.plan = splitter, plan
        self.inspect, self.advance = inspect, advance
        self.batch = int(np.clip(_WORK // max(1, splitter.cost), 1, plan.batch))
        self.tree, self.trace = BoxTree(), list[Progress]()
        self.subproblems, self.closed, self.stuck = 0, 0, 0
        self.done = 0.0  # the share of the root's volume in which all is proved
        self.upper = np.inf
        self.clock, self.told = Budget(), -np.inf
        root = splitter.root
        self.floor = np.full(root.is_open.shape[1], np.inf)  # the lowest bounds of leaves put away
        before = np.full(root.is_open.shape, -np.inf)
        columns = self._columns(root, before, np.ones(1), np.zeros(1, np.int64))
        self.pool = Pool(columns)
        self.pool.push(columns)

    def run(self, budget: Budget) -> Ended:
        """Go on until all is decided or a limit is reached."""
        while len(self.pool):
            if budget.is_spent():
                return Ended.BUDGET
            if self.bytes > self.plan.memory:
                return Ended.MEMORY
            if self.plan.subproblems is not None and self.subproblems >= self.plan.subproblems:
                return Ended.COUNT
            if self._round():
                return Ended.WITNESS
            self._report(budget)
        return Ended.STUCK if self.stuck else Ended.PROVED

    def result(self, ended: Ended) -> BoxResult:
        """What is known, whenever it ended."""
        return BoxResult(ended, self.lower, self.upper, self.subproblems, self.tree, self.trace)

    @property
    def lower(self) -> Vector:
        """`[C]`: rigorous lower bounds over the root."""
        if not len(self.pool):
            return self.floor
        return np.minimum(self.floor, self.pool.column("bound").min(0))  # type: ignore[no-any-return]  # as pushed

    @property
    def bytes(self) -> int:
        """Of all that grows."""
        return self.pool.bytes + self.tree.bytes

    def _round(self) -> bool:
        """One batch; whether a witness was found."""
        taken = self.pool.pop(self.batch)
        boxes = Boxes(taken["lower"], taken["upper"], taken["is_open"])  # type: ignore[arg-type]  # as pushed
        try:
            bounded = self._bounded(boxes)
        except (MemoryError, RuntimeError) as error:
            if not is_out_of_memory(error) or len(boxes.lower) <= 1:
                raise
            self.pool.push(taken)
            self.batch = len(boxes.lower) // 2
            return False
        self.subproblems += len(boxes.lower)
        # a box is never worse than the one it was cut from
        bound = np.where(boxes.is_open, np.fmax(bounded.bound, taken["bound"]), np.inf)
        is_open = boxes.is_open & ~(bound > 0)
        self._put_away(np.where(is_open, np.inf, bound))
        left = is_open.any(1)
        self.closed += int((~left).sum())
        share = self._clipped(boxes, bounded, taken["share"])  # type: ignore[arg-type]  # as pushed
        self.done += float(share[~left].sum())
        stays = left & (bounded.choice < 0)
        self.stuck += int(stays.sum())
        self._put_away(bound[stays])
        at = np.flatnonzero(left & ~stays)
        kept = Boxes(bounded.lower, bounded.upper, is_open)
        self._split(kept.part(at), bounded.choice[at], bound[at], share[at], taken["node"][at])  # type: ignore[arg-type]  # as pushed
        return self._is_witness(bounded)

    def _clipped(self, boxes: Boxes, bounded: Bounded, share: Vector) -> Vector:
        """Shares of the volume that is left; what was clipped away is done, its bounds positive."""
        before, after = boxes.upper - boxes.lower, bounded.upper - bounded.lower
        left = np.divide(after, before, out=np.ones_like(after), where=before > 0).prod(1)
        self.done += float((share * (1 - left)).sum())
        was_clipped = ((bounded.lower > boxes.lower) | (bounded.upper < boxes.upper)).any(1)
        self._put_away(np.where(boxes.is_open[was_clipped], POSITIVE, np.inf))
        kept: Vector = share * left
        return kept

    def _bounded(self, boxes: Boxes) -> Bounded:
        """With the inputs to cut."""
        bounded = self.splitter.bound(boxes)
        if self.plan.cut is Cut.ERROR:
            return bounded
        return bounded._replace(choice=_longest(bounded, self.splitter.root))

    def _split(
        self, boxes: Boxes, chosen: Index, bound: Vector, share: Vector, node: Index
    ) -> None:
        """Both halves of all boxes onto the stack."""
        if len(node) == 0:
            return
        row, lower, upper = np.arange(len(node)), boxes.lower, boxes.upper
        cut = 0.5 * lower[row, chosen] + 0.5 * upper[row, chosen]
        twice = Boxes._make(np.repeat(column, 2, axis=0) for column in boxes)
        twice.upper[2 * row, chosen] = cut
        twice.lower[2 * row + 1, chosen] = cut
        children = self.tree.add_children(node, chosen, cut)
        halves = np.repeat(0.5 * share, 2)
        self.pool.push(self._columns(twice, np.repeat(bound, 2, axis=0), halves, children))

    @staticmethod
    def _columns(boxes: Boxes, bound: Vector, share: Vector, node: Index) -> dict[str, Any]:
        return {**boxes._asdict(), "bound": bound, "share": share, "node": node}

    def _put_away(self, bound: Vector) -> None:
        """Leaves that will not be looked at again."""
        if len(bound):
            self.floor = np.minimum(self.floor, bound.min(0))

    def _is_witness(self, bounded: Bounded) -> bool:
        """Points that look unsafe, and more so than all before."""
        value = np.where(np.isnan(bounded.value), np.inf, bounded.value)
        known, self.upper = self.upper, min(self.upper, float(value.min()))
        if self.inspect is None or not (value.min() <= 0 and value.min() < known):
            return False
        order = np.argsort(value, kind="stable")[:_CANDIDATES]
        return self.inspect(self.splitter.whole(bounded.point[order[value[order] <= 0]]))

    def _report(self, budget: Budget) -> None:
        if self.clock.elapsed() - self.told < _TELL_EVERY:
            return
        self.told, lower = self.clock.elapsed(), self.lower
        self.trace.append(budget.progress(float(lower.min()), len(self.pool), self.closed))
        if self.advance is not None:
            self.advance(lower, self.subproblems)


def _longest(bounded: Bounded, root: Boxes) -> Index:
    """`[N]`: the longest edge that can be cut, −1 where there is nothing to choose."""
    middle = 0.5 * bounded.lower + 0.5 * bounded.upper
    can_be_cut = (bounded.lower < middle) & (middle < bounded.upper)
    share = np.where(can_be_cut, bounded.upper - bounded.lower, -1.0) / (root.upper - root.lower)
    return np.where(bounded.choice < 0, bounded.choice, share.argmax(1))
