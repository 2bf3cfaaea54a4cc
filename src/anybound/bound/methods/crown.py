"""CROWN (Zhang et al. 2018): ρ_k = −s_k(g_k)·g_k with the adaptive lower slope (1 where u > −l,
else 0 for a ReLU).

q(ρ) is at least CROWN's own bound, whatever the activation, as the dual finds the best offset of
every line itself.
"""

from __future__ import annotations

from dataclasses import dataclass

from anybound.bound.backward import Start
from anybound.bound.decomposition import Decomposition
from anybound.bound.method import OneShot
from anybound.layers import Layers


@dataclass(frozen=True)
class Crown(OneShot):
    """CROWN with the adaptive lower slope, in one backward sweep."""

    def rho(self, dual: Decomposition) -> Layers:
        return Start.CROWN.rho(dual)
