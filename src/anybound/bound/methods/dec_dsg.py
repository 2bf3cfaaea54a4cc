"""Dec-DSG+: DSG+'s μ handed over as ρ, a direct application of the paper's Theorem 1: q(μ) >= d(μ, λ)."""

from __future__ import annotations

from dataclasses import dataclass

from anybound.bound.decomposition import Decomposition
from anybound.bound.lagrangian_ascent import LagrangianAscent, LagrangianState
from anybound.bound.method import Proposal


@dataclass(frozen=True)
class DecDSG(LagrangianAscent):
    """DSG+ whose bound is q(μ), evaluated at the end and every so many iterations."""

    evaluate_every: int = 50

    def propose(self, dual: Decomposition, state: LagrangianState) -> Proposal:
        due = state.t % self.evaluate_every == 0 or state.t >= self.iterations
        return Proposal(state.mu, dual.value(state.mu) if due else None)
