"""Properties from Python: input sets, half-spaces, and their combinations, in exact arithmetic."""

import itertools
import math
import subprocess
import sys
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest
from scipy.optimize import minimize

from anybound.errors import InvalidInput, InvalidProperty, UnsupportedProperty
from anybound.spec.build import Norm, all_of, any_of, linear, robust, unsafe
from anybound.spec.property import BallSet, BoxSet, HalfSpaces, Property
from anybound.spec.rounding import add_down, add_up, nearest, round_down, round_up


@dataclass(frozen=True)
class Sizes:
    """What `robust` asks of a network."""

    input_size: int = 3
    output_size: int = 4


def exact_norm(step: list[Fraction], norm: float) -> Fraction:
    """The norm; its square for norm 2."""
    if norm == math.inf:
        return max(map(abs, step))
    return sum((abs(s) if norm == 1 else s * s for s in step), Fraction())


# ---- rounding ------------------------------------------------------------------------------------


def test_rounding_of_rationals_brackets_them_tightly() -> None:
    rng = np.random.default_rng(0)
    for _ in range(500):
        numerator, denominator = (int(n) for n in rng.integers(1, 2**62, 2))
        q = Fraction(numerator, denominator) * Fraction(10) ** int(rng.integers(-340, 300))
        for value in (q, -q, Fraction(float(q))):
            low, high = round_down(value), round_up(value)
            assert Fraction(low) <= value <= Fraction(high)
            assert high in (low, math.nextafter(low, math.inf))
            assert (low == high) == (Fraction(low) == value)
    assert (round_down(Fraction(10**400)), round_up(Fraction(10**400))) == (
        sys.float_info.max,
        math.inf,
    )
    assert nearest(Fraction(-(10**400))) == -math.inf
    assert (round_down(Fraction(1, 10**400)), round_up(Fraction(1, 10**400))) == (0.0, 5e-324)


def test_sums_are_rounded_in_the_stated_direction() -> None:
    rng = np.random.default_rng(1)
    a = rng.normal(size=2000) * 10.0 ** rng.integers(-20, 20, 2000)
    b = rng.normal(size=2000) * 10.0 ** rng.integers(-20, 20, 2000)
    low, high = add_down(a, b), add_up(a, b)
    for x, y, lo, hi in zip(a.tolist(), b.tolist(), low.tolist(), high.tolist(), strict=True):
        exact = Fraction(x) + Fraction(y)
        assert (lo, hi) == (round_down(exact), round_up(exact))


# ---- robust --------------------------------------------------------------------------------------


@pytest.mark.parametrize("norm", ["inf", math.inf, 2, "2", 1, 1.0])
@pytest.mark.parametrize("clip", [None, (0.0, 1.0), ([0, 0.1, 0.2], [1, 1, 0.9])])
def test_robust_is_exactly_the_ball(norm: Norm, clip: tuple[float, float] | None) -> None:
    x, epsilon = np.array([0.1, 0.5, 0.9]), 0.3
    prop = robust(Sizes(), x, 2, epsilon, norm, clip)
    low, high = (-np.inf, np.inf) if clip is None else map(np.asarray, clip)
    rng = np.random.default_rng(2)
    order, power = float(norm), 2 if float(norm) == 2 else 1
    border = np.array([0.1 + 0.3, 0.5, 0.9])  # rounds up: 0.4 > 0.1 + 0.3 in the rationals?
    points = [x, border, np.nextafter(border, -9), *(x + rng.uniform(-0.4, 0.4, (300, 3)))]
    found = set()
    for point in points:
        step = [Fraction(p) - Fraction(c) for p, c in zip(point.tolist(), x.tolist(), strict=True)]
        inside = exact_norm(step, order) <= Fraction(epsilon) ** power
        inside = inside and bool(((low <= point) & (point <= high)).all())
        assert prop.clauses[0].input_set.contains(point) is inside
        if inside:
            assert (prop.clauses[0].lower <= point).all()
            assert (point <= prop.clauses[0].upper).all()
        closest = prop.clauses[0].closest_input(point)
        assert prop.clauses[0].input_set.contains(closest)
        if inside:
            assert closest.tolist() == point.tolist()
        found.add(inside)
    assert found == {True, False}


@pytest.mark.parametrize("norm", ["inf", 2, 1])
def test_the_borders_of_robust_are_the_exact_ones_rounded_outwards(norm: Norm) -> None:
    # Not 8 / 255: that is a multiple of 2**-53, and so is x, so that no sum would be rounded.
    x, epsilon = np.random.default_rng(5).uniform(size=200), 0.031
    clause = robust((200, 2), x, 0, epsilon, norm).clauses[0]
    for center, low, high in zip(x.tolist(), clause.lower, clause.upper, strict=True):
        assert low == round_down(Fraction(center) - Fraction(epsilon))
        assert high == round_up(Fraction(center) + Fraction(epsilon))


