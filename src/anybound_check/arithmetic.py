"""What is assumed of floating point, and the error bounds that follow from it.

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
    """The largest float that is not above x; comparing both is exact."""
    if x.copy_abs() > HUGE:
        raise Unreadable("a number of the property is too large")
    close = float(x)
    return close if close <= x else float(np.nextafter(close, -np.inf))


def float_above(x: Decimal) -> float:
    return -float_below(x.copy_negate())
