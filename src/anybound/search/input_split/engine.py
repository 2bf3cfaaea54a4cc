"""Branch and bound by splitting the input box.

    take boxes from the stack → bound them from scratch → close clauses whose bound is positive
    → cut the others in two through the input that makes most of the error → back to the stack

Every bound is rigorous in float64, so a positive one closes; nothing has to be evaluated again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from anybound.budget import Budget
from anybound.outcome import Progress
from anybound.search.engine import Ended
from anybound.search.input_split.folded import Vector
from anybound.search.input_split.splitter import Bounded, Boxes, InputSplitter
from anybound.search.input_split.tree import BoxTree
from anybound.search.pool import Pool

_WORK = 150_000_000  # multiplications in a round: some ten milliseconds, so that budgets are kept
_CANDIDATES = 8  # points handed over at once

# Told of input points `[N, inputs]` that look unsafe, the most unsafe first; returns whether one is a witness.
Inspect = Callable[[Vector], bool]


@dataclass(frozen=True)
class BoxPlan:
    """How a search is run; the planner chooses."""

    batch: int = 256  # boxes at once, at most
    memory: int = 2 << 30  # bytes of the stack and of the tree
    subproblems: int | None = None  # stop after so many


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
    run = _Search(splitter, plan, budget, inspect)
    ended = run.loop()
    return run.result(ended)


class _Search:
    """The state of one search."""

    def __init__(
        self, splitter: InputSplitter, plan: BoxPlan, budget: Budget, inspect: Inspect | None
    ) -> None:
        self.splitter, self.plan, self.budget, self.inspect = splitter, plan, budget, inspect
        self.batch = int(np.clip(_WORK // max(1, splitter.cost), 1, plan.batch))
        self.tree, self.trace = BoxTree(), list[Progress]()
        self.subproblems, self.closed, self.stuck = 0, 0, 0
        self.upper = np.inf
        root = splitter.root
        self.floor = np.full(root.is_open.shape[1], np.inf)  # the lowest bounds of leaves put away
        before = np.full(root.is_open.shape, -np.inf)
        self.pool = Pool(self._columns(root, before, np.zeros(1, np.int64)))
        self.pool.push(self._columns(root, before, np.zeros(1, np.int64)))

    def loop(self) -> Ended:
        while len(self.pool):
            if self.budget.is_spent():
                return Ended.BUDGET
            if self.pool.bytes + self.tree.bytes > self.plan.memory:
                return Ended.MEMORY
            if self.plan.subproblems is not None and self.subproblems >= self.plan.subproblems:
                return Ended.COUNT
            if self._round():
                return Ended.WITNESS
        return Ended.STUCK if self.stuck else Ended.PROVED

    def _round(self) -> bool:
        """One batch; whether a witness was found."""
        taken = self.pool.pop(self.batch)
        boxes = Boxes(taken["lower"], taken["upper"], taken["is_open"])  # type: ignore[arg-type]  # as pushed
        bounded = self.splitter.bound(boxes)
        self.subproblems += len(boxes.lower)
        # a box is never worse than the one it was cut from
        bound = np.where(boxes.is_open, np.fmax(bounded.bound, taken["bound"]), np.inf)
        is_open = boxes.is_open & ~(bound > 0)
        self._put_away(np.where(is_open, np.inf, bound))
        left = is_open.any(1)
        self.closed += int((~left).sum())
        stays = left & (bounded.choice < 0)
        self.stuck += int(stays.sum())
        self._put_away(bound[stays])
        at = np.flatnonzero(left & ~stays)
        self._split(boxes._replace(is_open=is_open).part(at), bounded, bound[at], taken["node"], at)
        self._report()
        return self._is_witness(bounded)

    def _split(self, boxes: Boxes, bounded: Bounded, bound: Vector, node: Any, at: Any) -> None:
        """Both halves of every box onto the stack."""
        if len(at) == 0:
            return
        row, chosen = np.arange(len(at)), bounded.choice[at]
        lower, upper = boxes.lower, boxes.upper
        cut = 0.5 * lower[row, chosen] + 0.5 * upper[row, chosen]
        twice = Boxes._make(np.repeat(column, 2, axis=0) for column in boxes)
        twice.upper[2 * row, chosen] = cut
        twice.lower[2 * row + 1, chosen] = cut
        children = self.tree.add_children(node[at], chosen, cut)
        self.pool.push(self._columns(twice, np.repeat(bound, 2, axis=0), children))

    @staticmethod
    def _columns(boxes: Boxes, bound: Vector, node: Any) -> dict[str, Any]:
        return {**boxes._asdict(), "bound": bound, "node": node}

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

    def _report(self) -> None:
        lower = self.pool.column("bound")
        worst = float(lower.min()) if lower.size else float(self.floor.min())
        self.trace.append(self.budget.progress(worst, len(self.pool), self.closed))

    def result(self, ended: Ended) -> BoxResult:
        lower = self.floor
        if len(self.pool):
            lower = np.minimum(lower, self.pool.column("bound").min(0))
        return BoxResult(ended, lower, self.upper, self.subproblems, self.tree, self.trace)
