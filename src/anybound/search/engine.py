"""Branch and bound over the dual: the one search loop.

    take sub-problems from the pool → split each in two → bound the children from their parent's slopes
    → close what is proved in float64 → choose a neuron for the rest → back to the pool

Only rigorous values close a leaf; a child whose float32 bound closes but whose rigorous one does not stays open.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple

import numpy as np

from anybound.budget import Budget
from anybound.outcome import Progress
from anybound.search.bounder import Batch, Bounder, Expansion
from anybound.search.pool import Pool
from anybound.search.rule import NOTHING_LEFT, BranchingRule, Index, Matrix, Vector
from anybound.search.tree import Tree


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


# Told of minimisers z_0 [N, inputs]; returns whether one of them is a witness.
Inspect = Callable[[Matrix], bool]


class Chosen(NamedTuple):
    """Open sub-problems with the neuron each is split at next."""

    batch: Batch
    neuron: Index


def search(
    bounder: Bounder,
    rows: Index,
    plan: SearchPlan,
    budget: Budget,
    inspect: Inspect | None = None,
    keep_leaves: bool = False,
) -> SearchResult:
    """Prove that each of the objective's `rows` is positive, or say how far it came."""
    run = _Search(bounder, rows, plan, budget, inspect, keep_leaves)
    ended = run.loop()
    return run.result(ended)


