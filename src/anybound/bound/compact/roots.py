"""Root bounds with optimised slopes, layer by layer.

For each layer: intervals; then, for the neurons that are still ambiguous, CROWN; then, for those
that still are, a few Adam steps on slopes of their own, one set for each side of each neuron:

    min ẑ_i  >=  q(slopes),      max ẑ_i  =  −min(−ẑ_i)

on the compact network of the layers before. Every bound is the float64 evaluation with its margin;
intervals are rounded outwards. The bounds of a layer are cut with those given, if any.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from anybound.bound.bounds import Bounds
from anybound.bound.compact.network import CompactNetwork
from anybound.bound.compact.objective import Aim, CompactObjective
from anybound.bound.compact.problems import Children, Parents
from anybound.bound.compact.refine import Adam, refine
from anybound.bound.compact.rigorous import exact_workspace, rigorous
from anybound.bound.compact.rows import Index, Vector
from anybound.bound.compact.sparse import SparseNetwork
from anybound.bound.interval import Interval, affine_interval, interval
from anybound.layers import Layers
from anybound.model.domains.box import Box

# Given the network before layer k and the neurons of it that are ambiguous, cuts their bounds, in place.
Further = Callable[[CompactNetwork, int, Index, Tensor, Tensor], None]
_TOGETHER = 512  # neurons; what is kept of each are slopes of all ambiguous rows


@dataclass(frozen=True)
class RootBounds:
    """How hard to try: Adam's steps for the neurons that CROWN leaves ambiguous; None for CROWN
    alone."""

    adam: Adam | None = field(default_factory=Adam)

    def bounds(
        self,
        sparse: SparseNetwork,
        box: Box,
        within: Bounds | None = None,
        further: Further | None = None,
    ) -> Bounds:
        """Bounds `[1, 1, total]` of every hidden neuron, in float64."""
        network = sparse.network
        if not network.hidden:
            return interval(network, box)
        lower: dict[int, Tensor] = {}
        upper: dict[int, Tensor] = {}
        corners = box.to(torch.float64)
        z = [Interval(corners.lower, corners.upper)]
        for k, activation in network.activations():
            image = affine_interval(network.nodes[k].edges, z)
            if within is not None:
                image = _cut(image, Interval(within.lower[k].double(), within.upper[k].double()))
            l, u = image.lower[0, 0].clone(), image.upper[0, 0].clone()
            if any(edge.source for edge in network.nodes[k].edges):
                compact = CompactNetwork.between(sparse, lower, upper, corners)
                for adam in (None, self.adam) if self.adam else (None,):
                    open_ = np.flatnonzero(activation.fixed(l, u).logical_not().numpy().reshape(-1))
                    self._tighten(compact, open_, adam, l.reshape(-1), u.reshape(-1))
                open_ = np.flatnonzero(activation.fixed(l, u).logical_not().numpy().reshape(-1))
                if further is not None and len(open_):
                    further(compact, k, open_, l.reshape(-1), u.reshape(-1))
            lower[k], upper[k] = l, u
            z.append(Interval(*activation.range(l[None, None], u[None, None])))
        layout = network.layout
        return Bounds(
            Layers.concatenate(layout, [lower[k][None, None] for k in network.hidden]),
            Layers.concatenate(layout, [upper[k][None, None] for k in network.hidden]),
        )

    def _tighten(
        self, compact: CompactNetwork, neuron: Index, adam: Adam | None, l: Tensor, u: Tensor
    ) -> None:
        """Cut the bounds of some neurons of the next layer, in place."""
        if len(neuron) == 0:
            return
        low, high = neuron_bounds(compact, neuron, adam)
        at = torch.from_numpy(neuron)
        l[at] = l[at].maximum(torch.from_numpy(low))
        u[at] = u[at].minimum(torch.from_numpy(high))


def neuron_bounds(
    compact: CompactNetwork, neuron: Index, adam: Adam | None
) -> tuple[Vector, Vector]:
    """Rigorous bounds of pre-activations of the layer behind a compact network.

    Neurons that look at the same place share a chunk, and so do both sides of each: see `reach`."""
    aimed = compact.aiming(neuron)
    row = aimed.first[-2] + np.arange(len(neuron))
    goal = CompactObjective.none(aimed)
    start = Parents.roots(aimed, np.zeros(1, np.int64))
    exact_work = exact_workspace(aimed, goal)
    low, high = np.empty(len(neuron)), np.empty(len(neuron))
    order = np.argsort(_first_source(aimed, row), kind="stable")
    for some in np.array_split(order, -(-len(order) // _TOGETHER)):
        count = 2 * len(some)
        weight = np.tile(np.array([1, -1], np.float32), len(some))
        aim = Aim(np.zeros(count, np.float32), np.repeat(row[some], 2), weight)
        children = Children.of(np.zeros(count, np.int64))
        if adam is None:
            slope = np.tile(start.slope, (count, 1))
        else:
            slope = refine(aimed, goal, start, children, adam, aim).slope
        value = rigorous(aimed, goal, start, children, slope, aim, work=exact_work)
        low[some], high[some] = value[::2], -value[1::2]
    return low, high


def _first_source(network: CompactNetwork, row: Index) -> Index:
    """The first row that each row reads; 0 where it reads none."""
    matrix = network.matrix
    first, last = matrix.indptr[row], matrix.indptr[row + 1]
    indices = np.append(matrix.indices, 0)
    return np.where(first < last, indices[first], 0).astype(np.int64)


def _cut(image: Interval, within: Interval) -> Interval:
    return Interval(image.lower.maximum(within.lower), image.upper.minimum(within.upper))
