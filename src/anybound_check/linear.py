"""The linear maps: each knows x -> W x, x -> |W| x and its adjoint g -> W^T g.

Arrays are [size, R]: one column per problem, a tensor's elements in C order. `fan` is the largest
number of products in a sum of either direction, plus the roundings behind the stored weights;
`exact` maps only move elements, each to one place at most.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from anybound_check.arithmetic import Array, Index


@dataclass(frozen=True, eq=False)
class Move:
    """y[i] = x[index[i]], or 0 where the index is -1; without an index, y = x. No index twice."""

    index: Index | None = None
    size: int = 0  # of x
    fan: int = 1
    exact: bool = True

    def forward(self, x: Array, absolute: bool = False) -> Array:
        return x if self.index is None else _with_zeros(x)[self.index]

    def adjoint(self, g: Array) -> Array:
        if self.index is None:
            return g
        x = np.zeros((self.size + 1, g.shape[1]))
        x[self.index] = g
        return x[:-1]


@dataclass(frozen=True, eq=False)
class Matrix:
    """y[b, :, q] = W[b] p[b, :, q] for B blocks of K rows and Q columns.

    p is x itself or, in a convolution, what its kernel's T taps see of the C channels in all places:
    p[c, t, q] = x[taps[c, t, q]], or 0 where that is -1; no tap sees an element twice."""

    weight: Array  # [B or 1, M, K]
    blocks: int = 1  # B
    taps: Index | None = None  # [C, T, Q]
    size: int = 0  # of x, with taps
    roundings: int = 1  # behind a weight
    exact: bool = False

    @property
    def fan(self) -> int:
        _, m, k = self.weight.shape
        return (
            int(max(k, m * (1 if self.taps is None else self.taps.shape[1])) + 1) + self.roundings
        )

    def forward(self, x: Array, absolute: bool = False) -> Array:
        p = x if self.taps is None else _with_zeros(x)[self.taps]
        weight = np.abs(self.weight) if absolute else self.weight
        y: Array = np.matmul(weight, p.reshape(self.blocks, weight.shape[2], -1))
        return y.reshape(-1, x.shape[1])

    def adjoint(self, g: Array) -> Array:
        rows = g.reshape(self.blocks, self.weight.shape[1], -1)
        p: Array = np.matmul(self.weight.transpose(0, 2, 1), rows)
        if self.taps is None:
            return p.reshape(-1, g.shape[1])
        p, x = p.reshape(*self.taps.shape, -1), np.zeros((self.size + 1, g.shape[1]))
        for t in range(self.taps.shape[1]):
            x[self.taps[:, t]] += p[:, t]
        return x[:-1]


@dataclass(frozen=True, eq=False)
class Sparse:
    """y = W x for a W of few numbers: y[i] = sum over t of number[i, t] x[place[i, t]].

    Rows with fewer of them than others are filled up with zeros."""

    rows: tuple[Index, Array]  # of W: place and number, [M, T]
    columns: tuple[Index, Array]  # those of W^T
    exact: bool = False

    @property
    def fan(self) -> int:
        return int(max(place.shape[1] for place, _ in (self.rows, self.columns))) + 2

    def forward(self, x: Array, absolute: bool = False) -> Array:
        place, number = self.rows
        return _picked(x, place, np.abs(number) if absolute else number)

    def adjoint(self, g: Array) -> Array:
        return _picked(g, *self.columns)


Linear = Move | Matrix | Sparse


def linear(weight: Array) -> Matrix | Sparse:
    """y = W x, [M, K]."""
    used = weight != 0
    most = max(used.sum(axis).max() for axis in (0, 1))
    if most == 0 or 16 * most > min(weight.shape):
        return Matrix(weight[None])
    return Sparse(_numbers(weight), _numbers(weight.T))


def _numbers(weight: Array) -> tuple[Index, Array]:
    """Where each row's non-zeros stand, filled up by places of zeros, and what they are."""
    most = (weight != 0).sum(1).max()
    place = np.argsort(weight == 0, axis=1, kind="stable")[:, :most]
    return place, np.take_along_axis(weight, place, 1)


def _picked(x: Array, place: Index, number: Array) -> Array:
    total = np.zeros((len(place), x.shape[1]))
    for t in range(place.shape[1]):
        total += number[:, t, None] * x[place[:, t]]
    return total


def _with_zeros(x: Array) -> Array:
    """A row of zeros at the end, where -1 points to."""
    return np.concatenate([x, np.zeros((1, x.shape[1]))])
