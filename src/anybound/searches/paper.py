"""The paper's complete verification: BaBSR, worst first, every sub-problem bounded from its parent's dual point.

For another method, or other numbers, the same search is `portable(method=…, rule=babsr, worst_first=True, …)`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

from anybound.decision import Search, SearchReport, SearchTask
from anybound.search.portable_search import paper_plans, search_clauses
from anybound.searches.errand import Errand


class Row(Enum):
    """The paper's rows, with its settings."""

    SUPERGRADIENT = "supergradient"
    PROXIMAL = "proximal"
    DSG = "dsg"
    LP = "lp"


@dataclass(frozen=True)
class Paper(Search):
    """`batch` sub-problems at once: 300 for the paper's base network, 200 for wide and deep.

    Hidden layers are bounded by the best of intervals and WK, and anew in every sub-problem if
    `retighten`, as the paper does.
    """

    row: Row = Row.SUPERGRADIENT
    batch: int = 300
    retighten: bool = True

    def __call__(self, task: SearchTask) -> SearchReport:
        errand = Errand(task)
        plan = paper_plans(self.batch, retighten=self.retighten)[self.row.value]
        result = search_clauses(
            task.safety.problem,
            errand.rows,
            replace(plan, memory=errand.pool_memory(plan.memory), seed=task.seed),
            task.budget,
            None,
            errand.inspect,
            errand.advance_all,
        )
        return errand.report(result.ended, result.lower, result.subproblems, result.trace, self)
