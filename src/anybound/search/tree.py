"""The tree of splits: for every node its parent, the neuron that was split and to which side.

Children cover their parent by construction: a node is split into x >= split point and x <= split point.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Index = NDArray[np.int64]


class Tree:
    """Nodes are numbered as they come; the roots have parent −1."""

    def __init__(self) -> None:
        self._parent = np.empty(64, np.int32)
        self._split = np.empty(64, np.int32)  # ±(neuron + 1); 0 for a root
        self._count = 0

    def __len__(self) -> int:
        return self._count

    @property
    def bytes(self) -> int:
        """Of all columns, used or reserved."""
        return self._parent.nbytes + self._split.nbytes

    def forget(self, first: int) -> None:
        """The nodes from a number on."""
        self._count = min(self._count, first)

    def add_roots(self, count: int) -> Index:
        """The numbers of new roots."""
        return self._add(np.full(count, -1, np.int32), np.zeros(count, np.int32))

    def add_children(self, parent: Index, neuron: Index, sign: NDArray[np.int8]) -> Index:
        """The numbers of new nodes, one for each triple."""
        return self._add(parent.astype(np.int32), ((neuron + 1) * sign).astype(np.int32))

    def path(self, node: int) -> list[tuple[int, int]]:
        """The (neuron, sign) splits from the root to a node."""
        splits = []
        while self._parent[node] >= 0:
            code = int(self._split[node])
            splits.append((abs(code) - 1, 1 if code > 0 else -1))
            node = int(self._parent[node])
        return splits[::-1]

    @property
    def parent(self) -> NDArray[np.int32]:
        return self._parent[: self._count]

    @property
    def split(self) -> NDArray[np.int32]:
        """±(neuron + 1) of each node, 0 for roots."""
        return self._split[: self._count]

    def _add(self, parent: NDArray[np.int32], split: NDArray[np.int32]) -> Index:
        first, last = self._count, self._count + len(parent)
        if last > len(self._parent):
            size = max(last, len(self._parent) * 2)
            self._parent, self._split = (np.resize(x, size) for x in (self._parent, self._split))
        self._parent[first:last], self._split[first:last] = parent, split
        self._count = last
        return np.arange(first, last)
