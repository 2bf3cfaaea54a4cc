"""DSG+: supergradient ascent with Adam on the dual d(μ, λ) of Dvijotham et al., the paper's
baseline.

Its certificate is ρ = μ, whose q is at least d (the paper's Theorem 1); the bound it reports is d
itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from anybound.bound.decomposition import Decomposition
from anybound.bound.lagrangian_ascent import LagrangianAscent, LagrangianState
from anybound.bound.method import Proposal


@dataclass(frozen=True)
class DSG(LagrangianAscent):
    """DSG+, reporting its own d(μ, λ)."""

    reports_own: ClassVar[bool] = True

    def propose(self, dual: Decomposition, state: LagrangianState) -> Proposal:
        return Proposal(state.mu, state.value)
