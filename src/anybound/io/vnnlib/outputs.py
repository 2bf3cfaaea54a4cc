"""From exact rows over the outputs to half-spaces of float64.

Every row is scaled by a positive number where that makes its coefficients float64 (0.1 Y_0 + 0.3
Y_1 <= 1 becomes Y_0 + 3 Y_1 <= 10), and refused where it does not; the right-hand side stays
exact beside its rounding. Terms with the same rows share their half-spaces.
"""

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from anybound.errors import UnsupportedProperty
from anybound.io.vnnlib.formula import Row
from anybound.io.vnnlib.tokens import Source
from anybound.spec.property import HalfSpaces
from anybound.spec.rounding import nearest

__all__ = ["MAX_COEFFICIENTS", "Outputs"]

MAX_COEFFICIENTS = 2**27  # of all distinct half-spaces together: 1 GiB
_ONE = Fraction(1)
_ALL_INTEGERS = 2**53  # up to here every integer is a float64


class Outputs:
    """Makes the half-spaces of each term; `rows` are those that hold in every term."""

    def __init__(self, source: Source, rows: Sequence[Row], size: int) -> None:
        self._source, self._size = source, size
        self._rows = list(rows)
        self._stored = 0
        self._made: dict[tuple[int, ...], HalfSpaces] = {}

    def half_spaces(self, rows: Sequence[Row]) -> HalfSpaces:
        """The outputs for which the rows of the term hold, and those of every term."""
        key = tuple(map(id, rows))
        if key not in self._made:
            self._made[key] = self._make([*self._rows, *rows])
        return self._made[key]

    def _make(self, rows: list[Row]) -> HalfSpaces:
        if not rows:
            message = "a clause constrains no output; is the file complete?"
            raise self._source.invalid(len(self._source.text), message)
        self._stored += len(rows) * self._size
        if self._stored > MAX_COEFFICIENTS:
            raise UnsupportedProperty(
                f"{self._source.name}: more than {MAX_COEFFICIENTS} output coefficients"
            )
        matrix = np.zeros((len(rows), self._size))
        exact: list[Fraction] = []
        for k, row in enumerate(rows):
            scale = self._scale(row)
            for j, coefficient in row.coefficients.items():
                matrix[k, j] = nearest(coefficient if scale is _ONE else scale * coefficient)
            exact.append(row.value if scale is _ONE else scale * row.value)
            if math.isinf(nearest(exact[-1])):
                raise self._source.invalid(row.offset, "a bound beyond the range of float64")
        return HalfSpaces.rounded(matrix, tuple(exact), tuple(row.strict for row in rows))

    def _scale(self, row: Row) -> Fraction:
        """A positive factor that makes every coefficient of the row a float64."""
        coefficients = row.coefficients.values()
        if all(map(_is_float, coefficients)):
            return _ONE
        scale = Fraction(math.lcm(*(c.denominator for c in coefficients)))
        if all(_is_float(scale * c) for c in coefficients):
            return scale
        message = "the coefficients of this row are no float64, not even times their denominator"
        raise self._source.unsupported(row.offset, message)


def _is_float(value: Fraction) -> bool:
    if value.denominator == 1 and abs(value.numerator) <= _ALL_INTEGERS:
        return True
    close = nearest(value)
    return math.isfinite(close) and Fraction(close) == value
