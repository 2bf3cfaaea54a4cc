"""Intermediate bounds: l_k <= ẑ_k <= u_k for every neuron of every hidden layer.

Shapes: `[D, 1, *shape_k]` per layer (D sub-problems, shared by all objective rows), in one buffer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from anybound.errors import InvalidInput
from anybound.layers import Layers, Layout
from anybound.model.network import Network
from anybound.rounding import round_down, round_up


class LayerCount(NamedTuple):
    """How many neurons of a layer are ambiguous (their activation is not affine between the bounds), of how many."""

    layer: int
    neurons: int
    ambiguous: int


@dataclass(frozen=True, eq=False)
class Bounds:
    """lower <= ẑ <= upper, `[D, 1, total]` each."""

    lower: Layers
    upper: Layers

    @property
    def layout(self) -> Layout:
        return self.lower.layout

    @property
    def count(self) -> int:
        """D, the number of sub-problems."""
        return self.lower.data.shape[0]

    def upto(self, k: int) -> Bounds:
        """The bounds of layers 1 … k−1."""
        return Bounds(self.lower.upto(k), self.upper.upto(k))

    def pick(self, index: Tensor) -> Bounds:
        return Bounds(self.lower.pick(index), self.upper.pick(index))

    def to(self, dtype: torch.dtype, device: torch.device | None = None) -> Bounds:
        """In another dtype, rounded outwards."""
        lower, upper = round_down(self.lower.data, dtype), round_up(self.upper.data, dtype)
        return Bounds(
            self.lower.like(lower.to(device=device)), self.upper.like(upper.to(device=device))
        )

    def intersect(self, other: Bounds) -> Bounds:
        """The tighter of each pair."""
        return Bounds(
            self.lower.like(self.lower.data.maximum(other.lower.data)),
            self.upper.like(self.upper.data.minimum(other.upper.data)),
        )

    def is_empty(self) -> Tensor:
        """`[D]`: whether some neuron has no value left, so that the sub-problem is infeasible."""
        return (self.lower.data > self.upper.data).flatten(1).any(1)

    def ambiguous(self, network: Network) -> Tensor:
        """`[D, 1, total]`: the neurons whose activation is not affine between their bounds."""
        masks = [
            activation.fixed(self.lower.flat(k), self.upper.flat(k)).logical_not()
            for k, activation in network.flat_activations()
        ]
        return (
            torch.cat(masks, dim=-1)
            if masks
            else torch.zeros_like(self.lower.data, dtype=torch.bool)
        )

    def counts(self, network: Network) -> list[LayerCount]:
        """Neurons and ambiguous neurons per hidden layer, averaged over the sub-problems and rounded."""
        mask = Layers(self.layout, self.ambiguous(network))
        return [
            LayerCount(
                k, mask.flat(k).shape[-1], round(float(mask.flat(k).double().sum() / self.count))
            )
            for k in self.layout.indices
        ]

    def check(self) -> None:
        """Refuse bounds that a dual cannot be built on."""
        if not bool((self.lower.data.isfinite() & self.upper.data.isfinite()).all()):
            raise InvalidInput(
                "intermediate bounds are NaN or infinite; the network's weights or the input set are too large"
            )
