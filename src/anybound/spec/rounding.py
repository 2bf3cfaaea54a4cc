"""Rational numbers and sums, rounded to float64 in a stated direction.

`round_down(q) <= q <= round_up(q)`: the neighbouring float64 on either side, both equal to q
exactly when q is a float64. Beyond the range of float64 the outer one is infinite; callers refuse
it.
"""

import math
import sys
from fractions import Fraction

import numpy as np
import numpy.typing as npt

__all__ = ["FloatArray", "add_down", "add_up", "nearest", "round_down", "round_up"]

FloatArray = npt.NDArray[np.float64]


def nearest(value: Fraction) -> float:
    """The float64 that reading the number gives: round to nearest, ties to even."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def round_down(value: Fraction) -> float:
    """The largest float64 <= value."""
    close = nearest(value)
    if close == math.inf:
        return sys.float_info.max
    if close == -math.inf or Fraction(close) <= value:
        return close
    return math.nextafter(close, -math.inf)


def round_up(value: Fraction) -> float:
    """The smallest float64 >= value."""
    return -round_down(-value)


def add_down(a: FloatArray, b: FloatArray) -> FloatArray:
    """The largest float64 <= a + b, elementwise; finite arguments.

    Knuth's TwoSum gives a + b = s + e exactly, so that the sign of e says on which side s lies.
    """
    total = a + b
    b_part = total - a
    error = (a - (total - b_part)) + (b - b_part)
    return np.where(error < 0, np.nextafter(total, -np.inf), total)


def add_up(a: FloatArray, b: FloatArray) -> FloatArray:
    """The smallest float64 >= a + b, elementwise; finite arguments."""
    return -add_down(-a, -b)
