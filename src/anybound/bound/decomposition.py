"""The dual of Lagrangian decomposition, q(ρ): THE evaluator, on which every bound and every verdict
rests.

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
from anybound.rounding import gamma, sum_error, underflow, unit_roundoff
from anybound.spec.problem import Problem


class Coefficients(NamedTuple):
    """g_j: of z_0 `[D, R, *input_shape]` (None if nothing reads the input) and of the hidden z_k."""

    input: Tensor | None
    hidden: Layers


class _Offset(NamedTuple):
    """−Σ ρ_kᵀ b_k and the objective's constant, `[D, R]` each."""

    bias: Tensor
    constant: Tensor


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
    hull: Hull

    @staticmethod
    def between(problem: Problem, bounds: Bounds, branched: Tensor | None = None) -> Decomposition:
        """The dual of a problem between intermediate bounds."""
        return Decomposition(problem, Hull(problem.network, problem.domain, bounds, branched))

    @property
    def bounds(self) -> Bounds:
        return self.hull.bounds

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
            return None if a is None else a.expand(*self.batch, *a.shape[2:])
        return -back if a is None else a - back

    def coefficients(self, rho: Layers) -> Coefficients:
        """g_0 and all g_k at once: given ρ, layers are independent."""
        if self.net.n == 1:
            return Coefficients(self.coefficient(0, rho), rho)
        blocks = []
        for k in self.net.hidden:
            g, shape = self.coefficient(k, rho), self.net.nodes[k].shape
            blocks.append(rho.data.new_zeros(*self.batch, *shape) if g is None else g)
        return Coefficients(self.coefficient(0, rho), Layers.concatenate(self.net.layout, blocks))

    def inner_min(self, rho: Layers) -> Primal:
        """The minimiser of eq. nonprox_problem's inner problem: sections innerminp0 and innerminpk."""
        g0, g = self.coefficients(rho)
        z0, p0 = self.input_minimum(g0)  # P_0
        zhat_b, z, v = self.hull.argmin(rho.data, g.data)  # P_k, every layer at once
        zhat_a = self.net.apply(z0, rho.like(z))  # ẑ_A = W z + b
        q = p0 + v.sum(-1) - self.net.bias_dot(rho) + self.problem.objective.constant
        return Primal(z0, rho.like(z), zhat_a, rho.like(zhat_b), q)

    def value(self, rho: Layers) -> Tensor:
        """q(ρ), `[D, R]`, in the problem's dtype and with its rounding errors."""
        return self.value_at(rho, self.coefficients(rho))

    def value_at(self, rho: Layers, coefficients: Coefficients) -> Tensor:
        """q(ρ) for coefficients computed before."""
        g0, g = coefficients
        v = self.hull.argmin(rho.data, g.data).value
        return self.value_from(rho, self.input_min(g0), v.sum(-1))

    def value_from(self, rho: Layers, input_: Tensor, hidden: Tensor) -> Tensor:
        """q(ρ) when the values of P_0 (without its bias) and of all P_k, `[D, R]`, are known."""
        return input_ + hidden - self.net.bias_dot(rho) + self.problem.objective.constant

    def input_minimum(self, g0: Tensor | None) -> tuple[Tensor, Tensor]:
        """P_0's minimiser z_0, `[D, R, *input_shape]`, and its value without its bias, `[D, R]`."""
        if g0 is None:
            constant = self.problem.objective.constant
            g0 = constant.new_zeros(*self.batch, *self.net.input_shape)
        return self.domain.minimum(g0)

    def input_min(self, g0: Tensor | None) -> Tensor:
        """P_0's value without its bias, `[D, R]`."""
        return (
            self.problem.objective.constant.new_zeros(self.batch)
            if g0 is None
            else self.domain.min(g0)
        )

    def rigorous(self, rho: Layers) -> Tensor:
        """A number that never exceeds q(ρ)'s exact value over the reals, `[D, R]`; −∞ if anything
        overflows.

        Every error is bounded a priori, for any order of summation. The computed g_j is within
        γ_m (|a_j| + Σ_k |W_kj|ᵀ|ρ_k|) of the exact one, which moves the minimum over z_j by at most
        that times max|z_j|; summed over j, it is Σ_k |ρ_k|ᵀ E_k with E_k = γ_m Σ_j |W_kj| max|z_j|
        (see `tolerance`).
        To it come the errors of the elementwise minima, of P_0, of the objective and of the final sums."""
        return self.rigorous_at(rho, self.coefficients(rho))

    def rigorous_at(self, rho: Layers, coefficients: Coefficients) -> Tensor:
        """`rigorous(ρ)` for coefficients computed before, by products and sums of `coefficient` in any order."""
        loss = self.hull.loss(rho.data, coefficients.hidden.data)
        return self._lower(rho, coefficients, self._offset(rho), loss)

    def rigorous_sides(self, rho: Layers, coefficients: Coefficients) -> tuple[Tensor, Tensor]:
        """`rigorous_at` of the objective at ρ, and of its negative at −ρ: most of the loss is the same."""
        g0, g = coefficients
        offset, loss = self._offset(rho), self.hull.loss(rho.data, g.data)
        above = Coefficients(None if g0 is None else -g0, g.like(-g.data))
        minus = rho.like(-rho.data)
        other = loss if self.hull.loss_is_even else self.hull.loss(minus.data, above.hidden.data)
        below = self._lower(rho, coefficients, offset, loss)
        return below, self._lower(minus, above, _Offset(-offset.bias, -offset.constant), other)

    def _offset(self, rho: Layers) -> _Offset:
        return _Offset(-self.net.bias_dot(rho), self.problem.objective.constant)

    def _lower(
        self, rho: Layers, coefficients: Coefficients, offset: _Offset, loss: Tensor
    ) -> Tensor:
        """P_0 + Σ P_k + offset less all that rounding may have added; `loss` is the hull's."""
        g0, g = coefficients
        v = self.hull.argmin(rho.data, g.data).value
        p0 = self.input_min(g0)
        q = p0 + v.sum(-1) + offset.bias + offset.constant
        size = p0.abs() + v.abs().sum(-1) + offset.bias.abs() + offset.constant.abs()
        loss = loss + sum_error(size, self.net.layout.total + 2 * self.net.n + 4)
        loss = loss + self.objective_loss
        if g0 is not None:
            loss = loss + self.domain.slack(g0)
        lower = q - 1.001 * loss
        lower = lower - 4 * unit_roundoff(self.dtype) * lower.abs()
        return torch.where(torch.isfinite(lower), lower, -torch.inf)

    @cached_property
    def objective_loss(self) -> Tensor:
        """`[D, R]`: what the rounding of a_j and of the constant, and underflow anywhere, may cost."""
        z0, z = self.hull.magnitudes
        objective = self.problem.objective
        products = (self.net.layout.total + 1) * (self.net.bias_count + 1)
        loss = objective.constant_error + underflow(products, self.dtype)
        for j in range(self.net.n):
            size = z[j] if j else z0
            terms = len(self.net.successors[j])
            lost = sum(
                map_.lost_back(self.dtype) + underflow(1, self.dtype)
                for _, map_ in self.net.successors[j]
            )
            loss = loss + lost * size.flatten(2).sum(-1)
            if j in objective.coefficients:
                a = objective.coefficients[j].abs()
                error = objective.errors[j] + (gamma(terms + 1, self.dtype) if terms else 0.0) * a
                loss = loss + (error * size).flatten(2).sum(-1)
        return 1.001 * loss
