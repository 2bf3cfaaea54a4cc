"""The parts of sparse matrices that live neurons need, and transposed matrices: each in one compiled pass."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from anybound.bound.compact.jit import kernel
from anybound.model.affine.csr import Csr, Index, Vector


class Entries(NamedTuple):
    """A matrix as the kernels take it."""

    indptr: Index
    indices: Index
    data: Vector


def cut(matrix: Csr, row: Index, place: Index, width: int) -> Csr:
    """Some rows, with their columns in other places; those whose place is negative are left out."""
    most = int(matrix.lengths[row].sum())
    out = Entries(np.zeros(len(row) + 1, np.int64), np.empty(most, np.int64), np.empty(most))
    _cut(_entries(matrix), row, place, out)
    used = int(out.indptr[-1])
    return Csr(out.indptr, out.indices[:used], out.data[:used], (len(row), width))


def transposed(matrix: Csr) -> Csr:
    """The transposed matrix, indices sorted."""
    rows, columns = matrix.shape
    ends = np.cumsum(np.bincount(matrix.indices, minlength=columns))
    indptr = np.concatenate([np.zeros(1, np.int64), ends])
    out = Entries(indptr, np.empty(matrix.nnz, np.int64), np.empty(matrix.nnz))
    _transpose(_entries(matrix), indptr.copy(), out)
    return Csr(out.indptr, out.indices, out.data, (columns, rows))


def _entries(matrix: Csr) -> Entries:
    return Entries(matrix.indptr, matrix.indices, matrix.data)


def _example() -> Entries:
    index = np.zeros(1, np.int64)
    return Entries(index, index, np.zeros(1))


@kernel(_example(), _example().indptr, _example().indptr, _example())
def _cut(matrix: Any, row: Any, place: Any, out: Any) -> None:
    used = 0
    for i in range(len(row)):
        for entry in range(matrix.indptr[row[i]], matrix.indptr[row[i] + 1]):
            column = place[matrix.indices[entry]]
            if column >= 0:
                out.indices[used], out.data[used] = column, matrix.data[entry]
                used += 1
        out.indptr[i + 1] = used


@kernel(_example(), _example().indptr, _example())
def _transpose(matrix: Any, free: Any, out: Any) -> None:
    """`free` is where the next entry of each row of `out` goes."""
    for i in range(len(matrix.indptr) - 1):
        for entry in range(matrix.indptr[i], matrix.indptr[i + 1]):
            at = free[matrix.indices[entry]]
            out.indices[at], out.data[at] = i, matrix.data[entry]
            free[matrix.indices[entry]] = at + 1
