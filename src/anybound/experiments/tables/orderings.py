"""The paper's orderings: on how many margins one method's bound is above another's, beside the original code's."""

from __future__ import annotations

from collections.abc import Sequence

from anybound.experiments.gaps import Margins
from anybound.experiments.table import Cell, Table

__all__ = ["table"]

# (better, worse) by family; the rows with the most iterations are compared
_PAIRS = (
    ("Dec-DSG+", "DSG+"),
    ("Supergradient", "DSG+"),
    ("Supergradient", "Dec-DSG+"),
    ("Proximal", "Supergradient"),
    ("WK", "IP"),
    ("Slopes", "Proximal"),
)
_NOTE = (
    "Share of margins. In brackets that of the original code's bounds, on so many of these images."
)


def table(found: Sequence[Margins]) -> Table:
    """A line per pair, a column per network."""
    rows: list[list[Cell]] = []
    for better, worse in _PAIRS:
        pairs = [(m.last(better), m.last(worse)) for m in found]
        names = next(((a, b) for a, b in pairs if a and b), None)
        if names is not None:
            cells = [_share(m, a, b) for m, (a, b) in zip(found, pairs, strict=True)]
            rows.append([f"{names[0]} > {names[1]}", *cells])
    head = ["bound above", *(f"{m.network}, {len(m.images)} images" for m in found)]
    return Table("Orderings of the paper", head, rows, [_NOTE])


def _share(margins: Margins, better: str | None, worse: str | None) -> str | None:
    if better is None or worse is None:
        return None
    share = f"{margins.better(better, worse):.1f} %"
    original = margins.originally_better(better, worse)
    return share if original is None else f"{share} ({original[0]:.1f} %, {original[1]})"
