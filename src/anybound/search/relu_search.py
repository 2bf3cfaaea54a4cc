"""Branch and bound on neurons with the compact engine, for all clauses over one box.

1. All clauses together, for a few sub-problems: most close there.
2. What is left, clause by clause: the last layer's bounds are tightened by the negated property, which pays for itself
   many times over, and the clause is searched on a network of its own; if a few sub-problems do not do, the layer
   before is tightened as well.
3. If one takes long, or hardly anything closes: hidden neurons are bounded by small trees (see `neuron_trees`), and
   with these bounds all begins again; with larger trees, as long as they gain. What is left then has all the time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch

from anybound.bound.bounds import Bounds
from anybound.bound.compact.network import CompactNetwork
from anybound.bound.compact.objective import CompactObjective
from anybound.bound.compact.sparse import SparseNetwork
from anybound.bound.compact.tighten import Tightening
from anybound.budget import Budget
from anybound.model.domains.box import Box
from anybound.outcome import Progress
from anybound.search.branchings.filtered import Filtered
from anybound.search.engine import Ended, Inspect, Running, SearchPlan
from anybound.search.neuron_trees import NeuronTrees
from anybound.search.relu_bounder import ReluBounder
from anybound.search.rule import BranchingRule, Index, Vector
from anybound.spec.problem import Problem

Advance = Callable[[Index, Vector, int], None]

_NEURONS_SHARE = 0.3  # of the time left, at most, for one pass of bounding neurons
_PROBE = 2000  # sub-problems of a clause alone, before
_CLOSING = 0.1  # so many of them have to be closed leaves: else neurons are bounded at once
_PATIENCE, _PATIENCE_SHARE = (
    8.0,
    0.15,
)  # seconds, or of the time left, of a clause that closes, before neurons are bounded
_GROWTH = 4  # of their trees, from pass to pass


@dataclass(frozen=True)
class ReluPlan:
    """The numbers of the search; `batch` is for each thread, `together` how many sub-problems all clauses get in the
    first round, `glance` how many each gets then before more than the last layer is tightened, `threads` 0 for as many
    as PyTorch uses."""

    rule: BranchingRule = field(default_factory=Filtered)
    batch: int = 256
    together: int = 300
    glance: int = 300
    margin: float = 1e-4
    tightening: Tightening | None = field(default_factory=Tightening)
    neurons: NeuronTrees | None = field(default_factory=NeuronTrees)
    threads: int = 0
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
        self.threads = plan.threads or torch.get_num_threads()
        self.budget, self.inspect, self.advance = budget, inspect, advance
        self.sparse = SparseNetwork(problem.network)
        self.lower = np.full(len(clauses), -np.inf)
        self.subproblems = 0
        self.trace: list[Progress] = []
        self.courses = dict[int, _Course]()  # of single clauses
        self.glanced = dict[int, Bounds]()  # tightened in the last layer

    def loop(self) -> Ended:
        ended = self._together()
        trees = self.plan.neurons
        while trees is not None and not self._is_over(ended):
            ended = self._each_that_closes()
            if self._is_over(ended):
                return ended
            share = self.budget.share(_NEURONS_SHARE)
            self.bounds, gain = trees.bounds(
                self.sparse, self.box, self.bounds, share, self.threads
            )
            if gain < trees.least_gain:
                break
            self.courses.clear()
            self.glanced.clear()
            ended = self._together()
            trees = replace(trees, subproblems=_GROWTH * trees.subproblems)
        return ended if self._is_over(ended) else self._each()

    def _is_over(self, ended: Ended) -> bool:
        return ended in (Ended.PROVED, Ended.WITNESS) or self.budget.is_spent()

    def _together(self) -> Ended:
        """All open clauses, for a few sub-problems."""
        return _Course(self, self.bounds, self._open()).run(self.budget, self.plan.together)

    def _each_that_closes(self) -> Ended:
        """The open clauses one by one, the easiest first, until one takes long.

        Where hardly any sub-problem closes, that is known soon."""
        patience = min(_PATIENCE, _PATIENCE_SHARE * self.budget.left())
        for clause in self._easiest_first():
            ended = self._at_a_glance(clause)
            if ended is Ended.PROVED:
                continue
            if self._is_over(ended):
                return ended
            alone = self._alone(clause)
            ended = alone.run(self.budget, _PROBE)
            if ended is Ended.COUNT and alone.closes:
                ended = alone.run(self.budget.within(patience))
            if ended is not Ended.PROVED:
                return ended
            del self.courses[clause]
        return Ended.PROVED

    def _at_a_glance(self, clause: int) -> Ended:
        """One clause for a few sub-problems, with the last layer tightened."""
        if self.plan.tightening is None:
            return Ended.COUNT
        bounds = self._tightened(clause, self.bounds, deep=False)
        course = _Course(self, bounds, np.array([clause]), _on_violating)
        ended = course.run(self.budget, self.plan.glance)
        if ended is not Ended.PROVED:
            self.glanced[clause] = bounds
        return ended

    def _tightened(self, clause: int, bounds: Bounds, *, deep: bool) -> Bounds:
        """By the rounds over the last layer, or by those over more."""
        tightening = self.plan.tightening
        if tightening is None:
            return bounds
        rounds = [depth for depth in tightening.rounds if (depth > 1) == deep]
        rows, objective = self.clauses[clause], self.problem.objective
        chosen = replace(tightening, rounds=rounds)
        return chosen.bounds(self.sparse, bounds, self.box, objective, rows)

    def _each(self) -> Ended:
        """The open clauses one by one, each with its share of the time."""
        ended = Ended.PROVED
        left = self._easiest_first()
        for position, clause in enumerate(left):
            if self.budget.is_spent():
                return Ended.BUDGET
            one = self._alone(clause).run(self.budget.share(1 / (len(left) - position)))
            del self.courses[clause]
            if one is Ended.WITNESS:
                return one
            ended = ended if one is Ended.PROVED else one
        return ended

    def _easiest_first(self) -> list[int]:
        left = self._open()
        return [int(clause) for clause in left[np.argsort(-self.lower[left])]]

    def _alone(self, clause: int) -> _Course:
        """The search of one clause on bounds of its own, as far as it is."""
        if clause not in self.courses:
            only = np.array([clause])
            if self.plan.tightening is None:
                self.courses[clause] = _Course(self, self.bounds, only)
            else:
                bounds = self.glanced.pop(clause, None)
                if bounds is None:
                    bounds = self._tightened(clause, self.bounds, deep=False)
                bounds = self._tightened(clause, bounds, deep=True)
                self.courses[clause] = _Course(self, bounds, only, _on_violating)
        return self.courses[clause]

    def learn(self, clauses: Index, lower: Vector, subproblems: int) -> None:
        self.lower[clauses] = np.fmax(self.lower[clauses], lower)
        self.subproblems = subproblems
        if self.advance is not None:
            self.advance(clauses, lower, subproblems)

    def _open(self) -> Index:
        return np.flatnonzero(~(self.lower > 0))

    def report(self, ended: Ended) -> ReluReport:
        return ReluReport(ended, self.lower, self.subproblems, self.trace)


class _Course:
    """A search of some clauses between some bounds, that can be left and gone on with; `meaning` of what is proved
    there is what is learnt."""

    def __init__(
        self,
        run: _Clauses,
        bounds: Bounds,
        clauses: Index,
        meaning: Callable[[Vector], Vector] = lambda lower: lower,
    ) -> None:
        self.whole, self.clauses, self.meaning = run, clauses, meaning
        self.before = 0  # sub-problems of other searches
        self.running = None if bool(bounds.is_empty().any()) else self._running(bounds)

    def run(self, budget: Budget, subproblems: int | None = None) -> Ended:
        """Go on until all is closed or a limit is reached, such as so many sub-problems in all."""
        whole, running = self.whole, self.running
        if running is None:  # no input can violate it
            whole.learn(self.clauses, self.meaning(np.array([np.inf])), whole.subproblems)
            return Ended.PROVED
        self.before, points = whole.subproblems - running.subproblems, len(running.trace)
        ended = running.run(budget, subproblems)
        result = running.result(ended, is_left=ended is Ended.COUNT)
        whole.trace += running.trace[points:]
        self._learn(result.lower, result.subproblems)
        return result.ended

    @property
    def closes(self) -> bool:
        """Whether a good share of its sub-problems are closed leaves."""
        running = self.running
        return running is None or running.closed > _CLOSING * running.subproblems

    def _running(self, bounds: Bounds) -> Running:
        whole = self.whole
        network = CompactNetwork.of(whole.sparse, bounds, whole.box)
        objective = CompactObjective.of(whole.problem.objective, network, whole.clauses)
        bounder = ReluBounder(network, objective, threads=whole.threads)
        plan = SearchPlan(
            whole.plan.rule,
            whole.plan.batch * whole.threads,
            whole.plan.margin,
            memory=whole.plan.memory,
            seed=whole.plan.seed,
        )
        return Running(bounder, self.clauses, plan, whole.inspect, advance=self._learn)

    def _learn(self, lower: Vector, subproblems: int) -> None:
        self.whole.learn(self.clauses, self.meaning(lower), self.before + subproblems)


def _on_violating(lower: Vector) -> Vector:
    """Bounds that hold on violating inputs alone, as bounds on all inputs.

    If the least value is not positive, it is taken at a violating input. So a bound that is not positive
    holds everywhere; a positive one says that no input violates, and no more."""
    return np.where(lower > 0, np.finfo(np.float64).tiny, lower)
