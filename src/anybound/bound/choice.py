"""Which strategy for intermediate bounds suits a problem, when nobody says."""

from __future__ import annotations

from anybound.bound.intermediates.compact import CompactSlopes
from anybound.bound.intermediates.iterative import Iterative
from anybound.bound.intermediates.strategy import IntermediateStrategy
from anybound.model.domains.box import Box
from anybound.model.domains.domain import Domain
from anybound.model.network import Network


def tight_intermediate(network: Network, domain: Domain) -> IntermediateStrategy:
    """Optimised slopes, on the compact engine where it can and on the portable one elsewhere."""
    if isinstance(domain, Box) and domain.lower.device.type == "cpu":
        from anybound.bound.compact.network import supports

        if not supports(network, domain):
            return CompactSlopes()
    return Iterative()
