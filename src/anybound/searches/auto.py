"""The planner: which search decides what is open, from the problem alone.

| the problem | the search |
| --- | --- |
| activations with one bend (ReLU, leaky ReLU, …) over a box | neurons are split, on the compact engine |
| anything else, or a bounding method of one's own choice | neurons are split at a point, on the portable engine |
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from anybound.bound.compact.network import supports
from anybound.bound.method import Method
from anybound.decision import Search, SearchReport, SearchTask
from anybound.searches.compact import Compact
from anybound.searches.portable import Portable


@dataclass(frozen=True)
class Auto(Search):
    """A search chosen by the problem; `method`, if given, bounds its sub-problems."""

    method: Method[Any] | None = None
    compact: Compact = field(default_factory=Compact)
    portable: Portable = field(default_factory=Portable)

    def __call__(self, task: SearchTask) -> SearchReport:
        return self.chosen(task)(task)

    def chosen(self, task: SearchTask) -> Search:
        """The search for a task."""
        if self.method is not None:
            return Portable(self.method)
        problem = task.safety.problem
        return self.portable if supports(problem.network, problem.domain) else self.compact
