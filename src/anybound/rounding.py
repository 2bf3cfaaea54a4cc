"""A-priori bounds on rounding errors, valid for any order of summation and with or without fused
multiply-add.

A sum of m products computed in a format of unit roundoff u satisfies |computed − exact| <= γ_m
Σ|x_i y_i| with γ_m = m·u / (1 − m·u) (Higham, Accuracy and Stability of Numerical Algorithms,
section 3.1), barring underflow, for which `tiny` is added where products may be subnormal.
"""

from __future__ import annotations

import torch
from torch import Tensor


def unit_roundoff(dtype: torch.dtype) -> float:
    """u: half the distance from 1 to the next number."""
    return torch.finfo(dtype).eps / 2


def gamma(terms: int, dtype: torch.dtype) -> float:
    """γ_m, itself rounded up."""
    mu = terms * unit_roundoff(dtype)
    if mu >= 0.25:
        raise ValueError(f"sums of {terms} terms have no useful error bound in {dtype}")
    return mu / (1 - mu) * (1 + 1e-15)


def underflow(terms: int, dtype: torch.dtype) -> float:
    """At least what `terms` products lose by falling below the normal numbers, flushed to zero or not."""
    return terms * torch.finfo(dtype).tiny


def sum_error(magnitudes: Tensor, terms: int) -> Tensor:
    """The rounding error of a sum of `terms` numbers whose absolute values add up to `magnitudes`."""
    return magnitudes * (1.001 * gamma(terms, magnitudes.dtype))


def outward(lower: Tensor, upper: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Bounds converted to `dtype`, the lower ones rounded down and the upper ones up."""
    return round_down(lower, dtype), round_up(upper, dtype)


def round_down(x: Tensor, dtype: torch.dtype) -> Tensor:
    """The largest number of `dtype` that is not above x, or its lower neighbour."""
    y = x.to(dtype)
    lower = torch.nextafter(y, y.new_tensor(-torch.inf))
    return torch.where(y.to(x.dtype) > x, lower, y) if y.dtype != x.dtype else y


def round_up(x: Tensor, dtype: torch.dtype) -> Tensor:
    """The smallest number of `dtype` that is not below x."""
    return -round_down(-x, dtype)


def next_down(x: Tensor) -> Tensor:
    """The next smaller number of x's dtype."""
    return torch.nextafter(x, x.new_tensor(-torch.inf))


def next_up(x: Tensor) -> Tensor:
    """The next larger number of x's dtype."""
    return torch.nextafter(x, x.new_tensor(torch.inf))


def add_down(a: Tensor, b: Tensor) -> Tensor:
    """a + b rounded down; exact sums stay as they are."""
    total = a + b
    return torch.where(_lost(a, b, total) < 0, next_down(total), total)


def add_up(a: Tensor, b: Tensor) -> Tensor:
    """a + b rounded up; exact sums stay as they are."""
    return -add_down(-a, -b)


def _lost(a: Tensor, b: Tensor, total: Tensor) -> Tensor:
    """(a + b) − fl(a + b), exactly (Knuth's TwoSum)."""
    b_seen = total - a
    return (a - (total - b_seen)) + (b - b_seen)
