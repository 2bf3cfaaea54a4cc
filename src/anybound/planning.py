"""The planner: which search decides what is open, from the problem alone.

| the problem | the search |
| --- | --- |
| activations with one bend (ReLU, leaky ReLU, …) over a box | neurons are split, on the compact engine |
| anything else | neurons are split at a point, on the portable engine |
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from anybound.bound.compact.network import supports
from anybound.decision import SearchReport, SearchTask
from anybound.outcome import Progress, Witness
from anybound.search.engine import Ended
from anybound.search.portable_search import PortablePlan
from anybound.search.portable_search import search_clauses as search_anything
from anybound.search.relu_search import ReluPlan, search_clauses
from anybound.search.rule import Index, Matrix, Vector


@dataclass(frozen=True)
class PlannedSearch:
    """Branch and bound, chosen by the problem; records override what the planner would choose."""

    relu: ReluPlan = field(default_factory=ReluPlan)
    portable: PortablePlan = field(default_factory=PortablePlan)

    def __call__(self, task: SearchTask) -> SearchReport:
        problem = task.safety.problem
        if supports(problem.network, problem.domain):
            return self._split_anything(_Errand(task))
        return self._split_neurons(_Errand(task))

    def _split_neurons(self, errand: _Errand) -> SearchReport:
        task = errand.task
        report = search_clauses(
            task.safety.problem,
            task.bounds,
            errand.rows,
            self.relu,
            task.budget,
            errand.inspect,
            errand.advance,
        )
        plan = {"search": repr(self.relu)}
        return errand.report(report.ended, report.lower, report.subproblems, report.trace, plan)

    def _split_anything(self, errand: _Errand) -> SearchReport:
        task = errand.task
        result = search_anything(
            task.safety.problem,
            errand.rows,
            np.arange(len(errand.rows)),
            self.portable,
            task.budget,
            task.bounds,
            errand.inspect,
        )
        plan = {"search": repr(self.portable)}
        return errand.report(result.ended, result.lower, result.subproblems, result.trace, plan)


class _Errand:
    """A task in a search's terms: clauses are numbered as they are open, and witnesses are kept."""

    def __init__(self, task: SearchTask) -> None:
        self.task = task
        self.rows = [member.rows for member in task.open]
        self.found: Witness | None = None

    def inspect(self, minimisers: Matrix) -> bool:
        """Whether one of some minimisers is a witness."""
        points = np.unique(minimisers[:64].astype(np.float64), axis=0)
        self.found = self.task.confirm(points[:8])
        return self.found is not None

    def advance(self, known: Index, lower: Vector, subproblems: int) -> None:
        """Keep what was proved of some clauses."""
        bounds = zip(known, lower, strict=True)
        number = [member.clause for member in self.task.open]
        self.task.advance({number[int(c)]: float(b) for c, b in bounds}, subproblems)

    def report(
        self,
        ended: Ended,
        lower: Vector,
        subproblems: int,
        trace: Sequence[Progress],
        plan: Mapping[str, str],
    ) -> SearchReport:
        """The answer to the task."""
        numbers = (member.clause for member in self.task.open)
        bounds = dict(zip(numbers, lower.tolist(), strict=True))
        reason = "" if ended in (Ended.PROVED, Ended.WITNESS) else ended.value
        return SearchReport(bounds, subproblems, self.found, trace, plan, reason)
