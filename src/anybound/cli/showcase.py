"""What `demo` computes: bounds of every class, loose and tight, and of every clause over time.

A clause A y ≤ b cannot be reached if  min over its input set of A_i f(x) > b_i  for one row i. The
minima are those that `anybound.bounds` proves; where none is large enough the property is open.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from anybound.bound.interval import propagate
from anybound.bounding import bounds
from anybound.errors import UnsupportedProperty
from anybound.model.domains.domain import Domain
from anybound.model.network import Network
from anybound.spec.domains import from_input_set
from anybound.spec.property import Property

__all__ = ["ClauseBounds", "Region", "clause_bounds", "region_of"]

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Region:
    """A network over one input set."""

    network: Network
    domain: Domain

    @property
    def corners(self) -> tuple[FloatArray, FloatArray]:
        """The limits of the box around the input set, in the network's input shape."""
        lower, upper = self.domain.box()
        return _numpy(lower[0, 0]), _numpy(upper[0, 0])

    @property
    def center(self) -> FloatArray:
        """The middle of that box."""
        lower, upper = self.corners
        return lower / 2 + upper / 2

    @property
    def outputs(self) -> FloatArray:
        """What the network computes at the centre, flat."""
        return _numpy(self.network.forward(torch.from_numpy(self.center)).flatten())

    @cached_property
    def by_intervals(self) -> tuple[FloatArray, FloatArray]:
        """Bounds of all outputs by interval propagation."""
        last = propagate(self.network, self.domain)[-1]
        return _numpy(last.lower.flatten()), _numpy(last.upper.flatten())

    @cached_property
    def by_dual(self) -> tuple[FloatArray, FloatArray]:
        """Bounds of all outputs by the default method."""
        result = bounds(self.network, self.domain)
        return _numpy(result.lower), _numpy(result.upper)


@dataclass(frozen=True, eq=False)
class ClauseBounds:
    """Margins `[clauses]`, and how the smallest of them rose while it was searched for.

    A clause's margin is a lower bound of how far its farthest row is from being met.
    """

    margins: FloatArray
    unreachable: bool  # all clauses, proved
    history: tuple[tuple[float, float], ...]  # (seconds, the search's own bound)


def region_of(network: Network, prop: Property) -> Region:
    """The network over the input set of a property that has only one."""
    groups = prop.groups()
    if len(groups) > 1:
        raise UnsupportedProperty(f"{prop.name}: has {len(groups)} input sets; expected one")
    return Region(network, from_input_set(groups[0][0], network.input_shape))


def clause_bounds(region: Region, prop: Property) -> ClauseBounds:
    """Bound every row of every clause over the region."""
    owner = np.repeat(np.arange(len(prop.clauses)), [len(c.offset) for c in prop.clauses])
    rows = np.concatenate([clause.matrix for clause in prop.clauses])
    offset = np.concatenate([clause.offset for clause in prop.clauses])
    result = bounds(region.network, region.domain, rows, trace=True)
    lower = _numpy(result.lower)
    points = (
        () if result.trace is None else zip(result.trace.seconds, result.trace.lower, strict=True)
    )
    return ClauseBounds(
        _best_per_clause(lower - offset, owner),
        # compared, not subtracted: this is exact
        bool(np.all(_best_per_clause(np.where(lower > offset, 1.0, 0.0), owner) > 0)),
        tuple((s, float(_best_per_clause(_numpy(now) - offset, owner).min())) for s, now in points),
    )


def _best_per_clause(values: FloatArray, owner: NDArray[np.int64]) -> FloatArray:
    best = np.full(int(owner[-1]) + 1, -np.inf)
    np.maximum.at(best, owner, values)
    return best


def _numpy(x: Tensor) -> FloatArray:
    return x.detach().double().cpu().numpy()
