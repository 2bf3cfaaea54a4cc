"""What `demo` computes: bounds of every class, loose and tight, and of every clause over time.

A clause A y ≤ b cannot be reached if  min over its input set of (A f(x) − b)_i > 0  for one of its
rows i. The minima are bounded by `Decomposition.rigorous` alone; without such a bound the property
stays open.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from anybound.bound.bounds import Bounds
from anybound.bound.decomposition import Decomposition
from anybound.bound.intermediates.crown import BestOfIntervalAndCrown
from anybound.bound.interval import propagate
from anybound.bound.method import maximise
from anybound.bound.methods.slopes import Slopes
from anybound.model.domains.domain import Domain
from anybound.model.network import Network
from anybound.spec.domains import from_input_set
from anybound.spec.problem import Objective, Problem
from anybound.spec.property import Property

__all__ = ["ClauseBounds", "Region", "clause_bounds", "region_of"]

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Region:
    """A network (in float64) over one input set."""

    network: Network
    domain: Domain

    @cached_property
    def bounds(self) -> Bounds:
        return BestOfIntervalAndCrown().bounds(self.network, self.domain)

    @property
    def center(self) -> FloatArray:
        """The middle of the box around the input set, in the network's input shape."""
        lower, upper = self.domain.box()
        return _numpy((lower / 2 + upper / 2)[0, 0])

    @property
    def corners(self) -> tuple[FloatArray, FloatArray]:
        """The limits of that box."""
        lower, upper = self.domain.box()
        return _numpy(lower[0, 0]), _numpy(upper[0, 0])

    @property
    def outputs(self) -> FloatArray:
        """What the network computes at the centre, flat."""
        return _numpy(self.network.forward(torch.from_numpy(self.center)).flatten())

    @property
    def by_intervals(self) -> tuple[FloatArray, FloatArray]:
        """Bounds of all outputs by interval propagation."""
        last = propagate(self.network, self.domain)[-1]
        return _numpy(last.lower.flatten()), _numpy(last.upper.flatten())

    @property
    def by_slopes(self) -> tuple[FloatArray, FloatArray]:
        """Bounds of all outputs by the dual."""
        unit = torch.eye(self.network.output_size, dtype=torch.float64)
        bounds, _ = self.minima(torch.cat([unit, -unit]), torch.zeros(2 * len(unit)))
        lower, negated = np.split(bounds, 2)
        return lower, -negated

    def minima(
        self, rows: Tensor, offset: Tensor
    ) -> tuple[FloatArray, list[tuple[float, FloatArray]]]:
        """Lower bounds `[R]` of rows · f(x) + offset, and the search's own over its seconds."""
        rows = rows.reshape(-1, *self.network.output_shape)
        objective = Objective.rows(self.network, rows, offset)
        dual = Decomposition.between(Problem(self.network, self.domain, objective), self.bounds)
        result = maximise(dual, Slopes(), trace=True)
        history = [(point.seconds, _numpy(point.value[0])) for point in result.trace]
        return _numpy(dual.rigorous(result.rho)[0]), history


@dataclass(frozen=True, eq=False)
class ClauseBounds:
    """Lower bounds `[clauses]`, and how the smallest of them rose while it was searched for."""

    lower: FloatArray
    history: tuple[tuple[float, float], ...]

    @property
    def prove(self) -> bool:
        """Whether no clause can be reached."""
        return bool((self.lower > 0).all())


def region_of(network: Network, prop: Property) -> Region:
    """The network over the first input set of a property."""
    input_set, _ = prop.groups()[0]
    return Region(network, from_input_set(input_set, network.input_shape))


def clause_bounds(region: Region, prop: Property) -> ClauseBounds:
    """Of each clause, the bound of the row that is farthest from being met; all over the region."""
    owner = np.repeat(np.arange(len(prop.clauses)), [len(c.offset) for c in prop.clauses])
    rows = torch.from_numpy(np.concatenate([clause.matrix for clause in prop.clauses]))
    offset = -torch.from_numpy(np.concatenate([clause.offset for clause in prop.clauses]))
    lower, history = region.minima(rows, offset)
    return ClauseBounds(
        _best_per_clause(lower, owner),
        tuple((seconds, float(_best_per_clause(now, owner).min())) for seconds, now in history),
    )


def _best_per_clause(values: FloatArray, owner: NDArray[np.int64]) -> FloatArray:
    best = np.full(int(owner[-1]) + 1, -np.inf)
    np.maximum.at(best, owner, values)
    return best


def _numpy(x: Tensor) -> FloatArray:
    return x.detach().double().cpu().numpy()
