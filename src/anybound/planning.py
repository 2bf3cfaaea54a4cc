"""The planner: which search decides what is open, from the problem alone.

| the problem | the search |
| --- | --- |
| activations with one bend (ReLU, leaky ReLU, …) over a box | neurons are split, on the compact engine |
| anything else | neurons are split at a point, on the portable engine |
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from anybound.bound.compact.network import supports
from anybound.decision import SearchReport, SearchTask
from anybound.outcome import Witness
from anybound.search.engine import Ended
from anybound.search.relu_search import ReluPlan, search_clauses
from anybound.search.rule import Index, Matrix, Vector


@dataclass(frozen=True)
class PlannedSearch:
    """Branch and bound, chosen by the problem; records override what the planner would choose."""

    relu: ReluPlan = field(default_factory=ReluPlan)

    def __call__(self, task: SearchTask) -> SearchReport:
        problem = task.safety.problem
        why_not = supports(problem.network, problem.domain)
        if why_not:
            return SearchReport({}, 0, reason=f"no search applies: {why_not}")
        return self._split_neurons(task)

    def _split_neurons(self, task: SearchTask) -> SearchReport:
        number = [member.clause for member in task.open]
        rows = [member.rows for member in task.open]
        found: list[Witness] = []

        def inspect(minimisers: Matrix) -> bool:
            points = np.unique(minimisers[:64].astype(np.float64), axis=0)
            witness = task.confirm(points[:8])
            found.extend([witness] if witness is not None else [])
            return witness is not None

        def advance(known: Index, lower: Vector, subproblems: int) -> None:
            bounds = zip(known, lower, strict=True)
            task.advance({number[int(c)]: float(b) for c, b in bounds}, subproblems)

        report = search_clauses(
            task.safety.problem, task.bounds, rows, self.relu, task.budget, inspect, advance
        )
        lower = dict(zip(number, report.lower.tolist(), strict=True))
        reason = "" if report.ended in (Ended.PROVED, Ended.WITNESS) else report.ended.value
        return SearchReport(
            lower,
            report.subproblems,
            found[0] if found else None,
            report.trace,
            {"search": repr(self.relu)},
            reason,
        )
