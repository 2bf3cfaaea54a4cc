"""The study's table gap-against-time: where every row ends, and how soon it is as good as the paper's best row."""

from __future__ import annotations

from anybound.experiments.progress import Risen
from anybound.experiments.table import Cell, Table

__all__ = ["table"]

_YARDSTICK = "Proximal 400"


def table(risen: Risen) -> Table:
    """A line per row."""
    yardstick = risen.end(_YARDSTICK)[1] if _YARDSTICK in risen.by_row else None
    lines: list[list[Cell]] = []
    for row in risen.by_row:
        seconds, gap = risen.end(row)
        soon = None if yardstick is None else risen.until(row, yardstick)
        lines.append([row, seconds, gap, soon])
    head = ("method", "CPU s", "mean gap", f"CPU s until {_YARDSTICK}'s gap")
    note = "Gap to the best mean bound of all rows; all rows start from WK's dual point."
    return Table(f"Gap against time: {risen.caption}", head, lines, [note])
