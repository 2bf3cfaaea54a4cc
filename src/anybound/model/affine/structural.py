"""Maps that move, repeat or add entries, all of whose weights are 0 or 1.

| map      | W z                                     | covers                                  |
|----------|-----------------------------------------|-----------------------------------------|
| Identity | z                                       | Dropout, Cast                           |
| Reshape  | z in another shape                      | Flatten, Squeeze, Unsqueeze             |
| Permute  | z with its axes permuted                | Transpose                               |
| Gather   | z.flatten()[index]                      | Slice, Split, Flip, Expand, Tile, Resize |
| Pad      | z amid zeros; cropped where pads < 0    | Pad, Concat (`Pad.embed`)               |
| Sum      | Σ over axes                             | ReduceSum; ReduceMean with a `Scale`    |
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from anybound.errors import InvalidModel
from anybound.model.affine.csr import Csr
from anybound.model.affine.map import Shape, Weightless


@dataclass(frozen=True, eq=False)
class Reshape(Weightless):
    """The same entries, in row-major order, in another shape: `Reshape(in_shape, out_shape)`."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.in_size != self.out_size:
            raise InvalidModel(
                f"a reshape keeps the number of entries, but {self.in_shape} has {self.in_size} "
                f"and {self.out_shape} has {self.out_size}"
            )

    def _linear(self, z: Tensor) -> Tensor:
        return z.reshape(-1, *self.out_shape)

    def _transpose(self, rho: Tensor) -> Tensor:
        return rho.reshape(-1, *self.in_shape)

    def sparse(self) -> Csr:
        return selection(np.arange(self.out_size), self.in_size)

    @property
    def selects(self) -> bool:
        return True

    @property
    def fan_in(self) -> int:
        return 1

    @property
    def fan_out(self) -> int:
        return 1


@dataclass(frozen=True, eq=False)
class Identity(Reshape):
    """z ↦ z + b."""

    @classmethod
    def of(cls, shape: Shape, bias: Tensor | None = None) -> Identity:
        return cls(shape, shape, bias=bias)


@dataclass(frozen=True, eq=False)
class Permute(Weightless):
    """Axis k of the result is axis `axes[k]` of z."""

    axes: tuple[int, ...]

    @classmethod
    def of(cls, in_shape: Shape, axes: Sequence[int]) -> Permute:
        if sorted(axes) != list(range(len(in_shape))):
            raise InvalidModel(f"{tuple(axes)} is not a permutation of the axes of {in_shape}")
        return cls(in_shape, tuple(in_shape[axis] for axis in axes), tuple(axes))

    def _linear(self, z: Tensor) -> Tensor:
        return z.permute(0, *(axis + 1 for axis in self.axes))

    def _transpose(self, rho: Tensor) -> Tensor:
        return rho.permute(0, *(self.axes.index(axis) + 1 for axis in range(len(self.axes))))

    def sparse(self) -> Csr:
        index = np.arange(self.in_size).reshape(self.in_shape).transpose(self.axes)
        return selection(index.ravel(), self.in_size)

    @property
    def selects(self) -> bool:
        return True

    @property
    def fan_in(self) -> int:
        return 1

    @property
    def fan_out(self) -> int:
        return 1


@dataclass(frozen=True, eq=False)
class Gather(Weightless):
    """Entry i of the result is entry `index[i]` of z, both flat; taken once, often or never."""

    index: Tensor

    @classmethod
    def of(cls, in_shape: Shape, index: Tensor, bias: Tensor | None = None) -> Gather:
        """The map that picks flat `index` (whose shape is the result's).

        Any indexing becomes one by doing it to `torch.arange(prod(in_shape)).reshape(in_shape)`.
        """
        if index.numel() and not 0 <= int(index.min()) <= int(index.max()) < prod(in_shape):
            raise InvalidModel(
                f"a flat index in [{int(index.min())}, {int(index.max())}] does not fit the "
                f"{prod(in_shape)} entries of {in_shape}"
            )
        return cls(in_shape, tuple(index.shape), index.reshape(-1), bias=bias)

    @classmethod
    def along(cls, in_shape: Shape, axis: int, index: Sequence[int]) -> Gather:
        """The map that picks the slices `index` of one axis."""
        entries = torch.arange(prod(in_shape)).reshape(in_shape)
        return cls.of(in_shape, entries.index_select(axis, torch.tensor(index, dtype=torch.long)))

    def to(self, dtype: torch.dtype, device: torch.device | None = None) -> Self:
        return replace(super().to(dtype, device), index=self.index.to(device))

    def _linear(self, z: Tensor) -> Tensor:
        return z.reshape(len(z), -1).index_select(1, self.index).reshape(-1, *self.out_shape)

    def _transpose(self, rho: Tensor) -> Tensor:
        out = rho.new_zeros(len(rho), self.in_size)
        return out.index_add_(1, self.index, rho.reshape(len(rho), -1)).reshape(-1, *self.in_shape)

    def sparse(self) -> Csr:
        return selection(self.index.cpu().numpy(), self.in_size)

    @property
    def selects(self) -> bool:
        return True

    @property
    def fan_in(self) -> int:
        return 1

    @cached_property
    def _most_taken(self) -> int:
        return int(self.index.bincount().max()) if self.index.numel() else 0

    @property
    def fan_out(self) -> int:
        return self._most_taken


