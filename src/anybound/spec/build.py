"""Properties from Python: robustness, linear conditions on the outputs, and their combinations.

    robust(network, x, label=3, epsilon=8 / 255, clip=(0, 1))
    unsafe(BoxSet(lower, upper), any_of(linear([[1, -1]], [0]), linear([[0, 1]], [-2])))

A `Condition` on the outputs is a union of conjunctions A y <= b; `any_of` and `all_of` keep that
form.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Literal, Protocol

import numpy as np
import numpy.typing as npt

from anybound.errors import InvalidInput, InvalidProperty, UnsupportedProperty
from anybound.spec.arrays import as_array
from anybound.spec.input_sets import BallSet, BoxSet, InputSet, as_point
from anybound.spec.property import MAX_CLAUSES, Clause, HalfSpaces, Property
from anybound.spec.rounding import FloatArray, add_down, add_up

__all__ = [
    "Condition",
    "Norm",
    "Sized",
    "all_of",
    "any_of",
    "ball",
    "linear",
    "neighbourhood",
    "robust",
    "unsafe",
]

Norm = Literal["inf", "2", "1"] | float


class Sized(Protocol):
    """Anything that knows how many inputs and outputs it has, such as a network."""

    @property
    def input_size(self) -> int: ...
    @property
    def output_size(self) -> int: ...


@dataclass(frozen=True, eq=False)
class Condition:
    """A set of outputs: the union of `alternatives`, each a conjunction of half-spaces."""

    alternatives: tuple[HalfSpaces, ...]


def linear(matrix: npt.ArrayLike, offset: npt.ArrayLike, *, strict: bool = False) -> Condition:
    """The outputs y with matrix @ y <= offset in every row (< where `strict`).

    >>> import anybound
    >>> first_is_smallest = anybound.linear([[1, -1, 0], [1, 0, -1]], [0, 0])
    >>> prop = anybound.unsafe(anybound.ball([0.5, 0.5], 0.1), first_is_smallest)
    >>> prop.violated_by([0.5, 0.5], [0.0, 1.0, 2.0])
    True
    """
    rows = np.array(matrix, dtype=np.float64, ndmin=2)
    signs = (strict,) * rows.shape[0]
    return Condition((HalfSpaces(rows, np.asarray(offset, dtype=np.float64), strict=signs),))


def any_of(*conditions: Condition) -> Condition:
    """The outputs for which at least one of the conditions holds.

    >>> import anybound
    >>> negative, large = anybound.linear([[1.0]], [0.0]), anybound.linear([[-1.0]], [-10.0])
    >>> outside = anybound.unsafe(anybound.ball([0.0], 1.0), anybound.any_of(negative, large))
    >>> [outside.violated_by([0.0], [y]) for y in (-1.0, 5.0, 11.0)]
    [True, False, True]
    """
    return Condition(tuple(a for condition in conditions for a in condition.alternatives))


def all_of(*conditions: Condition) -> Condition:
    """The outputs for which all of the conditions hold: the product of their alternatives.

    >>> import anybound
    >>> negative, first = anybound.linear([[1, 0]], [0]), anybound.linear([[1, -1]], [0])
    >>> both = anybound.unsafe(anybound.ball([0.0], 1.0), anybound.all_of(negative, first))
    >>> both.violated_by([0.0], [-1.0, 0.5]), both.violated_by([0.0], [-1.0, -2.0])
    (True, False)
    """
    count = math.prod(len(condition.alternatives) for condition in conditions)
    if count > MAX_CLAUSES:
        raise UnsupportedProperty(f"all_of: {count} clauses; the limit is {MAX_CLAUSES}")
    if not conditions:
        raise InvalidProperty("all_of: expected at least one condition")
    return Condition(tuple(map(_both, product(*(c.alternatives for c in conditions)))))


def unsafe(input_set: InputSet, condition: Condition, name: str = "") -> Property:
    """The property violated by an input of the set whose output meets the condition.

    >>> import anybound
    >>> prop = anybound.unsafe(anybound.BoxSet([0, 0], [1, 1]), anybound.linear([[1, -1]], [0]))
    >>> prop.violated_by([0.5, 1.0], [3.0, 4.0]), prop.violated_by([0.5, 1.1], [3.0, 4.0])
    (True, False)
    """
    return Property(tuple(Clause(input_set, outputs) for outputs in condition.alternatives), name)


def robust(
    network: Sized | tuple[int, int],
    x: npt.ArrayLike,
    label: int,
    epsilon: float,
    norm: Norm = "inf",
    clip: tuple[npt.ArrayLike, npt.ArrayLike] | None = None,
) -> Property:
    """Output `label` stays above all others on the ball of radius `epsilon` around x.

    Unsafe is y_label - y_j <= 0 for some j != label: one clause per other output. `network` is one, or
    its numbers of inputs and outputs. `clip` is the range of valid inputs, numbers or arrays. The
    borders of the set are the exact x +- epsilon.

    >>> import anybound
    >>> prop = anybound.robust((2, 3), [0.5, 0.5], label=1, epsilon=0.1)
    >>> len(prop.clauses), prop.violated_by([0.5, 0.6], [1.5, 1.0, 0.0])
    (2, True)
    """
    n_in, n_out = (
        network if isinstance(network, tuple) else (network.input_size, network.output_size)
    )
    if not 0 <= label < n_out:
        raise InvalidInput(f"label: {label}; expected 0 to {n_out - 1}")
    input_set = neighbourhood(x, n_in, epsilon, norm, clip)
    others = [j for j in range(n_out) if j != label]
    if not others:
        raise InvalidProperty("robust: the network has one output only; expected at least two")
    condition = any_of(*(linear(_difference(n_out, label, j), [0.0]) for j in others))
    return unsafe(input_set, condition, f"robust(label={label}, epsilon={epsilon}, norm={norm})")


def ball(
    x: npt.ArrayLike,
    epsilon: float,
    norm: Norm = "inf",
    clip: tuple[npt.ArrayLike, npt.ArrayLike] | None = None,
) -> InputSet:
    """All inputs that are at most `epsilon` away from x, in the norm "inf", "2" or "1".

    `clip` is the range of valid inputs, which cuts the ball: two numbers, or two arrays like x.

    >>> import anybound
    >>> anybound.ball([0.5, 1.0], 0.1, clip=(0, 1))
    BoxSet(2 inputs, widths 0.1 to 0.2)
    >>> anybound.ball([0.5, 1.0], 0.1, norm="2")
    BallSet(2 inputs, l2 radius 0.1)
    """
    center = as_array(x, "x")
    return neighbourhood(center, center.size, epsilon, norm, clip)


def neighbourhood(
    x: npt.ArrayLike,
    n_in: int,
    epsilon: float,
    norm: Norm = "inf",
    clip: tuple[npt.ArrayLike, npt.ArrayLike] | None = None,
) -> InputSet:
    """The ball of radius `epsilon` around x, `n_in` numbers, within the range `clip`."""
    center = as_point(x, n_in, "x")
    if not np.isfinite(center).all():
        raise InvalidInput("x: holds a number that is not finite")
    if not (math.isfinite(epsilon) and epsilon >= 0):
        raise InvalidInput(f"epsilon: {epsilon}; expected a finite number >= 0")
    valid = None if clip is None else BoxSet(_spread(clip[0], n_in), _spread(clip[1], n_in))
    return _ball(center, float(epsilon), norm, valid)


def _both(parts: Sequence[HalfSpaces]) -> HalfSpaces:
    sizes = {part.output_size for part in parts}
    if len(sizes) > 1:
        raise InvalidProperty(f"all_of: conditions on different numbers of outputs: {sizes}")
    return HalfSpaces(
        np.concatenate([part.matrix for part in parts]),
        np.concatenate([part.offset for part in parts]),
        tuple(b for part in parts for b in part.exact),
        tuple(s for part in parts for s in part.strict),
    )


def _ball(center: FloatArray, epsilon: float, norm: Norm, valid: BoxSet | None) -> InputSet:
    order = _norm_order(norm)
    if order != math.inf:
        return BallSet(center, epsilon, 1 if order == 1 else 2, valid)
    radius = np.full_like(center, epsilon)
    lower, upper = add_down(center, -radius), add_up(center, radius)
    inner_lower, inner_upper = add_up(center, -radius), add_down(center, radius)
    if valid is None:
        return BoxSet(lower, upper, (inner_lower, inner_upper))
    if (inner_lower > valid.upper).any() or (inner_upper < valid.lower).any():
        raise InvalidProperty("robust: the ball lies outside the clipping range; move x inside")
    return BoxSet(
        np.maximum(lower, valid.lower),
        np.minimum(upper, valid.upper),
        (np.maximum(inner_lower, valid.lower), np.minimum(inner_upper, valid.upper)),
    )


def _norm_order(norm: Norm) -> float:
    try:
        order = float(norm)
    except ValueError:
        order = math.nan
    if order not in (1.0, 2.0, math.inf):
        raise InvalidInput(f"norm: {norm}; expected inf, 2 or 1")
    return order


def _difference(n_out: int, label: int, other: int) -> FloatArray:
    row = np.zeros((1, n_out))
    row[0, label], row[0, other] = 1.0, -1.0
    return row


def _spread(value: npt.ArrayLike, size: int) -> FloatArray:
    """A number, or an array of any shape, as [size]."""
    array = as_array(value, "clip")
    return np.full(size, float(array)) if array.ndim == 0 else as_point(array, size, "clip")
