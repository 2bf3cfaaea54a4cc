"""What is shown of work that goes on: records of what is known so far, as a few lines."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from anybound.cli.live import amount, clock

if TYPE_CHECKING:
    from rich.console import RenderableType

__all__ = [
    "BenchProgress",
    "Estimate",
    "bracket_so_far",
    "decision_so_far",
    "estimate",
    "phase",
    "proved",
]

# Records are plain JSON data, whose types the type checker cannot follow by key.
Data = Any
_COUNTED = ("holds", "violated", "unknown", "timeout")


def decision_so_far(record: Data, seconds: float, timeout: float | None) -> RenderableType:
    """A property that is being decided: bounds, clauses, the tree, memory, and the time."""
    clauses = record["clauses"]
    parts = [(phase(record), f"{clock(seconds)}{_left(seconds, timeout)}")]
    if clauses:
        low, high = (min(_number(c[end], sign) for c in clauses) for end, sign in _ENDS)
        parts.append(("margin", f"{_shown(low)} to {_shown(high)}"))
        parts.append(("clauses", f"{proved(record)} of {len(clauses)} proved"))
    if record["trace"]:
        parts.append(("sub-problems", _tree(record["trace"])))
    if record.get("memory"):
        parts.append(("memory", amount(record["memory"])))
    return _lines(*parts)


def phase(record: Data) -> str:
    """What is being done, or was done last."""
    return str(list(record["phases"])[-1]) if record["phases"] else "start"


def proved(record: Data) -> int:
    """How many clauses are."""
    return sum((clause["lower"] or -math.inf) > 0 for clause in record["clauses"])


def bracket_so_far(record: Data, seconds: float, timeout: float | None) -> RenderableType:
    """A radius that is being bracketed."""
    high = record["violated_or_unknown"]
    above = "?" if high is None or math.isinf(high) else f"{high:.6g}"
    return _lines(
        ("radius", f"holds at {record['holds']:.6g}, no more known at {above}"),
        ("steps", f"{len(record['steps'])}"),
        ("time", f"{clock(seconds)}{_left(seconds, timeout)}"),
    )


@dataclass(frozen=True)
class Estimate:
    """Seconds until a run is done: probably, if anything is known, and at most, if there are limits."""

    probably: float | None
    most: float | None

    def __str__(self) -> str:
        parts = [] if self.probably is None else [f"about {clock(self.probably)} left"]
        parts += [] if self.most is None else [f"at most {clock(self.most)}"]
        return ", ".join(parts) or "no estimate yet"


def estimate(
    done: Mapping[str, Sequence[float]], left: Sequence[tuple[str, float | None]], workers: int
) -> Estimate:
    """From the seconds of what is done by benchmark, and the benchmark and limit of what is left.

    An instance takes as long as the mean of its benchmark, or of all where that has none yet, and
    never longer than its limit. Nobody knows better before it has run.
    """
    if not left:
        return Estimate(0.0, 0.0)
    limits = [limit for _, limit in left]
    total = sum(limit for limit in limits if limit is not None)
    longest = max((limit for limit in limits if limit is not None), default=0.0)
    most = None if None in limits else max(total / workers, longest)
    everything = [seconds for times in done.values() for seconds in times]
    if not everything:
        return Estimate(None, most)
    expected = 0.0
    for benchmark, limit in left:
        times = done.get(benchmark) or everything
        mean = sum(times) / len(times)
        expected += mean if limit is None else min(mean, limit)
    return Estimate(expected / workers, most)


@dataclass
class BenchProgress:
    """A run of many instances: a line per benchmark, and when it may be done.

    `left` holds (benchmark, name, limit) of what has no record yet, in the order of the run.
    """

    left: list[tuple[str, str, float | None]]
    workers: int
    counts: dict[str, Counter[str]] = field(default_factory=dict)
    times: dict[str, list[float]] = field(default_factory=dict)

    def add(self, benchmark: str, name: str, record: Data, is_new: bool = True) -> None:
        """Count a record; what an earlier run has left is no measure of this one's speed."""
        kind = "failed" if record["error"] is not None else record["verdict"]
        self.counts.setdefault(benchmark, Counter())[kind] += 1
        if is_new:
            self.times.setdefault(benchmark, []).append(record["seconds"])
        self.left = [entry for entry in self.left if entry[1] != name]

    def draw(self, seconds: float) -> RenderableType:
        """The table as it is now."""
        from rich.console import Group
        from rich.table import Table

        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
        table.add_column("benchmark", overflow="ellipsis", no_wrap=True)
        for column in ("done", *_COUNTED, "failed"):
            table.add_column(column, justify="right", no_wrap=True)
        waiting = Counter(benchmark for benchmark, _, _ in self.left)
        for name in sorted({*self.counts, *waiting}):
            table.add_row(*self._row(name, waiting[name]))
        return Group(table, _lines(*self._state(seconds)))

    def _row(self, benchmark: str, waiting: int) -> list[RenderableType]:
        from rich.text import Text

        from anybound.cli.text import printable

        counts = self.counts.get(benchmark, Counter())
        done = sum(counts.values())
        cells = [
            f"{done} of {done + waiting}",
            *(str(counts[k] or "") for k in (*_COUNTED, "failed")),
        ]
        return [Text(printable(benchmark)), *map(Text, cells)]

    def _state(self, seconds: float) -> list[tuple[str, str]]:
        remaining = [(benchmark, limit) for benchmark, _, limit in self.left]
        at_work = [name.rsplit("/", 1)[-1] for _, name, _ in self.left[: self.workers]]
        return [
            ("at work", ", ".join(at_work) or "nothing"),
            ("time", f"{clock(seconds)}; {estimate(self.times, remaining, self.workers)}"),
        ]


_ENDS = (("lower", -math.inf), ("upper", math.inf))


def _tree(trace: Data) -> str:
    """Open, closed, and how fast they were closed lately."""
    last = trace[-1]
    earlier = next((p for p in reversed(trace) if p["seconds"] < last["seconds"] - 2), trace[0])
    spent = last["seconds"] - earlier["seconds"]
    rate = (
        f" ({(last['closed'] - earlier['closed']) / spent:,.0f} per second)" if spent > 0.1 else ""
    )
    return f"{last['open']:,} open, {last['closed']:,} closed{rate}"


def _left(seconds: float, timeout: float | None) -> str:
    return "" if timeout is None else f", {clock(timeout - seconds)} left"


def _number(value: float | None, missing: float) -> float:
    return missing if value is None else value


def _shown(value: float) -> str:
    return f"{value:.5g}" if math.isfinite(value) else "?"


def _lines(*parts: tuple[str, str]) -> RenderableType:
    """Named values on one line each, cut at the edge of the terminal."""
    from rich.table import Table
    from rich.text import Text

    from anybound.cli.text import printable

    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="ellipsis", no_wrap=True)
    for name, value in parts:
        grid.add_row(Text(name), Text(printable(value)))
    return grid