@dataclass(frozen=True, eq=False)
class Pad(Weightless):
    """z amid zeros: `pads[k]` = (before, after) entries on axis k; negative numbers crop."""

    pads: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, in_shape: Shape, pads: Sequence[tuple[int, int]], value: float = 0.0) -> Pad:
        """The map that pads with a constant, which becomes the bias (in float64)."""
        pads = tuple((int(before), int(after)) for before, after in pads)
        kept = [size + min(0, a) + min(0, b) for size, (a, b) in zip(in_shape, pads, strict=True)]
        if any(size < 0 for size in kept):
            raise InvalidModel(f"pads {pads} crop more than the shape {in_shape} has")
        out_shape = tuple(size + a + b for size, (a, b) in zip(in_shape, pads, strict=True))
        padded = cls(in_shape, out_shape, pads)
        if value == 0.0:
            return padded
        bias = value * (1.0 - padded.linear(torch.ones(in_shape, dtype=torch.float64)))
        return replace(padded, bias=bias)

    @classmethod
    def embed(cls, in_shape: Shape, axis: int, offset: int, size: int) -> Pad:
        """Puts z at `offset` of an axis of length `size`: one operand of a concatenation."""
        pads = [(0, 0)] * len(in_shape)
        pads[axis] = (offset, size - offset - in_shape[axis])
        return cls.of(in_shape, pads)

    def _linear(self, z: Tensor) -> Tensor:
        return functional.pad(z, [side for pair in reversed(self.pads) for side in pair])

    def _transpose(self, rho: Tensor) -> Tensor:
        return functional.pad(rho, [-side for pair in reversed(self.pads) for side in pair])

    def sparse(self) -> Csr:
        index = torch.arange(1, self.in_size + 1).reshape(1, *self.in_shape)
        return selection(self._linear(index).flatten().numpy() - 1, self.in_size)

    @property
    def selects(self) -> bool:
        return True

    @property
    def fan_in(self) -> int:
        return 1

    @property
    def fan_out(self) -> int:
        return 1


@dataclass(frozen=True, eq=False)
class Sum(Weightless):
    """Σ over `axes`, which are dropped from the shape or keep length 1."""

    axes: tuple[int, ...]

    @classmethod
    def of(cls, in_shape: Shape, axes: Sequence[int], *, keepdim: bool = False) -> Sum:
        axes = tuple(sorted(axis % len(in_shape) for axis in axes))
        lengths = [(axis, 1 if axis in axes else size) for axis, size in enumerate(in_shape)]
        out_shape = tuple(size for axis, size in lengths if keepdim or axis not in axes)
        return cls(in_shape, out_shape, axes)

    @property
    def _kept_shape(self) -> Shape:
        return tuple(1 if k in self.axes else size for k, size in enumerate(self.in_shape))

    def _linear(self, z: Tensor) -> Tensor:
        if not self.axes:
            return z.reshape(-1, *self.out_shape)
        return z.sum([axis + 1 for axis in self.axes]).reshape(-1, *self.out_shape)

    def _transpose(self, rho: Tensor) -> Tensor:
        return rho.reshape(-1, *self._kept_shape).expand(-1, *self.in_shape)

    def sparse(self) -> Csr:
        outputs = np.arange(self.out_size).reshape(self._kept_shape)
        index = np.broadcast_to(outputs, self.in_shape).ravel()
        return selection(index, self.out_size).transposed()

    @property
    def fan_in(self) -> int:
        return prod(self.in_shape[axis] for axis in self.axes)

    @property
    def fan_out(self) -> int:
        return 1


def selection(index: NDArray[np.int64], columns: int) -> Csr:
    """The 0/1 matrix whose row i has its one at column `index[i]`, and none if that is negative."""
    taken = index >= 0
    starts = np.concatenate([[0], np.cumsum(taken)])
    return Csr(starts, index[taken], np.ones(int(taken.sum())), (len(index), columns))
