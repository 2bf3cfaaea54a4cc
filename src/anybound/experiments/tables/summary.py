"""A summary of incomplete verification: what every method takes, and how far it is from the best bound."""

from __future__ import annotations

import numpy as np

from anybound.experiments.gaps import Margins
from anybound.experiments.table import Cell, Table

__all__ = ["table"]

_HEAD = ("method", "CPU s", "mean gap", "median gap", "largest gap", "% of WK's gap", "margins > 0")


def table(margins: Margins) -> Table:
    """A line per method."""
    wk = float(margins.gap("WK").mean()) if "WK" in margins.by_row else None
    rows: list[list[Cell]] = []
    for row in margins.by_row:
        gap = margins.gap(row)
        mean = float(gap.mean())
        share = None if not wk else 100 * mean / wk
        largest, proved = float(gap.max()), int((margins.lower(row) > 0).sum())
        seconds = float(margins.seconds(row).mean())
        rows.append([row, seconds, mean, float(np.median(gap)), largest, share, proved])
    count = margins.lower(next(iter(margins.by_row))).size
    note = f"CPU seconds of one thread per image, last layer only; gap to the best bound of all rows; {count} margins."
    return Table(f"Incomplete verification: {margins.caption}", _HEAD, rows, [note])
