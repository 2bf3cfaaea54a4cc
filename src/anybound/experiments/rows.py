"""The rows of an experiment: a label, the method behind it, and the family that gives it its colour."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from anybound.errors import InvalidConfig
from anybound.experiments.named import Named, distinct
from anybound.registry import METHODS

__all__ = ["Counts", "Row", "chosen", "incomplete_rows", "own_rows"]


@dataclass(frozen=True)
class Row:
    """`method` is a text as of `anybound methods`; `limited_to` names the row whose time it may take."""

    label: str
    family: str
    method: str
    limited_to: str = ""


@dataclass(frozen=True)
class Counts:
    """Iterations of the paper, in which DSG+, Supergradient and Proximal took the same time on its machine."""

    dsg: int = 1040
    supergradient: int = 740
    proximal: int = 400


def incomplete_rows(counts: Counts | None = None) -> tuple[Row, ...]:
    """The paper's rows of incomplete verification, and ours."""
    n = counts or Counts()
    limit = f"Proximal {n.proximal}"
    return (
        Row("IP", "IP", "interval"),
        Row("WK", "WK", "wk"),
        _row("DSG+", "dsg", n.dsg // 2),
        _row("DSG+", "dsg", n.dsg),
        _row("Dec-DSG+", "dec_dsg", n.dsg),
        _row("Supergradient", "supergradient", n.supergradient // 2),
        _row("Supergradient", "supergradient", n.supergradient),
        _row("Proximal", "proximal", n.proximal // 2),
        _row("Proximal", "proximal", n.proximal),
        Row("LP time-limited", "LP time-limited", "lp(algorithm=dual_simplex, seconds={})", limit),
        Row("LP", "LP", "lp"),
        _row("Slopes", "slopes", 20),
    )


def own_rows(methods: Sequence[Named], beside: Sequence[Row] = ()) -> tuple[Row, ...]:
    """Rows of a user's own; each is its own family."""
    found = distinct(methods, (row.label for row in beside))
    for one in found:
        METHODS.parse(one.text)
    return tuple(Row(one.name, one.name, one.text) for one in found)


def chosen(rows: Sequence[Row], labels: Sequence[str]) -> tuple[Row, ...]:
    """The rows with these labels, or all where none are named."""
    known = {row.label: row for row in rows}
    for label in labels:
        if label not in known:
            raise InvalidConfig(f"no row {label!r}: there are {', '.join(known)}")
    kept = tuple(row for row in rows if not labels or row.label in labels)
    for row in kept:
        if row.limited_to and row.limited_to not in {other.label for other in kept}:
            raise InvalidConfig(
                f"row {row.label!r} takes the time of {row.limited_to!r}: choose that as well"
            )
    return kept


def _row(name: str, method: str, iterations: int) -> Row:
    return Row(f"{name} {iterations}", name, f"{method}(iterations={iterations})")
