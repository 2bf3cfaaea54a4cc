"""Outward rounding: error bounds that hold for any order of summation, and directed operations.

With unit roundoff u = eps/2, n products summed in any order (fused or not) are wrong by at most
γ_n·Σ|x_i y_i| with γ_n = n·u/(1 − n·u), plus one smallest normal number per product for underflow.
"""

from __future__ import annotations

from math import inf

import torch
from torch import Tensor

__all__ = ["add_down", "add_up", "cast_down", "cast_up", "gamma", "step_down", "step_up", "unit"]


def unit(dtype: torch.dtype) -> float:
    """u, the largest relative error of one rounding to nearest."""
    return torch.finfo(dtype).eps / 2


def gamma(n: int, dtype: torch.dtype) -> float:
    """γ_n = n·u/(1 − n·u), infinite where it means nothing any more."""
    nu = n * unit(dtype)
    return nu / (1 - nu) if nu < 1 else inf


def step_down(x: Tensor) -> Tensor:
    """The next smaller floating-point number."""
    return torch.nextafter(x, torch.full_like(x, -inf))


def step_up(x: Tensor) -> Tensor:
    """The next larger floating-point number."""
    return torch.nextafter(x, torch.full_like(x, inf))


def cast_down(x: Tensor, dtype: torch.dtype) -> Tensor:
    """The largest number of `dtype` that is at most x."""
    y = x.to(dtype)
    return step_down(y).where(y.double() > x.double(), y)


def cast_up(x: Tensor, dtype: torch.dtype) -> Tensor:
    """The smallest number of `dtype` that is at least x."""
    y = x.to(dtype)
    return step_up(y).where(y.double() < x.double(), y)


def add_down(a: Tensor, b: Tensor) -> Tensor:
    """a + b rounded down; exact sums stay as they are."""
    total = a + b
    return step_down(total).where(_error_of_sum(a, b, total) < 0, total)


def add_up(a: Tensor, b: Tensor) -> Tensor:
    """a + b rounded up; exact sums stay as they are."""
    total = a + b
    return step_up(total).where(_error_of_sum(a, b, total) > 0, total)


def _error_of_sum(a: Tensor, b: Tensor, total: Tensor) -> Tensor:
    """(a + b) − fl(a + b), exactly (Knuth's TwoSum)."""
    b_seen = total - a
    return (a - (total - b_seen)) + (b - b_seen)
