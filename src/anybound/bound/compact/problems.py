"""Sub-problems as arrays: parents, and children that split one more neuron each."""

from __future__ import annotations

from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from anybound.bound.compact.network import CompactNetwork, Single
from anybound.bound.compact.rows import Index

Signs = NDArray[np.int8]


class Parents(NamedTuple):
    """Sub-problems to start from."""

    row: Index  # [N0], which clause of the objective is bounded
    sign: Signs  # [N0, A]: +1 where split to x >= 0, −1 to x <= 0, else 0
    slope: Single  # [N0, A]: α, or the split's multiplier where the sign is not 0
    weight: Single  # [N0, M]: of the clause's rows, >= 0; 1 where it has only one

    @classmethod
    def roots(cls, network: CompactNetwork, row: Index, weight: Single | None = None) -> Self:
        """Without splits, at CROWN's slopes: those of the line closest to σ."""
        weight = np.ones((len(row), 1), np.float32) if weight is None else weight
        start = starting_slopes(network)
        sign = np.zeros((len(row), len(start)), np.int8)
        return cls(np.asarray(row, np.int64), sign, np.tile(start, (len(row), 1)), weight)


class Children(NamedTuple):
    """N sub-problems: a parent each, and the one more neuron that is split (−1: none), with its
    sign."""

    parent: Index
    neuron: Index
    sign: Signs

    @classmethod
    def of(cls, parent: Index) -> Self:
        """The parents themselves, each as often as it is named."""
        count = len(parent)
        return cls(parent, np.full(count, -1), np.zeros(count, np.int8))

    @classmethod
    def same(cls, count: int) -> Self:
        """All parents, once each."""
        return cls.of(np.arange(count))


def starting_slopes(network: CompactNetwork) -> Single:
    """`[A]`: of CROWN's lower lines: 1 where the chord is steeper than half way, else `left`."""
    rows = network.rows
    left, chord = rows.left[rows.bends], rows.chord[rows.bends]
    return np.where(chord > (1 + left) / 2, 1.0, left).astype(np.float32)


def example_problems() -> tuple[Parents, Children]:
    """An example of the kernels' arguments."""
    index, signs = np.zeros(1, np.int64), np.zeros((1, 1), np.int8)
    matrix = np.zeros((1, 1), np.float32)
    return Parents(index, signs, matrix, matrix), Children(index, index, signs[0])
