"""Optimised slopes for every ambiguous neuron on the compact engine: the fastest tight bounds on a CPU.

It serves one box and activations with one bend; others are refused, with what to use instead.
"""

from __future__ import annotations

from dataclasses import dataclass

from anybound.bound.bounds import Bounds
from anybound.bound.intermediates.strategy import IntermediateStrategy
from anybound.budget import Budget
from anybound.errors import InvalidConfig
from anybound.model.domains.box import Box
from anybound.model.domains.domain import Domain
from anybound.model.network import Network


@dataclass(frozen=True)
class CompactSlopes(IntermediateStrategy):
    """CROWN for every ambiguous neuron, then `steps` Adam steps for those that are still ambiguous."""

    steps: int = 10

    def bounds(self, network: Network, domain: Domain, budget: Budget | None = None) -> Bounds:
        return self._bounds(network, domain, None)

    def bounds_within(
        self, network: Network, domain: Domain, known: Bounds, budget: Budget | None = None
    ) -> Bounds:
        """Neurons whose sign is known are not bounded again."""
        return self._bounds(network, domain, known)

    def _bounds(self, network: Network, domain: Domain, known: Bounds | None) -> Bounds:
        # the engine's kernels take a moment to load, and not every command needs them
        from anybound.bound.compact.network import supports
        from anybound.bound.compact.refine import Adam
        from anybound.bound.compact.roots import RootBounds
        from anybound.bound.compact.sparse import SparseNetwork

        why_not = supports(network, domain)
        if why_not or not isinstance(domain, Box):
            raise InvalidConfig(f"compact: {why_not}; use iterative(slopes) instead")
        adam = Adam(steps=self.steps) if self.steps else None
        return RootBounds(adam).bounds(SparseNetwork(network), domain, known)
