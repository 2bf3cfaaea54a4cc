"""Input sets of a property: a box, or an l1 or l2 ball, as plain data (float64 arrays [n_in]).

A set is known in two ways, as proofs and witnesses need opposite roundings of the exact borders:

    [lower, upper]              contains every real point of the exact set; proofs rest on it
    [inner_lower, inner_upper]  the float64 points of the exact set; a witness lies in it

Between borders that enclose no float64 (`0.1 <= x <= 0.1`: the decimal is none) the exact set has
no float64 point. There, the inner interval is the float64 nearest to each border: what every
program that reads the decimal computes with. It always lies in [lower, upper], so that no witness
can contradict a proof. `in_precision` does the same for a network that computes in float32.

Arrays are copied and made read-only, so that many clauses can share one set.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np
import numpy.typing as npt

from anybound.errors import InvalidInput, InvalidProperty
from anybound.spec.arrays import as_array
from anybound.spec.rounding import FloatArray, add_down, add_up

__all__ = ["BallSet", "BoxSet", "InputSet", "as_point"]


@dataclass(frozen=True, eq=False)
class BoxSet:
    """The box lower <= x <= upper, borders [n_in]; exact as given where `inner` is left out."""

    lower: FloatArray
    upper: FloatArray
    inner: tuple[FloatArray, FloatArray] | None = None

    def __post_init__(self) -> None:
        lower, upper = _frozen(self.lower), _frozen(self.upper)
        if lower.shape != upper.shape or lower.size == 0:
            raise InvalidProperty(
                f"box: {lower.size} lower and {upper.size} upper borders; expected as many"
            )
        _require(np.isfinite(lower) & np.isfinite(upper), "not finite", lower, upper)
        _require(lower <= upper, "lower above upper", lower, upper)
        inner = (lower, upper) if self.inner is None else _frozen_inner(self.inner, lower, upper)
        object.__setattr__(self, "lower", lower)
        object.__setattr__(self, "upper", upper)
        object.__setattr__(self, "inner", inner)

    @property
    def size(self) -> int:
        """The number of inputs, n_in."""
        return self.lower.size

    def __repr__(self) -> str:
        widths = self.upper - self.lower
        return f"BoxSet({self.size} inputs, widths {widths.min():.6g} to {widths.max():.6g})"

    @property
    def inner_lower(self) -> FloatArray:
        """The smallest float64 of each interval."""
        return self.lower if self.inner is None else self.inner[0]

    @property
    def inner_upper(self) -> FloatArray:
        """The largest float64 of each interval."""
        return self.upper if self.inner is None else self.inner[1]

    @property
    def fixed(self) -> int:
        """How many inputs have one float64 value only."""
        return int(np.count_nonzero(self.inner_lower == self.inner_upper))

    def contains(self, x: npt.ArrayLike) -> bool:
        """Whether the float64 point x lies in the exact set; no tolerance."""
        point = as_point(x, self.size, "input")
        return bool(np.all((self.inner_lower <= point) & (point <= self.inner_upper)))

    def closest(self, x: npt.ArrayLike) -> FloatArray:
        """The float64 point of the exact set that is closest to x (in every norm)."""
        return np.clip(_number_point(x, self.size), self.inner_lower, self.inner_upper)

    def in_precision(self, dtype: npt.DTypeLike) -> "BoxSet":
        """The same box for a network that reads its input as `dtype` (float32, float16).

        The inner borders become numbers of `dtype`, so that `closest` of such a point is one again.
        Where the interval holds none, it grows by the one nearest to its border.
        """
        low = _round_to(self.inner_lower, dtype, up=True)
        high = _round_to(self.inner_upper, dtype, up=False)
        empty = low > high
        low = np.where(empty, _cast(self.inner_lower, dtype), low)
        high = np.where(empty, _cast(self.inner_upper, dtype), high)
        return BoxSet(np.minimum(self.lower, low), np.maximum(self.upper, high), (low, high))


@dataclass(frozen=True, eq=False)
class BallSet:
    """The ball ||x - center||_norm <= radius, norm 1 or 2, intersected with the box `clip`."""

    center: FloatArray
    radius: float
    norm: Literal[1, 2]
    clip: BoxSet | None = None

    def __post_init__(self) -> None:
        center = _frozen(self.center)
        if center.size == 0 or not np.isfinite(center).all():
            raise InvalidProperty("ball: the center must hold finite numbers, at least one")
        if not (math.isfinite(self.radius) and self.radius >= 0):
            raise InvalidProperty(f"ball: radius {self.radius}; expected finite and >= 0")
        if self.norm not in (1, 2):
            raise InvalidProperty(f"ball: norm {self.norm}; expected 1 or 2 (a box for inf)")
        if self.clip is not None and not self.clip.contains(center):
            raise InvalidProperty(
                "ball: the center lies outside the clipping range; move it inside"
            )
        object.__setattr__(self, "center", center)

    @property
    def size(self) -> int:
        """The number of inputs, n_in."""
        return self.center.size

    def __repr__(self) -> str:
        cut = "" if self.clip is None else ", clipped"
        return f"BallSet({self.size} inputs, l{self.norm} radius {self.radius:.6g}{cut})"

    @property
    def lower(self) -> FloatArray:
        """The lower border of a box around the set, rounded down."""
        border = add_down(self.center, np.full_like(self.center, -self.radius))
        return border if self.clip is None else np.maximum(border, self.clip.lower)

    @property
    def upper(self) -> FloatArray:
        """The upper border of a box around the set, rounded up."""
        border = add_up(self.center, np.full_like(self.center, self.radius))
        return border if self.clip is None else np.minimum(border, self.clip.upper)

    @property
    def fixed(self) -> int:
        """How many inputs have one value only."""
        return int(np.count_nonzero(self.lower == self.upper))

    def contains(self, x: npt.ArrayLike) -> bool:
        """Whether the float64 point x lies in the set, in exact arithmetic."""
        point = as_point(x, self.size, "input")
        if not np.isfinite(point).all():
            return False
        if self.clip is not None and not self.clip.contains(point):
            return False
        moved = np.flatnonzero(point != self.center)
        steps = (Fraction(float(point[i])) - Fraction(float(self.center[i])) for i in moved)
        radius = Fraction(float(self.radius))
        if self.norm == 1:
            return sum((abs(step) for step in steps), Fraction()) <= radius
        return sum((step * step for step in steps), Fraction()) <= radius * radius

    def closest(self, x: npt.ArrayLike) -> FloatArray:
        """A float64 point of the set near x: x itself, or the projection on the ball, then clipped.

        As the center lies in `clip`, clipping moves no coordinate away from it: the point stays in
        the ball. Rounding may leave it just outside; shrinking towards the center brings it back.
        """
        point = _number_point(x, self.size)
        if self.contains(point):
            return point
        step = _shrunk_step(point - self.center, float(self.radius), self.norm)
        for shrink in (0.0, *(2.0**-k for k in range(52, 0, -1))):
            candidate = self.center + (1.0 - shrink) * step
            if self.clip is not None:
                candidate = self.clip.closest(candidate)
            if self.contains(candidate):
                return candidate
        return self.center.copy()

    def in_precision(self, dtype: npt.DTypeLike) -> "BallSet":
        """The ball itself: it is exact for numbers of every precision."""
        np.dtype(dtype)
        return self


InputSet = BoxSet | BallSet


def as_point(value: npt.ArrayLike, size: int, what: str) -> FloatArray:
    """Flatten a point to float64 [size], refusing other sizes and types float64 cannot hold."""
    array = as_array(value, what)
    if array.size != size:
        raise InvalidInput(f"{what}: shape {array.shape} has {array.size} values; expected {size}")
    return array.reshape(-1)


def _number_point(value: npt.ArrayLike, size: int) -> FloatArray:
    point = as_point(value, size, "input")
    if np.isnan(point).any():
        raise InvalidInput("input: a NaN has no closest point in a set")
    return point


def _frozen(values: npt.ArrayLike) -> FloatArray:
    array = np.array(values, dtype=np.float64).reshape(-1)
    array += 0.0  # -0.0 becomes 0.0
    array.setflags(write=False)
    return array


def _frozen_inner(
    inner: tuple[FloatArray, FloatArray], lower: FloatArray, upper: FloatArray
) -> tuple[FloatArray, FloatArray]:
    low, high = _frozen(inner[0]), _frozen(inner[1])
    if low.shape != lower.shape or high.shape != lower.shape:
        raise InvalidProperty(f"box: inner borders of {low.size} and {high.size} values")
    _require((lower <= low) & (low <= high) & (high <= upper), "inner not inside", low, high)
    return low, high


def _require(good: npt.NDArray[np.bool_], what: str, lower: FloatArray, upper: FloatArray) -> None:
    if not good.all():
        i = int(np.argmin(good))
        raise InvalidProperty(f"box: {what} at input {i}: [{lower[i]}, {upper[i]}]")


def _cast(values: FloatArray, dtype: npt.DTypeLike) -> FloatArray:
    """The nearest numbers of `dtype`, as float64."""
    with np.errstate(over="ignore"):
        cast = values.astype(dtype).astype(np.float64)
    if not np.isfinite(cast).all():
        raise InvalidProperty(f"box: input {int(np.argmin(np.isfinite(cast)))} exceeds {dtype}")
    return cast


def _round_to(values: FloatArray, dtype: npt.DTypeLike, *, up: bool) -> FloatArray:
    """The smallest numbers of `dtype` >= values (or the largest <=), as float64."""
    cast = _cast(values, dtype)
    wrong = cast < values if up else cast > values
    narrow = cast.astype(dtype)
    beyond = np.nextafter(narrow, np.full_like(narrow, np.inf if up else -np.inf))
    return np.where(wrong, beyond.astype(np.float64), cast)


def _shrunk_step(step: FloatArray, radius: float, norm: Literal[1, 2]) -> FloatArray:
    """The Euclidean projection of `step` on the ball of this norm and radius around 0."""
    if norm == 2:
        return step * (radius / float(np.linalg.norm(step)))
    # l1: soft thresholding, by the maximum over k of (sum of the k largest - radius) / k.
    sizes = np.sort(np.abs(step))[::-1]
    threshold = np.max((np.cumsum(sizes) - radius) / np.arange(1, step.size + 1))
    return np.sign(step) * np.maximum(np.abs(step) - threshold, 0.0)
