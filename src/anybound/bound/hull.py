"""P_k, the convex hulls of all hidden layers' activations, over which linear functions are
minimised.

    min over (ẑ_B, z) in cvx_hull_σ(l, u)  of  ρ·ẑ_B + g·z   =   min over x in [l, u] of  ρ·x + g·σ(x)

neuron by neuron: a linear function over the hull of a graph is minimal on the graph.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from anybound.bound import kernels
from anybound.bound.bounds import Bounds
from anybound.bound.kernels import Oracle
from anybound.layers import Layers
from anybound.model.activations.activation import (
    Activation,
    Between,
    Rates,
    Relaxation,
)
from anybound.model.domains.domain import Domain
from anybound.model.network import Network
from anybound.rounding import gamma, underflow


class HullMin(NamedTuple):
    """Where P_k's minimum is attained and what it is: `[D, R, total]` each."""

    zhat_b: Tensor
    z: Tensor
    value: Tensor


class Span(NamedTuple):
    """Neighbouring layers that share an activation, as a slice of the flat buffer."""

    activation: Activation
    where: slice


class Slopes(NamedTuple):
    """The slopes of the lines below and above each activation, broadcastable to `[D, R, total]`."""

    lower: Tensor
    upper: Tensor


_Elementwise = Callable[[Activation, Tensor, Tensor], tuple[Tensor, ...]]