def test_robust_is_violated_where_another_output_is_no_smaller() -> None:
    prop = robust((3, 4), [0, 0, 0], 1, 0.5)
    assert (prop.input_size, prop.output_size, len(prop.clauses)) == (3, 4, 3)
    for y in itertools.product([0.0, 0.1, 0.30000000000000004, 0.3], repeat=4):
        assert prop.violated_by([0, 0, 0], y) is any(y[j] >= y[1] for j in (0, 2, 3))
    assert not prop.violated_by([0.6, 0, 0], [1, 0, 0, 0])
    for bad in (math.nan, math.inf, -math.inf):
        assert not prop.violated_by([0, 0, 0], [1, 0, bad, 0])
        assert not prop.violated_by([0, 0, bad], [1, 0, 0, 0])


@pytest.mark.parametrize(("norm", "order"), [(1, 1), (2, 2)])
def test_the_projection_on_a_ball_is_the_closest_point(norm: Norm, order: int) -> None:
    rng = np.random.default_rng(3)
    for _ in range(5):
        center, outside = rng.normal(size=4), rng.normal(size=4) * 3
        ball = robust((4, 2), center, 0, 0.7, norm).clauses[0].input_set
        found = ball.closest(outside)
        # An outside solver: x = c + p - n with p, n >= 0 makes the l1 ball smooth.
        split = np.concatenate([np.eye(4), -np.eye(4)], axis=1)

        def distance(v: np.ndarray, split=split, center=center, outside=outside) -> float:
            return float(np.sum((center + split @ v - outside) ** 2))

        inside = {
            1: lambda v: 0.7 - v.sum(),
            2: lambda v, split=split: 0.49 - np.sum((split @ v) ** 2),
        }[order]
        best = minimize(
            distance,
            np.full(8, 0.01),
            bounds=[(0, None)] * 8,
            constraints={"type": "ineq", "fun": inside},
            tol=1e-12,
        )
        assert np.sum((found - outside) ** 2) <= best.fun + 1e-6


def test_robust_refuses_what_makes_no_sense() -> None:
    net = Sizes()
    cases = [
        (lambda: robust(net, [0, 0], 0, 0.1), InvalidInput, "expected 3"),
        (lambda: robust(net, [0, 0, math.nan], 0, 0.1), InvalidInput, "not finite"),
        (lambda: robust(net, [0, 0, 0], 4, 0.1), InvalidInput, "expected 0 to 3"),
        (lambda: robust(net, [0, 0, 0], 0, -0.1), InvalidInput, "epsilon"),
        (lambda: robust(net, [0, 0, 0], 0, 0.1, "3"), InvalidInput, "expected inf, 2 or 1"),
        (lambda: robust(net, [0, 0, 0], 0, 0.1, "l2"), InvalidInput, "expected inf, 2 or 1"),
        (lambda: robust(net, [0, 0, 5], 0, 0.1, "inf", (0, 1)), InvalidProperty, "outside"),
        (lambda: robust(net, [0, 0, 5], 0, 0.1, 2, (0, 1)), InvalidProperty, "outside"),
        (lambda: robust(net, [0, 0, 0], 0, 0.1, "inf", (1, 0)), InvalidProperty, "above"),
        (lambda: robust((3, 1), [0, 0, 0], 0, 0.1), InvalidProperty, "at least two"),
        (lambda: robust(net, np.zeros(3, dtype=complex), 0, 0.1), InvalidInput, "type complex"),
    ]
    for make, kind, message in cases:
        with pytest.raises(kind, match=message):
            make()


# ---- conditions ----------------------------------------------------------------------------------


def test_any_of_and_all_of_are_union_and_intersection() -> None:
    box = BoxSet([0.0], [1.0])
    a, b = linear([[1, 0]], [0.5]), linear([[0, 1], [-1, 1]], [0.25, 0], strict=True)
    c = linear([[-1, 0.5]], [-0.3])

    def in_a(y: tuple[float, float]) -> bool:
        return y[0] <= 0.5

    def in_b(y: tuple[float, float]) -> bool:
        return y[1] < 0.25 and y[1] < y[0]

    def in_c(y: tuple[float, float]) -> bool:
        return -Fraction(y[0]) + Fraction(y[1]) / 2 <= Fraction(-0.3)

    for y in itertools.product([0.0, 0.25, 0.5, 0.3, 0.75], repeat=2):
        assert unsafe(box, any_of(a, b, c)).violated_by([0.5], y) is (in_a(y) or in_b(y) or in_c(y))
        both = all_of(any_of(a, b), any_of(b, c))
        expected = (in_a(y) or in_b(y)) and (in_b(y) or in_c(y))
        assert unsafe(box, both).violated_by([0.5], y) is expected
    joined = unsafe(box, a) | unsafe(BoxSet([2.0], [3.0]), c)
    assert joined.violated_clause([0.5], [0.0, 0.0]) == 0
    assert joined.violated_clause([2.5], [0.4, 0.0]) == 1
    assert joined.violated_clause([1.5], [0.4, 0.0]) is None


