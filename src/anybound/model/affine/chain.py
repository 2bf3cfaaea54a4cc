"""Maps applied one after the other:  W = W_m ⋯ W_2 W_1.

`composed_error` and `composed_bias` bound what a composition loses. Where P_i is the 0/1 pattern of
W_i and |W_i* − W_i| ≤ r_i |W_i| + a_i P_i,

    |W_2* W_1* − W_2 W_1|
      ≤ |W_2* − W_2| |W_1*| + |W_2| |W_1* − W_1|
      ≤ (r_2 |W_2| + a_2 P_2) ((1 + r_1) |W_1| + a_1 P_1) + |W_2| (r_1 |W_1| + a_1 P_1)
      = (r_1 + r_2 + r_1 r_2) |W_2||W_1|
        + a_1 (1 + r_2) |W_2| P_1 + a_2 (1 + r_1) P_2 |W_1| + a_1 a_2 P_2 P_1

An entry of |W_2| P_1 is at most the largest row sum of |W_2|, one of P_2 |W_1| the largest column
sum of |W_1|, and one of P_2 P_1 at most the smaller of the counts in a row of P_2 and a column of
P_1. The relative part refers to |W_2||W_1| ≥ |W_2 W_1|, which is what the chain's `abs` stands for:
intervals go through a chain map by map.

For b = W_2 b_1 + b_2 with |b_i* − b_i| ≤ β_i:

    |b* − b| ≤ |W_2*| β_1 + |W_2* − W_2| |b_1| + β_2 + rounding

What underflow takes from one map's entries, the maps behind it may enlarge: with τ_i for a map alone,

    lost_i = ‖W_i‖_∞ · lost_{i−1} + τ_i          (backwards with the column sums ‖W_i‖_1)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from itertools import pairwise
from math import prod
from typing import Self

import torch
from torch import Tensor

from anybound.errors import InvalidModel
from anybound.model.affine.csr import Csr
from anybound.model.affine.map import AffineMap, WeightError
from anybound.model.affine.rounding import largest, rounded_product, two_sum
from anybound.model.affine.scale import Scale
from anybound.model.affine.weight_error import combined, plus, times
from anybound.rounding import gamma


@dataclass(frozen=True, eq=False)
class Chain(AffineMap):
    """z ↦ W_m ⋯ W_1 z + b; build it with `Chain.of`. The maps in it have no biases."""

    maps: tuple[AffineMap, ...]  # the first one first

    @classmethod
    def of(cls, *maps: AffineMap) -> Chain:
        """Applies float64 maps in this order, biases included."""
        bias, lost = maps[0].bias, maps[0].error.bias
        for first, second in pairwise(maps):
            check_composable(second, first)
            bias, lost = composed_bias(second, bias, lost)
        return cls.linear_of(maps).with_bias(bias, lost)

    @classmethod
    def linear_of(cls, maps: Sequence[AffineMap]) -> Chain:
        """The same with all biases left out."""
        parts = tuple(part.without_bias() for m in maps for part in parts_of(m))
        return reduce(cls._then, parts[1:], cls._start(parts[0]))

    @classmethod
    def _start(cls, first: AffineMap) -> Chain:
        return cls(first.in_shape, first.out_shape, (first,), error=first.error)

    def _then(self, second: AffineMap) -> Chain:
        error = composed_error(second, self)
        return Chain(self.in_shape, second.out_shape, (*self.maps, second), error=error)

    @property
    def dtype(self) -> torch.dtype:
        weights = (m.dtype for m in self.maps if m.has_weights)
        return next(weights, super().dtype)

    def _linear(self, z: Tensor) -> Tensor:
        for m in self.maps:
            z = m.linear(z)
        return z

    def _transpose(self, rho: Tensor) -> Tensor:
        for m in reversed(self.maps):
            rho = m.transpose(rho)
        return rho

    def abs(self) -> Chain:
        parts = tuple(m.abs() for m in self.maps)
        return Chain(self.in_shape, self.out_shape, parts)

    def rows(self, index: Tensor) -> Tensor:
        rows = self.maps[-1].rows(index).to(self.dtype)
        for m in reversed(self.maps[:-1]):
            rows = m.transpose(rows)
        return rows

    def rows_and_error(self, index: Tensor) -> tuple[Tensor, Tensor]:
        size = self._absolute.rows(index)  # rows of |W_m| ⋯ |W_1|, to which both errors refer
        relative = gamma(self.fan_out, size.dtype) + self.error.relative
        lost = self.error.absolute + self.lost_back(size.dtype)
        return self.rows(index), size * (1.001 * relative) + lost

    def lost(self, dtype: torch.dtype) -> float:
        parts = zip(self._row_sums, (m.lost(dtype) for m in self.maps), strict=True)
        return reduce(_enlarged, parts, 0.0)

    def lost_back(self, dtype: torch.dtype) -> float:
        parts = zip(self._column_sums, (m.lost_back(dtype) for m in self.maps), strict=True)
        return reduce(_enlarged, reversed(list(parts)), 0.0)

    @cached_property
    def _row_sums(self) -> tuple[float, ...]:
        """Of every map but the first, which has nothing to enlarge."""
        return 0.0, *(1.0 if m.selects else largest_row_sum(m) for m in self.maps[1:])

    @cached_property
    def _column_sums(self) -> tuple[float, ...]:
        """Of every map but the last."""
        return *(largest_column_sum(m) for m in self.maps[:-1]), 0.0

    def to(self, dtype: torch.dtype, device: torch.device | None = None) -> Self:
        bias, error = self._bias_to(dtype, device)
        moved = Chain.linear_of([m.to(dtype, device) for m in self.maps])
        return replace(
            self, maps=moved.maps, bias=bias, error=replace(moved.error, bias=error.bias)
        )

    def sparse(self) -> Csr:
        return reduce(
            lambda product, m: m.sparse().after(product), self.maps[1:], self.maps[0].sparse()
        )

    @property
    def has_weights(self) -> bool:
        return any(m.has_weights for m in self.maps)

    @property
    def fan_in(self) -> int:
        counts = [m.fan_in for m in self.maps]
        return max(sum(counts), min(prod(counts), self.in_size))

    @property
    def fan_out(self) -> int:
        counts = [m.fan_out for m in self.maps]
        return max(sum(counts), min(prod(counts), self.out_size))


def _enlarged(lost: float, part: tuple[float, float]) -> float:
    """‖W‖·lost + τ."""
    norm, own = part
    return plus(times(lost, norm), own)


def parts_of(m: AffineMap) -> tuple[AffineMap, ...]:
    """The maps that a map applies one after the other."""
    return m.maps if isinstance(m, Chain) else (m,)


def check_composable(second: AffineMap, first: AffineMap) -> None:
    """Refuses shapes that do not meet, and weights that are not float64."""
    if first.out_shape != second.in_shape:
        raise InvalidModel(
            f"a map to {first.out_shape} cannot be followed by a map from {second.in_shape}"
        )
    check_float64(first, second)


def check_float64(*maps: AffineMap) -> None:
    """Refuses weights that are not float64, whose roundings the bounds presume."""
    for m in maps:
        if (m.has_weights or m.bias is not None) and m.dtype != torch.float64:
            raise InvalidModel(f"a map in {m.dtype} cannot be composed; compose before converting")


def composed_error(second: AffineMap, first: AffineMap) -> WeightError:
    """How far W_2 W_1, not multiplied out, may be from the exact product."""
    r1, a1 = first.error.relative, first.error.absolute
    r2, a2 = second.error.relative, second.error.absolute
    absolute = plus(
        times(a1, 1.0 + 2.0 * r2, largest_row_sum(second)) if a1 else 0.0,
        times(a2, 1.0 + 2.0 * r1, largest_column_sum(first)) if a2 else 0.0,
        times(a1, a2, float(min(second.fan_in, first.fan_out))),
    )
    return WeightError(combined(r2, r1), absolute)


def composed_bias(
    second: AffineMap, bias: Tensor | None, lost: float
) -> tuple[Tensor | None, float]:
    """W_2 b + b_2 for a bias b known up to `lost`, and how far that is from the exact one."""
    if bias is None:
        return second.bias, second.error.bias
    r2, a2 = second.error.relative, second.error.absolute
    pushed, rounding = _pushed(second, bias)
    size = times(largest(bias), float(second.fan_in))
    terms = [second.error.bias, rounding, times(a2, plus(size, times(lost, float(second.fan_in))))]
    if lost:
        terms.append(times(lost, 1.0 + 2.0 * r2, largest_row_sum(second)))
    if r2:
        terms.append(times(r2, _largest_pushed(second, bias)))
    if second.bias is not None:
        pushed, rest = two_sum(pushed, second.bias)
        terms.append(largest(rest))
    return pushed, plus(*terms)


def largest_row_sum(m: AffineMap) -> float:
    """max_i Σ_j |W_ij|, rounded up."""
    ones = torch.ones(m.in_shape, dtype=torch.float64)
    found = plus(largest(_wide_abs(m).linear(ones)), m.lost(torch.float64))
    return times(found, 1.0 + gamma(m.fan_in, torch.float64))


def largest_column_sum(m: AffineMap) -> float:
    """max_j Σ_i |W_ij|, rounded up."""
    ones = torch.ones(m.out_shape, dtype=torch.float64)
    found = plus(largest(_wide_abs(m).transpose(ones)), m.lost_back(torch.float64))
    return times(found, 1.0 + gamma(m.fan_out, torch.float64))


def _pushed(second: AffineMap, bias: Tensor) -> tuple[Tensor, float]:
    """W_2 b and how far it is rounded."""
    if isinstance(second, Scale):  # keeps a bias per channel small
        product, relative, absolute = rounded_product(second.weight, bias)
        return product, plus(times(relative, largest(product)), absolute)
    pushed = second.linear(bias.expand(second.in_shape))
    if second.selects:
        return pushed, 0.0
    return pushed, plus(
        times(gamma(second.fan_in, torch.float64), _largest_pushed(second, bias)),
        second.lost(torch.float64),
    )


def _largest_pushed(second: AffineMap, bias: Tensor) -> float:
    """max (|W_2| |b|), rounded up."""
    pushed = _wide_abs(second).linear(bias.abs().expand(second.in_shape))
    found = plus(largest(pushed), second.lost(torch.float64))
    return times(found, 1.0 + gamma(second.fan_in, torch.float64))


def _wide_abs(m: AffineMap) -> AffineMap:
    return m.abs().to(torch.float64, torch.device("cpu"))
