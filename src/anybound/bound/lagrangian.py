"""The Lagrangian-relaxation dual d(μ, λ) of Dvijotham et al. (the paper's eq. dj_prob-main), on a
graph.

    d(μ, λ) = min  Σ_j a_jᵀ z_j + const + Σ_k μ_kᵀ (ẑ_k − Σ_j W_kj z_j − b_k) + Σ_k λ_kᵀ (z_k − σ(ẑ_k))
              over z_0 ∈ C,  l_k <= ẑ_k <= u_k,  min σ <= z_k <= max σ  on [l_k, u_k].

With g_j = a_j − Σ_k W_kjᵀ μ_k it falls apart, neuron by neuron, into

    min over z of (g + λ) z     and     min over x in [l, u] of  μ x − λ σ(x).

The paper's Theorem 1: q(μ) >= d(μ, λ) for every μ, λ.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from anybound.bound.decomposition import Decomposition
from anybound.bound.hull import HullMin
from anybound.layers import Layers
from anybound.model.activations.activation import flag


class LagrangianMin(NamedTuple):
    """d(μ, λ) and its supergradients with respect to μ and λ, `[D, R, total]`."""

    value: Tensor
    grad_mu: Tensor
    grad_lam: Tensor


@dataclass(frozen=True, eq=False)
class Lagrangian:
    """d and its inner minimisation, for the problem of a decomposition."""

    dual: Decomposition

    @cached_property
    def post_range(self) -> tuple[Tensor, Tensor]:
        """min σ and max σ between the bounds, `[D, 1, total]`."""
        hull, l, u = self.dual.hull, self.dual.bounds.lower.data, self.dual.bounds.upper.data
        parts = [activation.range(l[..., at], u[..., at]) for activation, at in hull.spans]
        if not parts:
            return l, u
        return torch.cat([p[0] for p in parts], -1), torch.cat([p[1] for p in parts], -1)

    def inner_min(self, mu: Layers, lam: Layers) -> LagrangianMin:
        dual = self.dual
        g0, g = dual.coefficients(mu)
        z0, p0 = dual.input_minimum(g0)
        low, high = self.post_range
        cost = g.data + lam.data  # of z_k
        z = torch.lerp(high, low, flag(torch.gt, cost, cost.new_zeros(())))
        zhat: HullMin = dual.hull.argmin(mu.data, -lam.data)  # min over [l, u] of μ x − λ σ(x)
        value = (
            p0
            + (cost * z).sum(-1)
            + zhat.value.sum(-1)
            - dual.net.bias_dot(mu)
            + dual.problem.objective.constant
        )
        affine = dual.net.apply(z0, mu.like(z))
        return LagrangianMin(value, zhat.zhat_b - affine.data, z - zhat.z)

    def value(self, mu: Layers, lam: Layers) -> Tensor:
        return self.inner_min(mu, lam).value
