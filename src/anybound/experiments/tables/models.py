"""Table models: average time, sub-problems and time-outs of every row on every network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from anybound.experiments.decided import Decided
from anybound.experiments.table import Cell, Table, number

__all__ = ["make", "table"]

_NOTES = (
    "CPU seconds of one thread, on average (≥: of time-outs what they were given). Sub-problems of the solved ones.",
    "MIPplanet by the solver's word, to its tolerance: no proof. All other verdicts of rows run here are rigorous.",
    "Rows recorded elsewhere come with the data set: another machine and solver, limits of 3,600 s (base) and 7,200 s.",
)


def table(found: Sequence[Decided]) -> Table:
    """Three columns per network."""
    return make({d.network: d for d in found}, "Complete verification")


def make(named: Mapping[str, Decided | None], title: str) -> Table:
    """Three columns each; a part without properties has none."""
    present = {name: d for name, d in named.items() if d is not None}
    head = ["method"]
    for name, decided in present.items():
        head += [f"{name}: s", "sub-problems", f"timeout of {decided.count}"]
    labels = dict.fromkeys(label for d in present.values() for label in d.style.labels)
    rows = [_line(label, list(present.values())) for label in labels]
    limits = dict.fromkeys(d.limits_told for d in present.values() if d.limits)
    notes = (*_NOTES, *(f"Limits: {told}." for told in limits))
    return Table(title, head, [row for row in rows if any(c is not None for c in row[1:])], notes)


def _line(label: str, found: Sequence[Decided]) -> list[Cell]:
    line: list[Cell] = [label]
    for decided in found:
        if label in decided.rows:
            share = decided.timeouts(label)
            seconds = number(decided.seconds(label))
            at_least = f"≥{seconds}" if share and label not in decided.elsewhere else seconds
            line += [at_least, decided.subproblems(label), f"{share:.0f} %"]
        else:
            line += [None, None, None]
    return line
