"""Supergradient ascent on d(μ, λ), which DSG+ and Dec-DSG+ share.

A given ρ is taken over as μ = ρ, λ = −g(ρ), for which d(μ, λ) = q(ρ): a warm start loses nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from anybound.bound.decomposition import Decomposition
from anybound.bound.lagrangian import Lagrangian
from anybound.bound.method import Method, check_steps
from anybound.bound.schedules import Linear, Schedule
from anybound.bound.updates import Adam, Moments
from anybound.layers import Layers


@dataclass(eq=False)
class LagrangianState:
    """μ^t, λ^t with d and its supergradients there, and Adam's moments for both."""

    mu: Layers
    lam: Layers
    value: Tensor
    grad_mu: Tensor
    grad_lam: Tensor
    moments_mu: Moments
    moments_lam: Moments
    t: int = 0


@dataclass(frozen=True)
class LagrangianAscent(Method[LagrangianState]):
    """Adam on (μ, λ) from zero, with linearly decreasing steps (the paper's incomplete verification)."""

    iterations: int = 1040
    schedule: Schedule = Linear(1e-2, 1e-4)
    adam: Adam = Adam()

    def __post_init__(self) -> None:
        check_steps(self, self.iterations)

    def steps(self, dual: Decomposition) -> int:
        return self.iterations

    def init(self, dual: Decomposition, warm: Layers | None) -> LagrangianState:
        mu = dual.zeros() if warm is None else warm
        lam = dual.zeros() if warm is None else mu.like(-dual.coefficients(mu).hidden.data)
        return self._evaluate(dual, mu, lam, self.adam.init(mu.data), self.adam.init(mu.data), 0)

    def step(self, dual: Decomposition, state: LagrangianState) -> LagrangianState:
        t = state.t + 1
        step = self.schedule.at(t, self.iterations)
        mu = self.adam.ascend(state.mu.data, state.moments_mu, state.grad_mu, step)
        lam = self.adam.ascend(state.lam.data, state.moments_lam, state.grad_lam, step)
        return self._evaluate(
            dual, state.mu.like(mu), state.mu.like(lam), state.moments_mu, state.moments_lam, t
        )

    def _evaluate(
        self,
        dual: Decomposition,
        mu: Layers,
        lam: Layers,
        for_mu: Moments,
        for_lam: Moments,
        t: int,
    ) -> LagrangianState:
        value, grad_mu, grad_lam = Lagrangian(dual).inner_min(mu, lam)
        return LagrangianState(mu, lam, value, grad_mu, grad_lam, for_mu, for_lam, t)
