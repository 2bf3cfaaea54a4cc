"""Sub-problems as boxes in the space of pre-activations: own bounds of the neurons that were ambiguous at the root.

A split at s turns [l, u] into [s, u] and [l, s], which cover it. Bounds are float32, rounded outwards from the root's;
split points are float32 numbers, so that nothing is rounded any more further down.

Shapes: N sub-problems, A ambiguous neurons, `total` hidden neurons.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from anybound.bound.bounds import Bounds
from anybound.layers import Layers
from anybound.model.network import Network


class Cells(NamedTuple):
    """lower <= ẑ <= upper of the ambiguous neurons, `[N, A]` float32 each."""

    lower: Tensor
    upper: Tensor

    def take(self, index: Tensor) -> Cells:
        return Cells(self.lower[index], self.upper[index])

    @property
    def empty(self) -> Tensor:
        """`[N]`: no input leads there, as some neuron has no value left.

        That is rigorous: the root's bounds hold for every input, every cut is either half of a cover, and what is
        carried on from cuts is rounded outwards; so an input of the sub-problem has lower <= ẑ <= upper."""
        return (self.lower > self.upper).any(1)

    def nonempty(self) -> Cells:
        """With crossed bounds exchanged, for computations whose results are then thrown away."""
        return Cells(self.lower.minimum(self.upper), self.lower.maximum(self.upper))

    def marked(self, empty: Tensor) -> Cells:
        """With the sub-problems `empty` `[N]` made so."""
        if self.lower.shape[1] == 0 or not bool(empty.any()):
            return self
        lower, upper = self.lower.clone(), self.upper.clone()
        lower[empty, 0], upper[empty, 0] = 1.0, -1.0
        return Cells(lower, upper)


@dataclass(frozen=True, eq=False)
class RootCell:
    """The root's bounds in float64, and which neurons can be split."""

    network: Network
    bounds: Bounds

    @cached_property
    def index(self) -> Tensor:
        """`[A]`: the ambiguous neurons' places among all hidden ones."""
        return self.bounds.ambiguous(self.network)[0, 0].nonzero().squeeze(1)

    @cached_property
    def narrow(self) -> Bounds:
        """In float32, rounded outwards."""
        return self.bounds.to(torch.float32)

    def cells(self, count: int) -> Cells:
        """The root, so many times."""
        return Cells(
            *(
                side.data[0, 0, self.index].expand(count, -1).clone()
                for side in (self.narrow.lower, self.narrow.upper)
            )
        )

    def between(self, cells: Cells, dtype: torch.dtype) -> Bounds:
        """Bounds of all neurons `[N, 1, total]`."""
        root = self.narrow if dtype == torch.float32 else self.bounds
        return Bounds(
            self.spread(cells.lower, root.lower.data), self.spread(cells.upper, root.upper.data)
        )

    def spread(self, values: Tensor, others: Tensor) -> Layers:
        """Values `[N, A]` of the ambiguous neurons among those of the others `[1, 1, total]`."""
        data = others.expand(len(values), 1, -1).clone()
        data[:, 0, self.index] = values.to(others.dtype)
        return Layers(self.network.layout, data)

    def gather(self, values: Tensor) -> Tensor:
        """The ambiguous neurons' `[N, A]` of `[N, 1, total]`."""
        return values[:, 0, self.index]

    def branched(self, cells: Cells) -> Tensor:
        """`[N, 1, total]`: the neurons whose bounds were cut."""
        root = self.cells(1)
        cut = (cells.lower > root.lower) | (cells.upper < root.upper)
        none = torch.zeros(1, 1, self.network.layout.total, dtype=torch.bool)
        return self.spread(cut, none).data

    def is_cut(self, cells: Cells, neuron: Tensor) -> Tensor:
        """`[N]`: whether one neuron of each sub-problem was cut before."""
        root, at = self.cells(1), torch.arange(len(neuron))
        above = cells.lower[at, neuron] > root.lower[0, neuron]
        return above | (cells.upper[at, neuron] < root.upper[0, neuron])

    def split_points(self, cells: Cells) -> Tensor:
        """`[N, A]`: where each neuron would be cut."""
        bounds = self.between(cells, torch.float32)
        l, u = bounds.lower, bounds.upper
        parts = [
            activation.split_at(l.flat(k), u.flat(k))
            for k, activation in self.network.flat_activations()
        ]
        return self.gather(torch.cat(parts, -1)) if parts else cells.lower

    def splittable(self, cells: Cells, points: Tensor) -> Tensor:
        """`[N, A]`: σ still bends, and the cut leaves two smaller parts."""
        bounds = self.between(cells, torch.float32)
        inside = (cells.lower < points) & (points < cells.upper)
        return self.gather(bounds.ambiguous(self.network)) & inside

    def cut(self, cells: Cells, neuron: Tensor, above: Tensor) -> Cells:
        """One side of each cell, cut at one neuron `[N]`: the part above the split point, or that below it."""
        at = torch.arange(len(neuron))
        point = self.split_points(cells)[at, neuron]
        lower, upper = cells.lower.clone(), cells.upper.clone()
        lower[at, neuron] = torch.where(above, point.maximum(lower[at, neuron]), lower[at, neuron])
        upper[at, neuron] = torch.where(above, upper[at, neuron], point.minimum(upper[at, neuron]))
        return Cells(lower, upper)

    def split(self, parents: Cells, neuron: Tensor) -> Cells:
        """Both children of each parent, the one above the split point first: `[2N, A]`."""
        twice = torch.arange(len(neuron)).repeat_interleave(2)
        above = torch.arange(2 * len(neuron)) % 2 == 0
        return self.cut(parents.take(twice), neuron[twice], above)
