"""Supergradient ascent on q (the paper's section subgradient_method, algorithm subg).

ρ^{t+1} = ρ^t + α^t · Adam(∇q(ρ^t)),     ∇q = ẑ_B − ẑ_A     (eq. subgradient_update)
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from anybound.bound.backward import Start
from anybound.bound.decomposition import Decomposition
from anybound.bound.method import Method, Proposal, check_steps
from anybound.bound.schedules import Linear, Schedule
from anybound.bound.updates import Adam, Moments
from anybound.layers import Layers


@dataclass(eq=False)
class SupergradientState:
    """ρ^t with q(ρ^t) and ∇q(ρ^t), and Adam's moments."""

    rho: Layers
    value: Tensor
    gradient: Tensor
    moments: Moments
    t: int = 0


@dataclass(frozen=True)
class Supergradient(Method[SupergradientState]):
    """Adam on ρ, from the dual point of WK, with linearly decreasing steps (the paper's incomplete
    verification).

    `Geometric(3e-2, 1e-5)` in place of the paper's steps closes most of the remaining gap at equal cost."""

    iterations: int = 740
    schedule: Schedule = Linear(1e-2, 1e-4)
    start: Start = Start.WK
    adam: Adam = Adam()

    def __post_init__(self) -> None:
        check_steps(self, self.iterations)

    def steps(self, dual: Decomposition) -> int:
        return self.iterations

    def init(self, dual: Decomposition, warm: Layers | None) -> SupergradientState:
        rho = self.start.rho(dual) if warm is None else warm
        primal = dual.inner_min(rho)
        return SupergradientState(rho, primal.value, primal.mismatch, self.adam.init(rho.data))

    def step(self, dual: Decomposition, state: SupergradientState) -> SupergradientState:
        t = state.t + 1
        step = self.schedule.at(t, self.iterations)
        rho = state.rho.like(self.adam.ascend(state.rho.data, state.moments, state.gradient, step))
        primal = dual.inner_min(rho)
        return SupergradientState(rho, primal.value, primal.mismatch, state.moments, t)

    def propose(self, dual: Decomposition, state: SupergradientState) -> Proposal:
        return Proposal(state.rho, state.value)
