"""What a verification answers: the verdict, and everything needed to believe, compare or reproduce it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

import numpy as np
from numpy.typing import NDArray


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
