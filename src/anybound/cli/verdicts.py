"""Records of `verify` in words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from anybound.cli.text import plural

__all__ = ["bracket", "explanation", "summary"]

# Records are plain JSON data, whose types the type checker cannot follow by key.
Data = Any
_LEAST = 1e-300


def summary(record: Data) -> str:
    """One line: what was found, and what it took."""
    proved = {True: ", certified", False: ", NOT certified"}.get(record.get("certified"), "")
    return f"{_finding(record)}{proved}; {_cost(record)}"


def explanation(record: Data) -> Iterator[str]:
    """What was chosen, and where the time went."""
    for name, choice in record["plan"].items():
        yield f"  {name}: {choice}"
    for name, seconds in record["phases"].items():
        yield f"  {seconds:8.2f} s  {name}"


def bracket(record: Data) -> str:
    """One line about a radius."""
    high = record["violated_or_unknown"]
    above = "violated" if record["witness"] is not None else "unknown"
    end = (
        "nothing else was found"
        if high is None or high == float("inf")
        else f"{above} at {high:.6g}"
    )
    return f"holds at {record['holds']:.6g}, {end}; {_radius_cost(record)}"


def _radius_cost(record: Data) -> str:
    return f"{plural(len(record['steps']), 'step')}, {record['seconds']:.2f} s"


def _finding(record: Data) -> str:
    clauses = record["clauses"]
    if record["verdict"] == "violated":
        witness = record["witness"]
        margin = clauses[witness["clause"]]["upper"] if clauses else float("inf")
        return f"violated in clause {witness['clause']} by an input of margin {margin:.6g}"
    if not clauses:
        return record["reason"] or "nothing was found"
    worst = min(clause["lower"] for clause in clauses)
    if record["verdict"] == "holds":
        what = "the clause is" if len(clauses) == 1 else f"all {len(clauses):,} clauses are"
        return f"{what} unreachable, margin {_at_least(worst)}"
    left = [clause for clause in clauses if not clause["lower"] > 0]
    closest = min(clause["upper"] for clause in left)
    reason = f"{record['reason']}: " if record["reason"] else ""
    return (
        f"{reason}{len(left)} of {plural(len(clauses), 'clause')} open, "
        f"smallest margin in [{worst:.6g}, {closest:.6g}]"
    )


def _at_least(margin: float) -> str:
    """The least positive number stands for: positive, and no more is known."""
    return f">= {margin:.6g}" if margin > _LEAST else "> 0"


def _cost(record: Data) -> str:
    problems = plural(record["subproblems"], "sub-problem")
    return f"{problems}, {record['seconds']:.2f} s ({record['cpu_seconds']:.2f} s CPU)"
