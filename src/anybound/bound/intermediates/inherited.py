"""Bounds taken over from a parent problem and cut by the splits that lead to a child: what branch and bound needs."""

from __future__ import annotations

from dataclasses import dataclass

from anybound.bound.bounds import Bounds
from anybound.bound.intermediates.strategy import IntermediateStrategy
from anybound.bound.interval import interval
from anybound.budget import Budget
from anybound.errors import InvalidConfig
from anybound.model.domains.domain import Domain
from anybound.model.network import Network


@dataclass(frozen=True, eq=False)
class Inherited(IntermediateStrategy):
    """The parent's bounds, intersected with `cut` (a split neuron's half, the rest infinite).

    With `carry`, what the cut implies is carried forward through the later layers by intervals."""

    parent: Bounds
    cut: Bounds | None = None
    carry: bool = False

    def bounds(self, network: Network, domain: Domain, budget: Budget | None = None) -> Bounds:
        if self.parent.layout.shapes[: len(network.layout.shapes)] != network.layout.shapes:
            raise InvalidConfig(
                "the parent's bounds belong to another network: its layers have other shapes"
            )
        bounds = self.parent.upto(network.n)
        if self.cut is not None:
            bounds = bounds.intersect(self.cut.upto(network.n))
        return interval(network, domain, within=bounds) if self.carry else bounds
