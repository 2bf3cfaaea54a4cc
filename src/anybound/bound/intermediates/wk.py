"""The paper's strategy: the better of interval propagation and WK, layer by layer."""

from __future__ import annotations

from dataclasses import dataclass

import torch

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
class BestOfIntervalAndWK(IntermediateStrategy):
    """Every neuron's better bound, or (`stable_too=False`) only that of the neurons that intervals
    leave ambiguous.

    Bounds of stable neurons change nothing for methods that propagate their ρ, a little for the others."""

    stable_too: bool = True

    def bounds(self, network: Network, domain: Domain, budget: Budget | None = None) -> Bounds:
        return layer_by_layer(network, domain, self._tighten, budget)

    def _tighten(self, task: LayerTask) -> Interval:
        everything = torch.arange(task.interval.lower[0].numel(), device=task.interval.lower.device)
        return sweep_layer(task, everything if self.stable_too else ambiguous_index(task), wk=True)
