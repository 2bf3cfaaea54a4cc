"""The dual of Lagrangian decomposition, q(ρ): THE evaluator, on which every bound and every verdict rests.

    q(ρ) = min  Σ_j a_jᵀ z_j + const + Σ_{k=1}^{n−1} ρ_kᵀ (ẑ_B,k − ẑ_A,k)
           over z_0 ∈ C,  (ẑ_B,k, z_k) ∈ cvx_hull_σ(l_k, u_k),  ẑ_A,k = Σ_j W_kj z_j + b_k

(the paper's eq. nonprox_problem, on a graph). Given ρ it falls apart into P_0 and the P_k: with
g_j = a_j − Σ_k W_kjᵀ ρ_k, the coefficient of z_j,

    q(ρ) = min_{z_0 ∈ C} g_0ᵀ z_0  +  Σ_k min_{x ∈ [l_k, u_k]} (ρ_k x + g_k σ(x))  −  Σ_k ρ_kᵀ b_k  +  const.

Any ρ gives a valid lower bound, whoever proposed it. The supergradient is ẑ_B − ẑ_A.

Shapes: ρ is `Layers` of `[D, R, total]`, bounds `[D, 1, total]`, values `[D, R]`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from anybound.bound.bounds import Bounds
from anybound.bound.hull import Hull
from anybound.layers import Layers
from anybound.model.domains.domain import Domain
from anybound.model.network import Network
from anybound.rounding import gamma, sum_error, unit_roundoff
from anybound.spec.problem import Problem, bias_error, transpose_error


class Coefficients(NamedTuple):
    """g_j: of z_0 `[D, R, *input_shape]` (None if nothing reads the input) and of the hidden z_k."""

    input: Tensor | None
    hidden: Layers


class Primal(NamedTuple):
    """The inner minimiser at some ρ, and q(ρ)."""

    z0: Tensor
    z: Layers
    zhat_a: Layers
    zhat_b: Layers
    value: Tensor

    @property
    def mismatch(self) -> Tensor:
        """∇q(ρ) = ẑ_B − ẑ_A, `[D, R, total]`."""
        return self.zhat_b.data - self.zhat_a.data


@dataclass(frozen=True, eq=False)
class Decomposition:
    """q and its inner minimisation, for one problem between given intermediate bounds."""

    problem: Problem
    bounds: Bounds

    @cached_property
    def hull(self) -> Hull:
        return Hull(self.net, self.bounds)

    @property
    def net(self) -> Network:
        return self.problem.network

    @property
    def domain(self) -> Domain:
        return self.problem.domain

    @property
    def batch(self) -> tuple[int, int]:
        """(D, R)."""
        d, r = self.problem.batch
        return max(d, self.bounds.count), r

    @property
    def dtype(self) -> torch.dtype:
        return self.problem.objective.dtype

    def zeros(self) -> Layers:
        """ρ = 0, whose q is interval propagation's bound."""
        constant = self.problem.objective.constant
        return Layers(self.net.layout, constant.new_zeros(*self.batch, self.net.layout.total))

    def coefficient(self, j: int, rho: Layers) -> Tensor | None:
        """g_j = a_j − Σ_k W_kjᵀ ρ_k, `[D, R, *shape_j]`; None where it is identically zero."""
        a, back = self.problem.objective.coefficients.get(j), self.net.transpose(j, rho)
        if back is None:
            return a
        return -back if a is None else a - back

    def coefficients(self, rho: Layers) -> Coefficients:
        """g_0 and all g_k at once: given ρ, layers are independent."""
        blocks = []
        for k in self.net.hidden:
            g, shape = self.coefficient(k, rho), self.net.nodes[k].shape
            blocks.append(
                rho.data.new_zeros(*self.batch, *shape) if g is None else g.expand(*self.batch, *shape)
            )
        return Coefficients(self.coefficient(0, rho), Layers.concatenate(self.net.layout, blocks))

    def inner_min(self, rho: Layers) -> Primal:
        """The minimiser of eq. nonprox_problem's inner problem: sections innerminp0 and innerminpk."""
        g0, g = self.coefficients(rho)
        z0 = self.input_argmin(g0)  # P_0
        zhat_b, z, v = self.hull.argmin(rho.data, g.data)  # P_k, every layer at once
        zhat_a = self.net.apply(z0, rho.like(z))  # ẑ_A = W z + b
        q = self.input_min(g0) + v.sum(-1) - self.net.bias_dot(rho) + self.problem.objective.constant
        return Primal(z0, rho.like(z), zhat_a, rho.like(zhat_b), q)

    def value(self, rho: Layers) -> Tensor:
        """q(ρ), `[D, R]`, in the problem's dtype and with its rounding errors."""
        g0, g = self.coefficients(rho)
        v = self.hull.argmin(rho.data, g.data).value
        return self.input_min(g0) + v.sum(-1) - self.net.bias_dot(rho) + self.problem.objective.constant

    def input_argmin(self, g0: Tensor | None) -> Tensor:
        """P_0's minimiser z_0, `[D, R, *input_shape]`."""
        if g0 is None:
            constant = self.problem.objective.constant
            g0 = constant.new_zeros(*self.batch, *self.net.input_shape)
        return self.domain.argmin(g0)

    def input_min(self, g0: Tensor | None) -> Tensor:
        """P_0's value without its bias, `[D, R]`."""
        return self.problem.objective.constant.new_zeros(self.batch) if g0 is None else self.domain.min(g0)

    def rigorous(self, rho: Layers) -> Tensor:
        """A number that never exceeds q(ρ)'s exact value over the reals, `[D, R]`.

        The computed g̃_j is within e_j of g_j (γ_m |W|ᵀ|ρ| and the folded weights' own error), which moves a
        neuron's minimum by at most e_j·max|z_j|; to that come the errors of the elementwise minima, of the
        domain's minimum, of ρᵀb and of the final sums, all a priori and valid for any order of summation.
        Not finite becomes −∞."""
        g0, g = self.coefficients(rho)
        v = self.hull.argmin(rho.data, g.data).value
        loss = self.hull.slack(rho.data, g.data).sum(-1)
        size = v.abs().sum(-1)
        loss = loss + self._hidden_loss(rho)
        q = v.sum(-1)
        if g0 is not None:
            p0 = self.domain.min(g0)
            q, size = q + p0, size + p0.abs()
            loss = loss + self.domain.slack(g0) + self._input_loss(rho, g0)
        bias, constant = self.net.bias_dot(rho), self.problem.objective.constant
        for k in self.net.hidden:
            for edge in self.net.nodes[k].edges:
                loss = loss + bias_error(edge.map, rho[k].abs())
        q, size = q - bias + constant, size + bias.abs() + constant.abs()
        loss = loss + self.problem.objective.constant_error
        terms = self.net.layout.total + 4 * self.net.n + 8
        loss = loss + sum_error(size, terms)
        lower = q - 1.001 * loss
        lower = lower - 4 * unit_roundoff(self.dtype) * lower.abs()
        return torch.where(torch.isfinite(lower), lower, -torch.inf)

    def _coefficient_error(self, j: int, rho: Layers) -> Tensor | None:
        """e_j, `[D, R, *shape_j]`."""
        objective = self.problem.objective
        error, size = objective.errors.get(j), objective.coefficients.get(j)
        size = None if size is None else size.abs()
        terms = 1
        for k, map_ in self.net.successors[j]:
            if k >= self.net.n:
                continue
            magnitude = rho[k].abs()
            part = transpose_error(map_, magnitude)
            error = part if error is None else error + part
            terms += 1
            back = map_.abs_transpose(magnitude)
            size = back if size is None else size + back
        if error is None or size is None or terms == 1:
            return error
        return error + sum_error(size, terms)

    def _hidden_loss(self, rho: Layers) -> Tensor:
        """Σ_k e_kᵀ max|z_k|, `[D, R]`."""
        magnitude = rho.like(self.hull.magnitude)
        loss = rho.data.new_zeros(self.batch)
        for k in self.net.hidden:
            error = self._coefficient_error(k, rho)
            if error is not None:
                loss = loss + (error * magnitude[k]).flatten(2).sum(-1)
        return loss * (1 + 2 * gamma(self.net.layout.total + 2, self.dtype))

    def _input_loss(self, rho: Layers, g0: Tensor) -> Tensor:
        error = self._coefficient_error(0, rho)
        if error is None:
            return g0.new_zeros(self.batch)
        return (error * self.domain.magnitude()).flatten(2).sum(-1) * 1.001
