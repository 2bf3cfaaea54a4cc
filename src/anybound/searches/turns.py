"""Splitting the input box and splitting neurons, in turns: which of them decides sooner is not known beforehand.

Splitting the input goes on where it was, and says what share of the box is done. From that follows how long it will
take: while the end is in sight it keeps the turn; after some turns without anything done it loses it for good.
Splitting neurons begins anew, so that turns are twice as long each time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from anybound.decision import Search, SearchReport, SearchTask
from anybound.registry import text_of
from anybound.search.engine import Ended
from anybound.search.input_split.engine import BoxSearch
from anybound.searches.compact import Compact
from anybound.searches.errand import Errand
from anybound.searches.inputs import Inputs


@dataclass(frozen=True)
class Turns(Search):
    """`first` are the seconds of the first turn, `neurons_share` what neurons get of each, `patience` the number of
    turns within which an end is in sight, `hopeless` that of turns without anything done."""

    inputs: Inputs = field(default_factory=Inputs)
    neurons: Compact = field(default_factory=Compact)
    first: float = 0.4
    neurons_share: float = 1.0
    neurons_begin: bool = False
    patience: float = 6.0
    hopeless: int = 3

    def __call__(self, task: SearchTask) -> SearchReport:
        if not self.neurons_begin:
            return _Match(self, task).run()
        report = self.turn_of_neurons(task, self.first)
        if _decides(report):
            return replace(report, plan=_told(self, "neurons"))
        return _Match(self, task, report).run()

    def turn_of_neurons(self, task: SearchTask, seconds: float) -> SearchReport:
        """What splitting neurons finds within so many seconds."""
        return self.neurons(replace(task, budget=task.budget.within(seconds)))


def _told(plan: Turns, decided: str) -> dict[str, str]:
    return {"search": text_of(plan), "decided by splitting": decided}


def _decides(report: SearchReport) -> bool:
    return report.witness is not None or all(bound > 0 for bound in report.lower.values())


class _Match:
    """The state of both searches."""

    def __init__(self, plan: Turns, task: SearchTask, neurons: SearchReport | None = None) -> None:
        self.plan, self.task = plan, task
        self.errand = Errand(task)
        self.boxes: BoxSearch = plan.inputs.begun(self.errand)
        self.ended = Ended.BUDGET  # of splitting the input
        self.neurons = neurons  # what splitting them found in its last turn
        self.before = 0  # sub-problems of its turns but the last

    def run(self) -> SearchReport:
        seconds, turn = self.plan.first, 0
        while not self.task.budget.is_spent():
            turn += 1
            if self._inputs(seconds):
                return self._report("the input")
            share = float("inf") if self._is_hopeless(turn) else self.plan.neurons_share
            if self._neurons(seconds * share):
                return self._report("neurons")
            seconds *= 2
        return self._report("neither")

    def _inputs(self, seconds: float) -> bool:
        """Whether splitting the input decides."""
        while not self.task.budget.is_spent():
            before = self.boxes.done
            self.ended = self.boxes.run(self.task.budget.within(seconds))
            if self.ended is not Ended.BUDGET:
                return self.ended in (Ended.PROVED, Ended.WITNESS)
            if 1 - self.boxes.done > self.plan.patience * (self.boxes.done - before):
                return False
        return False

    def _is_hopeless(self, turn: int) -> bool:
        nothing = turn >= self.plan.hopeless and self.boxes.done == 0
        return nothing or self.ended is not Ended.BUDGET

    def _neurons(self, seconds: float) -> bool:
        """Whether splitting neurons decides."""
        if self.task.budget.is_spent():
            return False
        self.before += 0 if self.neurons is None else self.neurons.subproblems
        others = self.boxes.subproblems + self.before

        def advance(lower: Mapping[int, float], subproblems: int) -> None:
            self.task.advance(lower, others + subproblems)

        task = replace(self.task, advance=advance)
        self.neurons = self.plan.turn_of_neurons(task, seconds)
        return _decides(self.neurons)

    def _report(self, decided: str) -> SearchReport:
        """What both found."""
        boxes = self.boxes
        own = self.errand.report(self.ended, boxes.lower, boxes.subproblems, boxes.trace, self.plan)
        share = {"share of the input box done": f"{boxes.done:.4g}"}
        own = replace(own, plan=_told(self.plan, decided) | share)
        if self.neurons is None:
            return own
        return replace(
            own,
            lower={c: max(b, own.lower[c]) for c, b in self.neurons.lower.items()},
            subproblems=own.subproblems + self.before + self.neurons.subproblems,
            witness=own.witness or self.neurons.witness,
            trace=[*own.trace, *self.neurons.trace],
        )
