"""From exact bounds on inputs to boxes of float64, rounded as `spec.input_sets` wants them.

Per side, the tightest exact border of each input is kept: a rational, or a decimal as the text of
the file, which is the fastest exact form, as a `Decimal` compares exactly with a float. Then

    lower = largest float64 <= border      inner_lower = smallest float64 >= border (> where strict)

and likewise above. Terms that do not bound inputs on their own share one box; so do equal terms.
"""

import operator
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from anybound.errors import UnsupportedProperty
from anybound.io.vnnlib.formula import Bound
from anybound.io.vnnlib.tokens import Source
from anybound.spec.input_sets import BoxSet
from anybound.spec.rounding import FloatArray, nearest

__all__ = ["MAX_NUMBERS", "Border", "Borders", "Boxes"]

MAX_NUMBERS = 2**25  # of all distinct boxes together: 1 GiB for four float64 borders


class Border(NamedTuple):
    """An exact end of an interval, a decimal's text or a rational; excluded where `strict`."""

    value: str | Fraction
    strict: bool
    offset: int


class _Intervals(NamedTuple):
    """Four float64 arrays, and the position of an interval that is empty in exact arithmetic."""

    lower: FloatArray
    upper: FloatArray
    inner_lower: FloatArray
    inner_upper: FloatArray
    empty: int | None


@dataclass(frozen=True)
class Borders:
    """The tightest borders of inputs, by index; an input without one is unbounded on that side."""

    lower: dict[int, Border] = field(default_factory=dict)
    upper: dict[int, Border] = field(default_factory=dict)

    def add(self, index: int, border: Border, *, upper: bool) -> None:
        """Intersect the interval of one input with a half-line."""
        side = self.upper if upper else self.lower
        old = side.get(index)
        if old is None or _tighter(border, old, upper=upper):
            side[index] = border

    def changed(self, bounds: Iterable[Bound]) -> "Borders":
        """With these bounds added: both borders of every input that they mention."""
        result = Borders()
        for bound in bounds:
            index = bound.index
            if index not in result.lower and index not in result.upper:
                result.lower.update({index: self.lower[index]} if index in self.lower else {})
                result.upper.update({index: self.upper[index]} if index in self.upper else {})
            result.add(index, Border(bound.value, bound.strict, bound.offset), upper=bound.upper)
        return result

    def bounded(self) -> list[int]:
        """The inputs with both borders, ascending."""
        return sorted(self.lower.keys() & self.upper.keys())


class Boxes:
    """Makes the box of each term; `borders` are those that hold in every term."""

    def __init__(self, source: Source, borders: Borders, size: int) -> None:
        self._source, self._borders, self._size = source, borders, size
        known = borders.bounded()
        self._unbounded = set(range(size)).difference(known)
        intervals = _intervals(borders, known, source)
        if intervals.empty is not None:
            raise _contradiction(borders, intervals.empty, source)
        self._base = np.full((4, size), np.nan)
        self._base[:, known] = intervals[:4]
        self._made: dict[tuple[tuple[int | Fraction, ...], ...], BoxSet] = {}

    def box(self, bounds: Sequence[Bound]) -> BoxSet | None:
        """The box in which these bounds hold too; None if there is no such point."""
        borders = self._borders.changed(bounds)
        indices = borders.bounded()
        self._require_bounded(borders, indices)
        key = tuple((i, *_meaning(borders.lower[i]), *_meaning(borders.upper[i])) for i in indices)
        if key in self._made:
            return self._made[key]
        if (len(self._made) + 1) * self._size > MAX_NUMBERS:
            raise UnsupportedProperty(
                f"{self._source.name}: more than {len(self._made)} boxes of {self._size} inputs"
            )
        intervals = _intervals(borders, indices, self._source)
        if intervals.empty is not None:
            return None
        arrays = self._base.copy() if indices else self._base
        arrays[:, indices] = intervals[:4]
        lower, upper, inner_lower, inner_upper = arrays
        self._made[key] = BoxSet(lower, upper, (inner_lower, inner_upper))
        return self._made[key]

    def _require_bounded(self, borders: Borders, indices: list[int]) -> None:
        missing = self._unbounded.difference(indices)
        if missing:
            index = min(missing)
            lacks_lower = index not in borders.lower and index not in self._borders.lower
            what = "lower" if lacks_lower else "upper"
            message = f"input X_{index} has no {what} bound; every input needs both"
            raise self._source.invalid(len(self._source.text), message)