@dataclass(frozen=True, eq=False)
class Hull:
    """cvx_hull_σ of every hidden layer between its bounds: all of a relaxation but the objective.

    `branched` `[D, 1, total]` marks neurons whose bounds were cut by branching: being stable, they
    still need a free multiplier, as the cut is a constraint that nothing else knows of.

    `base` is a hull with D = 1 that has the same bounds, up to rounding, wherever `branched` is false: what depends on
    bounds alone is computed once for it, and anew only where branching has cut."""

    network: Network
    domain: Domain
    bounds: Bounds
    branched: Tensor | None = None
    base: Hull | None = None
    iterating: bool = False  # its minimum is sought again and again: kernels are worth loading

    @cached_property
    def spans(self) -> tuple[Span, ...]:
        spans: list[Span] = []
        for k, activation in self.network.flat_activations():
            where = self.network.layout.span(k)
            if spans and spans[-1].activation == activation and activation.uniform:
                spans[-1] = Span(activation, slice(spans[-1].where.start, where.stop))
            else:
                spans.append(Span(activation, where))
        return tuple(spans)

    def argmin(self, rho: Tensor, g: Tensor) -> HullMin:
        """The minimum of ρ·ẑ_B + g·z over every neuron's hull; ρ, g `[D, R, total]`."""
        parts = [
            oracle(rho[..., at], g[..., at])
            for oracle, (_, at) in zip(self._oracles, self.spans, strict=True)
        ]
        if len(parts) == 1:
            return HullMin(*parts[0])
        if not parts:
            return HullMin(rho, rho, rho)
        return HullMin(*(torch.cat(column, dim=-1) for column in zip(*parts, strict=True)))

    def argmin_layer(self, k: int, rho: Tensor, g: Tensor) -> HullMin:
        """The same for one layer: ρ, g `[D, R, *shape_k]`."""
        return HullMin(*self._layer_oracles[k](rho, g))

    @cached_property
    def _oracles(self) -> list[Oracle]:
        """(ρ, g) ↦ the minimum, of every span."""
        l, u = self.bounds.lower.data, self.bounds.upper.data
        with torch.inference_mode(False):  # what is kept must not refuse autograd later
            return [self._oracle(σ, l[..., at], u[..., at]) for σ, at in self.spans]

    @cached_property
    def _layer_oracles(self) -> dict[int, Oracle]:
        """The same of every layer, in its own shape."""
        l, u = self.bounds.lower, self.bounds.upper
        with torch.inference_mode(False):
            return {k: self._oracle(σ, l[k], u[k]) for k, σ in self.network.activations()}

    def _oracle(self, activation: Activation, l: Tensor, u: Tensor) -> Oracle:
        plain = activation.over(l, u)
        return kernels.oracle(activation, l, u, plain) if self.iterating else plain

    def loss(self, rho: Tensor, g: Tensor) -> Tensor:
        """`[D, R]`: Σ slack(ρ, g) + Σ_k |ρ_k|ᵀ E_k, the latter for what rounding may do to g; see `tolerance`.

        Where the slack is linear in |ρ| and |g|, both are products with vectors."""
        of_rho, of_g, constant = self._rates
        total = _dot(rho.abs(), of_rho) + _dot(g.abs(), of_g) + constant
        l, u = self.bounds.lower.data, self.bounds.upper.data
        for activation, at in self._uneven:
            slack = activation.slack(rho[..., at], g[..., at], l[..., at], u[..., at])
            total = total + slack.sum(-1)
        return total

    @property
    def loss_is_even(self) -> bool:
        """Whether the loss at (−ρ, −g) is that at (ρ, g)."""
        return not self._uneven

    @cached_property
    def _uneven(self) -> tuple[Span, ...]:
        """The spans whose slack is not linear in |ρ| and |g|."""
        l, u = self.bounds.lower.data, self.bounds.upper.data
        return tuple(
            s
            for s in self.spans
            if s.activation.slack_rates(l[..., s.where], u[..., s.where]) is None
        )

    @cached_property
    def _rates(self) -> Rates:
        """The rates of all neurons, `[D, 1, total]` and for the constant `[D, 1]`; E_k is added to those of ρ."""
        l, u = self.bounds.lower.data, self.bounds.upper.data
        count = max(len(l), len(self.tolerance.data))
        of_rho = self.tolerance.data.expand(count, -1, -1).clone()
        of_g, constant = torch.zeros_like(of_rho), torch.zeros_like(of_rho)
        for activation, at in self.spans:
            rates = activation.slack_rates(l[..., at], u[..., at])
            if rates is not None:
                of_rho[..., at] += rates.of_c
                of_g[..., at] = rates.of_g
                constant[..., at] = rates.constant
        return Rates(of_rho, of_g, constant.sum(-1))

    def to(self, dtype: torch.dtype, device: torch.device | None = None) -> Hull:
        """In another dtype, the input set and the bounds rounded outwards."""
        branched = None if self.branched is None else self.branched.to(device=device)
        network, domain = self.network.to(dtype, device), self.domain.to(dtype, device)
        base = None if self.base is None else self.base.to(dtype, device)
        bounds = self.bounds.to(dtype, device)
        return Hull(network, domain, bounds, branched, base, self.iterating)

    def pick(self, index: Tensor) -> Hull:
        """The sub-problems with these indices."""
        branched = self.branched
        if branched is not None and branched.shape[0] > 1:
            branched = branched[index]
        domain, bounds = self.domain.pick(index), self.bounds.pick(index)
        return Hull(self.network, domain, bounds, branched, self.base, self.iterating)

    @cached_property
    def magnitude(self) -> Tensor:
        """`[D, 1, total]`: the largest |z| of every hidden neuron."""
        l, u = self.bounds.lower.data, self.bounds.upper.data
        parts = []
        for activation, at in self.spans:
            low, high = activation.range(l[..., at], u[..., at])
            parts.append(low.abs().maximum(high.abs()))
        return torch.cat(parts, dim=-1) if parts else l

    def lines(
        self, relax: Callable[[Activation], Callable[[Tensor, Tensor], Relaxation]]
    ) -> Slopes:
        """The slopes of a linear relaxation of every activation."""

        def slopes(activation: Activation, l: Tensor, u: Tensor) -> tuple[Tensor, ...]:
            relaxation = relax(activation)(l, u)
            return relaxation.lower_slope, relaxation.upper_slope

        return Slopes(*self.columns(slopes, 2))

    @cached_property
    def slope_limits(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """(lower_min, lower_max, upper_min, upper_max), `[D, 1, total]` each: the useful slopes of lines around σ."""
        low_min, low_max, up_min, up_max = self.columns(lambda σ, l, u: σ.slopes(l, u), 4)
        return low_min, low_max, up_min, up_max

    def columns(self, of: _Elementwise, count: int) -> tuple[Tensor, ...]:
        """So many elementwise functions of the bounds, `[D, 1, total]` each."""
        l, u = self.bounds.lower.data, self.bounds.upper.data
        if not self.spans:
            return (l,) * count
        parts = [
            of(activation, l[..., at], u[..., at])
            if self.base is None or not activation.uniform
            else self._changed(self.base, of, activation, at)
            for activation, at in self.spans
        ]
        return tuple(torch.cat(column, -1) for column in zip(*parts, strict=True))

    def _changed(
        self, base: Hull, of: _Elementwise, activation: Activation, at: slice
    ) -> tuple[Tensor, ...]:
        """The base's values, computed anew where branching has cut."""
        if self.branched is None:
            raise ValueError("a hull with a base has to say where it differs from it")
        (l, u), (base_l, base_u) = (
            (side.bounds.lower.data[..., at], side.bounds.upper.data[..., at])
            for side in (self, base)
        )
        cut = self.branched[..., at].nonzero(as_tuple=True)
        values = []
        for old, new in zip(
            of(activation, base_l, base_u), of(activation, l[cut], u[cut]), strict=True
        ):
            value = old.expand_as(l).clone()
            value[cut] = new
            values.append(value)
        return tuple(values)

    @cached_property
    def slope_spans(self) -> tuple[Tensor | None, Tensor | None]:
        """How far slopes below and above can move, `[D, 1, total]`; None where none can."""
        low_min, low_max, up_min, up_max = self.slope_limits
        below, above = low_max - low_min, up_max - up_min
        return (
            below if bool((below > 0).any()) else None,
            above if bool((above > 0).any()) else None,
        )

    @cached_property
    def touches_exactly(self) -> bool:
        """Whether `touching` gives the exact points, of every activation."""
        return all(activation.touches_exactly for activation, _ in self.spans)

    def touching(self, slope: Tensor, above: Tensor) -> HullMin:
        """Where lines touch σ from below, or from above where `above` is 1, and σ(x) − s x there: `[D, R, total]`."""
        l, u = self.bounds.lower.data, self.bounds.upper.data
        parts = []
        for activation, at in self.spans:
            limits = (limit[..., at] for limit in self.slope_limits)
            between = Between(l[..., at], u[..., at], *limits)
            parts.append(activation.touching(slope[..., at], above[..., at], between))
        if len(parts) == 1:
            return HullMin(*parts[0])
        if not parts:
            return HullMin(slope, slope, slope)
        return HullMin(*(torch.cat(column, dim=-1) for column in zip(*parts, strict=True)))

    @cached_property
    def ambiguous(self) -> Tensor:
        """`[D, 1, total]`: the neurons on which the hull is larger than the graph."""
        return self.bounds.ambiguous(self.network)

    @cached_property
    def split_unfixed(self) -> Tensor | None:
        """`[D, 1, total]`: the neurons cut by branching on which σ still bends; None without any."""
        if self.branched is None:
            return None
        cut = self.branched & self.ambiguous
        return cut if bool(cut.any()) else None

    @cached_property
    def magnitudes(self) -> tuple[Tensor, Layers]:
        """max|z_0| `[D, 1, *input_shape]` and max|z_k| `[D, 1, total]`."""
        return self.domain.magnitude(), self.bounds.lower.like(self.magnitude)

    @cached_property
    def tolerance(self) -> Layers:
        """E_k, `[D, 1, total]`: what one unit of |ρ_k| may cost by rounding and by the weights' errors."""
        z0, z = self.magnitudes
        if self.network.n == 1:
            return self.bounds.lower
        blocks = [self._tolerance(k, z0, z).flatten(2) for k in self.network.hidden]
        return self.bounds.lower.like(torch.cat(blocks, dim=-1))

    def _tolerance(self, k: int, z0: Tensor, z: Layers) -> Tensor:
        dtype, biases = z0.dtype, self.network.bias_count
        total = self.bounds.lower[k].new_zeros(())
        for edge in self.network.nodes[k].edges:
            size, map_ = z[edge.source] if edge.source else z0, edge.map
            terms = map_.fan_out + len(self.network.successors[edge.source]) + 2
            total = total + (gamma(terms, dtype) + map_.error.relative) * map_.abs_linear(size)
            total = total + map_.lost(dtype) + underflow(4, dtype)
            if map_.error.absolute:
                reach = size.flatten(2).sum(-1)
                total = total + map_.error.absolute * reach.reshape(
                    *reach.shape, *[1] * len(map_.out_shape)
                )
            if map_.bias is not None:
                # ρᵀb is a sum of out_size products, and one of as many summands as there are biases
                products = gamma(map_.out_size + biases + 1, dtype) * map_.bias.abs()
                total = total + products + map_.error.bias
        count = max(len(z0), len(z.data))
        return 1.001 * total.expand(count, 1, *self.network.nodes[k].shape)


def _dot(x: Tensor, rates: Tensor) -> Tensor:
    """Σ_i x_i rates_i for x `[D, R, n]` and rates `[D, 1, n]`."""
    return (x @ rates.mT).squeeze(-1)
