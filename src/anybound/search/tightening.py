"""What a split implies for the other neurons: bounds of later layers, computed again between the sub-problem's own.

Everything is in float64 and rounded outwards, so that bounds that cross prove a sub-problem to be infeasible.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from anybound.bound.bounds import Bounds
from anybound.bound.hull import Hull
from anybound.bound.intermediates._sweep import sweep_layer
from anybound.bound.intermediates.strategy import LayerTask, ambiguous_index, meet
from anybound.bound.interval import Interval, affine_interval, interval
from anybound.budget import Budget
from anybound.layers import Layers
from anybound.model.domains.domain import Domain
from anybound.model.network import Network


class Tightening(ABC):
    """Bounds `[N, 1, total]` at least as tight as those given, for the same sub-problems."""

    @abstractmethod
    def tighten(self, network: Network, domain: Domain, within: Bounds) -> Bounds:
        """`within` made smaller; crossed where a sub-problem is empty."""


@dataclass(frozen=True)
class Inherit(Tightening):
    """The parent's bounds as they are: only the split neuron's own interval shrinks."""

    def tighten(self, network: Network, domain: Domain, within: Bounds) -> Bounds:
        return within


@dataclass(frozen=True)
class Carry(Tightening):
    """Interval propagation of the cut intervals through all layers."""

    def tighten(self, network: Network, domain: Domain, within: Bounds) -> Bounds:
        return interval(network, domain, within)


@dataclass(frozen=True)
class Retighten(Tightening):
    """Interval propagation and one backward sweep (WK's, the paper's choice, or CROWN's) for every neuron that could
    still be ambiguous, layer by layer: dear, as every neuron of a layer is a row."""

    wk: bool = True

    def tighten(self, network: Network, domain: Domain, within: Bounds) -> Bounds:
        lower, upper = within.lower.data.clone(), within.upper.data.clone()
        bounds = Bounds(Layers(within.layout, lower), Layers(within.layout, upper))
        post = [Interval(*domain.box())]
        for k, activation in network.activations():
            known = Interval(bounds.lower[k], bounds.upper[k])
            image = meet(affine_interval(network.nodes[k].edges, post), known)
            hull = Hull(network.upto(k), domain, bounds.upto(k))
            task = LayerTask(k, hull, image, activation, Budget())
            tight = meet(image, sweep_layer(task, ambiguous_index(task), wk=self.wk))
            bounds.lower[k].copy_(tight.lower)
            bounds.upper[k].copy_(tight.upper)
            post.append(Interval(*activation.range(*tight)))
        return bounds
