"""The convex relaxation (the paper's eq. planet-relax) as a sparse linear program, and its dual
point ρ.

    min Σ_j a_jᵀ z_j   over z_0 ∈ C,   ẑ_k − Σ_j W_kj z_j = b_k,   l_k <= ẑ_k <= u_k,   facets of cvx_hull_σ(ẑ_k, z_k)

For a ReLU the facets are PLANET's; other activations have theirs, smooth ones tangents to within a
tolerance. The Lagrangian has the term yᵀ(b + Σ W z − ẑ) for the rows' multipliers y, the dual
ρᵀ(ẑ_B − ẑ_A): so ρ = −y. Any y a solver returns, optimal or interrupted, is a valid ρ, and
`Decomposition` evaluates it; nothing rests on the solver.

Variables are ordered z_0, then (ẑ_k, z_k) layer by layer, then what the input set needs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from anybound.bound.hull import Hull
from anybound.errors import InvalidConfig

if TYPE_CHECKING:
    from scipy.sparse import csc_matrix, csr_matrix

Vector = NDArray[np.float64]


class Rows(NamedTuple):
    """row_lower <= A x <= row_upper."""

    matrix: csr_matrix
    lower: Vector
    upper: Vector


@dataclass(frozen=True, eq=False)
class LinearProgram:
    """The relaxation of one sub-problem (D = 1); objectives come one at a time."""

    hull: Hull
    tolerance: float = 1e-3  # of smooth activations' facets, in σ

    def __post_init__(self) -> None:
        if self.hull.bounds.count != 1 or self.hull.domain.count != 1:
            raise InvalidConfig("a linear program is of one sub-problem; pick one of the batch")

    @cached_property
    def offsets(self) -> dict[int, int]:
        """Where the variables of layer k begin: z_0 for 0, ẑ_k for k (z_k follows it)."""
        offsets, at = {0: 0}, self.hull.network.input_size
        for k in self.hull.network.hidden:
            offsets[k] = at
            at += 2 * self.size(k)
        offsets[self.hull.network.n] = at
        return offsets

    def size(self, k: int) -> int:
        return int(np.prod(self.hull.network.nodes[k].shape, dtype=np.int64))

    @property
    def variables(self) -> int:
        return self.offsets[self.hull.network.n]

    def post(self, j: int) -> int:
        """Where z_j begins."""
        return self.offsets[j] + (self.size(j) if j else 0)

    @cached_property
    def limits(self) -> tuple[Vector, Vector]:
        """Limits of all variables."""
        lower, upper = np.full(self.variables, -np.inf), np.full(self.variables, np.inf)
        box = self.hull.domain.box()
        for values, into in zip(box, (lower, upper), strict=True):
            into[: self.hull.network.input_size] = _vector(values)
        for k, activation in self.hull.network.flat_activations():
            l, u = self.hull.bounds.lower.flat(k), self.hull.bounds.upper.flat(k)
            for values, begin in ((l, self.offsets[k]), (activation.range(l, u)[0], self.post(k))):
                lower[begin : begin + self.size(k)] = _vector(values)
            for values, begin in ((u, self.offsets[k]), (activation.range(l, u)[1], self.post(k))):
                upper[begin : begin + self.size(k)] = _vector(values)
        return lower, upper

    @cached_property
    def rows(self) -> Rows:
        """The affine layers first (their multipliers are −ρ), in the order of the dual's buffer; then the facets."""
        from scipy.sparse import vstack

        parts = [self._affine(k) for k in self.hull.network.hidden]
        parts += [facet for k in self.hull.network.hidden for facet in self._facets(k)]
        parts += self._input_rows()
        matrix = vstack([part.matrix for part in parts], format="csr")
        return Rows(
            matrix,
            np.concatenate([p.lower for p in parts]),
            np.concatenate([p.upper for p in parts]),
        )

    def _affine(self, k: int) -> Rows:
        """ẑ_k − Σ_j W_kj z_j = b_k."""
        from scipy.sparse import identity

        size = self.size(k)
        blocks = {self.offsets[k]: identity(size, format="csr")}
        bias = np.zeros(size)
        for edge in self.hull.network.nodes[k].edges:
            begin, weight = self.post(edge.source), -edge.map.sparse().scipy()
            blocks[begin] = blocks[begin] + weight if begin in blocks else weight
            if edge.map.bias is not None:
                bias = bias + _vector(edge.map.bias.expand(edge.map.out_shape))
        return Rows(self._place(blocks, size), bias, bias)

    def _facets(self, k: int) -> list[Rows]:
        """sign·(z − slope·ẑ) >= sign·offset."""
        from scipy.sparse import diags, identity

        node = self.hull.network.nodes[k]
        if node.activation is None:
            return []
        activation, size = node.activation.flattened(node.shape), self.size(k)
        rows = []
        l, u = self.hull.bounds.lower.flat(k), self.hull.bounds.upper.flat(k)
        for sign, slope, offset in activation.facets(l, u, self.tolerance):
            s, t = _vector(slope.expand_as(l)), _vector(offset.expand_as(l))
            blocks = {
                self.offsets[k]: diags(-sign * s, format="csr"),
                self.post(k): sign * identity(size, format="csr"),
            }
            rows.append(Rows(self._place(blocks, size), sign * t, np.full(size, np.inf)))
        return rows

    def _input_rows(self) -> list[Rows]:
        """What the input set says beyond its box; a set that is not polyhedral is refused."""
        if not self.hull.domain.is_box:
            raise InvalidConfig(
                f"the LP methods need a box as input set, not a {type(self.hull.domain).__name__}; use another method"
            )
        return []

    def _place(self, blocks: Mapping[int, Any], rows: int) -> csr_matrix:
        """Blocks at their columns of an otherwise empty matrix of all variables."""
        from scipy.sparse import csr_matrix, hstack

        parts, at = [], 0
        for begin in sorted(blocks):
            if begin > at:
                parts.append(csr_matrix((rows, begin - at)))
            parts.append(blocks[begin])
            at = begin + blocks[begin].shape[1]
        if at < self.variables:
            parts.append(csr_matrix((rows, self.variables - at)))
        return csr_matrix(hstack(parts, format="csr"))

    def cost(self, coefficients: Mapping[int, Tensor], row: int) -> Vector:
        """The objective's coefficients of all variables."""
        cost = np.zeros(self.variables)
        for j, a in coefficients.items():
            begin = self.post(j)
            cost[begin : begin + self.size(j)] += _vector(a[0, row])
        return cost

    def columns(self) -> csc_matrix:
        return self.rows.matrix.tocsc()

    def rho(self, row_dual: Vector, like: Tensor) -> Tensor:
        """ρ = −y, `[total]`."""
        y = torch.from_numpy(
            np.asarray(row_dual[: self.hull.network.layout.total], dtype=np.float64)
        )
        return (-y).nan_to_num(0.0, 0.0, 0.0).to(like)


def _vector(values: Tensor) -> Vector:
    return np.asarray(values.detach().double().cpu().reshape(-1).numpy())
