"""P_k, the convex hulls of all hidden layers' activations, over which linear functions are minimised.

    min over (ẑ_B, z) in cvx_hull_σ(l, u)  of  ρ·ẑ_B + g·z   =   min over x in [l, u] of  ρ·x + g·σ(x)

neuron by neuron: a linear function over the hull of a graph is minimal on the graph.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from anybound.bound.bounds import Bounds
from anybound.layers import Layers
from anybound.model.activations.activation import Activation
from anybound.model.network import Network


class HullMin(NamedTuple):
    """Where P_k's minimum is attained and what it is: `[D, R, total]` each."""

    zhat_b: Tensor
    z: Tensor
    value: Tensor


class Span(NamedTuple):
    """Neighbouring layers that share an activation, as a slice of the flat buffer."""

    activation: Activation
    where: slice


@dataclass(frozen=True, eq=False)
class Hull:
    """cvx_hull_σ of every hidden layer between its bounds."""

    network: Network
    bounds: Bounds

    @cached_property
    def spans(self) -> tuple[Span, ...]:
        spans: list[Span] = []
        for k, activation in self.network.activations():
            where = self.network.layout.span(k)
            if spans and spans[-1].activation == activation and activation.uniform:
                spans[-1] = Span(activation, slice(spans[-1].where.start, where.stop))
            else:
                spans.append(Span(activation, where))
        return tuple(spans)

    def argmin(self, rho: Tensor, g: Tensor) -> HullMin:
        """The minimum of ρ·ẑ_B + g·z over every neuron's hull; ρ, g `[D, R, total]`."""
        l, u = self.bounds.lower.data, self.bounds.upper.data
        parts = [
            activation.argmin(rho[..., at], g[..., at], l[..., at], u[..., at]) for activation, at in self.spans
        ]
        if len(parts) == 1:
            return HullMin(*parts[0])
        if not parts:
            return HullMin(rho, rho, rho)
        return HullMin(*(torch.cat(column, dim=-1) for column in zip(*parts, strict=True)))

    def argmin_layer(self, k: int, rho: Tensor, g: Tensor) -> HullMin:
        """The same for one layer: ρ, g `[D, R, *shape_k]`."""
        activation = self.network.nodes[k].activation
        if activation is None:
            raise ValueError(f"node {k} is not a hidden layer")
        return HullMin(*activation.argmin(rho, g, self.bounds.lower[k], self.bounds.upper[k]))

    def slack(self, rho: Tensor, g: Tensor) -> Tensor:
        """`[D, R, total]`: argmin's value minus this never exceeds the exact minimum for exact ρ and g."""
        l, u = self.bounds.lower.data, self.bounds.upper.data
        parts = [
            activation.slack(rho[..., at], g[..., at], l[..., at], u[..., at]) for activation, at in self.spans
        ]
        return torch.cat(parts, dim=-1) if parts else torch.zeros_like(rho)

    @cached_property
    def magnitude(self) -> Tensor:
        """`[D, 1, total]`: the largest |z| of every hidden neuron."""
        l, u = self.bounds.lower.data, self.bounds.upper.data
        parts = []
        for activation, at in self.spans:
            low, high = activation.range(l[..., at], u[..., at])
            parts.append(low.abs().maximum(high.abs()))
        return torch.cat(parts, dim=-1) if parts else l

    @cached_property
    def ambiguous(self) -> Tensor:
        """`[D, 1, total]`: the neurons on which the hull is larger than the graph."""
        return self.bounds.ambiguous(self.network)
