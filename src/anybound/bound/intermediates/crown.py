"""The better of interval propagation and CROWN, layer by layer."""

from __future__ import annotations

from dataclasses import dataclass

from anybound.bound.bounds import Bounds
from anybound.bound.intermediates._sweep import sweep_layer
from anybound.bound.intermediates.strategy import (
    IntermediateStrategy,
    LayerTask,
    ambiguous_index,
    layer_by_layer,
)
from anybound.bound.interval import Interval
from anybound.budget import Budget
from anybound.model.domains.domain import Domain
from anybound.model.network import Network


@dataclass(frozen=True)
class BestOfIntervalAndCrown(IntermediateStrategy):
    """CROWN for the neurons that intervals leave ambiguous."""

    def bounds(self, network: Network, domain: Domain, budget: Budget | None = None) -> Bounds:
        return layer_by_layer(network, domain, _tighten, budget)


def _tighten(task: LayerTask) -> Interval:
    return sweep_layer(task, ambiguous_index(task), wk=False)
