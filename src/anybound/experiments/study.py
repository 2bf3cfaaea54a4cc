"""A study of our own, on the data of incomplete verification.

- From the same start (WK's ρ): slopes, Supergradient and Proximal, gap against time.
- Combinations: Supergradient and Proximal one after the other (the paper's future work); slopes, then either.
- Intermediate bounds: what tighter ones of hidden layers bring to the output, and what they take.

Their effect on branch and bound is measured by complete verification with these methods as rows.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch

from anybound.bound.bounds import Bounds
from anybound.bound.decomposition import Decomposition
from anybound.bound.method import DualResult, Method, Stopped, TracePoint, maximise
from anybound.budget import Budget
from anybound.errors import InvalidConfig
from anybound.experiments.cases import Case, Source
from anybound.experiments.curve import Curve, Tightened, curves, tightened
from anybound.experiments.incomplete import Duals, duals, duals_between, whole_bounds
from anybound.experiments.named import Named
from anybound.experiments.rows import Row
from anybound.io.records import RecordFile
from anybound.layers import Layers
from anybound.registry import INTERMEDIATES, METHODS

__all__ = ["COMBINED", "SAME_START", "SEARCHED", "STRATEGIES", "Study", "study_rows"]

SAME_START, COMBINED = "same start", "combined"
STRATEGIES = ("wk", "crown", "compact(steps=3)", "compact(steps=10)")
SEARCHED = (
    Named("Slopes 10", "slopes(iterations=10)"),
    Named("Slopes 10, Proximal 40", "then(slopes(iterations=10), proximal(iterations=40))"),
)
_ON_STRATEGIES = ("WK", "Slopes 100", "Supergradient 740", "Proximal 400")
_POINTS = 120


def study_rows() -> dict[str, tuple[Row, ...]]:
    """The rows of either part; the iterations of a combination's parts are half of those alone."""
    slow, near = "supergradient(iterations=370)", "proximal(iterations=200)"
    fine = "supergradient(iterations=370, schedule=geometric(3e-3, 1e-5))"
    alone = (
        Row("Supergradient 740", "Supergradient", "supergradient(iterations=740)"),
        Row("Proximal 400", "Proximal", "proximal(iterations=400)"),
        Row("Slopes 100", "Slopes", "slopes(iterations=100)"),
    )
    combined = (
        _both("Supergradient, then Proximal", slow, near),
        _both("Proximal, then Supergradient", near, fine),
        _both("Slopes, then Proximal", "slopes(iterations=20)", near),
        _both("Slopes, then Supergradient", "slopes(iterations=20)", fine),
    )
    return {SAME_START: alone, COMBINED: combined}


def _both(name: str, first: str, second: str) -> Row:
    return Row(name, name, f"then({first}, {second})")


