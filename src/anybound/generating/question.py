"""What is asked of an image: on the ball of radius ε around it, may another class score as high as its own?

    unsafe:  |x − x̄|_∞ <= ε, x valid, and y_other >= y_label for a class that is asked about

The box is one of float32 numbers, which are written as they are, so that the file says what was asked.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from anybound.spec.build import any_of, linear, unsafe
from anybound.spec.input_sets import BoxSet
from anybound.spec.property import Property

__all__ = ["Question"]

Point = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Question:
    """`center` and the borders of the `valid` range (None: any number is) are flat, as the network reads
    them; `others` are the classes that may not score as high as `label`, of `classes`."""

    center: Point
    label: int
    others: tuple[int, ...]
    classes: int
    valid: tuple[Point, Point] | None

    def box(self, epsilon: float) -> tuple[Point, Point]:
        """The borders, the nearest float32 numbers to x̄ ± ε, cut to what is valid."""
        middle = self.center.astype(np.float64)
        lower, upper = ((middle + sign * epsilon).astype(np.float32) for sign in (-1.0, 1.0))
        if self.valid is not None:
            lower, upper = np.maximum(lower, self.valid[0]), np.minimum(upper, self.valid[1])
        return lower, upper

    def prop(self, epsilon: float) -> Property:
        """The property at a radius."""
        rows = np.zeros((len(self.others), 1, self.classes))
        for row, other in zip(rows, self.others, strict=True):
            row[0, self.label], row[0, other] = 1.0, -1.0
        lower, upper = (border.astype(np.float64) for border in self.box(epsilon))
        return unsafe(BoxSet(lower, upper), any_of(*(linear(row, [0.0]) for row in rows)))

    @property
    def largest(self) -> float:
        """Beyond this radius nothing new comes in, or nobody asks."""
        if self.valid is not None:
            return float((self.valid[1] - self.valid[0]).max())
        return 16 * max(1.0, float(np.abs(self.center).max()))

    def text(self, epsilon: str, about: str) -> str:
        """The property in VNN-LIB 1.0; `about` is a line of comment."""
        lower, upper = self.box(float(epsilon))
        lines = [f"; {about}"]
        lines += [f"(declare-const X_{i} Real)" for i in range(lower.size)]
        lines += [f"(declare-const Y_{j} Real)" for j in range(self.classes)]
        for i, (low, high) in enumerate(zip(lower, upper, strict=True)):
            lines += [
                f"(assert (>= X_{i} {_decimal(low)}))",
                f"(assert (<= X_{i} {_decimal(high)}))",
            ]
        lines.append("; unsafe: another class scores at least as high as the true one")
        conditions = [f"(<= Y_{self.label} Y_{other})" for other in self.others]
        if len(conditions) == 1:
            lines.append(f"(assert {conditions[0]})")
        else:
            alternatives = "\n".join(f"  (and {condition})" for condition in conditions)
            lines.append(f"(assert (or\n{alternatives}\n))")
        return "\n".join(lines) + "\n"


def _decimal(value: np.float32) -> str:
    """The shortest decimal that is read as this float32 number."""
    return np.format_float_positional(value, unique=True, trim="0")
