"""The open sub-problems of a search as a struct of arrays: a stack of columns that grow together.

The last come is the first served: for a proof the order does not matter (every sub-problem has to be closed), and a
stack stays small. Warm starts are kept in half precision: any value is valid.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

Columns = Mapping[str, NDArray[np.generic]]


class Pool:
    """Rows are sub-problems; columns `[N, …]` have fixed names, dtypes and trailing shapes."""

    def __init__(self, like: Columns) -> None:
        """Empty, with columns such as those of `like`."""
        self._columns = {name: np.empty((64, *c.shape[1:]), c.dtype) for name, c in like.items()}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    @property
    def bytes(self) -> int:
        """Of all columns, used or reserved."""
        return sum(column.nbytes for column in self._columns.values())

    def column(self, name: str) -> NDArray[np.generic]:
        """A view of one column, the oldest sub-problem first."""
        return self._columns[name][: self._count]

    def push(self, rows: Columns) -> None:
        """Put sub-problems on the stack."""
        added = len(next(iter(rows.values())))
        self._reserve(self._count + added)
        for name, column in self._columns.items():
            column[self._count : self._count + added] = rows[name]
        self._count += added

    def pop(self, count: int) -> dict[str, NDArray[np.generic]]:
        """Take the last `count` sub-problems, or all."""
        first = max(0, self._count - count)
        taken = {name: column[first : self._count].copy() for name, column in self._columns.items()}
        self._count = first
        return taken

    def pop_lowest(self, count: int, by: str) -> dict[str, NDArray[np.generic]]:
        """Take the `count` sub-problems with the lowest values in a column: the paper's order."""
        if count < self._count:
            order = np.argpartition(self.column(by), count)
            last = np.sort(order[:count])[::-1]
            for offset, row in enumerate(last, start=1):  # the chosen rows to the end, in place
                self._swap(int(row), self._count - offset)
        return self.pop(count)

    def _swap(self, i: int, j: int) -> None:
        if i != j:
            for column in self._columns.values():
                column[[i, j]] = column[[j, i]]

    def _reserve(self, count: int) -> None:
        for name, column in self._columns.items():
            if len(column) < count:
                grown = np.empty(
                    (max(count, len(column) * 3 // 2), *column.shape[1:]), column.dtype
                )
                grown[: self._count] = column[: self._count]
                self._columns[name] = grown
