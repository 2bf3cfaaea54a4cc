"""The protocol of a strategy for intermediate bounds, and the walk through the layers that
strategies share.

Layer k is bounded on the sub-network that ends there, between the bounds of layers 1 … k−1 found so
far (the paper's appendix `intermediate`). Every number is rigorous: methods propose ρ,
`Decomposition.rigorous` decides.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import NamedTuple

from torch import Tensor

from anybound.bound.bounds import Bounds
from anybound.bound.decomposition import Decomposition
from anybound.bound.hull import Hull
from anybound.bound.interval import Interval, affine_interval
from anybound.budget import Budget
from anybound.errors import InvalidInput
from anybound.layers import Layers
from anybound.model.activations.activation import Activation
from anybound.model.domains.domain import Domain
from anybound.model.network import Network
from anybound.spec.problem import Objective, Problem


class IntermediateStrategy(ABC):
    """Bounds of every hidden layer over an input set."""

    @abstractmethod
    def bounds(self, network: Network, domain: Domain, budget: Budget | None = None) -> Bounds:
        """Valid bounds whatever the budget; `[D, 1, total]`, float64."""

    def bounds_within(
        self, network: Network, domain: Domain, known: Bounds, budget: Budget | None = None
    ) -> Bounds:
        """The same where valid bounds are known already, such as those of a larger input set."""
        return self.bounds(network, domain, budget).intersect(known)

    def chosen(self, network: Network, domain: Domain) -> IntermediateStrategy:
        """The strategy that is used for a problem: itself, unless it is one that chooses."""
        return self


class LayerTask(NamedTuple):
    """The layer to be bounded next: its sub-network, what is known before it, and its interval bounds."""

    k: int
    hull: Hull  # of layers 1 … k−1, with the sub-network that ends at layer k
    interval: Interval  # of layer k, [D, 1, *shape_k]
    activation: Activation  # σ_k
    budget: Budget

    def dual(self, index: Tensor, sign: Tensor) -> Decomposition:
        """Of minimising sign_r · ẑ_k[index_r]."""
        network, domain = self.hull.network, self.hull.domain
        return Decomposition(
            Problem(network, domain, Objective.neurons(network, index, sign)), self.hull
        )


Tighten = Callable[[LayerTask], Interval]


def layer_by_layer(
    network: Network, domain: Domain, tighten: Tighten, budget: Budget | None
) -> Bounds:
    """Walk from the input to the output: interval bounds of each layer from the best of those
    before, then `tighten` as long as the budget lasts; an interrupt spends it."""
    limit = budget or Budget()
    check_finite(domain)
    box = Interval(*domain.box())
    layout = network.layout
    buffer = box.lower.new_zeros(len(box.lower), 1, layout.total)
    bounds = Bounds(Layers(layout, buffer), Layers(layout, buffer.clone()))
    post: list[Interval] = [box]
    for k, activation in network.activations():
        interval = affine_interval(network.nodes[k].edges, post)
        hull = Hull(network.upto(k), domain, bounds.upto(k))
        task = LayerTask(k, hull, interval, activation, limit)
        lower, upper = meet(interval, _tightened(task, tighten))
        bounds.lower[k].copy_(lower)
        bounds.upper[k].copy_(upper)
        post.append(Interval(*activation.range(lower, upper)))
    bounds.check()
    return bounds


def _tightened(task: LayerTask, tighten: Tighten) -> Interval:
    if task.budget.is_spent():
        return task.interval
    try:
        return tighten(task)
    except KeyboardInterrupt:
        task.budget.cancel()
        return task.interval


def meet(a: Interval, b: Interval) -> Interval:
    """The intersection, which is empty only where a sub-problem is."""
    return Interval(a.lower.maximum(b.lower), a.upper.minimum(b.upper))


def check_finite(domain: Domain) -> None:
    low, high = domain.box()
    if not bool((low.isfinite() & high.isfinite()).all()):
        raise InvalidInput("the input set is unbounded; give every input finite limits")


def ambiguous_index(task: LayerTask) -> Tensor:
    """The flat indices of layer k's neurons that are ambiguous in some sub-problem."""
    fixed = task.activation.fixed(task.interval.lower, task.interval.upper)
    return fixed.logical_not().flatten(2).any(0).any(0).nonzero().squeeze(1)


def chunks(index: Tensor, bytes_per_row: int, memory: int) -> Iterator[Tensor]:
    """Pieces of an index whose work fits into so many bytes."""
    size = max(1, memory // max(1, bytes_per_row))
    return (index[i : i + size] for i in range(0, len(index), size))
