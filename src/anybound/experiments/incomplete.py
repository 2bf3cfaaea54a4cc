"""Incomplete verification: every row bounds the nine margins of every image, from the same intermediate bounds.

Hidden layers are bounded by the best of intervals and WK (the paper's); the time is that of the last layer alone.
Methods search in float32, as the paper's; what they propose is evaluated rigorously in float64.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import torch

from anybound.bound.bounds import Bounds
from anybound.bound.decomposition import Decomposition
from anybound.bound.intermediates.strategy import IntermediateStrategy
from anybound.bound.intermediates.wk import BestOfIntervalAndWK
from anybound.bound.method import DualResult, Method, Stopped, maximise
from anybound.budget import Budget
from anybound.errors import InvalidConfig
from anybound.experiments.cases import Case, Source
from anybound.experiments.measurement import Measurement
from anybound.experiments.rows import Row
from anybound.io.records import Json, RecordFile
from anybound.registry import METHODS
from anybound.spec.problem import Objective, Problem

__all__ = ["Duals", "Incomplete", "duals", "duals_between", "measure", "whole_bounds"]

_QUICK = 0.05  # seconds; what takes less is measured again, and the least counts
_AGAIN = 4


@dataclass(frozen=True)
class Duals:
    """The dual of a case: in float64, for what is proved, and in float32, for the search."""

    exact: Decomposition
    search: Decomposition
    ambiguous: int


@dataclass(frozen=True)
class Incomplete:
    """What is run: rows on the first images of networks."""

    source: Source
    roles: Sequence[str]
    rows: Sequence[Row]
    images: int | None = None
    versions: Mapping[str, Json] = field(default_factory=dict)

    def measurements(self, file: RecordFile) -> Iterator[Measurement]:
        """All of them; what the file holds already is not repeated, and what is new is in it when it comes."""
        done = self._done(file)
        for role in self.roles:
            for case in self.source.cases(role, self.images):
                yield from self._of_case(case, done, file)

    def total(self) -> int:
        """How many there are, at most."""
        return sum(len(self.rows) * self._count(role) for role in self.roles)

    def _count(self, role: str) -> int:
        return sum(1 for _ in self.source.cases(role, self.images))

    def _of_case(
        self, case: Case, done: Mapping[tuple[str, int, str], Measurement], file: RecordFile
    ) -> Iterator[Measurement]:
        at_work: Duals | None = None
        seconds: dict[str, float] = {}  # of this image's rows
        for row in self.rows:
            found = done.get((self.source.name(case.role), case.image, row.label))
            if found is None:
                at_work = at_work or duals(case)
                text = row.method.format(f"{seconds.get(row.limited_to, 0.0) / len(case.rows):.4g}")
                found = self._measured(case, at_work, row, text)
                file.append(found.record())
            seconds[row.label] = found.seconds
            yield found

    def _measured(self, case: Case, at_work: Duals, row: Row, text: str) -> Measurement:
        lower, found, cpu = measure(at_work, METHODS.parse(text))
        return Measurement(
            role=case.role,
            network=self.source.name(case.role),
            epsilon=self.source.epsilon(case.role),
            image=case.image,
            row=row.label,
            family=row.family,
            method=text,
            lower=lower,
            seconds=found.seconds,
            cpu_seconds=cpu,
            iterations=found.iterations,
            ambiguous=at_work.ambiguous,
            original=tuple(self.source.original(case.role, case.image).get(row.label, ())),
            versions=self.versions,
        )

    def _done(self, file: RecordFile) -> dict[tuple[str, int, str], Measurement]:
        found = {m.key: m for m in map(Measurement.of, file.records)}
        wanted = {row.label: row for row in self.rows}
        for m in found.values():
            row = wanted.get(m.row)
            if row is not None and not row.limited_to and row.method != m.method:
                raise InvalidConfig(
                    f"{file.path}: has row {m.row!r} of method {m.method!r}, not {row.method!r}; "
                    "choose another folder"
                )
        return found


def duals(case: Case) -> Duals:
    """The dual with the paper's intermediate bounds."""
    return duals_between(case, whole_bounds(case, BestOfIntervalAndWK()))


def whole_bounds(case: Case, strategy: IntermediateStrategy) -> Bounds:
    """Bounds of the hidden layers; interrupted ones are valid, but nothing to measure methods on."""
    budget = Budget()
    found = strategy.bounds(case.network, case.domain, budget)
    if budget.is_cancelled:
        raise KeyboardInterrupt
    return found


def duals_between(case: Case, between: Bounds) -> Duals:
    """The dual with some intermediate bounds."""
    problem = Problem(case.network, case.domain, Objective.rows(case.network, case.rows))
    exact = Decomposition.between(problem, between)
    search = Decomposition.between(problem.to(torch.float32), between.to(torch.float32))
    return Duals(exact, search, sum(layer.ambiguous for layer in between.counts(case.network)))


def measure(at_work: Duals, method: Method[object]) -> tuple[tuple[float, ...], DualResult, float]:
    """What a method proves of every margin, how it ended, and its CPU seconds.

    A method that has a bound of its own formula (DSG+) is taken by it, though q(ρ) may be better.
    """
    found, cpu = _timed(at_work.search, method)
    for _ in range(_AGAIN if cpu < _QUICK else 0):
        again, seconds = _timed(at_work.search, method)
        if seconds < cpu:
            found, cpu = again, seconds
    proved = at_work.exact.rigorous(found.rho.to(torch.float64))
    if method.reports_own:
        proved = torch.fmin(proved, found.value.double())
    return tuple(proved[0].tolist()), found, cpu


def _timed(dual: Decomposition, method: Method[object]) -> tuple[DualResult, float]:
    start = time.process_time()
    found = maximise(dual, method)
    if found.stopped is Stopped.INTERRUPTED:  # its bounds are valid, but no measurement
        raise KeyboardInterrupt
    return found, time.process_time() - start
