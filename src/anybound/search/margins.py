"""What an attack minimises: a clause's margin at a point, and its gradient, without autograd.

    m_c(x) = max over the clause's rows r of  a_rᵀ f(x) − b_r        (x is unsafe where m_c(x) <= 0)

    ∂m_c = g_0,     g_j = σ_j'(ẑ_j) ⊙ Σ_k W_kjᵀ g_k,     g_n = Σ_r w_r a_r

with weight 1 on the largest row and 0 on the others.

Shapes: points are `[C, S, *input_shape]`, S points for each of C clauses; values `[C, S]`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import NamedTuple

import torch
from torch import Tensor

from anybound.model.domains.domain import Domain
from anybound.model.network import Network, sum_of
from anybound.spec.problems import SafetyProblem
from anybound.spec.property import HalfSpaces, Property

_MOST_NUMBERS = 1 << 21  # activations held at once: 8 MiB in float32, about what a cache holds


class Slope(NamedTuple):
    """Margins `[C, S]` and a gradient `[C, S, *input_shape]`."""

    margin: Tensor
    gradient: Tensor


@dataclass(frozen=True, eq=False)
class Margins:
    """The margins of C clauses over one input set; rows `[C, M, outputs]`, offsets `[C, M]`.

    Clauses of fewer than M rows are filled up with rows of value −∞."""

    network: Network
    domain: Domain
    rows: Tensor
    offsets: Tensor

    @staticmethod
    def of(prop: Property, safety: SafetyProblem) -> Margins:
        """In float64, of the clauses in the problem's order."""
        outputs = [prop.clauses[member.clause].outputs for member in safety.clauses]
        rows, offsets = _padded(outputs)
        return Margins(safety.problem.network, safety.problem.domain, rows, offsets)

    @property
    def clauses(self) -> int:
        """C."""
        return len(self.rows)

    def to(self, dtype: torch.dtype) -> Margins:
        return Margins(
            self.network.to(dtype),
            self.domain.to(dtype),
            self.rows.to(dtype),
            self.offsets.to(dtype),
        )

    def any_clause(self) -> Margins:
        """Of the first clause alone: for points that serve all of them."""
        return replace(self, rows=self.rows[:1], offsets=self.offsets[:1])

    def room_for(self, points: int) -> int:
        """How many of `points` points per clause fit into a batch; at least one."""
        numbers = sum(prod(node.shape) for node in self.network.nodes) * self.clauses
        return max(1, min(points, _MOST_NUMBERS // numbers))

    def values(self, x: Tensor) -> Tensor:
        """m_c(x), `[C, S]`; of points `[1, S, *input_shape]`, too."""
        return self._row_values(self.network.forward(x)).amax(-1)

    def slope(self, x: Tensor) -> Slope:
        """m_c(x) and its gradient."""
        zhat = self.network.trace(x)
        values = self._row_values(zhat[self.network.n])
        margin, largest = values.max(-1, keepdim=True)
        weights = torch.zeros_like(values).scatter_(-1, largest, 1.0)
        return Slope(margin.squeeze(-1), self._backward(zhat, weights))

    def center(self) -> Tensor:
        """The middle of the box around the input set, `[1, 1, *input_shape]`."""
        lower, upper = self.domain.box()
        return (lower + upper) / 2

    def sample(self, count: int, generator: torch.Generator) -> Tensor:
        """`[C, count, *input_shape]` random points that lie partly at the input set's limits."""
        points = self.domain.sample(self.clauses * count, generator)
        return points.reshape(self.clauses, count, *self.network.input_shape)

    def scatter(self, count: int, generator: torch.Generator) -> Tensor:
        """`[C, count, *input_shape]` random points, uniform in the box around the input set."""
        lower, upper = self.domain.box()
        shape = (self.clauses, count, *self.network.input_shape)
        part = torch.rand(shape, generator=generator, dtype=lower.dtype)
        return self.project(lower + part * (upper - lower))

    def downhill(self, gradient: Tensor) -> Tensor:
        """The longest step against a gradient that the input set has from its middle.

        argmin over C of gᵀz − middle: half the widths times −sign(g) in a box, −r g/‖g‖ in an
        l2 ball, one coordinate in an l1 ball. Where a gradient vanishes, so does the step."""
        step = self._flattened(self.domain.argmin, gradient) - self.center()
        return step * (gradient != 0)

    def project(self, x: Tensor) -> Tensor:
        """Points of the input set close to x."""
        return self._flattened(self.domain.project, x)

    @staticmethod
    def _flattened(function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
        """The domain is shared, [1, …], so all points go in along its second axis."""
        return function(x.reshape(1, -1, *x.shape[2:])).reshape(x.shape)

    def _row_values(self, y: Tensor) -> Tensor:
        """a_rᵀ y − b_r, `[C, S, M]`."""
        return y.flatten(2) @ self.rows.transpose(1, 2) - self.offsets.unsqueeze(1)

    def _backward(self, zhat: Sequence[Tensor], weights: Tensor) -> Tensor:
        """g_0 for weights `[C, S, M]` of the rows."""
        net = self.network
        last = (weights @ self.rows).reshape(*weights.shape[:2], *net.output_shape)
        g = {net.n: last}
        for j in reversed(range(net.n)):
            terms = [map_.transpose(g[k]) for k, map_ in net.successors[j]]
            g[j] = sum_of(terms) if terms else torch.zeros_like(zhat[j])
            activation = net.nodes[j].activation
            if activation is not None:
                g[j] = g[j] * activation.slope(zhat[j])
        return g[0]


def _padded(outputs: Sequence[HalfSpaces]) -> tuple[Tensor, Tensor]:
    most = max(len(o.offset) for o in outputs)
    rows = torch.zeros(len(outputs), most, outputs[0].output_size, dtype=torch.float64)
    offsets = torch.full((len(outputs), most), torch.inf, dtype=torch.float64)
    for c, o in enumerate(outputs):
        rows[c, : len(o.offset)] = torch.tensor(o.matrix)
        offsets[c, : len(o.offset)] = torch.tensor(o.offset)
    return rows, offsets
