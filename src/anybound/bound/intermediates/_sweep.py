"""One backward sweep (WK, CROWN) for the neurons of a layer, which several strategies start from.

WK gives both lines around an activation the same slope, so that the sweep for −ẑ is the negative of
that for ẑ: one sweep bounds a neuron from below and above. With CROWN each side has its own.
"""

from __future__ import annotations

import torch
from torch import Tensor

from anybound.bound.backward import crown_slopes, propagate, wk_slopes
from anybound.bound.intermediates.strategy import LayerTask, chunks
from anybound.bound.interval import Interval

BLOCK_BYTES = 2 << 20  # of one dual tensor: small enough to stay in the cache between passes


def sweep_layer(task: LayerTask, index: Tensor, *, wk: bool) -> Interval:
    """Bounds of the neurons with these indices by one sweep a side; the others keep their interval."""
    if task.k == 1 and task.hull.domain.is_box:
        return task.interval  # exact already
    lower, upper = (x.flatten(2).clone() for x in task.interval)
    network = task.hull.network
    size = 8 * max(network.layout.total, network.input_size) * lower.shape[0]
    for part in chunks(index, size, BLOCK_BYTES):
        if task.budget.is_spent():
            break
        low, high = _both_sides(task, part, wk=wk)
        lower[:, 0, part] = lower[:, 0, part].maximum(low)
        upper[:, 0, part] = upper[:, 0, part].minimum(high)
    return Interval(*(x.reshape(task.interval.lower.shape) for x in (lower, upper)))


def _both_sides(task: LayerTask, index: Tensor, *, wk: bool) -> tuple[Tensor, Tensor]:
    """Lower and upper bounds of ẑ_k[index], `[D, len(index)]` each."""
    plus = torch.ones(len(index), dtype=task.interval.lower.dtype, device=index.device)
    dual = task.dual(index, plus)
    if not wk:
        lines = crown_slopes(task.hull)
        below = propagate(dual, lines)
        negative = task.dual(index, -plus)
        above = propagate(negative, lines)
        return dual.rigorous_at(*below), -negative.rigorous_at(*above)
    low, minus_high = dual.rigorous_sides(*propagate(dual, wk_slopes(task.hull)))
    return low, -minus_high
