"""The linear operators: each knows x -> W x, x -> |W| x and its adjoint g -> W^T g.

Arrays are [size, R]: one column per problem, a tensor's elements in C order. `fan` is the largest
number of products in a sum of either direction, plus the roundings behind the stored weights.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from anybound_check.arithmetic import Array, Index


class Linear(Protocol):
    """W."""

    @property
    def fan(self) -> int: ...
    @property
    def exact(self) -> bool:
        """Whether W only moves elements, each to one place at most."""

    def forward(self, x: Array, absolute: bool = False) -> Array: ...
    def adjoint(self, g: Array) -> Array: ...


@dataclass(frozen=True, eq=False)
class Move:
    """y[i] = x[index[i]], or 0 where the index is -1; without an index, y = x. No index twice."""

    index: Index | None = None
    size: int = 0  # of x
    fan: int = 1
    exact: bool = True

    def forward(self, x: Array, absolute: bool = False) -> Array:
        if self.index is None:
            return x
        y: Array = x[self.index]
        y[self.index < 0] = 0.0
        return y

    def adjoint(self, g: Array) -> Array:
        if self.index is None:
            return g
        x = np.zeros((self.size, g.shape[1]))
        real = self.index >= 0
        x[self.index[real]] = g[real]
        return x


@dataclass(frozen=True, eq=False)
class Scale:
    """y = factor * x; the factor is within 6 roundings of the exact one."""

    factor: Array  # [size, 1]
    fan: int = 8
    exact: bool = False

    def forward(self, x: Array, absolute: bool = False) -> Array:
        return (np.abs(self.factor) if absolute else self.factor) * x

    def adjoint(self, g: Array) -> Array:
        return self.factor * g


@dataclass(frozen=True, eq=False)
class Matrix:
    """y[p, :, q] = W x[p, :, q] for tensors x [P, K, Q] and y [P, M, Q]."""

    weight: Array  # [M, K], within one rounding of the exact one
    lead: int = 1  # P
    exact: bool = False

    @property
    def fan(self) -> int:
        return int(max(self.weight.shape)) + 2

    @cached_property
    def magnitude(self) -> Array:
        return np.abs(self.weight)

    def forward(self, x: Array, absolute: bool = False) -> Array:
        return self._apply(self.magnitude if absolute else self.weight, x)

    def adjoint(self, g: Array) -> Array:
        return self._apply(self.weight.T, g)

    def _apply(self, matrix: Array, x: Array) -> Array:
        y: Array = np.matmul(matrix, x.reshape(self.lead, matrix.shape[1], -1))
        return y.reshape(-1, x.shape[1])


@dataclass(frozen=True, eq=False)
class Conv:
    """A 2-d convolution of one image [C, H, W], as ONNX defines it; pads are (top, left, bottom,
    right)."""

    weight: Array  # [F, C / groups, kh, kw]
    shape: tuple[int, int, int]  # of the image
    strides: tuple[int, int]
    pads: tuple[int, int, int, int]
    dilations: tuple[int, int]
    groups: int
    exact: bool = False

    @property
    def fan(self) -> int:
        f, c, kh, kw = self.weight.shape
        return int(max(f // self.groups, c) * kh * kw) + 2

    @cached_property
    def out(self) -> tuple[int, int]:
        """The output's height and width."""
        sizes = []
        for axis in range(2):
            padded = self.shape[1 + axis] + self.pads[axis] + self.pads[axis + 2]
            reach = self.dilations[axis] * (self.weight.shape[2 + axis] - 1) + 1
            sizes.append((padded - reach) // self.strides[axis] + 1)
        return sizes[0], sizes[1]

    @cached_property
    def matrix(self) -> Array:
        """[groups, F / groups, C / groups * kh * kw]."""
        return self.weight.reshape(self.groups, self.weight.shape[0] // self.groups, -1)

    @cached_property
    def magnitude(self) -> Array:
        return np.abs(self.matrix)

    def forward(self, x: Array, absolute: bool = False) -> Array:
        (c, h, w), (top, left, bottom, right) = self.shape, self.pads
        padded = np.zeros((c, h + top + bottom, w + left + right, x.shape[1]))
        padded[:, top : top + h, left : left + w] = x.reshape(c, h, w, -1)
        patches = np.empty((c, *self.weight.shape[2:], *self.out, x.shape[1]))
        for i, j, rows, columns in self._windows():
            patches[:, i, j] = padded[:, rows, columns]
        matrix = self.magnitude if absolute else self.matrix
        y: Array = np.matmul(matrix, patches.reshape(self.groups, matrix.shape[2], -1))
        return y.reshape(-1, x.shape[1])

    def adjoint(self, g: Array) -> Array:
        (c, h, w), (top, left, bottom, right) = self.shape, self.pads
        grouped = g.reshape(self.groups, self.matrix.shape[1], -1)
        patches = np.matmul(self.matrix.transpose(0, 2, 1), grouped)
        patches = patches.reshape(c, *self.weight.shape[2:], *self.out, g.shape[1])
        padded = np.zeros((c, h + top + bottom, w + left + right, g.shape[1]))
        for i, j, rows, columns in self._windows():
            padded[:, rows, columns] += patches[:, i, j]
        return padded[:, top : top + h, left : left + w].reshape(-1, g.shape[1])

    def _windows(self) -> list[tuple[int, int, slice, slice]]:
        """For each place (i, j) of the kernel, the pixels it meets."""
        (oh, ow), (sh, sw), (dh, dw) = self.out, self.strides, self.dilations
        return [
            (i, j, slice(i * dh, i * dh + sh * (oh - 1) + 1, sh),
             slice(j * dw, j * dw + sw * (ow - 1) + 1, sw))
            for i in range(self.weight.shape[2]) for j in range(self.weight.shape[3])
        ]  # fmt: skip
