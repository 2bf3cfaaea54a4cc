"""Which neurons are live between given bounds, and their relaxations.

A neuron is live unless its activation is 0 all over [l, u]. Live neurons are rows, numbered through

    [ inputs | live neurons of layer 1 | … | live neurons of layer n−1 ]

layer by layer with the ambiguous ones first. A row is *ambiguous* where its activation bends on [l,
u]; otherwise it is affine there, σ(x) = fixed·x. All of them are σ(x) = max(x, 0) + left·min(x, 0)
with left <= 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from anybound.model.activations.activation import Activation
from anybound.model.activations.bent import Bent
from anybound.model.network import Network

Index = NDArray[np.int64]
Vector = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Rows:
    """One entry per row of one or several nodes, in float64.

    `neuron` is the place in the node; `sigma_error·|x|` is what σ's own stored numbers may be wrong
    by at x."""

    neuron: Index
    bends: NDArray[np.bool_]
    lower: Vector
    upper: Vector
    left: Vector
    chord: Vector  # on an affine row: its slope
    offset: Vector  # chord·x + offset >= σ(x) on [l, u]
    size: Vector  # the largest |σ(x)|
    sigma_error: Vector

    def __len__(self) -> int:
        return len(self.neuron)

    @classmethod
    def join(cls, parts: list[Self]) -> Self:
        names = cls.__dataclass_fields__
        return cls(**{name: np.concatenate([getattr(p, name) for p in parts]) for name in names})

    @classmethod
    def inputs(cls, lower: Vector, upper: Vector) -> Self:
        """The rows of a box of inputs, all of them live."""
        one, zero = np.ones(len(lower)), np.zeros(len(lower))
        size = np.maximum(np.abs(lower), np.abs(upper))
        none = np.zeros(len(lower), bool)
        return cls(np.arange(len(lower)), none, lower, upper, one, one, zero, size, zero)

    @classmethod
    def targets(cls, neuron: Index) -> Self:
        """Pre-activations whose bounds are wanted: their own activation plays no part."""
        one, zero = np.ones(len(neuron)), np.zeros(len(neuron))
        none = np.zeros(len(neuron), bool)
        return cls(neuron, none, zero, zero, one, one, zero, zero, zero)

    @classmethod
    def live(
        cls, activation: Activation, l: Tensor, u: Tensor, keep: NDArray[np.bool_] | None = None
    ) -> Self:
        """The live neurons of a layer between float64 bounds of its shape.

        Those of `keep` count as ambiguous, whatever their bounds: a split neuron must keep its
        multiplier."""
        low, high = activation.range(l, u)
        bends = _numpy(activation.fixed(l, u).logical_not())
        alive = _numpy((low != 0) | (high != 0))
        if keep is not None:
            bends, alive = bends | keep, alive | keep
        neuron = np.concatenate([np.flatnonzero(bends), np.flatnonzero(alive & ~bends)])
        chord, offset = (
            activation.chord(l, u),
            activation.upper_offset(activation.chord(l, u), l, u),
        )
        left, left_error = _left(activation, chord)
        size = torch.maximum(low.abs(), high.abs())

        def take(x: Tensor) -> Vector:
            return np.asarray(_numpy(x.broadcast_to(l.shape))[neuron], np.float64)

        mask = bends[neuron]
        return cls(
            neuron,
            mask,
            take(l),
            take(u),
            np.where(mask, take(left), take(chord)),
            take(chord),
            np.where(mask, take(offset), 0.0),
            take(size),
            take(left_error),
        )


def _left(activation: Activation, like: Tensor) -> tuple[Tensor, Tensor]:
    """σ's slope below 0, and how far the stored number may be from the exact one."""
    if isinstance(activation, Bent):
        return activation.left(like), activation.left_error(like)
    return torch.ones_like(like), torch.zeros_like(like)


def _numpy(x: Tensor) -> NDArray[Any]:
    flat: NDArray[Any] = x.detach().cpu().numpy().reshape(-1)
    return flat


def live_rows(
    network: Network,
    lower: Mapping[int, Tensor],
    upper: Mapping[int, Tensor],
    box: tuple[Tensor, Tensor],
    keep: Mapping[int, NDArray[np.bool_]] | None = None,
) -> dict[int, Rows]:
    """The rows of the input and of the layers that have bounds, by node; bounds are float64 of the
    layer's shape."""
    rows = {0: Rows.inputs(_numpy(box[0]), _numpy(box[1]))}
    for k in sorted(lower):
        activation = network.nodes[k].activation
        if activation is None:
            raise ValueError(f"node {k} is not a hidden layer")
        rows[k] = Rows.live(activation, lower[k], upper[k], None if keep is None else keep.get(k))
    return rows
