"""One quantity with a block per hidden layer (ρ, l, u, ẑ_A, z, …) in one buffer.

A `Layers` is a tensor `[..., total]` whose last axis runs through the hidden layers k = 1 … n−1 one
after the other, so that elementwise work is one operation over all layers at once, while
`layers[k]` is a view `[..., *shape_k]` for the affine maps. Indices are the paper's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from math import prod

import torch
from torch import Tensor

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Layout:
    """Where each hidden layer's block lies: `shapes[k − 1]` is the shape of layer k."""

    shapes: tuple[Shape, ...]

    @cached_property
    def offsets(self) -> tuple[int, ...]:
        return (0, *accumulate(prod(shape) for shape in self.shapes))

    @property
    def total(self) -> int:
        return self.offsets[-1]

    @property
    def indices(self) -> range:
        """The k of the hidden layers, 1 … n−1."""
        return range(1, len(self.shapes) + 1)

    def span(self, k: int) -> slice:
        return slice(self.offsets[k - 1], self.offsets[k])

    def upto(self, k: int) -> Layout:
        """The layout of layers 1 … k−1."""
        return Layout(self.shapes[: k - 1])


@dataclass(frozen=True, eq=False)
class Layers:
    """A tensor `data` `[..., total]` with named blocks."""

    layout: Layout
    data: Tensor

    def __getitem__(self, k: int) -> Tensor:
        """Layer k as a view `[..., *shape_k]`."""
        block = self.data[..., self.layout.span(k)]
        return block.view(*block.shape[:-1], *self.layout.shapes[k - 1])

    def flat(self, k: int) -> Tensor:
        """Layer k as a view `[..., size_k]`."""
        return self.data[..., self.layout.span(k)]

    def __iter__(self) -> Iterator[Tensor]:
        return (self[k] for k in self.layout.indices)

    def like(self, data: Tensor) -> Layers:
        return Layers(self.layout, data)

    def upto(self, k: int) -> Layers:
        """Layers 1 … k−1 of the same data, a view."""
        layout = self.layout.upto(k)
        return Layers(layout, self.data[..., : layout.total])

    def pick(self, index: Tensor) -> Layers:
        """The sub-problems with these indices; data shared by all of them is returned as it is."""
        return self if self.data.shape[0] == 1 else self.like(self.data[index])

    def to(self, dtype: torch.dtype, device: torch.device | None = None) -> Layers:
        return self.like(self.data.to(dtype=dtype, device=device))

    @staticmethod
    def concatenate(layout: Layout, blocks: Iterable[Tensor]) -> Layers:
        """From one tensor `[..., *shape_k]` per layer, in order."""
        flat = [
            block.reshape(*block.shape[: block.ndim - len(shape)], prod(shape))
            for block, shape in zip(blocks, layout.shapes, strict=True)
        ]
        return Layers(layout, torch.cat(flat, dim=-1))
