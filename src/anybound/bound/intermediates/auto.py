"""Whatever gives the tightest bounds fast for the problem at hand: what every call uses when nobody says."""

from __future__ import annotations

from dataclasses import dataclass

from anybound.bound.bounds import Bounds
from anybound.bound.choice import tight_intermediate
from anybound.bound.intermediates.strategy import IntermediateStrategy
from anybound.budget import Budget
from anybound.model.domains.domain import Domain
from anybound.model.network import Network


@dataclass(frozen=True)
class Auto(IntermediateStrategy):
    """Optimised slopes, on the compact engine where it can and on the portable one elsewhere."""

    def bounds(self, network: Network, domain: Domain, budget: Budget | None = None) -> Bounds:
        return self.chosen(network, domain).bounds(network, domain, budget)

    def bounds_within(
        self, network: Network, domain: Domain, known: Bounds, budget: Budget | None = None
    ) -> Bounds:
        return self.chosen(network, domain).bounds_within(network, domain, known, budget)

    def chosen(self, network: Network, domain: Domain) -> IntermediateStrategy:
        return tight_intermediate(network, domain)