def _meaning(border: Border) -> tuple[Fraction, bool]:
    return _exact(border), border.strict


def _exact(border: Border) -> Fraction:
    return border.value if isinstance(border.value, Fraction) else Fraction(border.value)


def _tighter(new: Border, old: Border, *, upper: bool) -> bool:
    a, b = _exact(new), _exact(old)
    return new.strict > old.strict if a == b else (a < b) == upper


def _intervals(borders: Borders, indices: list[int], source: Source) -> _Intervals:
    """Round the borders of these inputs, outwards and inwards."""
    lows, highs = [borders.lower[i] for i in indices], [borders.upper[i] for i in indices]
    lower, inner_lower = _rounded(lows, source, inwards=np.inf)
    upper, inner_upper = _rounded(highs, source, inwards=-np.inf)
    # Only where no float64 is inside can the exact interval be empty, or a single decimal.
    for position in np.flatnonzero(inner_lower > inner_upper):
        low, high = lows[position], highs[position]
        open_end = low.strict or high.strict
        if (below := _exact(low)) > (above := _exact(high)) or (below == above and open_end):
            return _Intervals(lower, upper, inner_lower, inner_upper, indices[position])
        if open_end:
            message = f"no float64 lies strictly inside the interval of X_{indices[position]}"
            raise source.unsupported(high.offset, message)
        inner_lower[position], inner_upper[position] = nearest(below), nearest(above)
    return _Intervals(lower, upper, inner_lower, inner_upper, None)


def _rounded(
    borders: list[Border], source: Source, *, inwards: float
) -> tuple[FloatArray, FloatArray]:
    """The float64 next to each border, outside and inside the interval (a float is its own)."""
    close = [float(b.value) if isinstance(b.value, str) else nearest(b.value) for b in borders]
    floats = np.array(close, dtype=np.float64)
    if not np.isfinite(floats).all():
        worst = borders[int(np.argmin(np.isfinite(floats)))]
        raise source.invalid(worst.offset, "a bound beyond the range of float64")
    exact = [Decimal(b.value) if isinstance(b.value, str) else b.value for b in borders]
    # A float converts exactly to the type of its border; comparing two of a type is fastest.
    same = [type(value)(number) for value, number in zip(exact, close, strict=True)]
    below = np.fromiter(map(operator.gt, exact, same), dtype=bool, count=len(borders))
    above = np.fromiter(map(operator.lt, exact, same), dtype=bool, count=len(borders))
    strict = np.fromiter((b.strict for b in borders), dtype=bool, count=len(borders))
    # `floats` lies outside the interval where the border is further inwards.
    is_outside, is_inside = (below, above) if inwards > 0 else (above, below)
    outside = np.where(is_inside, np.nextafter(floats, -inwards), floats)
    inside = np.where(is_outside | (strict & ~is_inside), np.nextafter(floats, inwards), floats)
    return outside, inside


def _contradiction(borders: Borders, index: int, source: Source) -> Exception:
    low, high = borders.lower[index], borders.upper[index]
    message = f"X_{index} has lower bound {_brief(low)} above its upper bound {_brief(high)}"
    if _exact(low) == _exact(high):
        message = f"X_{index} is strictly between {_brief(low)} and itself"
    return source.invalid(max(low.offset, high.offset), message)


def _brief(border: Border) -> str:
    return f"{nearest(_exact(border)):.17g}"
