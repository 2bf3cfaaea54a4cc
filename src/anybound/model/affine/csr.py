"""A sparse float64 matrix in compressed rows, in NumPy alone: importing SciPy takes longer than deciding.

    row i:  columns indices[indptr[i] : indptr[i + 1]], ascending, with their numbers in data

Entries may be stored zeros. What only linear programs need is SciPy's: `scipy()`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

Index = NDArray[np.int64]
Vector = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Csr:
    """A matrix of a shape; columns ascend in every row, and none stands twice."""

    indptr: Index
    indices: Index
    data: Vector
    shape: tuple[int, int]

    @classmethod
    def of(cls, row: Index, column: Index, data: Vector, shape: tuple[int, int]) -> Self:
        """From entries in any order; those at one place are added."""
        key = np.asarray(row, np.int64) * shape[1] + column
        data = np.asarray(data, np.float64)
        if not bool((key[1:] > key[:-1]).all()):
            order = np.argsort(key, kind="stable")
            key, data = key[order], data[order]
            first = np.concatenate([[True], key[1:] != key[:-1]])
            key, data = key[first], np.add.reduceat(data, np.flatnonzero(first))
        row, column = np.divmod(key, max(1, shape[1]))
        return cls(_starts(np.bincount(row, minlength=shape[0])), column, data, shape)

    @classmethod
    def dense(cls, matrix: Vector) -> Self:
        """The nonzeros of a matrix."""
        row, column = np.nonzero(matrix)
        rows, columns = matrix.shape
        return cls.of(row, column, matrix[row, column], (rows, columns))

    @classmethod
    def below(cls, parts: Sequence[Csr]) -> Self:
        """Matrices of as many columns, one below the other."""
        lengths = np.concatenate([part.lengths for part in parts])
        indices, data = ([getattr(p, name) for p in parts] for name in ("indices", "data"))
        shape = len(lengths), parts[0].shape[1]
        return cls(_starts(lengths), np.concatenate(indices), np.concatenate(data), shape)

    @property
    def nnz(self) -> int:
        """The number of entries."""
        return len(self.data)

    @property
    def lengths(self) -> Index:
        """Entries by row."""
        return np.diff(self.indptr)

    @cached_property
    def row(self) -> Index:
        """The row of every entry."""
        return np.repeat(np.arange(self.shape[0]), self.lengths)

    def transposed(self) -> Csr:
        """The transposed matrix."""
        rows, columns = self.shape
        return Csr.of(self.indices, self.row, self.data, (columns, rows))

    def rows(self, index: Index) -> Csr:
        """Some rows, in this order."""
        lengths = self.lengths[index]
        starts = _starts(lengths)
        at = np.arange(starts[-1]) + np.repeat(self.indptr[:-1][index] - starts[:-1], lengths)
        return Csr(starts, self.indices[at], self.data[at], (len(index), self.shape[1]))

    def columns(self, place: Index, width: int) -> Csr:
        """The columns in other places, whose order is the same; those whose place is negative are left out."""
        place = place[self.indices]
        kept = place >= 0
        starts = np.concatenate([[0], np.cumsum(kept)])[self.indptr]
        return Csr(starts, place[kept], self.data[kept], (self.shape[0], width))

    def between(self, first: int, last: int) -> Csr:
        """The columns first … last − 1."""
        place = np.full(self.shape[1], -1)
        place[first:last] = np.arange(last - first)
        return self.columns(place, last - first)

    def only(self, chosen: NDArray[np.bool_]) -> Csr:
        """The columns chosen, side by side."""
        count = int(chosen.sum())
        return self.columns(np.where(chosen, np.cumsum(chosen) - 1, -1), count)

    def moved(self, offset: int, width: int) -> Csr:
        """The columns moved to the right, in a matrix of so many."""
        return Csr(self.indptr, self.indices + offset, self.data, (self.shape[0], width))

    def __abs__(self) -> Csr:
        return Csr(self.indptr, self.indices, np.abs(self.data), self.shape)

    def __add__(self, other: Csr) -> Csr:
        row, column = (
            np.concatenate(pair) for pair in ((self.row, other.row), (self.indices, other.indices))
        )
        return Csr.of(row, column, np.concatenate([self.data, other.data]), self.shape)

    def times(self, x: Vector) -> Vector:
        """The product with a vector, or with the columns of a matrix."""
        products = (self.data * x[self.indices].T).T
        out = np.zeros((self.shape[0], *x.shape[1:]))
        some = np.flatnonzero(self.lengths)  # `reduceat` has no empty sums
        if len(some):
            out[some] = np.add.reduceat(products, self.indptr[some], axis=0)
        return out

    def after(self, first: Csr) -> Csr:
        """The product with the matrix of the map that comes first."""
        if self.lengths.max(initial=0) <= 1:  # rows of the other, scaled
            source = np.full(self.shape[0], first.shape[0])
            source[self.row] = self.indices
            padded = Csr(np.append(first.indptr, first.nnz), first.indices, first.data, first.shape)
            rows = padded.rows(source)
            scale = np.zeros(self.shape[0])
            scale[self.row] = self.data
            return Csr(rows.indptr, rows.indices, rows.data * scale[rows.row], rows.shape)
        if first.lengths.max(initial=0) <= 1:  # columns in other places, scaled
            place, factor = np.full(first.shape[0], -1), np.zeros(first.shape[0])
            place[first.row], factor[first.row] = first.indices, first.data
            kept = place[self.indices] >= 0
            read = self.indices[kept]
            shape = self.shape[0], first.shape[1]
            return Csr.of(self.row[kept], place[read], self.data[kept] * factor[read], shape)
        product = (self.scipy() @ first.scipy()).tocsr()
        product.sort_indices()
        indptr, indices = product.indptr.astype(np.int64), product.indices.astype(np.int64)
        return Csr(indptr, indices, product.data, (self.shape[0], first.shape[1]))

    def toarray(self) -> Vector:
        """The matrix with its zeros."""
        out = np.zeros(self.shape)
        out[self.row, self.indices] = self.data
        return out

    def scipy(self) -> csr_matrix:
        """As SciPy has it."""
        from scipy.sparse import csr_matrix

        return csr_matrix((self.data, self.indices, self.indptr), shape=self.shape)


def _starts(lengths: Index) -> Index:
    """Where each row begins, and where the last one ends."""
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
