"""How far stored weights may be from the exact ones, and the outward arithmetic on such bounds.

Folding maps into each other rounds, and so does a change of dtype. With `W*`, `b*` exact and `W`,
`b` stored:

    |W* − W| ≤ relative·|W| + absolute     where the pattern of the map allows a nonzero
    W* = W = 0                             elsewhere
    |b* − b| ≤ bias

`|W|` is what `AffineMap.abs` stands for. The bounds are Python floats; operations on them
round up.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import fsum, inf, nextafter

UNIT = 2.0**-53  # half the distance from 1 to the next float64
TINY = 2.0**-1074  # the smallest positive float64


@dataclass(frozen=True)
class WeightError:
    """Entrywise distance between stored and exact weights."""

    relative: float = 0.0
    absolute: float = 0.0
    bias: float = 0.0

    @property
    def is_exact(self) -> bool:
        return self.relative == self.absolute == self.bias == 0.0


EXACT = WeightError()


def plus(*terms: float) -> float:
    """An upper bound of the sum of nonnegative terms, exact when at most one is not 0."""
    nonzero = [term for term in terms if term != 0.0]
    if len(nonzero) <= 1:
        return sum(nonzero, 0.0)
    try:
        return nextafter(fsum(nonzero), inf)
    except OverflowError:  # a sum beyond the largest float64
        return inf


def times(*factors: float) -> float:
    """An upper bound of the product of nonnegative factors, 0 when one of them is."""
    if 0.0 in factors:
        return 0.0
    product = 1.0
    for factor in factors:
        product = factor if product == 1.0 else nextafter(product * factor, inf)
    return product


def combined(outer: float, inner: float) -> float:
    """(1 + outer)(1 + inner) − 1: what two relative errors make together."""
    return plus(outer, inner, times(outer, inner))
