"""Any method on the ambiguous neurons only, layer by layer, from bounds of one backward sweep and within a budget."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from anybound.bound.bounds import Bounds
from anybound.bound.decomposition import Decomposition
from anybound.bound.intermediates._sweep import BLOCK_BYTES, sweep_layer
from anybound.bound.intermediates.strategy import (
    IntermediateStrategy,
    LayerTask,
    ambiguous_index,
    chunks,
    layer_by_layer,
)
from anybound.bound.interval import Interval
from anybound.bound.method import Method, maximise
from anybound.bound.methods.slopes import Slopes
from anybound.bound.schedules import Decay
from anybound.budget import Budget
from anybound.model.domains.domain import Domain
from anybound.model.network import Network


@dataclass(frozen=True)
class Iterative(IntermediateStrategy):
    """CROWN for every ambiguous neuron, then `method` for those that are still ambiguous.

    A side whose sign is proved is dropped at once: the neuron is stable then. `search` is the dtype
    of the ascent; what
    it proposes is evaluated rigorously in the network's own. A spent budget leaves the bounds of the sweep."""

    method: Method[Any] = Slopes(iterations=10, schedule=Decay(0.3, 0.9))
    search: torch.dtype = torch.float32

    def bounds(self, network: Network, domain: Domain, budget: Budget | None = None) -> Bounds:
        limit = budget or Budget()
        return layer_by_layer(network, domain, lambda task: self._tighten(task, limit))

    def _tighten(self, task: LayerTask, budget: Budget) -> Interval:
        swept = sweep_layer(task, ambiguous_index(task), wk=False)
        left = ambiguous_index(task._replace(interval=swept))
        if (task.k == 1 and task.hull.domain.is_box) or left.numel() == 0 or budget.is_spent():
            return swept
        lower, upper = (x.flatten(2).clone() for x in swept)
        size = (
            4 * max(task.hull.network.layout.total, task.hull.network.input_size) * lower.shape[0]
        )
        for part in chunks(left, 2 * size, BLOCK_BYTES):
            if budget.is_spent():
                break
            low, high = self._both_sides(task, part, budget)
            lower[:, 0, part] = lower[:, 0, part].maximum(low)
            upper[:, 0, part] = upper[:, 0, part].minimum(high)
        return Interval(*(x.unflatten(2, swept.lower.shape[2:]) for x in (lower, upper)))

    def _both_sides(self, task: LayerTask, index: Tensor, budget: Budget) -> tuple[Tensor, Tensor]:
        sign = torch.ones(len(index), dtype=task.interval.lower.dtype, device=index.device)
        dual = task.dual(torch.cat([index, index]), torch.cat([sign, -sign]))
        search = Decomposition.between(dual.problem.to(self.search), dual.bounds.to(self.search))
        found = maximise(search, self.method, budget)
        bound = dual.rigorous(found.rho.to(dual.dtype))
        low, high = bound.chunk(2, dim=1)
        return low, -high
