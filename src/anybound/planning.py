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
from anybound.search.relu_search import ReluPlan, search_rows
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
        single = [member for member in task.open if member.rows.stop - member.rows.start == 1]
        rows = np.array([member.rows.start for member in single], np.int64)
        clause = {member.rows.start: member.clause for member in single}
        found: list[Witness] = []

        def inspect(minimisers: Matrix) -> bool:
            points = np.unique(minimisers[:64].astype(np.float64), axis=0)
            witness = task.confirm(points[:8])
            found.extend([witness] if witness is not None else [])
            return witness is not None

        def advance(known: Index, lower: Vector, subproblems: int) -> None:
            task.advance(
                {clause[int(r)]: float(b) for r, b in zip(known, lower, strict=True)}, subproblems
            )

        report = search_rows(
            task.safety.problem, task.bounds, rows, self.relu, task.budget, inspect, advance
        )
        lower = {clause[int(r)]: float(b) for r, b in zip(rows, report.lower, strict=True)}
        reason = "" if report.ended in (Ended.PROVED, Ended.WITNESS) else report.ended.value
        return SearchReport(
            lower,
            report.subproblems,
            found[0] if found else None,
            report.trace,
            {"search": repr(self.relu)},
            reason,
        )
