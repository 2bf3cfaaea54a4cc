"""Interval propagation (the paper's IP): bounds of a pre-activation from those of its inputs alone.

    z in [m − r, m + r]  ⇒  ẑ = Σ W z + b  in  Σ W m + b  ±  Σ |W| r

rounded outwards: for f products in a row and E edges, every error of these lines is at most
γ_{f+2E+16} (|W| (|m| + r) + |b|), to which the stored weights' own error is added. A ball is
replaced by the smallest box around it.

Shapes: intervals are `[D, 1, *shape_k]`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from torch import Tensor

from anybound.bound.bounds import Bounds
from anybound.layers import Layers
from anybound.model.affine.map import AffineMap
from anybound.model.domains.domain import Domain
from anybound.model.network import Edge, Network
from anybound.rounding import add_up, gamma, underflow

__all__ = ["Interval", "affine_interval", "interval", "propagate"]


class Interval(NamedTuple):
    """lower ≤ z ≤ upper."""

    lower: Tensor
    upper: Tensor


def interval(network: Network, domain: Domain, within: Bounds | None = None) -> Bounds:
    """Bounds of the hidden layers; each is cut down to `within`, if given, before the next."""
    hidden = propagate(network, domain, within)[1:-1]
    if not hidden:
        nothing = Layers(network.layout, domain.box()[0].flatten(1)[:, None, :0])
        return Bounds(nothing, nothing)
    lower = Layers.concatenate(network.layout, (zhat.lower for zhat in hidden))
    upper = Layers.concatenate(network.layout, (zhat.upper for zhat in hidden))
    bounds = Bounds(lower, upper)
    bounds.check()
    return bounds


def propagate(network: Network, domain: Domain, within: Bounds | None = None) -> list[Interval]:
    """The intervals of z_0, ẑ_1, …, ẑ_n."""
    box = Interval(*domain.box())
    zhat, z = [box], [box]
    for k, node in enumerate(network.nodes[1:], start=1):
        image = affine_interval(node.edges, z)
        if within is not None and k < network.n:
            image = Interval(
                image.lower.maximum(within.lower[k]), image.upper.minimum(within.upper[k])
            )
        zhat.append(image)
        z.append(image if node.activation is None else Interval(*node.activation.range(*image)))
    return zhat


def affine_interval(edges: Sequence[Edge], z: Sequence[Interval]) -> Interval:
    """ẑ = Σ_j W_j z_j + b over independent z_j in the intervals `z[j]`."""
    middle, spread, error = _image(edges[0].map, z[edges[0].source], len(edges))
    for edge in edges[1:]:
        m, s, e = _image(edge.map, z[edge.source], len(edges))
        middle, spread, error = middle + m, spread + s, error + e
    reach = spread + error
    return Interval(middle - reach, middle + reach)


def _image(map_: AffineMap, z: Interval, edges: int) -> tuple[Tensor, Tensor, Tensor]:
    """(W m + b, |W| r, at least all errors of these and of adding up `edges` such images)."""
    m = z.lower / 2 + z.upper / 2
    r = add_up(z.upper, -m).maximum(add_up(m, -z.lower))
    middle, spread = map_.apply(m), map_.abs_linear(r)
    size = map_.abs_linear(m.abs()) + spread
    roundings = map_.fan_in + 2 * edges + 16
    # twice the number of roundings, as `size` itself is a rounded sum
    error = (gamma(2 * roundings, m.dtype) + 1.001 * map_.error.relative) * size
    if map_.bias is not None:
        error = error + gamma(2 * roundings, m.dtype) * map_.bias.abs()
    if map_.error.absolute:
        dims = tuple(range(2, m.ndim))
        total = (m.abs() + r).sum(dims) if dims else m.abs() + r
        lost = 1.001 * map_.error.absolute * total
        error = error + lost.reshape(*lost.shape, *[1] * len(map_.out_shape))
    vanished = 4 * map_.lost(m.dtype) + underflow(4 * roundings, m.dtype)
    return middle, spread, error + (1.001 * map_.error.bias + vanished)
