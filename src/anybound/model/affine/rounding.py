"""What a product, a sum or a change of dtype loses, found exactly by error-free transformations.

    a + b = s + e  with s = fl(a + b) (Knuth),     a·b = p + e  with p = fl(a·b) (Dekker)

so that a fused weight is called exact when it is: a product with a power of two, with 0 or 1, of
two float32 numbers. Inputs are float64.
"""

from __future__ import annotations

import torch
from torch import Tensor

from anybound.errors import InvalidModel
from anybound.model.affine.weight_error import TINY, UNIT


def largest(tensor: Tensor) -> float:
    """max |entry|, 0 when there is none."""
    return float(tensor.detach().abs().max()) if tensor.numel() else 0.0


def two_sum(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """s = fl(a + b) and the exact e with a + b = s + e."""
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


def two_product(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """p = fl(a·b) and, without underflow or overflow, the exact e with a·b = p + e."""
    p = a * b
    a_high, a_low = _split(a)
    b_high, b_low = _split(b)
    return p, a_low * b_low - (((p - a_high * b_high) - a_low * b_high) - a_high * b_low)


def rounded_product(a: Tensor, b: Tensor) -> tuple[Tensor, float, float]:
    """p = fl(a·b), and r, t with |a·b − p| ≤ r·|p| + t; both 0 when every product is exact."""
    p, e = two_product(a, b)
    # Below 2^-960 the remainder itself may underflow, so exactness cannot be seen.
    seen = (p.abs() > 2.0**-960) | (a == 0.0) | (b == 0.0)
    exact = seen & (e == 0.0)
    return p, 0.0 if bool(exact.all()) else UNIT, 0.0 if bool(seen.all()) else TINY


def narrowed(weight: Tensor, dtype: torch.dtype) -> tuple[Tensor, float, float]:
    """w' = fl(w) in `dtype`, and r, t with |w − w'| ≤ r·|w'| + t; both 0 when nothing is lost."""
    out = weight.to(dtype)
    if dtype in (weight.dtype, torch.float64):
        return out, 0.0, 0.0
    back = out.to(torch.float64)
    lost = back != weight.to(torch.float64)
    if not bool(lost.any()):
        return out, 0.0, 0.0
    info = torch.finfo(dtype)
    if not bool(back.isfinite().all()):
        raise InvalidModel(
            f"a weight of {largest(weight):.3g} is beyond {info.max:.3g}, the range of {dtype}; "
            "compute in float64"
        )
    # w' = w / (1 + δ) with |δ| ≤ eps/2; where w' is subnormal, half of its constant spacing.
    normal = back.abs() >= info.tiny
    relative = info.eps / 2 if bool((lost & normal).any()) else 0.0
    absolute = info.tiny * info.eps / 2 if bool((lost & ~normal).any()) else 0.0
    return out, relative, absolute


def _split(a: Tensor) -> tuple[Tensor, Tensor]:
    c = a * (2.0**27 + 1.0)
    high = c - (c - a)
    return high, a - high
