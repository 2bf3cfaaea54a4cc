"""What a verification answers: the verdict, and everything needed to believe, compare or reproduce it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from anybound.drawing.markup import Html


class Verdict(Enum):
    """`HOLDS` rests on rigorous bounds, `VIOLATED` on a replayed witness; the other two say that it is not known."""

    HOLDS = "holds"
    VIOLATED = "violated"
    UNKNOWN = "unknown"
    TIMEOUT = "timeout"


@dataclass(frozen=True)
class ClauseBounds:
    """The least value of a clause's margin over its input set lies in [lower, upper].

    The margin at x is the largest of the clause's rows a·f(x) − b: the clause is unreachable if it is always positive.
    `upper` is the smallest one seen at a point."""

    clause: int
    lower: float
    upper: float


@dataclass(frozen=True, eq=False)
class Witness:
    """An input of the property's set and the output that the original model gives for it, both flat float64."""

    input: NDArray[np.float64]
    output: NDArray[np.float64]
    clause: int


@dataclass(frozen=True)
class Progress:
    """The search after some seconds: the worst lower bound of what is open, and how much is open and closed."""

    seconds: float
    lower: float
    open: int
    closed: int


@dataclass(frozen=True, eq=False)
class Outcome:
    """The answer of `anybound.verify`."""

    verdict: Verdict
    clauses: tuple[ClauseBounds, ...]
    seconds: float
    cpu_seconds: float
    subproblems: int = 0
    witness: Witness | None = None
    certified: bool | None = None
    phases: Mapping[str, float] = field(default_factory=dict)
    trace: Sequence[Progress] = ()
    plan: Mapping[str, str] = field(default_factory=dict)
    reason: str = ""

    def __repr__(self) -> str:
        lower = min((c.lower for c in self.clauses), default=float("nan"))
        return (
            f"Outcome({self.verdict.value}, worst margin >= {lower:.4g}, {self.subproblems} sub-problems, "
            f"{self.seconds:.2f} s)"
        )

    def _repr_html_(self) -> str:
        """What a notebook shows: the verdict, what it took, the margins, and the bound over time."""
        from anybound.drawing.cards import card

        facts = {
            "because": _because(self),
            "certified": {True: "yes", False: "no", None: ""}[self.certified],
            "sub-problems": f"{self.subproblems:,}",
            "seconds": f"{self.seconds:.2f} ({self.cpu_seconds:.2f} CPU)",
            "phases": ", ".join(f"{name} {spent:.2f} s" for name, spent in self.phases.items()),
        }
        shown = [(name, text) for name, text in facts.items() if text]
        return card(f"Verdict: {self.verdict.value}", shown, _figures(self))


def _because(outcome: Outcome) -> str:
    if outcome.witness is not None:
        return f"an input was found that meets clause {outcome.witness.clause}"
    proved = sum(clause.lower > 0 for clause in outcome.clauses)
    told = f"{proved} of {len(outcome.clauses)} clauses are proved unreachable"
    return f"{told}; {outcome.reason}" if outcome.reason else told


def _figures(outcome: Outcome) -> Iterator[Html]:
    """The margins of the clauses, the smallest first, and the worst bound over time."""
    from anybound.drawing.charts import Axis, Series, chart
    from anybound.drawing.intervals import MOST_INTERVALS, intervals

    worst = sorted(outcome.clauses, key=lambda clause: clause.lower)[:MOST_INTERVALS]
    known = [c for c in worst if math.isfinite(c.lower) or math.isfinite(c.upper)]
    if known:
        pairs = [(c.clause, c.lower, c.upper) for c in known]
        yield intervals("Smallest margin of every clause: proved to seen", pairs)
    points = [(p.seconds, p.lower) for p in outcome.trace if math.isfinite(p.lower)]
    if len(points) > 1:
        time = Axis.around("seconds", [0.0, *(second for second, _ in points)])
        bound = Axis.around("worst margin", [0.0, *(lower for _, lower in points)])
        series = [Series("worst open clause", points, stairs=True)]
        yield chart("Bound over time", time, bound, series, zero=True)