@dataclass(frozen=True)
class Study:
    """What is run, on the first images of networks; `own` are rows of a user's.

    `parts` are rows whose bounds are followed over time; `closed` are those run on every strategy's bounds.
    """

    source: Source
    roles: Sequence[str]
    own: Sequence[Row] = ()
    images: int | None = None
    parts: Mapping[str, Sequence[Row]] = field(default_factory=study_rows)
    strategies: Sequence[str] = STRATEGIES
    closed: Sequence[str] = _ON_STRATEGIES

    def records(self, file: RecordFile) -> Iterator[Curve | Tightened]:
        """All of them; what the file holds already is not repeated."""
        known = list(file.records)
        done: dict[object, Curve | Tightened] = {c.key: c for c in curves(known)}
        done |= {t.key: t for t in tightened(known)}
        for role in self.roles:
            for case in self.source.cases(role, self.images):
                yield from self._curves(case, done, file)
                yield from self._tightened(case, done, file)

    def total(self) -> int:
        """How many records there are in all."""
        each = sum(map(len, self.parts.values())) + len(self.own)
        each += len(self.strategies) * (len(self.closed) + len(self.own))
        return each * sum(1 for role in self.roles for _ in self.source.cases(role, self.images))

    def _curves(
        self, case: Case, done: dict[object, Curve | Tightened], file: RecordFile
    ) -> Iterator[Curve]:
        at_work: Duals | None = None
        parts = {**self.parts, SAME_START: (*self.parts[SAME_START], *self.own)}
        for part, row in ((part, row) for part, rows in parts.items() for row in rows):
            found = done.get(("curve", self.source.name(case.role), case.image, row.label))
            if isinstance(found, Curve):
                if found.method != row.method:
                    raise InvalidConfig(
                        f"{file.path}: has row {row.label!r} of {found.method}, not {row.method}; "
                        "choose another folder"
                    )
                yield found
                continue
            at_work = at_work or duals(case)
            seconds, mean, lower = _curve(at_work, METHODS.parse(row.method))
            made = Curve(
                role=case.role,
                network=self.source.name(case.role),
                epsilon=self.source.epsilon(case.role),
                image=case.image,
                part=part,
                row=row.label,
                family=row.family,
                method=row.method,
                seconds=seconds,
                mean=mean,
                lower=lower,
            )
            file.append(made.record())
            yield made

    def _tightened(
        self, case: Case, done: dict[object, Curve | Tightened], file: RecordFile
    ) -> Iterator[Tightened]:
        alone = {"WK": Row("WK", "WK", "wk")} | {r.label: r for r in self.parts[SAME_START]}
        rows = [*(alone[label] for label in self.closed), *self.own]
        for strategy in self.strategies:
            name = self.source.name(case.role)
            missing = [r for r in rows if (strategy, name, case.image, r.label) not in done]
            between, between_seconds = _between(case, strategy) if missing else (None, 0.0)
            for row in rows:
                found = done.get((strategy, name, case.image, row.label))
                if isinstance(found, Tightened):
                    yield found
                elif between is not None:
                    made = self._one(case, strategy, row, between, between_seconds)
                    file.append(made.record())
                    yield made

    def _one(
        self, case: Case, strategy: str, row: Row, between: Bounds, between_seconds: float
    ) -> Tightened:
        at_work = duals_between(case, between)
        found, seconds = _timed(at_work.search, METHODS.parse(row.method), None)
        return Tightened(
            role=case.role,
            network=self.source.name(case.role),
            epsilon=self.source.epsilon(case.role),
            image=case.image,
            strategy=strategy,
            row=row.label,
            family=row.family,
            ambiguous=at_work.ambiguous,
            between_seconds=between_seconds,
            seconds=seconds,
            lower=tuple(at_work.exact.rigorous(found.rho.to(torch.float64))[0].tolist()),
        )


def _between(case: Case, strategy: str) -> tuple[Bounds, float]:
    """The least of two runs: the first may load compiled kernels."""
    chosen, spent = INTERMEDIATES.parse(strategy), []
    for _ in range(2):
        start = time.process_time()
        found = whole_bounds(case, chosen)
        spent.append(time.process_time() - start)
    return found, min(spent)


class _CPUTime(Budget):
    """A clock of the process's own time: traces are the same however busy the machine is."""

    def elapsed(self) -> float:
        return time.process_time() - self.started


def _curve(
    at_work: Duals, method: Method[object]
) -> tuple[tuple[float, ...], tuple[float, ...], tuple[float, ...]]:
    """Seconds, mean bounds and final bounds, from WK's ρ; the trace's times are brought to those without a trace."""
    start = METHODS.parse("wk").rho(at_work.search)
    found, cpu = _timed(at_work.search, method, start)
    clock = _CPUTime(started=time.process_time())
    traced = maximise(at_work.search, method, clock, warm=start, trace=True)
    if traced.stopped is Stopped.INTERRUPTED:
        raise KeyboardInterrupt
    points = _thinned(traced.trace)
    share = cpu / max(points[-1].seconds, 1e-9)
    lower = at_work.exact.rigorous(found.rho.to(torch.float64))[0].tolist()
    return (
        tuple(point.seconds * share for point in points),
        tuple(float(point.value.double().mean()) for point in points),
        tuple(lower),
    )


def _timed(
    dual: Decomposition, method: Method[object], warm: Layers | None
) -> tuple[DualResult, float]:
    start = time.process_time()
    found = maximise(dual, method, warm=warm)
    if found.stopped is Stopped.INTERRUPTED:
        raise KeyboardInterrupt
    return found, time.process_time() - start


def _thinned(trace: Sequence[TracePoint]) -> list[TracePoint]:
    """More points at the beginning, the last one among them."""
    places = np.unique(np.geomspace(1, len(trace), _POINTS).astype(int)) - 1
    return [trace[i] for i in places]
