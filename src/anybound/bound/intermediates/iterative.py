"""Any method on the ambiguous neurons only, from the bounds of one backward sweep, in a budget."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from anybound.bound.bounds import Bounds
from anybound.bound.decomposition import Decomposition
from anybound.bound.hull import Hull
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
from anybound.spec.problem import Problem


@dataclass(frozen=True)
class Iterative(IntermediateStrategy):
    """CROWN for every ambiguous neuron, then `method` for those that are still ambiguous.

    `search` is the dtype of the ascent; what it proposes is evaluated rigorously in the network's
    own. A spent budget leaves the bounds found so far."""

    method: Method[Any] = Slopes(iterations=10, schedule=Decay(0.3, 0.9))
    search: torch.dtype = torch.float32

    def bounds(self, network: Network, domain: Domain, budget: Budget | None = None) -> Bounds:
        return layer_by_layer(network, domain, self._tighten, budget)

    def _tighten(self, task: LayerTask) -> Interval:
        swept = sweep_layer(task, ambiguous_index(task), wk=False)
        left = ambiguous_index(task._replace(interval=swept))
        if (task.k == 1 and task.hull.domain.is_box) or left.numel() == 0:
            return swept
        rough, network = task.hull.to(self.search), task.hull.network
        lower, upper = (x.flatten(2).clone() for x in swept)
        size = 8 * max(network.layout.total, network.input_size) * lower.shape[0]
        for part in chunks(left, size, BLOCK_BYTES):
            if task.budget.is_spent():
                break
            low, high = self._both_sides(task, rough, part)
            lower[:, 0, part] = lower[:, 0, part].maximum(low)
            upper[:, 0, part] = upper[:, 0, part].minimum(high)
        return Interval(*(x.reshape(swept.lower.shape) for x in (lower, upper)))

    def _both_sides(self, task: LayerTask, rough: Hull, index: Tensor) -> tuple[Tensor, Tensor]:
        sign = torch.ones(len(index), dtype=task.interval.lower.dtype, device=index.device)
        dual = task.dual(torch.cat([index, index]), torch.cat([sign, -sign]))
        objective = dual.problem.objective.to(self.search)
        problem = Problem(rough.network, rough.domain, objective)
        found = maximise(Decomposition(problem, rough), self.method, task.budget)
        low, high = dual.rigorous(found.rho.to(dual.dtype)).chunk(2, dim=1)
        return low, -high
