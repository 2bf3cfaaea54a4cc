"""Branch and bound over the dual: the one search loop.

    take sub-problems from the pool → split each in two → bound the children from their parent's slopes
    → close what is proved in float64 → choose a neuron for the rest → back to the pool

Only rigorous values close a leaf; a child whose float32 bound closes but whose rigorous one does not stays open.

Every sub-problem knows a rigorous bound of its own or of an ancestor, `proved`: whenever the search ends, or is asked,
the lowest of all leaves' is a lower bound of the whole. Those of open leaves are computed in a share of the time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from anybound.budget import Budget
from anybound.memory import is_out_of_memory
from anybound.outcome import Progress
from anybound.search.bounder import Batch, Bounder, Expansion
from anybound.search.pool import Pool
from anybound.search.rule import NOTHING_LEFT, BranchingRule, Index, Matrix, Vector
from anybound.search.tree import Tree

TELL_EVERY = 0.25  # seconds, at least, between reports of the rows' bounds
_PROVING_SHARE = 0.03  # of the time, at most, for rigorous bounds of what is open
_LAST_PROVING = 0.1  # seconds for them at the end, if there is no time left; and at most
_LONGEST_PROVING = 1.0


class Ended(Enum):
    """Why a search ended."""

    PROVED = "every sub-problem is closed"
    WITNESS = "a witness was found"
    BUDGET = "the budget was spent"
    MEMORY = "the pool is as large as the memory allows"
    COUNT = "as many sub-problems were bounded as the plan allows"
    STUCK = "sub-problems are left that cannot be split further"


@dataclass(frozen=True)
class SearchPlan:
    """How a search is run; the planner chooses."""

    rule: BranchingRule
    batch: int = 256  # parents at once
    margin: float = 1e-4  # the search's bounds above it are worth a rigorous evaluation
    worst_first: bool = (
        False  # the paper's order; for a proof the order does not matter, and a stack stays small
    )
    memory: int = 2 << 30
    subproblems: int | None = None  # stop after so many
    minimisers_every: int = 8  # rounds between looks at the minimisers z_0
    seed: int = 0


@dataclass(frozen=True, eq=False)
class SearchResult:
    """`lower`: the rows' rigorous lower bounds, the lowest of all their leaves."""

    ended: Ended
    lower: Vector
    subproblems: int
    tree: Tree
    trace: Sequence[Progress]
    leaves: Sequence[Batch] = ()
    closed: int = 0  # leaves


# Told of minimisers z_0 [N, inputs]; returns whether one of them is a witness.
Inspect = Callable[[Matrix], bool]
# Told of the rows' rigorous lower bounds so far, and of the number of sub-problems.
Advance = Callable[[Vector, int], None]


class Chosen(NamedTuple):
    """Open sub-problems with the neuron each is split at next, and rigorous lower bounds."""

    batch: Batch
    neuron: Index
    proved: Vector


class _Done(NamedTuple):
    """How far a search is: numbers of sub-problems, of those closed and of those stuck; tree, leaves, floor."""

    counts: tuple[int, int, int]
    nodes: int
    leaves: int
    floor: Vector


def search(
    bounder: Bounder,
    rows: Index,
    plan: SearchPlan,
    budget: Budget,
    inspect: Inspect | None = None,
    keep_leaves: bool = False,
    advance: Advance | None = None,
) -> SearchResult:
    """Prove that each of the objective's `rows` is positive, or say how far it came."""
    running = Running(bounder, rows, plan, inspect, keep_leaves, advance)
    return running.result(running.run(budget))


