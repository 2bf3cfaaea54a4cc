"""What figures and tables of complete verification show, computed from records.

A row's properties are those that all rows have been run on. What a solver says without proof (MIPplanet) counts as
solved, and is marked. A time-out counts with the CPU seconds it was given, so that an average over time-outs is a
lower bound: a limit of wall time is one that a busy machine gives less CPU time in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anybound.experiments.complete import ELSEWHERE
from anybound.experiments.style import Style
from anybound.io.records import Record

__all__ = ["LEVELS", "Decided", "Property", "split"]

LEVELS = ("easy", "medium", "hard")
_EASY, _HARD = 800.0, 2400.0  # seconds of LP BaBSR as recorded (the paper's)
_JUDGE = "LP BaBSR"


@dataclass(frozen=True)
class Property:
    """One row on one property. `seconds` are CPU seconds of one thread; `limit` as well, if that was limited."""

    vnnlib: str
    solved: bool
    seconds: float
    subproblems: int | None
    limit: float | None

    @staticmethod
    def of(record: Record) -> Property:
        """From plain data."""
        plain: Any = record
        said = plain.get("plan", {}).get("solver") in ("holds", "violated")
        solved = plain["verdict"] in ("holds", "violated") or said
        config = plain.get("config") or {}
        limit = config.get("cpu", config.get("timeout"))
        own_tree = None if plain["family"] == "MIPplanet" else plain["subproblems"]
        return Property(plain["vnnlib"], solved, float(plain["cpu_seconds"]), own_tree, limit)


@dataclass(frozen=True)
class Decided:
    """The rows of one network; `elsewhere` are those whose times come from another machine."""

    role: str
    network: str
    style: Style
    rows: Mapping[str, Sequence[Property]]
    elsewhere: frozenset[str]

    @staticmethod
    def of(records: Sequence[Record], role: str) -> Decided | None:
        """The records of a role; None if there is no property that all rows have been run on."""
        plain: list[Any] = [r for r in records if r["role"] == role]
        if not plain:
            return None
        style = Style.of((str(r["row"]), str(r["family"])) for r in records)
        by_row: dict[str, dict[str, Property]] = {}
        for record in plain:
            by_row.setdefault(record["row"], {})[record["vnnlib"]] = Property.of(record)
        names = [
            name
            for name in dict.fromkeys(r["vnnlib"] for r in plain)
            if all(name in found for found in by_row.values())
        ]
        if not names:
            return None
        rows = {row: [by_row[row][name] for name in names] for row in style.labels if row in by_row}
        others = frozenset(r["row"] for r in plain if r.get(ELSEWHERE))
        return Decided(role, plain[0]["network"], style, rows, others)

    @property
    def count(self) -> int:
        """How many properties."""
        return len(next(iter(self.rows.values())))

    @property
    def limits(self) -> Mapping[float, Sequence[str]]:
        """The rows run here by the seconds that they had for each property, the longest first."""
        by_limit: dict[float, list[str]] = {}
        for row, found in self.rows.items():
            longest = max((p.limit for p in found if p.limit is not None), default=None)
            if longest is not None:
                by_limit.setdefault(longest, []).append(row)
        return dict(sorted(by_limit.items(), reverse=True))

    @property
    def limits_told(self) -> str:
        """The same in words."""
        return "; ".join(f"at most {s:g} s each for {', '.join(r)}" for s, r in self.limits.items())

    def curve(self, row: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Seconds in order, and the per cent of properties solved by then."""
        times = np.sort([p.seconds for p in self.rows[row] if p.solved])
        return times, 100 * np.arange(1, len(times) + 1) / self.count

    def seconds(self, row: str) -> float:
        """On average; a time-out counts with what it was given."""
        return float(np.mean([p.seconds for p in self.rows[row]]))

    def subproblems(self, row: str) -> float | None:
        """On average, of the properties that were solved."""
        counts = [p.subproblems for p in self.rows[row] if p.solved and p.subproblems is not None]
        return float(np.mean(counts)) if counts else None

    def timeouts(self, row: str) -> float:
        """In per cent."""
        return 100 * float(np.mean([not p.solved for p in self.rows[row]]))

    def only(self, names: frozenset[str]) -> Decided | None:
        """A part of the properties."""
        rows = {row: [p for p in found if p.vnnlib in names] for row, found in self.rows.items()}
        kept = replace(self, rows=rows)
        return kept if kept.count else None


def split(decided: Decided) -> Mapping[str, Decided | None]:
    """By difficulty: as recorded for LP BaBSR (the paper's limits), else in thirds of what it took here."""
    recorded = f"{_JUDGE}, {ELSEWHERE}"
    judge = recorded if recorded in decided.rows else _JUDGE
    if judge not in decided.rows:
        judge = next(iter(decided.rows))
    order = sorted(decided.rows[judge], key=lambda p: p.seconds)
    if judge == recorded:
        level = {p.vnnlib: _level(p.seconds) for p in order}
    else:
        level = {p.vnnlib: LEVELS[3 * i // len(order)] for i, p in enumerate(order)}
    return {
        name: decided.only(frozenset(v for v, found in level.items() if found == name))
        for name in LEVELS
    }


def _level(seconds: float) -> str:
    if seconds < _EASY:
        return "easy"
    return "medium" if seconds <= _HARD else "hard"
