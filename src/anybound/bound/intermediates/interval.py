"""Interval propagation through all layers."""

from __future__ import annotations

from dataclasses import dataclass

from anybound.bound.bounds import Bounds
from anybound.bound.intermediates.strategy import IntermediateStrategy
from anybound.bound.interval import interval
from anybound.budget import Budget
from anybound.model.domains.domain import Domain
from anybound.model.network import Network


@dataclass(frozen=True)
class IntervalBounds(IntermediateStrategy):
    """The cheapest and loosest bounds."""

    def bounds(self, network: Network, domain: Domain, budget: Budget | None = None) -> Bounds:
        return interval(network, domain)