class Running:
    """A search that can be left and gone on with."""

    def __init__(
        self,
        bounder: Bounder,
        rows: Index,
        plan: SearchPlan,
        inspect: Inspect | None = None,
        keep_leaves: bool = False,
        advance: Advance | None = None,
    ) -> None:
        self.bounder, self.rows, self.plan, self.budget = bounder, rows, plan, Budget()
        self.inspect, self.advance = inspect, advance
        self.rule_state: Any = plan.rule.init(bounder.neurons)
        self.generator = np.random.default_rng(plan.seed)
        self.batch = plan.batch  # parents at once: fewer after memory ran out
        self.tree, self.subproblems, self.closed, self.rounds = Tree(), 0, 0, 0
        self.trace: list[Progress] = []
        self.leaves: list[Batch] | None = [] if keep_leaves else None
        self.stuck = 0  # sub-problems in which everything is split, and that are open
        self.found = False  # a witness
        # The lowest rigorous bound of the leaves that are in no pool, closed or stuck.
        self.floor = np.full(len(rows), np.inf)
        self.pool: Pool | None = None
        self.batch_type: Any = None
        self.begun = self.told = time.monotonic()
        self.proving = 0.0  # seconds spent on rigorous bounds of open leaves

    def run(self, budget: Budget, subproblems: int | None = None) -> Ended:
        """Go on until all is closed or a limit is reached, such as so many sub-problems in all."""
        self.budget = budget
        limit = self.plan.subproblems if subproblems is None else subproblems
        if self.pool is None:
            self._begin()
        while not self.found and self.pool is not None and len(self.pool):
            if self.budget.is_spent():
                return Ended.BUDGET
            if self.pool.bytes + self.tree.bytes > self.plan.memory:
                return Ended.MEMORY
            if limit is not None and self.subproblems >= limit:
                return Ended.COUNT
            self._round()
        if self.found:
            return Ended.WITNESS
        if not self.stuck:
            return Ended.PROVED
        return Ended.BUDGET if self.budget.is_spent() else Ended.STUCK

    def _begin(self) -> None:
        """The roots."""
        root = self.bounder.roots(self.rows, self.tree.add_roots(len(self.rows)))
        proved = self._certified(root.batch)
        self.found = self._is_witness(root.input)
        if self.found:
            self._put_away(root.batch, proved)
        else:
            self._push(self._settle(root, proved))

    def _round(self) -> None:
        """One batch. Where memory runs out, nothing has happened but that batches are half as large
        from now on."""
        self.rounds += 1
        parents, before = self._pop(), self._done()
        try:
            self._expand(parents)
        except (MemoryError, RuntimeError) as error:
            if not is_out_of_memory(error) or len(parents.neuron) <= 1:
                raise
            self._undo(before)
            self._push(parents)
            self.batch = len(parents.neuron) // 2
        self._report()

    def _done(self) -> _Done:
        """What a round adds to."""
        leaves = 0 if self.leaves is None else len(self.leaves)
        counts = (self.subproblems, self.closed, self.stuck)
        return _Done(counts, len(self.tree), leaves, self.floor.copy())

    def _undo(self, before: _Done) -> None:
        """As it was before a round that failed."""
        (self.subproblems, self.closed, self.stuck), nodes, leaves, self.floor = before
        self.tree.forget(nodes)
        if self.leaves is not None:
            del self.leaves[leaves:]

    def _expand(self, parents: Chosen) -> None:
        """The children of a batch closed, or put into the pool."""
        look = self.inspect is not None and (self.rounds - 1) % self.plan.minimisers_every == 0
        expansion = self.bounder.children(
            parents.batch, parents.neuron, self.plan.margin, inputs=look
        )
        self.subproblems += len(expansion.batch.row)
        sign = np.tile(np.array([1, -1], np.int8), len(parents.neuron))
        node = self.tree.add_children(expansion.batch.node, np.repeat(parents.neuron, 2), sign)
        expansion = expansion._replace(batch=expansion.batch._replace(node=node))
        proved = np.repeat(parents.proved, 2)  # what holds in a sub-problem holds in both halves
        if look and self._is_witness(expansion.input):
            self._put_away(expansion.batch, proved)
            self.found = True
        else:
            self._push(self._settle(expansion, proved))

    def _settle(self, expansion: Expansion, proved: Vector) -> Chosen:
        """Close what is rigorously positive, and choose a neuron for the others."""
        batch: Batch = expansion.batch
        promising = np.flatnonzero(batch.bound > self.plan.margin)
        is_open = np.ones(len(batch.row), bool)
        if len(promising):
            candidates = batch.take(promising)
            certified = np.maximum(self._certified(candidates), proved[promising])
            closes = certified > 0
            is_open[promising[closes]] = False
            self._close(candidates.take(np.flatnonzero(closes)), certified[closes])
            # what failed by rounding alone stays open, just below the threshold
            batch.bound[promising[~closes]] = self.plan.margin * 0.5
            proved[promising] = certified
        left = np.flatnonzero(is_open)
        rest = expansion._replace(batch=batch.take(left), coefficient=expansion.coefficient[left])
        if len(left) == 0:
            return Chosen(rest.batch, np.empty(0, np.int64), proved[left])
        view = self.bounder.open_problems(rest, self.plan.margin)
        neuron = self.plan.rule.choose(self.rule_state, view, self.generator)
        return self._without_stuck(Chosen(rest.batch, neuron, proved[left]))

    def _without_stuck(self, chosen: Chosen) -> Chosen:
        """Sub-problems in which everything is split get more steps; what still does not close is put aside."""
        stuck = chosen.neuron == NOTHING_LEFT
        if not stuck.any():
            return chosen
        batch = chosen.batch.take(np.flatnonzero(stuck))
        expansion = self.bounder.polish(batch, self.plan.margin)
        polished: Batch = expansion.batch
        certified = np.maximum(self._certified(polished), chosen.proved[stuck])
        closes = certified > 0
        self._close(polished.take(np.flatnonzero(closes)), certified[closes])
        if not closes.all():
            self.stuck += int((~closes).sum())
            self._put_away(polished.take(np.flatnonzero(~closes)), certified[~closes])
            self.found = self.found or self._is_witness(expansion.input[~closes])
        rest = np.flatnonzero(~stuck)
        return Chosen(chosen.batch.take(rest), chosen.neuron[rest], chosen.proved[rest])

    def _close(self, batch: Batch, certified: Vector) -> None:
        self.closed += len(batch.row)
        self._put_away(batch, certified)
        if self.leaves is not None:
            self.leaves.append(batch)

    def _put_away(self, batch: Batch, proved: Vector) -> None:
        """These leaves are in no pool any more; their bounds count all the same."""
        _lower_to(self.floor, self.rows, batch.row, proved)

    def _certified(self, batch: Batch) -> Vector:
        """Rigorous lower bounds; a NaN is none."""
        certified = self.bounder.certify(batch)
        return np.where(np.isnan(certified), -np.inf, certified)

    def _push(self, chosen: Chosen) -> None:
        columns = {**chosen.batch._asdict(), "neuron": chosen.neuron, "proved": chosen.proved}
        columns["is_own"] = np.zeros(len(chosen.neuron), bool)  # whether `proved` is no ancestor's
        self.batch_type = type(chosen.batch)
        if self.pool is None:
            self.pool = Pool(columns)
        self.pool.push(columns)

    def _pop(self) -> Chosen:
        if self.pool is None:
            raise ValueError("the search has no pool yet")
        lowest = self.plan.worst_first
        taken = self.pool.pop_lowest(self.batch, "bound") if lowest else self.pool.pop(self.batch)
        neuron, proved = taken.pop("neuron").astype(np.int64), taken.pop("proved")
        del taken["is_own"]
        return Chosen(self.batch_type(**taken), neuron, proved.astype(np.float64))

    def _is_witness(self, minimisers: Matrix) -> bool:
        return self.inspect is not None and len(minimisers) > 0 and self.inspect(minimisers)

    def _report(self) -> None:
        if self.pool is None:
            return
        bounds = self.pool.column("bound")
        lower = float(bounds.min()) if len(bounds) else float("inf")
        self.trace.append(self.budget.progress(lower, len(self.pool), self.closed))
        now = time.monotonic()
        if self.advance is not None and now - self.told >= TELL_EVERY:
            self.told = now
            self._prove(_PROVING_SHARE * (now - self.begun) - self.proving)
            self.advance(self._lower(), self.subproblems)

    def result(self, ended: Ended, *, is_left: bool = False) -> SearchResult:
        """What is known; unless it is only left to be gone on with, what is open is bounded rigorously."""
        if ended not in (Ended.PROVED, Ended.WITNESS) and not is_left:
            self._prove(min(max(_LAST_PROVING, self.budget.left()), _LONGEST_PROVING))
        return SearchResult(
            ended,
            self._lower(),
            self.subproblems,
            self.tree,
            self.trace,
            self.leaves or (),
            self.closed,
        )

    def _prove(self, seconds: float) -> None:
        """Rigorous bounds of open leaves that have only an ancestor's, the lowest first, for so long."""
        if self.pool is None or seconds <= 0:
            return
        started = time.monotonic()
        proved, is_own = self.pool.column("proved"), self.pool.column("is_own")
        left = np.flatnonzero(np.logical_not(is_own))
        left = left[np.argsort(proved[left], kind="stable")]
        for first in range(0, len(left), self.batch):
            if time.monotonic() - started > seconds:
                break
            at = left[first : first + self.batch]
            columns = {name: self.pool.column(name)[at] for name in self.batch_type._fields}
            proved[at] = np.fmax(proved[at], self._certified(self.batch_type(**columns)))
            is_own[at] = True
        self.proving += time.monotonic() - started

    def _lower(self) -> Vector:
        """The rows' rigorous lower bounds: the lowest of all leaves, closed or still open."""
        lower = self.floor.copy()
        if self.pool is not None:
            _lower_to(lower, self.rows, self.pool.column("row"), self.pool.column("proved"))
        return lower


def _lower_to(lower: Vector, rows: Index, row: NDArray[Any], proved: NDArray[Any]) -> None:
    """Each row's entry down to the least of its sub-problems'."""
    order = np.argsort(rows)
    np.minimum.at(lower, order[np.searchsorted(rows, row, sorter=order)], proved)
