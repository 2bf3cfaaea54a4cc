"""Sparse matrices in compressed rows are the matrices that SciPy makes of the same entries."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.sparse import coo_matrix

from anybound.bound.compact.cuts import cut, transposed
from anybound.model.affine.csr import Csr

Dense = NDArray[np.float64]
seeds = st.integers(0, 2**32 - 1)


def cases(count: int) -> settings:
    return settings(max_examples=count, deadline=None)


def entries(rng: np.random.Generator, shape: tuple[int, int]) -> tuple[Csr, Dense]:
    """A matrix from entries in any order, some of them at one place, and what SciPy makes of them."""
    count = int(rng.integers(0, 2 * shape[0] * shape[1])) if min(shape) else 0
    row, column = (rng.integers(0, max(1, size), count) for size in shape)
    data = rng.integers(-4, 5, count).astype(float)  # sums are exact
    return Csr.of(row, column, data, shape), coo_matrix((data, (row, column)), shape).toarray()


def selection(rng: np.random.Generator, rows: int, columns: int) -> tuple[Csr, Dense]:
    """At most one entry in every row."""
    row = np.flatnonzero(rng.random(rows) < 0.7)
    column, data = rng.integers(0, columns, len(row)), rng.integers(1, 4, len(row)).astype(float)
    dense = np.zeros((rows, columns))
    dense[row, column] = data
    return Csr.of(row, column, data, (rows, columns)), dense


def check(matrix: Csr, dense: Dense) -> None:
    """Equal, with ascending columns in every row."""
    assert matrix.shape == dense.shape
    assert matrix.indptr[0] == 0
    assert matrix.indptr[-1] == matrix.nnz == len(matrix.indices)
    same = matrix.row[1:] == matrix.row[:-1]
    assert (np.diff(matrix.indices)[same] > 0).all()
    np.testing.assert_array_equal(matrix.toarray(), dense)
    np.testing.assert_array_equal(matrix.scipy().toarray(), dense)


@cases(60)
@given(seeds)
def test_operations_are_those_of_the_dense_matrix(seed: int) -> None:
    rng = np.random.default_rng(seed)
    shape = int(rng.integers(0, 7)), int(rng.integers(0, 7))
    (a, dense), (b, other) = entries(rng, shape), entries(rng, shape)
    rows, columns = shape
    check(a, dense)
    check(Csr.dense(dense), dense)
    check(abs(a), abs(dense))
    check(a + b, dense + other)
    check(Csr.below([a, b]), np.concatenate([dense, other]))
    for turned in (a.transposed(), transposed(a)):
        check(turned, dense.T)
    check(a.moved(2, columns + 3), np.pad(dense, ((0, 0), (2, 1))))
    first, last = np.sort(rng.integers(0, columns + 1, 2))
    check(a.between(first, last), dense[:, first:last])
    chosen = rng.random(columns) < 0.5
    check(a.only(chosen), dense[:, chosen])
    for x in (rng.integers(-3, 4, columns), rng.integers(-3, 4, (columns, 3))):
        np.testing.assert_array_equal(a.times(x.astype(float)), dense @ x)
    if rows:
        index = rng.integers(0, rows, int(rng.integers(0, 9)))
        check(a.rows(index), dense[index])
        place = np.where(chosen, np.cumsum(chosen) - 1, -1)
        check(cut(a, index, place, int(chosen.sum())), dense[index][:, chosen])


@cases(40)
@given(seeds)
def test_products_are_those_of_the_dense_matrices(seed: int) -> None:
    rng = np.random.default_rng(seed)
    m, n, k = (int(size) for size in rng.integers(1, 7, 3))
    firsts = entries(rng, (n, k)), selection(rng, n, k)
    seconds = entries(rng, (m, n)), selection(rng, m, n)
    for first, dense_first in firsts:
        for second, dense_second in seconds:
            check(second.after(first), dense_second @ dense_first)
