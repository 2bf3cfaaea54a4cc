"""A summary of incomplete verification: what every method takes, and how far it is from the best bound."""

from __future__ import annotations

import numpy as np

from anybound.experiments.gaps import Margins
from anybound.experiments.table import Cell, Table

__all__ = ["table"]

_HEAD = ("method", "CPU s", "mean gap", "median gap", "largest gap", "% of WK's gap", "margins > 0")
_ORIGINAL = "from original"


def table(margins: Margins) -> Table:
    """A line per method."""
    wk = float(margins.gap("WK").mean()) if "WK" in margins.by_row else None
    differences = {row: margins.from_original(row) for row in margins.by_row}
    known = any(d is not None for d in differences.values())
    rows: list[list[Cell]] = []
    for row in margins.by_row:
        gap = margins.gap(row)
        mean = float(gap.mean())
        share = None if not wk else 100 * mean / wk
        largest, proved = float(gap.max()), int((margins.lower(row) > 0).sum())
        seconds = float(margins.seconds(row).mean())
        line: list[Cell] = [row, seconds, mean, float(np.median(gap)), largest, share, proved]
        rows.append([*line, differences[row]] if known else line)
    count = margins.lower(next(iter(margins.by_row))).size
    note = f"CPU seconds of one thread per image, last layer only; gap to the best bound of all rows; {count} margins."
    notes = [note]
    if known:
        notes.append(
            f"{_ORIGINAL}: the largest difference between a bound and the original code's."
        )
    head = (*_HEAD, _ORIGINAL) if known else _HEAD
    return Table(f"Incomplete verification: {margins.caption}", head, rows, notes)
