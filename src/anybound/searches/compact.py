"""Neurons are split, on the compact engine: for activations with one bend over a box."""

from __future__ import annotations

from dataclasses import dataclass, replace

from anybound.bound.compact.network import supports
from anybound.decision import Search, SearchReport, SearchTask
from anybound.search.relu_search import ReluPlan, search_clauses
from anybound.searches.errand import Errand


@dataclass(frozen=True)
class Compact(ReluPlan, Search):
    """The plan is the record."""

    def __call__(self, task: SearchTask) -> SearchReport:
        problem, errand = task.safety.problem, Errand(task)
        why_not = supports(problem.network, problem.domain)
        if why_not:
            return SearchReport({}, 0, reason=f"the compact search does not apply: {why_not}")
        plan = replace(self, memory=errand.pool_memory(self.memory))
        report = search_clauses(
            problem, task.bounds, errand.rows, plan, task.budget, errand.inspect, errand.advance
        )
        return errand.report(report.ended, report.lower, report.subproblems, report.trace, self)
