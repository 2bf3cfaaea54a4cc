"""Proximal maximisation of q: the method of multipliers with (block-coordinate) Frank–Wolfe (the
paper's section prox).

The augmented Lagrangian at the anchor ρ^t, with d_k = ẑ_B,k − ẑ_A,k, is

    L = Σ_j a_jᵀ z_j + Σ_k ρ_kᵀ d_k + Σ_k ‖d_k‖² / (2 η_k),       grad_k := ∂L/∂d_k = ρ_k + d_k/η_k.

Block j holds (ẑ_B,j, z_j); its linearisation has the costs grad_j and a_j − Σ_k W_kjᵀ grad_k, so
that the conditional gradient is the inner minimisation of q at ρ = grad. A step γ along (δB, δz)
changes d_j by γ δB and every successor's d_k by −γ δA_k = −γ W_kj δz, so that (eqs. optimal_gamma
and optimal-gamma-gauss, with the errata)

    γ* = clamp_[0,1]( −(grad_jᵀ δB + costᵀ δz) / (‖δB‖²/η_j + Σ_k ‖δA_k‖²/η_k) ).

After `inner` passes over the blocks, eq. momentum_updates:  π ← μ π + d/η,  ρ ← ρ + π. Momentum does not enter grad.
Iterations are counted in passes, as the original code does.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import torch
from torch import Tensor

from anybound.bound.backward import Start
from anybound.bound.decomposition import Decomposition
from anybound.bound.method import Method, Proposal, check_steps
from anybound.bound.schedules import Linear, Schedule
from anybound.errors import InvalidConfig
from anybound.layers import Layers


class Sweeps(Enum):
    """How a pass visits the blocks: one after the other, each with its own step, or all at once with one step."""

    GAUSS_SEIDEL = "gauss_seidel"
    JACOBI = "jacobi"


@dataclass(eq=False)
class ProximalState:
    """The anchor ρ^t, the velocity π, the primal variables (kept between outer steps) and d = ẑ_B − ẑ_A."""

    rho: Layers
    velocity: Tensor
    z0: Tensor
    z: Layers
    zhat_b: Layers
    d: Layers
    passes: int = 0


@dataclass(frozen=True)
class Proximal(Method[ProximalState]):
    """The paper's incomplete verification: momentum 0.3, η from 10 to 500 linearly in the passes,
    two passes per step.

    `evaluate_every` dual updates q is evaluated (the last one always); each costs half a pass."""

    iterations: int = 400
    inner: int = 2
    momentum: float = 0.3
    eta: Schedule = Linear(10.0, 500.0)
    sweeps: Sweeps = Sweeps.GAUSS_SEIDEL
    start: Start = Start.WK
    evaluate_every: int = 10

    def __post_init__(self) -> None:
        check_steps(self, self.iterations)
        if self.inner < 1 or self.evaluate_every < 1:
            raise InvalidConfig(f"{self!r}: inner and evaluate_every must be at least 1")
        if not 0 <= self.momentum < 1:
            raise InvalidConfig(f"{self!r}: momentum must be in [0, 1)")

    def steps(self, dual: Decomposition) -> int:
        """Dual updates."""
        return -(-self.iterations // self.inner)

    def init(self, dual: Decomposition, warm: Layers | None) -> ProximalState:
        rho = self.start.rho(dual) if warm is None else warm
        p = dual.inner_min(rho)
        z, zhat_b = rho.like(p.z.data.clone()), rho.like(p.zhat_b.data.clone())  # updated in place
        velocity, d = torch.zeros_like(rho.data), rho.like(p.mismatch)
        return ProximalState(rho, velocity, p.z0.clone(), z, zhat_b, d)

    def step(self, dual: Decomposition, state: ProximalState) -> ProximalState:
        # η grows linearly with the passes that are done: the last value is not quite the end of the schedule
        eta = self.eta.at(state.passes, self.iterations)
        inner = min(self.inner, self.iterations - state.passes)
        for _ in range(inner):
            if self.sweeps is Sweeps.GAUSS_SEIDEL:
                for j in range(dual.net.n):
                    _block_step(dual, state, j, eta)
            else:
                _joint_step(dual, state, eta)
        velocity = torch.mul(state.velocity, self.momentum)  # eq. momentum_updates
        velocity.add_(state.d.data, alpha=1 / eta)
        rho = state.rho.like(state.rho.data + velocity)
        return ProximalState(
            rho, velocity, state.z0, state.z, state.zhat_b, state.d, state.passes + inner
        )

    def propose(self, dual: Decomposition, state: ProximalState) -> Proposal:
        outer = -(-state.passes // self.inner)
        due = outer % self.evaluate_every == 0 or state.passes >= self.iterations
        return Proposal(state.rho, dual.value(state.rho) if due else None)


def _block_step(dual: Decomposition, state: ProximalState, j: int, eta: float) -> None:
    """One Frank–Wolfe step of block j, in place."""
    grad = state.rho.like(torch.add(state.rho.data, state.d.data, alpha=1 / eta))
    cost = dual.coefficient(j, grad)
    if cost is None:
        return
    if j == 0:
        delta_b, delta_z = None, dual.domain.argmin(cost) - state.z0
    else:
        vertex = dual.hull.argmin_layer(j, grad[j], cost)
        delta_b, delta_z = vertex.zhat_b - state.zhat_b[j], vertex.z - state.z[j]
    delta_a: dict[int, Tensor] = {}
    for k, map_ in dual.net.successors[j]:
        if k < dual.net.n:
            step = map_.linear(delta_z)
            delta_a[k] = delta_a[k] + step if k in delta_a else step
    linear = _dot(cost, delta_z)
    curvature = sum((_dot(step, step) for step in delta_a.values()), torch.zeros_like(linear))
    if delta_b is not None:
        linear = linear + _dot(grad[j], delta_b)
        curvature = curvature + _dot(delta_b, delta_b)
    gamma = optimal_step(linear, curvature / eta)
    if delta_b is None:
        _move(state.z0, gamma, delta_z)
    else:
        _move(state.zhat_b[j], gamma, delta_b)
        _move(state.z[j], gamma, delta_z)
        _move(state.d[j], gamma, delta_b)
    for k, step in delta_a.items():
        _move(state.d[k], -gamma, step)


def _joint_step(dual: Decomposition, state: ProximalState, eta: float) -> None:
    """One Frank–Wolfe step of all blocks together, in place (Jacobi)."""
    grad = state.rho.like(torch.add(state.rho.data, state.d.data, alpha=1 / eta))
    vertex = dual.inner_min(grad)
    g0, g = dual.coefficients(grad)
    delta_z0 = vertex.z0 - state.z0
    delta_b, delta_z = vertex.zhat_b.data - state.zhat_b.data, vertex.z.data - state.z.data
    delta_d = vertex.mismatch - state.d.data
    linear = (grad.data * delta_b).sum(-1) + (g.data * delta_z).sum(-1)
    if g0 is not None:
        linear = linear + _dot(g0, delta_z0)
    gamma = optimal_step(linear, (delta_d * delta_d).sum(-1) / eta)
    _move(state.z0, gamma, delta_z0)
    _move(state.zhat_b.data, gamma, delta_b)
    _move(state.z.data, gamma, delta_z)
    _move(state.d.data, gamma, delta_d)


def optimal_step(linear: Tensor, curvature: Tensor) -> Tensor:
    """argmin over γ in [0, 1] of  linear·γ + ½ curvature·γ², `[D, R]`; without curvature 1 if it descends, else 0."""
    flat = curvature <= 0
    ratio = -linear / torch.where(flat, torch.ones_like(curvature), curvature)
    return torch.where(flat, (linear < 0).to(linear), ratio.clamp(0.0, 1.0))


def _dot(a: Tensor, b: Tensor) -> Tensor:
    """aᵀb of `[D, R, *shape]` tensors, `[D, R]`."""
    return (a * b).flatten(2).sum(-1) if a.ndim > 2 else a * b


def _move(x: Tensor, gamma: Tensor, step: Tensor) -> None:
    """x += γ·step, in place, one γ `[D, R]` for each problem."""
    x.addcmul_(gamma.reshape(*gamma.shape, *[1] * (step.ndim - 2)), step)
