"""What is assumed of floating point, and enclosures that follow from it.

Assumed: IEEE-754 binary64, rounding to nearest, in numpy's elementwise operations; and that sums of
products are computed as such, in any order and with or without fused multiply-add (no Strassen-like
scheme, no lower precision inside). Then (Higham, Accuracy and Stability, section 3.1), with
u = 2^-53 and gamma(m) = m u / (1 - m u),

    |computed - exact| <= gamma(m) * (sum of the absolute values of all products)

for a sum of up to m products, each of up to three further roundings less than m counts. Underflow
adds at most 2^-1022 per product; `TINY` covers all of them as long as magnitudes stay below `HUGE`.
"""

from __future__ import annotations

from decimal import Decimal

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Index = NDArray[np.int64]

UNIT = 2.0**-53
UNIT32 = 2.0**-24
HUGE = 2.0**200  # of bounds, weights and offsets: larger ones are refused
TINY = 2.0**-700  # more than 2^60 products, each 2^-1022 wrong, times HUGE
S_ERROR = 2.0**-36  # of `s_shaped`, absolute


class Unreadable(Exception):
    """A file is not what it should be, or uses what this checker does not support."""


class Invalid(Exception):
    """The certificate does not prove the property."""


def gamma(terms: float, unit: float = UNIT) -> float:
    """gamma(m), rounded up."""
    size = terms * unit
    if not 0 <= size <= (1e-4 if unit == UNIT else 0.1):
        raise Unreadable(f"sums of {terms:.0f} terms have no useful error bound")
    return size / (1 - size) * (1 + 2.0**-40)


def down(x: Array) -> Array:
    return np.nextafter(x, -np.inf)


def up(x: Array) -> Array:
    return np.nextafter(x, np.inf)


def float_below(x: Decimal) -> float:
    """A float that is not above x; comparing both is exact."""
    if x.copy_abs() > HUGE:
        raise Unreadable("a number of the property is too large")
    close = float(x)
    return close if close <= x else float(np.nextafter(close, -np.inf))


def float_above(x: Decimal) -> float:
    return -float_below(x.copy_negate())


def exp_below_zero(x: Array) -> Array:
    """exp(x) for x <= 0, within 2^-39.

    exp(x) = exp(x/128)^128, cut at -40 where it is below 2^-57. |x/128| <= 0.3125, so Taylor's
    remainder after degree 13 is below 2^-59. Horner's error is at most gamma(28) exp(0.3125), 48 u
    relative to exp(-0.3125); seven squarings multiply it by 128 and add 127 u: below 2^13 u."""
    y = np.maximum(x, -40.0) / 128.0
    result = np.ones_like(y)
    for k in range(13, 0, -1):
        result = result * y / k + 1.0
    for _ in range(7):
        result = result * result
    return result


def s_shaped(kind: str, x: Array) -> tuple[Array, Array]:
    """The value and the derivative of "sigmoid" or "tanh", within S_ERROR and 4 S_ERROR.

    s = 1/(1 + e) for e = exp(-|x|) is within |error of e| of the sigmoid of |x|, and
    tanh(x) = 2 sigmoid(2x) - 1. s' = s(1 - s), tanh' = 1 - tanh^2."""
    scale = 2.0 if kind == "tanh" else 1.0
    e = exp_below_zero(-scale * np.abs(x))
    s = np.where(x >= 0, 1.0, e) / (1.0 + e)
    if kind == "tanh":
        t = 2.0 * s - 1.0
        return t, 1.0 - t * t
    return s, s * (1.0 - s)
