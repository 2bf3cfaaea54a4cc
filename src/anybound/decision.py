"""How a property is decided: the phases, and the state that any of them may leave at any time.

    attack → bounds of the hidden layers → bounds of every clause → search of what is open

Clause i has rows A_i f(x) − b_i and is unreachable where the largest of them is positive, so

    min over x of max_r (a_r f(x) − b_r)  >=  max_r  min over x of (a_r f(x) − b_r)  >=  lower_i,

with the rigorous bound of every row on the right. The property holds if every lower_i > 0. What
stays open, such as clauses of several rows that take turns in being positive, is searched.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray

from anybound.bound.bounds import Bounds
from anybound.bound.decomposition import Decomposition
from anybound.bound.intermediates.strategy import IntermediateStrategy, chunks
from anybound.bound.method import Method, Stopped, maximise
from anybound.bound.methods.crown import Crown
from anybound.budget import Budget
from anybound.memory import is_out_of_memory
from anybound.model.network import Network
from anybound.outcome import ClauseBounds, Outcome, Progress, Verdict, Witness
from anybound.registry import text_of
from anybound.search.attack import Attack
from anybound.search.hunt import Hunt
from anybound.search.portfolio import THOROUGH
from anybound.search.witness import OriginalModel, WitnessFinder
from anybound.spec.problems import ClauseRows, SafetyProblem, problems
from anybound.spec.property import Property

__all__ = ["Decision", "Search", "SearchReport", "SearchTask", "Settings", "Watch"]

Vector = NDArray[np.float64]
Watch = Callable[[Outcome], None]

_OUT_OF_MEMORY = "out of memory; free some, or choose a method that needs less"
RESERVE = 0.2  # seconds, kept for the rigorous evaluation of what was found by then
ROOT_SHARE = 0.5  # of the time that is left then, for a method that takes long
ATTACK_SHARE = (
    0.1  # of the time, at most, for the attacks that come before bounds and before the search
)
HUNT_SHARE = 0.25  # of the time that bounding took, for the attack before the search
_TELL_EVERY = 0.05  # seconds, at least, between reports of the search
_PROGRESS_EVERY = 0.25  # seconds, at least, between reports that a long search only goes on
_ROW_BYTES = 1 << 27  # of the dual variables that are bounded at once
_CLEARANCE = 1e-4  # a float32 bound above this is worth no more steps
_RELATIVE_CLEARANCE = 1e-5


@dataclass(frozen=True, eq=False)
class SearchTask:
    """What the root bounds left open over one input set, and what there is to go on from.

    `confirm` replays points `[N, inputs]` on the original model and returns the first witness. `look`
    takes minimisers z_0 `[N, inputs]` of sub-problems, as often as the search likes: it descends from
    them, and attacks for a share of the search's time.
    `advance` takes rigorous lower bounds of clauses and the number of sub-problems so far: what it
    was told is kept whatever happens next.
    """

    safety: SafetyProblem
    bounds: Bounds
    open: tuple[ClauseRows, ...]
    budget: Budget
    seed: int
    confirm: Callable[[Vector], Witness | None]
    look: Callable[[NDArray[np.floating]], Witness | None]
    advance: Callable[[Mapping[int, float], int], None]


@dataclass(frozen=True, eq=False)
class SearchReport:
    """Rigorous lower bounds by clause, a confirmed witness, and why it ended if neither decides."""

    lower: Mapping[int, float]
    subproblems: int
    witness: Witness | None = None
    trace: Sequence[Progress] = ()
    plan: Mapping[str, str] = field(default_factory=dict)
    reason: str = ""


@runtime_checkable
class Search(Protocol):
    """Decides open clauses by branch and bound. Any callable; those with names are in `anybound.searches`."""

    def __call__(self, task: SearchTask) -> SearchReport: ...


@dataclass(frozen=True)
class Settings:
    """How to decide; frozen records all of them."""

    method: Method[Any]
    intermediate: IntermediateStrategy
    attacks: tuple[Attack, ...]
    search: Search | None = None
    seed: int = 0

    def plan(self) -> dict[str, str]:
        """The choices by name."""
        return {
            "attacks": ", ".join(map(text_of, self.attacks)) or "none",
            "intermediate": text_of(self.intermediate),
            "method": text_of(self.method),
            "search": "none" if self.search is None else text_of(self.search),
            "seed": str(self.seed),
        }


@dataclass(frozen=True, eq=False)
class _Open:
    """An input set with clauses that its root bounds do not close."""

    safety: SafetyProblem
    bounds: Bounds


class Decision:
    """One property on its way to a verdict. `outcome()` is right at any time."""

    def __init__(
        self,
        network: Network,
        prop: Property,
        original: OriginalModel,
        settings: Settings,
        budget: Budget,
        watch: Watch | None = None,
    ) -> None:
        self.network, self.original, self.settings = network, original, settings
        # Where the set holds no number that the model can read, it grows by the nearest one:
        # proof and witness have to be about the same set.
        self.prop = prop.in_precision(original.dtype)
        self.budget, self.watch = budget, watch
        work = budget if budget.seconds is None else _shorter(budget, budget.seconds)
        self.work = replace(work, watch=self._progressed)
        self.cpu_started = time.process_time()
        count = len(self.prop.clauses)
        self.lower, self.upper = np.full(count, -np.inf), np.full(count, np.inf)
        self.phases: dict[str, float] = {}
        self.since: float | None = None  # when the last phase began, if it goes on
        self.plan = settings.plan() | {"clauses": str(count)}
        self.witness: Witness | None = None
        self.told = -np.inf
        self.subproblems, self.trace = 0, list[Progress]()
        self.closed_before = 0  # by the searches that ended before the one at work
        self.interrupted, self.ended, self.reason = False, False, ""

    def run(self) -> Outcome:
        """All phases, as long as there is a need and time."""
        try:
            # What overflows becomes an infinity or a NaN, of which nothing is ever proved.
            with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
                self._decide()
        except KeyboardInterrupt:
            self.interrupted = True
        except (MemoryError, RuntimeError) as error:
            if not is_out_of_memory(error):
                raise
            self.reason = _OUT_OF_MEMORY
        self.ended = True
        return self.outcome()

    @property
    def verdict(self) -> Verdict:
        if self.witness is not None:
            return Verdict.VIOLATED
        if bool((self.lower > 0).all()):
            return Verdict.HOLDS
        late = self.work.left() <= 0 and not self.interrupted
        return Verdict.TIMEOUT if late else Verdict.UNKNOWN

    def outcome(self) -> Outcome:
        """What is known now."""
        verdict = self.verdict
        bounds = zip(self.lower.tolist(), self.upper.tolist(), strict=True)
        return Outcome(
            verdict,
            tuple(ClauseBounds(i, low, high) for i, (low, high) in enumerate(bounds)),
            self.budget.elapsed(),
            time.process_time() - self.cpu_started,
            self.subproblems,
            self.witness,
            phases=self._phases_so_far(),
            trace=tuple(self.trace),
            plan=dict(self.plan),
            reason=self._why(verdict),
        )

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Seconds spent in the block count for the phase, the last of all; at its end the watcher is told."""
        self.phases[name] = self.phases.pop(name, 0.0)
        self.since = time.monotonic()
        try:
            yield
        finally:
            self.phases, self.since = self._phases_so_far(), None
        self.tell()

    def _phases_so_far(self) -> dict[str, float]:
        """Seconds of each phase; the last may be going on."""
        if self.since is None:
            return dict(self.phases)
        name = next(reversed(self.phases))
        return self.phases | {name: self.phases[name] + time.monotonic() - self.since}

    def tell(self) -> None:
        """Let the watcher know how far it is."""
        self.told = time.monotonic()
        if self.watch is not None:
            self.watch(self.outcome())

    def _decide(self) -> None:
        groups = list(problems(self.network, self.prop))
        self.plan["input sets"] = str(len(groups))
        finder = WitnessFinder(self.prop, groups, self.original)
        with self.phase("attack"):
            self._attack(finder)
        left = []
        for index, safety in enumerate(groups):
            if self._is_over():
                return
            found = self._bound(safety, self.work.share(1 / (len(groups) - index)))
            if found is not None:
                left.append(found)
        for index, group in enumerate(left):
            if self._is_over():
                return
            self._search(group, finder, self.work.share(1 / (len(left) - index)))

    def _is_over(self) -> bool:
        return self.interrupted or self.verdict is not Verdict.UNKNOWN

    def _attack(self, finder: WitnessFinder) -> None:
        if not self.settings.attacks:
            return
        generator = torch.Generator().manual_seed(self.settings.seed)
        budget = self.work.share(ATTACK_SHARE)
        result = finder.run(self.settings.attacks, budget, generator)
        self.witness = result.witness
        self._tried(result.upper)

    def _bound(self, safety: SafetyProblem, budget: Budget) -> _Open | None:
        """Bound the clauses over one input set; what is needed to go on if some stay open."""
        problem = safety.problem
        with self.phase("intermediate"):
            strategy = self.settings.intermediate.chosen(problem.network, problem.domain)
            self.plan["intermediate"] = text_of(strategy)
            bounds = strategy.bounds(problem.network, problem.domain, budget.share(0.5))
        with self.phase("root"):
            share = 1.0 if self.settings.search is None else ROOT_SHARE
            self._bound_rows(safety, bounds, budget.share(share))
        return None if self._is_closed(safety.clauses) else _Open(safety, bounds)

    def _mark(self) -> None:
        """Note in the trace what is known of the clauses."""
        proved = int((self.lower > 0).sum())
        left = len(self.lower) - proved
        self.trace.append(Progress(self.budget.elapsed(), float(self.lower.min()), left, proved))
        self.closed_before = proved

    def _is_closed(self, clauses: Sequence[ClauseRows]) -> bool:
        return all(self.lower[member.clause] > 0 for member in clauses)

    def _bound_rows(self, safety: SafetyProblem, bounds: Bounds, budget: Budget) -> None:
        """Bound the rows of all clauses; with a method that takes long, after CROWN's sweep."""
        dual = Decomposition.between(safety.problem, bounds)
        methods: list[Method[Any]] = [self.settings.method]
        if self.settings.method.steps(dual) > 0:
            methods.insert(0, Crown())
        for method in methods:
            left = [member for member in safety.clauses if not self._is_closed([member])]
            if left and not self.interrupted:
                self._bound_clauses(dual, left, method, budget)
                self._mark()
                self.tell()

    def _bound_clauses(
        self,
        dual: Decomposition,
        clauses: Sequence[ClauseRows],
        method: Method[Any],
        budget: Budget,
    ) -> None:
        rows = torch.cat([torch.arange(m.rows.start, m.rows.stop) for m in clauses])
        lower = np.full(dual.batch[1], -np.inf)
        parts = list(chunks(rows, 4 * max(1, dual.net.layout.total), _ROW_BYTES))
        for index, part in enumerate(parts):
            task = Decomposition(dual.problem.select(part), dual.hull)
            share = budget.share(1 / (len(parts) - index))
            lower[part.numpy()] = self._ascend(task, method, share)
            if self.interrupted:
                break
        for member in clauses:
            best = np.fmax.reduce(lower[member.rows])  # a NaN is none
            self.lower[member.clause] = np.fmax(self.lower[member.clause], best)

    def _ascend(self, dual: Decomposition, method: Method[Any], budget: Budget) -> Vector:
        """Search in float32, evaluate rigorously in float64."""
        search = Decomposition.between(
            dual.problem.to(torch.float32), dual.bounds.to(torch.float32)
        )
        constant = float(dual.problem.objective.constant.abs().max())
        enough = _CLEARANCE + _RELATIVE_CLEARANCE * constant
        found = maximise(search, method, budget, stop_above=enough)
        self.interrupted = self.interrupted or found.stopped is Stopped.INTERRUPTED
        with torch.inference_mode():
            bound: Vector = dual.rigorous(found.rho.to(dual.dtype))[0].numpy()
        return bound

    def _search(self, group: _Open, finder: WitnessFinder, budget: Budget) -> None:
        """Hand what is open over one input set to the search, if there is one."""
        if self.settings.search is None:
            return
        left = tuple(m for m in group.safety.clauses if not self.lower[m.clause] > 0)
        hunt = self._hunt(group.safety, left, budget)
        before, points = self.subproblems, len(self.trace)
        task = SearchTask(
            group.safety,
            group.bounds,
            left,
            budget,
            self.settings.seed,
            lambda points: _first_witness(finder, points),
            hunt.look,
            lambda lower, subproblems: self._advance(lower, before + subproblems),
        )
        with self.phase("attack"):
            self.witness = hunt.for_seconds(self._first_hunt(budget))
            self._tried(hunt.chase.upper)
        if self.witness is not None:
            return
        with self.phase("search"):
            self.tell()  # if it is killed before it tells anything, this is where it was
            report = self.settings.search(task)
            self._advance(report.lower, before + report.subproblems)
            self.witness = report.witness
            if len(self.trace) == points:  # a search that does not tell how far it is
                self.trace += report.trace
            self.plan |= report.plan
            self.reason = report.reason or self.reason
            self._tried(hunt.chase.upper)

    def _hunt(self, safety: SafetyProblem, clauses: tuple[ClauseRows, ...], budget: Budget) -> Hunt:
        """Attacks on what is open, if there are to be any."""
        finder = WitnessFinder(self.prop, [replace(safety, clauses=clauses)], self.original)
        attacks = THOROUGH if self.settings.attacks else ()
        return Hunt(finder, attacks, budget, self.settings.seed)

    def _first_hunt(self, budget: Budget) -> float:
        """Seconds: what is easy to prove is proved by now, so that attacks get a share of the time of bounding."""
        bounding = sum(self.phases.get(name, 0.0) for name in ("intermediate", "root"))
        return min(HUNT_SHARE * bounding, ATTACK_SHARE * budget.left())

    def _tried(self, upper: Vector) -> None:
        """Keep the smaller margins of points that were tried."""
        self.upper = np.minimum(self.upper, upper)

    def _advance(self, lower: Mapping[int, float], subproblems: int) -> None:
        """Keep the better bounds; NaN is none."""
        for clause, bound in lower.items():
            self.lower[clause] = np.fmax(self.lower[clause], bound)
        self.subproblems = max(self.subproblems, subproblems)
        if time.monotonic() - self.told >= _TELL_EVERY:
            self.tell()

    def _progressed(self, point: Progress) -> None:
        """Keep a point of a search's trace; one search may follow another, with a count of its own."""
        last = self.trace[-1] if self.trace else None
        if last is not None and self.closed_before + point.closed < last.closed:
            self.closed_before = last.closed
        self.trace.append(replace(point, closed=self.closed_before + point.closed))
        if time.monotonic() - self.told >= _PROGRESS_EVERY:
            self.tell()

    def _why(self, verdict: Verdict) -> str:
        if verdict in (Verdict.HOLDS, Verdict.VIOLATED) or not self.ended:
            return ""
        if self.interrupted:
            return "interrupted"
        if verdict is Verdict.TIMEOUT:
            return "the time is spent"
        return self.reason or "the bounds of the root do not decide it, and there is no search"


def _shorter(budget: Budget, seconds: float) -> Budget:
    """What is left of the budget when the last rigorous evaluation has got its time."""
    return replace(budget, seconds=seconds - min(RESERVE, 0.1 * seconds))


def _first_witness(finder: WitnessFinder, points: Vector) -> Witness | None:
    found = (finder.confirm(np.asarray(point, dtype=np.float64)) for point in points)
    return next((witness for witness in found if witness is not None), None)
