"""WK (Wong & Kolter 2018): ν_n = −c, ν̂_k = Σ W_{k+1}ᵀ ν_{k+1}, ν_k = D_k ν̂_k, and ρ_k = ν_k.

D_k is 1 for passing, 0 for blocked and u/(u−l) for ambiguous ReLUs: both lines around an activation
have the chord's slope. The paper's appendix WK_init shows that q(ρ) is then exactly WK's bound
(with the errata's signs).
"""

from __future__ import annotations

from dataclasses import dataclass

from anybound.bound.backward import Start
from anybound.bound.decomposition import Decomposition
from anybound.bound.method import OneShot
from anybound.layers import Layers


@dataclass(frozen=True)
class WK(OneShot):
    """The dual point of Wong & Kolter, in one backward sweep."""

    def rho(self, dual: Decomposition) -> Layers:
        return Start.WK.rho(dual)
