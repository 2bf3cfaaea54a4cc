"""The tree of boxes: for every node its parent, the input that was cut, and where.

A node is cut into {x_i <= cut} and {x_i >= cut}, its two children, numbered one after the other: so children cover
their parent, and the leaves, the nodes without children, cover the root. A certificate can be read off it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from anybound.search.input_split.folded import Index, Vector


class BoxTree:
    """Nodes are numbered as they come; the root is 0 and has no parent."""

    def __init__(self) -> None:
        self._parent = np.full(64, -1, np.int32)
        self._input = np.full(64, -1, np.int32)
        self._cut = np.zeros(64)
        self._count = 1

    def __len__(self) -> int:
        return self._count

    @property
    def bytes(self) -> int:
        return self._parent.nbytes + self._input.nbytes + self._cut.nbytes

    @property
    def parent(self) -> NDArray[np.int32]:
        """`[nodes]`, −1 for the root."""
        return self._parent[: self._count]

    @property
    def input(self) -> NDArray[np.int32]:
        """`[nodes]`: the input of which this node is one side of the cut; −1 for the root."""
        return self._input[: self._count]

    @property
    def cut(self) -> Vector:
        """`[nodes]`. The child with the odd number lies below it, its sibling above."""
        return self._cut[: self._count]

    def add_children(self, parent: Index, chosen: Index, cut: Vector) -> Index:
        """The numbers of new nodes: for each parent the one below the cut, then the one above."""
        first, last = self._count, self._count + 2 * len(parent)
        self._reserve(last)
        self._parent[first:last] = np.repeat(parent, 2)
        self._input[first:last] = np.repeat(chosen, 2)
        self._cut[first:last] = np.repeat(cut, 2)
        self._count = last
        return np.arange(first, last)

    def box(self, node: int, lower: Vector, upper: Vector) -> tuple[Vector, Vector]:
        """The borders of a node, for those of the root."""
        lower, upper = lower.copy(), upper.copy()
        while node > 0:
            i, cut = int(self._input[node]), self._cut[node]
            if node % 2:
                upper[i] = min(upper[i], cut)
            else:
                lower[i] = max(lower[i], cut)
            node = int(self._parent[node])
        return lower, upper

    def _reserve(self, count: int) -> None:
        if count > len(self._parent):
            size = max(count, len(self._parent) * 2)
            self._parent, self._input = (np.resize(x, size) for x in (self._parent, self._input))
            self._cut = np.resize(self._cut, size)
