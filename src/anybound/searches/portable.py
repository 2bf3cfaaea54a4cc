"""Neurons are split at a point, on the portable engine: any activation, input set and bounding method.

The engine is imported when it is needed: the planner has this record at hand for every problem, and seldom runs it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from anybound.bound.method import Method
from anybound.decision import Search, SearchReport, SearchTask
from anybound.search.branchings.filtered import Filtered
from anybound.search.rule import BranchingRule
from anybound.search.tightening import Inherit, Tightening
from anybound.searches.errand import Errand

if TYPE_CHECKING:
    from anybound.search.portable_search import PortablePlan


@dataclass(frozen=True)
class Portable(Search):
    """Sub-problems are bounded by `method`, by default by a few steps on slopes, from their parent's dual point."""

    method: Method[Any] | None = None
    rule: BranchingRule = field(default_factory=Filtered)
    tightening: Tightening = field(default_factory=Inherit)
    batch: int = 256
    worst_first: bool = False
    memory: int = 2 << 30

    def __call__(self, task: SearchTask) -> SearchReport:
        from anybound.search.portable_search import search_clauses

        errand = Errand(task)
        result = search_clauses(
            task.safety.problem,
            errand.rows,
            replace(self.plan, memory=errand.pool_memory(self.memory), seed=task.seed),
            task.budget,
            task.bounds,
            errand.inspect,
            errand.advance_all,
        )
        return errand.report(result.ended, result.lower, result.subproblems, result.trace, self)

    @property
    def plan(self) -> PortablePlan:
        """In the terms of the search."""
        from anybound.search.portable_bounder import Effort, WeightAscent
        from anybound.search.portable_search import PortablePlan

        plan = PortablePlan(
            self.rule,
            tightening=self.tightening,
            batch=self.batch,
            worst_first=self.worst_first,
            memory=self.memory,
        )
        if self.method is None:
            return plan
        effort = Effort(self.method, WeightAscent(3, self.method))
        return replace(plan, root=effort, child=effort)
