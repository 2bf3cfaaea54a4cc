"""The checker's own reading of VNN-LIB against formulas that are evaluated as they stand, in fractions.

Decimals are multiples of 1/8, so nothing is rounded and points lie on the borders; then also decimals
that are no floats, which may only make the unsafe set larger.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest

from anybound_check.arithmetic import Unreadable
from anybound_check.vnnlib import Clause, read_property

INPUTS, OUTPUTS = 2, 3
Point = dict[str, Fraction]
Form = str | list["Form"]


class RandomFormula:
    """Nested and/or of comparisons; every input is bounded by the assertions before it."""

    def __init__(self, seed: int, exact: bool) -> None:
        self.rng, self.exact = np.random.default_rng(seed), exact
        bounds = [
            ["<=" if side else ">=", f"X_{i}", self.number(2 if side else -2)]
            for i in range(INPUTS)
            for side in (0, 1)
        ]
        own = [self.formula(int(self.rng.integers(4))) for _ in range(self.rng.integers(1, 4))]
        self.formulas: list[Form] = [*bounds, *own]  # type: ignore[list-item]
        self.rng.shuffle(self.formulas)  # type: ignore[arg-type]

    def number(self, center: float = 0) -> str:
        if self.exact:
            return f"{center + int(self.rng.integers(-6, 7)) / 8}"
        return f"{center + self.rng.normal():.{self.rng.integers(1, 25)}f}"

    def formula(self, depth: int) -> Form:
        if depth and self.rng.random() < 0.8:
            word = str(self.rng.choice(["and", "or"]))
            return [word, *(self.formula(depth - 1) for _ in range(self.rng.integers(1, 4)))]
        sides = [str(self.rng.choice(["X_0", "X_1", "Y_0", "Y_1", "Y_2"])), self.number()]
        if sides[0][0] == "Y" and self.rng.random() < 0.5:
            sides[1] = f"Y_{self.rng.integers(OUTPUTS)}"
        if self.rng.random() < 0.5:
            sides.reverse()
        return [str(self.rng.choice(["<=", ">="])), *sides]

    def text(self) -> bytes:
        lines = [f"(declare-const X_{i} Real)" for i in range(INPUTS)]
        lines += [f"(declare-const Y_{i} Real) ; output {i}" for i in range(OUTPUTS)]
        lines += [f"(assert {_written(formula)})" for formula in self.formulas]
        return "\n".join(lines).encode()

    def point(self) -> Point:
        names = [*(f"X_{i}" for i in range(INPUTS)), *(f"Y_{i}" for i in range(OUTPUTS))]
        return {name: Fraction(int(self.rng.integers(-24, 25)), 8) for name in names}

    def true_at(self, point: Point) -> bool:
        return all(_true(formula, point) for formula in self.formulas)


def _written(form: Form) -> str:
    return form if isinstance(form, str) else f"({' '.join(map(_written, form))})"


def _true(form: Form, point: Point) -> bool:
    word, *rest = form
    if word in ("and", "or"):
        values = [_true(part, point) for part in rest]
        return all(values) if word == "and" else any(values)
    left, right = (point[s] if s in point else Fraction(str(s)) for s in rest)  # type: ignore[index]
    return left <= right if word == "<=" else left >= right


def inside(clauses: Sequence[Clause], point: Point) -> bool:
    """Whether some clause contains the point."""
    x = np.array([[float(point[f"X_{i}"])] for i in range(INPUTS)])
    y = np.array([float(point[f"Y_{i}"]) for i in range(OUTPUTS)])
    return any(
        ((c.lower <= x) & (x <= c.upper)).all() and (c.matrix @ y <= c.offset).all()
        for c in clauses
    )


@pytest.mark.parametrize("exact", [True, False])
def test_clauses_are_the_formula(exact: bool) -> None:
    true = false = 0
    for seed in range(250):
        formula = RandomFormula(seed, exact)
        outer = read_property(formula.text(), INPUTS, OUTPUTS)
        inner = read_property(formula.text(), INPUTS, OUTPUTS, outward=False)
        for _ in range(30):
            point = formula.point()
            if formula.true_at(point):
                assert inside(outer, point)
                true += 1
            else:
                assert not inside(inner, point)
                assert not exact or not inside(outer, point)
                false += 1
    assert min(true, false) > 50


@pytest.mark.parametrize(
    "number", ["0.1", "-0.1", "0.3", "1e-99", "-1e-99", "123456789.123456789123456789"]
)
def test_decimals_are_rounded_outwards(number: str) -> None:
    names = "".join(f"(declare-const {name} Real)" for name in ("X_0", "Y_0"))
    text = f"{names}(assert (<= X_0 {number}))(assert (>= X_0 {number}))(assert (<= Y_0 {number}))"
    (outer,) = read_property(text.encode(), 1, 1)
    (inner,) = read_property(text.encode(), 1, 1, outward=False)
    exact = Fraction(number)
    for clause, sign in ((outer, 1), (inner, -1)):
        assert sign * (Fraction(clause.upper.item()) - exact) >= 0
        assert sign * (exact - Fraction(clause.lower.item())) >= 0
        assert sign * (Fraction(clause.offset.item()) - exact) >= 0
        width = abs(Fraction(clause.upper.item()) - Fraction(clause.lower.item()))
        assert 0 < width <= 2 * Fraction(np.spacing(abs(float(number))).item())


@pytest.mark.parametrize(
    "form",
    ["(< Y_0 0)", "(= Y_0 0)", "(not (<= Y_0 0))", "(=> (<= Y_0 0) (<= Y_1 0))", "(<= Y_0 0 1)", "(and)", "(or)",
     "(<= (+ Y_0 Y_1) 0)", "(<= Y_0 (- 1))", "(<= Y_0 (/ 1 3))", "(<= Y_9 0)", "(<= X_0 Y_0)", "(<= X_0 X_1)",
     "(<= 0 1)", "(<= Y_0 nan)", "(<= Y_0 inf)", "(<= Y_0 1e200)", "(<= Y_0 0x1)", "(<= y_0 0)", "(<= |Y_0| 0)",
     "true", "(<= Y_00 0)", "(<= Y_0 1_0)", "(<= Y_0 ٣)"],
)  # fmt: skip
def test_what_is_not_understood_is_refused(form: str) -> None:
    names = "".join(f"(declare-const {name} Real)" for name in ("X_0", "X_1", "Y_0", "Y_1"))
    box = "".join(f"(assert (<= X_{i} 1))(assert (>= X_{i} 0))" for i in range(2))
    read_property(f"{names}{box}(assert (<= Y_0 0))".encode(), 2, 2)
    with pytest.raises(Unreadable):
        read_property(f"{names}{box}(assert {form})".encode(), 2, 2)