def test_conditions_that_do_not_fit_are_refused() -> None:
    two, three = linear([[1, 0]], [0]), linear([[1, 0, 0]], [0])
    with pytest.raises(InvalidProperty, match="different numbers of outputs"):
        all_of(two, three)
    with pytest.raises(InvalidProperty, match="different"):
        unsafe(BoxSet([0.0], [1.0]), any_of(two, three))
    with pytest.raises(UnsupportedProperty, match="1048576 clauses"):
        all_of(*[any_of(two, two)] * 20)
    with pytest.raises(InvalidProperty, match="at least one"):
        unsafe(BoxSet([0.0], [1.0]), any_of())
    with pytest.raises(InvalidProperty, match="expected"):
        linear([[1, 0]], [0, 1])
    with pytest.raises(InvalidProperty, match="finite"):
        linear([[math.nan, 0]], [0])


# ---- sets ----------------------------------------------------------------------------------------


def test_boxes_refuse_what_is_no_box() -> None:
    for lower, upper, message in [
        ([1.0], [0.0], r"lower above upper at input 0: \[1.0, 0.0\]"),
        ([0.0, math.nan], [1.0, 1.0], "not finite at input 1"),
        ([0.0], [math.inf], "not finite"),
        ([0.0], [1.0, 2.0], "1 lower and 2 upper"),
        ([], [], "0 lower"),
    ]:
        with pytest.raises(InvalidProperty, match=message):
            BoxSet(lower, upper)
    with pytest.raises(InvalidProperty, match="inner not inside"):
        BoxSet([0.0], [1.0], (np.array([-1.0]), np.array([1.0])))
    for radius in (-1.0, math.nan, math.inf):
        with pytest.raises(InvalidProperty, match="radius"):
            BallSet([0.0], radius, 2)


def test_sets_own_their_arrays() -> None:
    lower = np.zeros(2)
    box = BoxSet(lower, np.ones(2))
    lower[0] = 5
    assert box.lower.tolist() == [0, 0]
    assert not box.lower.flags.writeable
    with pytest.raises(InvalidInput, match="NaN"):
        box.closest([math.nan, 0])
    assert box.closest([math.inf, -3]).tolist() == [1, 0]


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_in_precision_leaves_numbers_of_that_precision(dtype: type) -> None:
    rng = np.random.default_rng(4)
    lower = rng.normal(size=300)
    upper = lower + rng.choice([0.0, 1e-12, 1e-3, 1.0], 300)
    box = BoxSet(lower, upper)
    narrow = box.in_precision(dtype)
    assert (narrow.lower <= box.lower).all()
    assert (narrow.upper >= box.upper).all()
    for low, high, a, b in zip(narrow.inner_lower, narrow.inner_upper, lower, upper, strict=True):
        assert dtype(low) == low
        assert dtype(high) == high
        if a <= low and high <= b:  # the extreme numbers of the precision inside
            assert np.nextafter(dtype(low), dtype(-np.inf)) < a
            assert np.nextafter(dtype(high), dtype(np.inf)) > b
        else:  # there is none, so that the nearest stands in
            assert np.nextafter(dtype(a), dtype(np.inf)) > b or dtype(a) > b
            assert (low, high) == (dtype(a), dtype(b))
    point = narrow.closest(rng.normal(size=300).astype(dtype))
    assert (point.astype(dtype) == point).all()
    assert narrow.contains(point)
    with pytest.raises(InvalidProperty, match="exceeds"):
        BoxSet([0.0], [1e300]).in_precision(dtype)


def test_property_keeps_sharing_in_another_precision() -> None:
    prop = robust((3, 4), [0.1, 0.2, 0.3], 1, 0.5).in_precision(np.float32)
    assert len({id(c.input_set) for c in prop.clauses}) == 1
    assert len(prop.groups()) == 1


def test_half_spaces_are_exact_where_floats_are_not() -> None:
    rows = HalfSpaces([[1.0, 1.0]], [0.3])  # 0.1 + 0.2 > 0.3 as floats are exact rationals
    assert not rows.contains([0.1, 0.2])
    assert rows.contains([0.1, 0.19999999999999998])
    assert HalfSpaces([[1e300, -1e300]], [0.0]).contains([1e300, 1e300])
    assert rows.contains(np.array([0.125, 0.125], dtype=np.float32))
    with pytest.raises(InvalidInput, match="expected 2"):
        rows.contains([1.0])


def test_description_and_repr() -> None:
    prop = robust((3, 4), [0.0, 0.0, 0.0], 1, 0.5, "inf", ([0, 0, -1], [0, 1, 1]))
    assert prop.describe() == {
        "inputs": 3,
        "outputs": 4,
        "clauses": 3,
        "input_sets": 1,
        "half_spaces": [1],
        "narrowest": 0.0,
        "widest": 1.0,
        "fixed_inputs": 1,
    }
    assert "3 inputs, 4 outputs, 3 clauses over 1 input sets, widths 0 to 1" in repr(prop)
    with pytest.raises(InvalidProperty, match="no clause"):
        Property(())


def test_importing_properties_does_not_import_torch() -> None:
    code = (
        "import sys, anybound.spec.build, anybound.io.vnnlib;"
        "sys.exit('torch' in sys.modules or 'onnx' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