class _Search:
    """The state of one search."""

    def __init__(
        self,
        bounder: Bounder,
        rows: Index,
        plan: SearchPlan,
        budget: Budget,
        inspect: Inspect | None,
        keep_leaves: bool,
    ) -> None:
        self.bounder, self.rows, self.plan, self.budget, self.inspect = (
            bounder,
            rows,
            plan,
            budget,
            inspect,
        )
        self.rule_state: Any = plan.rule.init(bounder.neurons)
        self.generator = np.random.default_rng(plan.seed)
        self.tree, self.subproblems, self.closed, self.rounds = Tree(), 0, 0, 0
        self.trace: list[Progress] = []
        self.leaves: list[Batch] | None = [] if keep_leaves else None
        self.stuck: list[Batch] = []
        self.found = False  # a witness, among the minimisers of what was stuck
        self.floor = np.full(len(rows), np.inf)  # the lowest rigorous bound of the leaves closed
        self.pool: Pool | None = None
        self.batch_type: Any = None

    def loop(self) -> Ended:
        root = self.bounder.roots(self.rows, self.tree.add_roots(len(self.rows)))
        if self._is_witness(root.input):
            self.stuck.append(root.batch)  # open, though in no pool: its bounds count
            return Ended.WITNESS
        self._push(self._settle(root))
        if self.found:
            return Ended.WITNESS
        while self.pool is not None and len(self.pool):
            if self.budget.is_spent():
                return Ended.BUDGET
            if self.pool.bytes > self.plan.memory:
                return Ended.MEMORY
            if self.plan.subproblems is not None and self.subproblems >= self.plan.subproblems:
                return Ended.COUNT
            if self._round():
                return Ended.WITNESS
        if not self.stuck:
            return Ended.PROVED
        return Ended.BUDGET if self.budget.is_spent() else Ended.STUCK

    def _round(self) -> bool:
        """One batch; whether a witness was found."""
        self.rounds += 1
        look = self.inspect is not None and (self.rounds - 1) % self.plan.minimisers_every == 0
        parents = self._pop()
        expansion = self.bounder.children(
            parents.batch, parents.neuron, self.plan.margin, inputs=look
        )
        self.subproblems += len(expansion.batch.row)
        sign = np.tile(np.array([1, -1], np.int8), len(parents.neuron))
        node = self.tree.add_children(expansion.batch.node, np.repeat(parents.neuron, 2), sign)
        expansion = expansion._replace(batch=expansion.batch._replace(node=node))
        if look and self._is_witness(expansion.input):
            self.stuck.append(expansion.batch)
            return True
        self._push(self._settle(expansion))
        self._report()
        return self.found

    def _settle(self, expansion: Expansion) -> Chosen:
        """Close what is rigorously positive, and choose a neuron for the others."""
        batch: Batch = expansion.batch
        promising = np.flatnonzero(batch.bound > self.plan.margin)
        is_open = np.ones(len(batch.row), bool)
        if len(promising):
            candidates = batch.take(promising)
            certified = self.bounder.certify(candidates)
            proved = certified > 0
            is_open[promising[proved]] = False
            self._close(candidates.take(np.flatnonzero(proved)), certified[proved])
            # what failed by rounding alone stays open, just below the threshold
            batch.bound[promising[~proved]] = self.plan.margin * 0.5
        left = np.flatnonzero(is_open)
        rest = expansion._replace(batch=batch.take(left), coefficient=expansion.coefficient[left])
        if len(left) == 0:
            return Chosen(rest.batch, np.empty(0, np.int64))
        view = self.bounder.open_problems(rest, self.plan.margin)
        neuron = self.plan.rule.choose(self.rule_state, view, self.generator)
        return self._without_stuck(Chosen(rest.batch, neuron))

    def _without_stuck(self, chosen: Chosen) -> Chosen:
        """Sub-problems in which everything is split get more steps; what still does not close is put aside."""
        stuck = chosen.neuron == NOTHING_LEFT
        if not stuck.any():
            return chosen
        batch = chosen.batch.take(np.flatnonzero(stuck))
        expansion = self.bounder.polish(batch, self.plan.margin)
        polished: Batch = expansion.batch
        certified = self.bounder.certify(polished)
        proved = certified > 0
        self._close(polished.take(np.flatnonzero(proved)), certified[proved])
        if not proved.all():
            self.stuck.append(polished.take(np.flatnonzero(~proved)))
            self.found = self.found or self._is_witness(expansion.input[~proved])
        rest = np.flatnonzero(~stuck)
        return Chosen(chosen.batch.take(rest), chosen.neuron[rest])

    def _close(self, batch: Batch, certified: Vector) -> None:
        self.closed += len(batch.row)
        self._lower_to(self.floor, batch, certified)
        if self.leaves is not None:
            self.leaves.append(batch)

    def _push(self, chosen: Chosen) -> None:
        columns = {**chosen.batch._asdict(), "neuron": chosen.neuron}
        self.batch_type = type(chosen.batch)
        if self.pool is None:
            self.pool = Pool(columns)
        self.pool.push(columns)

    def _pop(self) -> Chosen:
        if self.pool is None:
            raise ValueError("the search has no pool yet")
        if self.plan.worst_first:
            taken = self.pool.pop_lowest(self.plan.batch, "bound")
        else:
            taken = self.pool.pop(self.plan.batch)
        neuron = taken.pop("neuron").astype(np.int64)
        return Chosen(self.batch_type(**taken), neuron)

    def _is_witness(self, minimisers: Matrix) -> bool:
        return self.inspect is not None and len(minimisers) > 0 and self.inspect(minimisers)

    def _report(self) -> None:
        if self.pool is None:
            return
        bounds = self.pool.column("bound")
        lower = float(bounds.min()) if len(bounds) else float("inf")
        self.trace.append(self.budget.progress(lower, len(self.pool), self.closed))

    def result(self, ended: Ended) -> SearchResult:
        return SearchResult(
            ended, self._lower(), self.subproblems, self.tree, self.trace, self.leaves or ()
        )

    def _lower(self) -> Vector:
        """The rows' rigorous lower bounds: the lowest of all leaves, closed or still open."""
        lower = self.floor.copy()
        while self.pool is not None and len(self.pool):
            self.stuck.append(self._pop().batch)
        for batch in self.stuck:
            self._lower_to(lower, batch, self.bounder.certify(batch))
        return lower

    def _lower_to(self, lower: Vector, batch: Batch, certified: Vector) -> None:
        certified = np.where(np.isnan(certified), -np.inf, certified)  # min() would skip a NaN
        for place, row in enumerate(self.rows):
            lower[place] = min(lower[place], certified[batch.row == row].min(initial=np.inf))
