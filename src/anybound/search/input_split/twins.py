"""Neurons that compute the same number up to sign: wᵢ = ±wⱼ and bᵢ = ±bⱼ.

Networks that build minima and maxima from ReLUs are full of them. Where x' = −x,

    σ(−x) = σ(x) − (1 + left)·x

so the second neuron needs no relaxation of its own: it shares the first one's error.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from anybound.model.affine.csr import Csr

Index = NDArray[np.int64]


class Twins(NamedTuple):
    """For each row the earlier row that it repeats or mirrors, or −1; and whether it mirrors it."""

    twin: Index
    mirrored: NDArray[np.int8]


def find_twins(matrix: Csr, bias: NDArray[np.float64], left: NDArray[np.float64]) -> Twins:
    """Rows of one layer with the same σ and equal or opposite weights and bias, bit by bit; indices are sorted."""
    rows, columns = matrix.shape
    twin, mirrored = np.full(rows, -1, np.int64), np.zeros(rows, np.int8)
    probe = np.random.default_rng(0).uniform(1.0, 2.0, columns)
    image = (
        matrix.times(probe) + bias * 1.5
    )  # twins have the same |image|, and hardly anything else has
    order = np.argsort(abs(image), kind="stable")
    leader = -1
    for row in order:
        if leader < 0 or abs(image[row]) != abs(image[leader]):
            leader = int(row)
            continue
        for sign in (1, -1):
            if left[row] == left[leader] and _agree(matrix, bias, leader, int(row), sign):
                twin[row], mirrored[row] = leader, sign < 0
                break
    return Twins(twin, mirrored)


def _agree(matrix: Csr, bias: NDArray[np.float64], i: int, j: int, sign: int) -> bool:
    own, other = (slice(matrix.indptr[q], matrix.indptr[q + 1]) for q in (i, j))
    return bool(
        bias[i] == sign * bias[j]
        and np.array_equal(matrix.indices[own], matrix.indices[other])
        and np.array_equal(matrix.data[own], sign * matrix.data[other])
    )
