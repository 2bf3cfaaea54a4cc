"""The records of a run as typed values: all that a page needs, checked when they are read.

A number that JSON cannot hold was written as null: a bound that is infinite or not known.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from anybound.errors import InvalidInput

__all__ = ["VERDICTS", "Clause", "Instance", "Point", "Witness", "instances"]

# Records are plain JSON data, whose types the type checker cannot follow by key.
Data = Mapping[str, Any]

VERDICTS = ("holds", "violated", "unknown", "timeout")


@dataclass(frozen=True)
class Clause:
    """Bounds of a clause's margin."""

    lower: float
    upper: float


@dataclass(frozen=True)
class Point:
    """The worst lower bound of what was open after some seconds, and how much was open and closed."""

    seconds: float
    lower: float
    open: int
    closed: int


@dataclass(frozen=True)
class Witness:
    """An input, the output there, and the clause that it is in."""

    input: Sequence[float]
    output: Sequence[float]
    clause: int


@dataclass(frozen=True)
class Instance:
    """One record of a run."""

    onnx: str
    vnnlib: str
    verdict: str
    seconds: float
    cpu_seconds: float
    subproblems: int = 0
    clauses: Sequence[Clause] = ()
    witness: Witness | None = None
    certified: bool | None = None
    phases: Mapping[str, float] = field(default_factory=dict)
    plan: Mapping[str, str] = field(default_factory=dict)
    trace: Sequence[Point] = ()
    reason: str = ""
    error: str | None = None
    config: Mapping[str, Any] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    folder: str = ""

    @property
    def is_solved(self) -> bool:
        return self.verdict in ("holds", "violated")

    @property
    def margin(self) -> float:
        """The smallest lower bound of a clause; NaN if there is none."""
        return min((clause.lower for clause in self.clauses), default=math.nan)


def instances(records: Iterable[Data], source: str) -> list[Instance]:
    """The records of `source`, which messages name; the last one of an instance counts."""
    found: dict[tuple[str, str], Instance] = {}
    for number, record in enumerate(records, 1):
        try:
            instance = _instance(record)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            what = f"no field {error}" if isinstance(error, KeyError) else str(error)
            raise InvalidInput(
                f"{source}: record {number}: {what}; expected what 'anybound bench' writes"
            ) from None
        found[instance.onnx, instance.vnnlib] = instance
    if not found:
        raise InvalidInput(f"{source}: holds no record; run 'anybound bench' first")
    return list(found.values())


def _instance(record: Data) -> Instance:
    verdict = str(record["verdict"])
    if verdict not in VERDICTS:
        raise ValueError(f"the verdict is {verdict!r}")
    error = record.get("error")
    return Instance(
        onnx=_text(record["onnx"]),
        vnnlib=_text(record["vnnlib"]),
        verdict=verdict,
        seconds=_finite(record["seconds"]),
        cpu_seconds=_finite(record["cpu_seconds"]),
        subproblems=int(record.get("subproblems") or 0),
        clauses=[
            Clause(_number(c["lower"], -math.inf), _number(c["upper"], math.inf))
            for c in record.get("clauses") or ()
        ],
        witness=_witness(record.get("witness")),
        certified=_certified(record.get("certified")),
        phases={str(k): _finite(v) for k, v in (record.get("phases") or {}).items()},
        plan={str(k): str(v) for k, v in (record.get("plan") or {}).items()},
        trace=[_point(point) for point in record.get("trace") or ()],
        reason=str(record.get("reason") or ""),
        error=None if error is None else str(error),
        config=dict(record.get("config") or {}),
        versions={str(k): str(v) for k, v in (record.get("versions") or {}).items() if v},
        folder=str(record.get("folder") or ""),
    )


def _point(point: Data) -> Point:
    lower = _number(point["lower"], math.nan)
    return Point(_finite(point["seconds"]), lower, int(point["open"]), int(point["closed"]))


def _witness(witness: Data | None) -> Witness | None:
    if witness is None:
        return None
    numbers = [[_number(x, math.nan) for x in witness[key]] for key in ("input", "output")]
    return Witness(numbers[0], numbers[1], int(witness["clause"]))


def _certified(value: object) -> bool | None:
    if not isinstance(value, bool | None):
        raise TypeError(f"'certified' is {value!r}")
    return value


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no file name")
    return value


def _number(value: object, missing: float) -> float:
    if value is None:
        return missing
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{value!r} is no number")
    return float(value)


def _finite(value: object) -> float:
    number = _number(value, math.nan)
    if not math.isfinite(number):
        raise ValueError(f"{value!r} is no number of seconds")
    return number
