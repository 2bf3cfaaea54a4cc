"""The planner: which search decides what is open, from the problem alone.

| the problem | the search |
| --- | --- |
| activations with one bend (ReLU, leaky ReLU, …) over a box | neurons are split, on the compact engine |
| the same, and few inputs vary | the input box is split, and neurons are, in turns |
| anything else, or a bounding method of one's own choice | neurons are split at a point, on the portable engine |
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from anybound.bound.compact.network import supports
from anybound.bound.method import Method
from anybound.decision import Search, SearchReport, SearchTask
from anybound.model.domains.box import Box
from anybound.model.domains.domain import Domain
from anybound.search.input_split import folded
from anybound.searches.compact import Compact
from anybound.searches.inputs import Inputs
from anybound.searches.portable import Portable
from anybound.searches.turns import Turns

_SOME_INPUTS = 128  # of more, halving one at a time gets nowhere
_FEW_INPUTS = 12  # up to so many the input is split first, and gets most of the time
_LITTLE = 0.25


@dataclass(frozen=True)
class Auto(Search):
    """A search chosen by the problem; `method`, if given, bounds its sub-problems."""

    method: Method[Any] | None = None
    compact: Compact = field(default_factory=Compact)
    portable: Portable = field(default_factory=Portable)
    inputs: Inputs = field(default_factory=Inputs)

    def __call__(self, task: SearchTask) -> SearchReport:
        search, why = self.choice(task)
        report = search(task)
        return replace(report, plan={**report.plan, "search chosen because": why})

    def chosen(self, task: SearchTask) -> Search:
        """The search for a task."""
        return self.choice(task)[0]

    def choice(self, task: SearchTask) -> tuple[Search, str]:
        """The search for a task, and why it is this one."""
        if self.method is not None:
            return Portable(self.method), "sub-problems are to be bounded by the method given"
        problem = task.safety.problem
        unsupported = supports(problem.network, problem.domain)
        if unsupported:
            return self.portable, unsupported
        varying = _varying(problem.domain)
        if varying > _SOME_INPUTS:
            return self.compact, f"{varying:,} inputs vary, too many to split the input set"
        unsupported = folded.supports(problem.network, problem.domain)
        if unsupported:
            return self.compact, f"the input set cannot be split: {unsupported}"
        turns = Turns(self.inputs, self.compact)
        if varying <= _FEW_INPUTS:
            few = f"only {varying} inputs vary: the input set is split first, and most of the time"
            return replace(turns, neurons_share=_LITTLE), few
        some = f"{varying} inputs vary: neurons are split first, then the input set in turns"
        return replace(turns, neurons_begin=True), some


def _varying(domain: Domain) -> int:
    """How many inputs of a box are no constants."""
    if not isinstance(domain, Box):
        raise TypeError(f"only a box has inputs to split, not a {type(domain).__name__}")
    return int((domain.lower < domain.upper).sum())
