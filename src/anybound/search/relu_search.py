"""Branch and bound on neurons with the compact engine, for all clauses over one box.

1. All clauses together, for a few sub-problems: most close there.
2. What is left, clause by clause: the last layers' bounds are tightened by the negated property, which pays for itself
   many times over, and the clause is searched on a network of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from anybound.bound.bounds import Bounds
from anybound.bound.compact.network import CompactNetwork
from anybound.bound.compact.objective import CompactObjective
from anybound.bound.compact.sparse import SparseNetwork
from anybound.bound.compact.tighten import Tightening
from anybound.budget import Budget
from anybound.model.domains.box import Box
from anybound.outcome import Progress
from anybound.search.branchings.filtered import Filtered
from anybound.search.engine import Ended, Inspect, SearchPlan, SearchResult, search
from anybound.search.relu_bounder import ReluBounder
from anybound.search.rule import BranchingRule, Index, Vector
from anybound.spec.problem import Problem

Advance = Callable[[Index, Vector, int], None]


@dataclass(frozen=True)
class ReluPlan:
    """The numbers of the search; `together` is how many sub-problems all clauses get in the first round."""

    rule: BranchingRule = field(default_factory=Filtered)
    batch: int = 256
    together: int = 300
    margin: float = 1e-4
    tightening: Tightening | None = field(default_factory=Tightening)
    threads: int = 1
    memory: int = 2 << 30
    seed: int = 0


@dataclass(frozen=True, eq=False)
class ReluReport:
    """Rigorous lower bounds of the clauses that were asked for, and why the search ended."""

    ended: Ended
    lower: Vector
    subproblems: int
    trace: Sequence[Progress]


def search_clauses(
    problem: Problem,
    bounds: Bounds,
    clauses: Sequence[slice],
    plan: ReluPlan,
    budget: Budget,
    inspect: Inspect | None = None,
    advance: Advance | None = None,
) -> ReluReport:
    """Prove of every clause that some of its rows is positive at any input, or say how far it came.

    Clauses are slices of the objective's rows. `advance` is told of their numbers, their rigorous lower bounds and the
    number of sub-problems so far."""
    run = _Clauses(problem, bounds, clauses, plan, budget, inspect, advance)
    return run.report(run.loop())


class _Clauses:
    """The state: which clauses are open, and their bounds."""

    def __init__(
        self,
        problem: Problem,
        bounds: Bounds,
        clauses: Sequence[slice],
        plan: ReluPlan,
        budget: Budget,
        inspect: Inspect | None,
        advance: Advance | None,
    ) -> None:
        if not isinstance(problem.domain, Box):
            raise TypeError(f"the compact engine needs a box, not {type(problem.domain).__name__}")
        self.box: Box = problem.domain
        self.problem, self.bounds, self.clauses, self.plan = problem, bounds, clauses, plan
        self.budget, self.inspect, self.advance = budget, inspect, advance
        self.sparse = SparseNetwork(problem.network)
        self.lower = np.full(len(clauses), -np.inf)
        self.subproblems = 0
        self.trace: list[Progress] = []

    def loop(self) -> Ended:
        everything = np.arange(len(self.clauses))
        together = self._search(self.bounds, everything, self.budget, self.plan.together)
        if together.ended in (Ended.PROVED, Ended.WITNESS):
            return together.ended
        ended = Ended.PROVED
        left = self._open()
        for position, clause in enumerate(left[np.argsort(-self.lower[left])]):
            if self.budget.is_spent():
                return Ended.BUDGET
            share = self.budget.share(1 / (len(left) - position))
            one = self._alone(int(clause), share)
            if one is Ended.WITNESS:
                return one
            ended = ended if one is Ended.PROVED else one
        return ended

    def _alone(self, clause: int, budget: Budget) -> Ended:
        """One clause on bounds of its own."""
        only = np.array([clause])
        if self.plan.tightening is None:
            return self._search(self.bounds, only, budget, None).ended
        rows, objective = self.clauses[clause], self.problem.objective
        bounds = self.plan.tightening.bounds(self.sparse, self.bounds, self.box, objective, rows)
        if bool(bounds.is_empty().any()):  # no input can violate it
            self._learn(only, _on_violating(np.array([np.inf])), self.subproblems)
            return Ended.PROVED
        return self._search(bounds, only, budget, None, _on_violating).ended

    def _search(
        self,
        bounds: Bounds,
        clauses: Index,
        budget: Budget,
        limit: int | None,
        meaning: Callable[[Vector], Vector] = lambda lower: lower,
    ) -> SearchResult:
        """The clauses between these bounds; `meaning` of what is proved there is what is learnt."""
        network = CompactNetwork.of(self.sparse, bounds, self.box)
        objective = CompactObjective.of(self.problem.objective, network, self.clauses)
        bounder = ReluBounder(network, objective, threads=self.plan.threads)
        plan = SearchPlan(
            self.plan.rule,
            self.plan.batch,
            self.plan.margin,
            memory=self.plan.memory,
            seed=self.plan.seed,
            subproblems=limit,
        )
        before = self.subproblems

        def learn(lower: Vector, subproblems: int) -> None:
            self._learn(clauses, meaning(lower), before + subproblems)

        result = search(bounder, clauses, plan, budget, self.inspect, advance=learn)
        self.trace += result.trace
        learn(result.lower, result.subproblems)
        return result

    def _learn(self, clauses: Index, lower: Vector, subproblems: int) -> None:
        self.lower[clauses] = np.fmax(self.lower[clauses], lower)
        self.subproblems = subproblems
        if self.advance is not None:
            self.advance(clauses, lower, subproblems)

    def _open(self) -> Index:
        return np.flatnonzero(~(self.lower > 0))

    def report(self, ended: Ended) -> ReluReport:
        return ReluReport(ended, self.lower, self.subproblems, self.trace)


def _on_violating(lower: Vector) -> Vector:
    """Bounds that hold on violating inputs alone, as bounds on all inputs.

    If the least value is not positive, it is taken at a violating input. So a bound that is not positive
    holds everywhere; a positive one says that no input violates, and no more."""
    return np.where(lower > 0, np.finfo(np.float64).tiny, lower)
