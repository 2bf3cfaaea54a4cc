"""The paper's orderings: on how many margins one method's bound is above another's, beside the original code's."""

from __future__ import annotations

from collections.abc import Sequence

from anybound.experiments.gaps import Margins
from anybound.experiments.table import Cell, Table

__all__ = ["ORIGINAL", "table"]

# (better, worse, what a run of the original code on the first ten images found)
ORIGINAL = (
    ("Dec-DSG+", "DSG+", "100 %"),
    ("Supergradient", "DSG+", "100 %"),
    ("Supergradient", "Dec-DSG+", "–"),
    ("Proximal", "Supergradient", "86–96 %"),
    ("WK", "IP", "–"),
    ("Slopes", "Proximal", "–"),
)


def table(found: Sequence[Margins]) -> Table:
    """A line per pair, a column per network."""
    rows: list[list[Cell]] = []
    for better, worse, original in ORIGINAL:
        labels = [(m, m.last(better), m.last(worse)) for m in found]
        names = next(((a, b) for _, a, b in labels if a and b), None)
        if names is not None:
            shares = [f"{m.better(a, b):.1f} %" if a and b else None for m, a, b in labels]
            rows.append([f"{names[0]} > {names[1]}", original, *shares])
    head = ["bound above", "original code", *(m.network for m in found)]
    note = "Share of margins. The original code's: at the paper's iteration counts, on CIFAR-10 images 0–9."
    return Table("Orderings of the paper", head, rows, [note])
