"""`anybound.radius`: how far can an input move before the network may change its mind?

    holds <= largest radius at which no point of the ball is classified otherwise <= violated_or_unknown

A ball of a smaller radius is a part of one of a larger, so that a proof at ε settles all below it, what bounds
hidden layers at ε is where those at a smaller radius begin, and
a witness x settles everything from its distance |x − center| on. Between the two, radii are decided
by bisection: first by bounds alone, which is quick, then with search, as long as there is time.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anybound.bound.bounds import Bounds
from anybound.bound.intermediates.strategy import IntermediateStrategy
from anybound.bound.method import Method
from anybound.bound.methods.crown import Crown
from anybound.budget import Budget
from anybound.deciding import chosen_method, chosen_search, opened
from anybound.decision import Decision, Search, Settings
from anybound.errors import InvalidConfig
from anybound.io.records import Record, witness_record
from anybound.model.domains.domain import Domain
from anybound.model.network import Network
from anybound.outcome import Verdict, Witness
from anybound.registry import INTERMEDIATES
from anybound.search.portfolio import QUICK
from anybound.search.witness import OriginalModel, confirm
from anybound.spec.arrays import as_array
from anybound.spec.build import Norm, robust
from anybound.threads import at_most

__all__ = ["Radius", "Step", "radius", "radius_job"]

_FIRST = 1 / 128  # the first radius, as a share of the inputs' scale
_LARGEST = 2.0**10  # as a share of it, for inputs without limits
_SHARE = 0.5  # of the time that is left, for one step
_MOST_STEPS = 200


@dataclass(frozen=True)
class Step:
    """A radius that was decided."""

    epsilon: float
    verdict: Verdict
    seconds: float


@dataclass(frozen=True, eq=False)
class Radius:
    """The bracket. Both ends are 0 if the center itself is classified otherwise.

    `holds` is 0 if nothing was proved. At `violated_or_unknown` there is a witness, or there is no
    proof in the time given; it is infinite if nothing was found that does not hold.
    """

    holds: float
    violated_or_unknown: float
    witness: Witness | None
    seconds: float
    steps: tuple[Step, ...]

    def __repr__(self) -> str:
        above = "violated" if self.witness is not None else "unknown"
        return (
            f"Radius(holds at {self.holds:.6g}, {above} at {self.violated_or_unknown:.6g}, "
            f"{len(self.steps)} steps, {self.seconds:.2f} s)"
        )


Watch = Callable[[Radius], None]


def radius(  # noqa: PLR0913  (all but three arguments are options)
    network: str | Path | Network,
    center: ArrayLike,
    label: int,
    *,
    norm: Norm = "inf",
    clip: tuple[ArrayLike, ArrayLike] | None = None,
    precision: float = 0.01,
    timeout: float | None = 60.0,
    method: str | Method[Any] | None = None,
    intermediate: str | IntermediateStrategy = "auto",
    search: str | Search | None = "auto",
    seed: int = 0,
    threads: int | None = None,
    memory: int | None = None,
    started: float | None = None,
    watch: Watch | None = None,
) -> Radius:
    """Bracket the largest radius around `center` at which output `label` stays above all others.

    It ends when the bracket is narrower than `precision` times its upper end, or with the time.
    `clip` is the range of valid inputs; the other options are those of `anybound.verify`.

    >>> import anybound
    >>> net = anybound.bundled("digits_dense.onnx")
    >>> box = anybound.read_vnnlib(anybound.bundled("digits_dense_image0_eps0.05.vnnlib")).clauses[0]
    >>> image = (box.lower + box.upper) / 2
    >>> found = anybound.radius(net, image, label=6, clip=(0, 1), precision=0.1)
    >>> 0.05 < found.holds < found.violated_or_unknown < 0.3
    True
    """
    if not 0 < precision < 1:
        raise InvalidConfig(f"precision is {precision}; expected a number between 0 and 1")
    begun = time.monotonic() if started is None else started
    budget = Budget(seconds=timeout, memory=memory, started=begun)
    chosen = chosen_method(method)
    settings = Settings(
        chosen or Crown(),
        INTERMEDIATES.parse(intermediate) if isinstance(intermediate, str) else intermediate,
        QUICK,
        None,
        seed,
    )
    with at_most(threads):
        original, net = opened(network)
        ball = _Ball(net, as_array(center, "center").reshape(-1), label, norm, clip)
        bracket = _Bracket(ball, original, settings, budget, watch)
        return bracket.run(chosen_search(search, chosen), precision)


def radius_job(report: Callable[[Record], None], *, complete: bool, **options: Any) -> Record:
    """`radius` as a job: records instead of results; without search if not `complete`."""
    chosen = {name: value for name, value in options.items() if value is not None}
    if not complete:
        chosen["search"] = None

    def watch(known: Radius) -> None:
        report(_record(known))

    return _record(radius(watch=watch, **chosen))


@dataclass(frozen=True, eq=False)
class _Ball:
    """What is asked, but for the radius."""

    network: Network
    center: NDArray[np.float64]
    label: int
    norm: Norm
    clip: tuple[ArrayLike, ArrayLike] | None

    def prop(self, epsilon: float) -> Any:
        """The property at a radius."""
        return robust(self.network, self.center, self.label, epsilon, self.norm, self.clip)

    def distance(self, x: NDArray[np.float64]) -> float:
        """From the center, rounded up: x lies in the ball of this radius."""
        order = float(self.norm)
        exact = float(np.linalg.norm(x - self.center, ord=order))
        return exact * (1 + 1e-12 * math.sqrt(x.size))

    @property
    def scale(self) -> float:
        """What a large change of all inputs is."""
        if self.clip is not None:
            low, high = (np.asarray(end, dtype=np.float64) for end in self.clip)
            size = float((high - low).max())
        else:
            size = max(1.0, float(np.abs(self.center).max()))
        order, count = float(self.norm), float(self.center.size)
        return max(size, 1e-12) * (1.0 if order == math.inf else count ** (1 / order))

    @property
    def largest(self) -> float:
        """Beyond this radius nothing new comes in, or nobody asks."""
        return self.scale * (_LARGEST if self.clip is None else 2.0)


@dataclass(eq=False)
class _Bracket:
    """The state: what holds, the closest witness, and the smallest radius that was given up."""

    ball: _Ball
    original: OriginalModel
    settings: Settings
    budget: Budget
    watch: Watch | None
    low: float = 0.0
    witness: Witness | None = None
    violated: float = math.inf
    unknown: float = math.inf
    interrupted: bool = False
    steps: list[Step] = field(default_factory=list)
    known: list[_Known] = field(default_factory=list)  # of the balls so far

    @property
    def high(self) -> float:
        return min(self.violated, self.unknown)

    def run(self, search: Search | None, precision: float) -> Radius:
        """Bracket by bounds alone, then with search what these could not prove."""
        try:
            if self._center_is_wrong():
                return self.result()
            self._narrow(self.settings, precision)
            if search is not None and self.violated - self.low > precision * self.violated:
                self.unknown = math.inf
                self._narrow(_with(self.settings, search), precision)
        except KeyboardInterrupt:
            self.interrupted = True
        return self.result()

    def result(self) -> Radius:
        """What is known now."""
        witness = self.witness if self.violated <= self.unknown else None
        spent = self.budget.elapsed()
        return Radius(self.low, self.high, witness, spent, tuple(self.steps))

    def _center_is_wrong(self) -> bool:
        self.witness = confirm(self.ball.prop(0.0), self.original, self.ball.center)
        if self.witness is not None:
            self.violated = 0.0
        return self.witness is not None

    def _narrow(self, settings: Settings, precision: float) -> None:
        for _ in range(_MOST_STEPS):
            wide = self.high - self.low > precision * self.high or self.high == math.inf
            if not wide or self.interrupted or self.budget.left() <= 0:
                return
            epsilon = self._next()
            if epsilon > self.ball.largest:
                return
            self._decide(epsilon, settings)

    def _next(self) -> float:
        """The middle; twice as far while nothing stops it, a quarter as far while nothing holds."""
        if self.high == math.inf:
            return 2 * self.low if self.low > 0 else _FIRST * self.ball.scale
        return (self.low + self.high) / 2 if self.low > 0 else self.high / 4

    def _decide(self, epsilon: float, settings: Settings) -> None:
        budget = self.budget.share(_SHARE)
        prop = self.ball.prop(epsilon)
        reusing = _Reusing(settings.intermediate, epsilon, self.known)
        settings = replace(settings, intermediate=reusing)
        decision = Decision(self.ball.network, prop, self.original, settings, budget)
        outcome = decision.run()
        self.interrupted = decision.interrupted
        self.steps.append(Step(epsilon, outcome.verdict, outcome.seconds))
        if outcome.verdict is Verdict.HOLDS:
            self.low = max(self.low, epsilon)
        elif outcome.witness is not None:
            # Where a ball holds no number that the model reads, it stands for the nearest one.
            distance = min(epsilon, self.ball.distance(outcome.witness.input))
            if distance < self.violated:
                self.violated, self.witness = distance, outcome.witness
        elif not self.interrupted:
            self.unknown = min(self.unknown, epsilon)
        if self.watch is not None:
            self.watch(self.result())


@dataclass(frozen=True, eq=False)
class _Reusing(IntermediateStrategy):
    """What bounds neurons in a ball bounds them in every smaller one of the same center and norm: those of the
    smallest ball around this one are where the strategy begins. `known` gains what it finds."""

    strategy: IntermediateStrategy
    epsilon: float
    known: list[_Known] = field(repr=False)

    def bounds(self, network: Network, domain: Domain, budget: Budget | None = None) -> Bounds:
        around = [known for known in self.known if known.contains(self.epsilon, domain)]
        if around:
            least = min(around, key=lambda known: known.epsilon).bounds
            found = self.strategy.bounds_within(network, domain, least, budget)
        else:
            found = self.strategy.bounds(network, domain, budget)
        self.known.append(_Known(self.epsilon, domain, found))
        return found


class _Known(NamedTuple):
    """A ball, and bounds of the hidden layers over it."""

    epsilon: float
    domain: Domain
    bounds: Bounds

    def contains(self, epsilon: float, domain: Domain) -> bool:
        """Whether a ball of the same center and norm lies inside. A ball that holds no number the model reads
        grows by the nearest one, so that the radius alone does not say."""
        (low, high), (lower, upper) = domain.box(), self.domain.box()
        return epsilon <= self.epsilon and bool((lower <= low).all() and (high <= upper).all())


def _with(settings: Settings, search: Search) -> Settings:
    return Settings(settings.method, settings.intermediate, settings.attacks, search, settings.seed)


def _record(found: Radius) -> Record:
    return {
        "holds": found.holds,
        "violated_or_unknown": found.violated_or_unknown,
        "seconds": found.seconds,
        "witness": None if found.witness is None else witness_record(found.witness),
        "steps": [
            {"epsilon": step.epsilon, "verdict": step.verdict.value, "seconds": step.seconds}
            for step in found.steps
        ],
    }
