"""What is to be bounded: R linear functions of one layer of a network, over an input set.

A function `cᵀ ẑ_n + d` of the last layer is folded back by that layer once and for all,

    cᵀ ẑ_n + d = Σ_j a_jᵀ z_j + constant,     a_j = W_njᵀ c,     constant = cᵀ b_n + d,

so that the dual never sees layer n. The rows of W_n that belong to single neurons are gathered,
never multiplied with an identity.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from anybound.errors import InvalidInput
from anybound.model.affine.map import AffineMap
from anybound.model.domains.domain import Domain
from anybound.model.network import Network
from anybound.rounding import gamma, round_up, underflow


@dataclass(frozen=True, eq=False)
class Objective:
    """Σ_j a_jᵀ z_j + constant, and how far each number may be from its exact value.

    `coefficients[j]` is `[D, R, *shape_j]`, `constant` is `[D, R]`; D is 1 when shared by the
    sub-problems. `errors[j]` bounds |a_j − exact| elementwise, `constant_error` likewise; they hold
    for float64.
    """

    coefficients: Mapping[int, Tensor]
    constant: Tensor
    errors: Mapping[int, Tensor]
    constant_error: Tensor

    @staticmethod
    def rows(network: Network, rows: Tensor, offset: Tensor | None = None) -> Objective:
        """cᵀ ẑ_n + d for rows c `[R, *output_shape]` (or `[D, R, *output_shape]`) and offsets d `[R]`."""
        c = _with_subproblem_axis(rows, network)
        constant = c.new_zeros(c.shape[:2]) if offset is None else offset.to(c).expand(c.shape[:2])
        edges = network.nodes[network.n].edges
        constant_error = gamma(len(edges) + 1, c.dtype) * constant.abs()
        coefficients: dict[int, Tensor] = {}
        errors: dict[int, Tensor] = {}
        for edge in edges:
            a, error = edge.map.transpose(c), transpose_error(edge.map, c.abs())
            if edge.source in coefficients:
                a, error = a + coefficients[edge.source], error + errors[edge.source]
                error = error + gamma(1, c.dtype) * a.abs()
            coefficients[edge.source], errors[edge.source] = a, error
            if edge.map.bias is not None:
                constant = constant + edge.map.bias_dot(c)
                constant_error = constant_error + bias_error(edge.map, c.abs(), len(edges))
        return Objective(coefficients, constant, errors, constant_error)

    @staticmethod
    def neurons(network: Network, index: Tensor, sign: Tensor) -> Objective:
        """sign_r · ẑ_n[index_r]: single neurons of the output layer, `[R]` each."""
        coefficients: dict[int, Tensor] = {}
        errors: dict[int, Tensor] = {}
        constant = torch.zeros(1, len(index), dtype=sign.dtype, device=sign.device)
        constant_error = torch.zeros_like(constant)
        edges = network.nodes[network.n].edges
        for edge in edges:
            rows, error = (x.to(sign) for x in edge.map.rows_and_error(index))
            a = rows.mul_(sign.reshape(-1, *[1] * (rows.ndim - 1))).unsqueeze(0)
            error = error.unsqueeze(0)
            if edge.source in coefficients:
                a, error = a + coefficients[edge.source], error + errors[edge.source]
                error = error + gamma(1, a.dtype) * a.abs()
            coefficients[edge.source], errors[edge.source] = a, error
            if edge.map.bias is not None:
                bias = edge.map.bias.expand(edge.map.out_shape).reshape(-1)[index].to(sign)
                constant = constant + sign * bias
                constant_error = constant_error + edge.map.error.bias
                constant_error = constant_error + gamma(len(edges) + 1, a.dtype) * bias.abs()
        return Objective(coefficients, constant, errors, constant_error)

    @property
    def dtype(self) -> torch.dtype:
        return self.constant.dtype

    def to(self, dtype: torch.dtype, device: torch.device | None = None) -> Self:
        """In another dtype; what rounding loses is added to the errors."""

        def convert(values: Tensor, error: Tensor) -> tuple[Tensor, Tensor]:
            rounded = values.to(dtype)
            error = error + (values - rounded.to(values.dtype)).abs()
            return rounded.to(device=device), round_up(1.001 * error, dtype).to(device=device)

        blocks = {j: convert(a, self.errors[j]) for j, a in self.coefficients.items()}
        constant, constant_error = convert(self.constant, self.constant_error)
        return type(self)(
            {j: a for j, (a, _) in blocks.items()},
            constant,
            {j: error for j, (_, error) in blocks.items()},
            constant_error,
        )

    def select(self, row: Tensor) -> Self:
        """The functions with these indices along R."""
        return self._take(1, row)

    def pick(self, subproblem: Tensor) -> Self:
        """The sub-problems with these indices along D; what they share is returned as it is."""
        return self if self.constant.shape[0] == 1 else self._take(0, subproblem)

    def _take(self, axis: int, index: Tensor) -> Self:
        def take(block: Tensor) -> Tensor:
            return block.index_select(axis, index) if block.shape[axis] > 1 else block

        return type(self)(
            {j: take(a) for j, a in self.coefficients.items()},
            take(self.constant),
            {j: take(e) for j, e in self.errors.items()},
            take(self.constant_error),
        )


@dataclass(frozen=True, eq=False)
class Problem:
    """Minimise each of R linear functions of the network over the input set."""

    network: Network
    domain: Domain
    objective: Objective

    def __post_init__(self) -> None:
        if tuple(self.domain.shape) != tuple(self.network.input_shape):
            raise InvalidInput(
                f"the input set has shape {tuple(self.domain.shape)}, the network's input "
                f"{tuple(self.network.input_shape)}; build the set from arrays of the network's input shape"
            )

    @property
    def batch(self) -> tuple[int, int]:
        """(D, R)."""
        d, r = self.objective.constant.shape
        return max(d, self.domain.count), r

    def to(self, dtype: torch.dtype, device: torch.device | None = None) -> Problem:
        return Problem(
            self.network.to(dtype, device),
            self.domain.to(dtype, device),
            self.objective.to(dtype, device),
        )

    def select(self, row: Tensor) -> Problem:
        return Problem(self.network, self.domain, self.objective.select(row))


def transpose_error(map_: AffineMap, magnitude: Tensor) -> Tensor:
    """At least |computed Wᵀρ − exact W*ᵀρ| elementwise, for |ρ| = `magnitude`.

    γ_m |W|ᵀ|ρ| bounds the rounding of a sum of m products in any order; the stored weights' own
    error adds to it.
    The leading factor covers the rounding of |W|ᵀ|ρ| itself."""
    relative = gamma(map_.fan_out + 2, magnitude.dtype) + map_.error.relative
    error = map_.abs_transpose(magnitude) * (1.001 * relative)
    error = error + 2 * map_.lost_back(magnitude.dtype)
    if map_.error.absolute:
        total = magnitude.flatten(-len(map_.out_shape) or magnitude.ndim).sum(-1)
        error = error + 1.001 * map_.error.absolute * total.reshape(
            *total.shape, *[1] * len(map_.in_shape)
        )
    return error


def bias_error(map_: AffineMap, magnitude: Tensor, summands: int) -> Tensor:
    """At least |computed ρᵀb − exact ρᵀb*|, for |ρ| = `magnitude`, `[...]`, as one of so many summands."""
    if map_.bias is None:
        return magnitude.new_zeros(magnitude.shape[: magnitude.ndim - len(map_.out_shape)])
    terms = map_.out_size + summands + 1
    weight = map_.bias.abs() * gamma(terms, magnitude.dtype) + map_.error.bias
    lead = magnitude.shape[: magnitude.ndim - len(map_.out_shape)]
    error = 1.001 * (magnitude * weight).reshape(*lead, -1).sum(-1)
    return error + underflow(2 * map_.out_size, magnitude.dtype)


def _with_subproblem_axis(rows: Tensor, network: Network) -> Tensor:
    shape = network.output_shape
    if tuple(rows.shape[rows.ndim - len(shape) :]) != tuple(shape) or rows.ndim - len(
        shape
    ) not in (1, 2):
        raise InvalidInput(
            f"rows have shape {tuple(rows.shape)}; expected [R, {', '.join(map(str, shape))}], "
            "one coefficient per output"
        )
    if not bool(torch.isfinite(rows).all()):
        raise InvalidInput(
            "rows contain NaN or infinite coefficients; every coefficient must be finite"
        )
    return rows.unsqueeze(0) if rows.ndim == len(shape) + 1 else rows
