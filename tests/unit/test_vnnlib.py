"""Laws of the VNN-LIB reader; oracles are exact rationals and direct evaluation of formulas."""

import math
import operator
import random
import time
import tracemalloc
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anybound.errors import InvalidProperty, UnsupportedProperty
from anybound.io.vnnlib import parse_vnnlib
from anybound.io.vnnlib.syntax import Form, Symbol, parse
from anybound.io.vnnlib.tokens import Source
from anybound.spec.property import BoxSet, Property

DECLARATIONS = "(declare-const X_0 Real)(declare-const X_1 Real)\n" + "".join(
    f"(declare-const Y_{i} Real)" for i in range(3)
)
UNIT_BOX = "".join(f"(assert (<= X_{i} 1))(assert (>= X_{i} -1))" for i in range(2))
OUTPUT = "(assert (<= Y_0 Y_1))"


def box_of(prop: Property, clause: int = 0) -> BoxSet:
    input_set = prop.clauses[clause].input_set
    assert isinstance(input_set, BoxSet)
    return input_set


def with_bounds(lower: str, upper: str) -> str:
    return f"{DECLARATIONS}{UNIT_BOX}{OUTPUT}(assert (>= X_0 {lower}))(assert (<= X_0 {upper}))"


# ---- borders ------------------------------------------------------------------------------------

decimals = st.one_of(
    st.decimals(min_value=-1, max_value=1, allow_nan=False, places=21).map(lambda d: f"{d:f}"),
    st.floats(min_value=-1, max_value=1).map(repr),
    st.floats(min_value=-1, max_value=1, width=32).map(repr),
)


@given(decimals, decimals)
@settings(max_examples=200, deadline=None)
def test_borders_are_the_neighbouring_floats(first: str, second: str) -> None:
    lower, upper = sorted((first, second), key=Fraction)
    low, high = Fraction(lower), Fraction(upper)
    box = box_of(parse_vnnlib(with_bounds(lower, upper)))
    a, b = float(box.lower[0]), float(box.upper[0])
    assert Fraction(a) <= low < Fraction(math.nextafter(a, math.inf))
    assert Fraction(math.nextafter(b, -math.inf)) < high <= Fraction(b)
    inner_a, inner_b = float(box.inner_lower[0]), float(box.inner_upper[0])
    if any(low <= Fraction(f) <= high for f in (float(lower), float(upper), inner_a)):
        assert Fraction(math.nextafter(inner_a, -math.inf)) < low <= Fraction(inner_a)
        assert Fraction(inner_b) <= high < Fraction(math.nextafter(inner_b, math.inf))
    else:
        assert (inner_a, inner_b) == (float(lower), float(upper))


@pytest.mark.parametrize("decimal", ["0.1", "0.25", "-0.1", "0.9921568632125854", "1e-30", "0"])
def test_a_degenerate_interval_holds_the_nearest_float(decimal: str) -> None:
    prop = parse_vnnlib(with_bounds(decimal, decimal))
    y = [0.0, 0.0, 0.0]
    assert prop.violated_by([float(decimal), 0.0], y)
    assert not prop.violated_by([math.nextafter(float(decimal), 2.0), 0.0], y)
    assert not prop.violated_by([math.nextafter(float(decimal), -2.0), 0.0], y)
    assert prop.clauses[0].closest_input([0.7, 5.0]).tolist() == [float(decimal), 1.0]


def test_strict_input_bounds_are_closed_for_proofs_and_open_for_witnesses() -> None:
    text = with_bounds("0", "1") + "(assert (< X_0 0.5))(assert (> X_0 0.25))"
    prop = parse_vnnlib(text)
    box = box_of(prop)
    assert (box.lower[0], box.upper[0]) == (0.25, 0.5)
    for x, inside in [(0.25, False), (0.5, False), (0.375, True), (0.49999999999999994, True)]:
        assert prop.violated_by([x, 0.0], [0.0, 0.0, 0.0]) is inside


def test_strict_outputs_are_closed_for_proofs_and_open_for_witnesses() -> None:
    prop = parse_vnnlib(DECLARATIONS + UNIT_BOX + "(assert (< Y_0 0.5))")
    assert prop.clauses[0].matrix.tolist() == [[1.0, 0.0, 0.0]]
    assert prop.clauses[0].offset.tolist() == [0.5]
    assert not prop.violated_by([0, 0], [0.5, 0.0, 0.0])
    assert prop.violated_by([0, 0], [0.49999999999999994, 0.0, 0.0])


def test_output_thresholds_are_exact_for_witnesses_and_rounded_up_for_proofs() -> None:
    for text in ("0.1", "0.3", "3.991125645861615", "-0.1"):
        prop = parse_vnnlib(DECLARATIONS + UNIT_BOX + f"(assert (<= Y_2 {text}))")
        offset = float(prop.clauses[0].offset[0])
        assert Fraction(math.nextafter(offset, -math.inf)) < Fraction(text) <= Fraction(offset)
        for y in (math.nextafter(float(text), -9), float(text), math.nextafter(float(text), 9)):
            assert prop.violated_by([0, 0], [0, 0, y]) is (Fraction(y) <= Fraction(text))


def test_the_tightest_of_several_bounds_wins_exactly() -> None:
    tail = "0" * 25
    text = with_bounds("0", "0.5") + f"(assert (<= X_0 0.25{tail}1))(assert (<= X_0 0.25{tail}2))"
    box = box_of(parse_vnnlib(text))
    assert box.upper[0] == math.nextafter(0.25, 1)
    assert box.inner_upper[0] == 0.25


# ---- formulas against direct evaluation ----------------------------------------------------------

COMPARE = {"<=": operator.le, ">=": operator.ge, "<": operator.lt, ">": operator.gt}


class Formula:
    """A random formula: its text, and its truth at a point in exact arithmetic."""

    def __init__(self, rng: random.Random, depth: int) -> None:
        self.kind = rng.choice(["and", "or", "not", "=>"]) if depth else "atom"
        if self.kind == "atom":
            self._atom(rng)
            return
        count = {"not": 1, "=>": 2}.get(self.kind) or rng.randint(1, 3)
        self.parts = [Formula(rng, rng.randint(0, depth - 1)) for _ in range(count)]
        self.text = f"({self.kind} {' '.join(part.text for part in self.parts)})"

    def _atom(self, rng: random.Random) -> None:
        self.relation = rng.choice([*COMPARE, "="])
        bound = rng.choice(["0", "0.5", "(- 0.25)", "-0.5", "(/ 1 3)", "1e-1"])
        self.bound = {"(- 0.25)": Fraction(-1, 4), "(/ 1 3)": Fraction(1, 3)}.get(bound)
        self.bound = Fraction(bound) if self.bound is None else self.bound
        if rng.random() < 0.4:
            i, factor = rng.randrange(2), rng.choice(["1", "-2", "0.1"])
            self.weights = {("x", i): Fraction(factor)}
            left = f"(* {factor} X_{i})"
        else:
            i, j = rng.sample(range(3), 2)
            factor = rng.choice(["2.5", "-1", "0.1"])
            self.weights = {("y", i): Fraction(factor), ("y", j): Fraction(-1)}
            left = f"(- (* Y_{i} {factor}) Y_{j})"
        self.text = f"({self.relation} {left} {bound})"

    def true_at(self, point: dict[tuple[str, int], Fraction]) -> bool:
        if self.kind == "atom":
            value = sum(c * point[v] for v, c in self.weights.items())
            return (
                value == self.bound
                if self.relation == "="
                else COMPARE[self.relation](value, self.bound)
            )
        truths = [part.true_at(point) for part in self.parts]
        return {
            "and": all(truths),
            "or": any(truths),
            "not": not truths[0],
            "=>": not truths[0] or truths[-1],
        }[self.kind]


@pytest.mark.parametrize("seed", range(100))
def test_a_property_is_true_where_its_formula_is(seed: int) -> None:
    rng = random.Random(seed)
    formulas = [Formula(rng, rng.randint(0, 3)) for _ in range(2)]
    # The last row makes sure that every clause constrains an output.
    text = DECLARATIONS + UNIT_BOX + "".join(f"(assert {f.text})" for f in formulas)
    try:
        prop = parse_vnnlib(text + "(assert (<= Y_0 100))")
    except InvalidProperty as error:
        assert "empty" in str(error) or "above" in str(error) or "strictly" in str(error)  # noqa: PT017
        prop = None
    grid = [-1.0, -0.5, -0.25, 0.0, 0.25, 0.5, 1.0, 0.1, -0.3, 0.2]
    hits = 0
    for _ in range(200):
        x, y = rng.choices(grid, k=2), rng.choices(grid, k=3)
        point = {("x", i): Fraction(v) for i, v in enumerate(x)}
        point |= {("y", i): Fraction(v) for i, v in enumerate(y)}
        expected = all(f.true_at(point) for f in formulas)
        # A decimal that is no float stands for its nearest float: such points are not compared.
        if prop is not None and not near_a_decimal(prop, x):
            assert prop.violated_by(x, y) is expected
        elif prop is None:
            assert not expected
        hits += expected
        if prop is not None and expected:  # the rounded set contains the exact one
            assert any(
                (c.lower <= x).all() and (x <= c.upper).all() and covers(c.matrix, y, c.offset)
                for c in prop.clauses
            )


def near_a_decimal(prop: Property, x: list[float]) -> bool:
    return any(
        ((c.lower != c.upper) & (c.input_set.inner_lower == c.input_set.inner_upper)).any()
        for c in prop.clauses
    )


def covers(matrix: np.ndarray, y: list[float], offset: np.ndarray) -> bool:
    return all(
        sum(Fraction(a) * Fraction(v) for a, v in zip(row, y, strict=True)) <= Fraction(b)
        for row, b in zip(matrix.tolist(), offset.tolist(), strict=True)
    )


def test_unrepresentable_coefficients_are_scaled_or_refused() -> None:
    prop = parse_vnnlib(DECLARATIONS + UNIT_BOX + "(assert (<= (+ (* 0.1 Y_0) (* 0.3 Y_1)) 1))")
    assert prop.clauses[0].matrix.tolist() == [[1.0, 3.0, 0.0]]
    assert prop.clauses[0].offset.tolist() == [10.0]
    bad = "(assert (<= (+ (* 0.12345678901234567891 Y_0) (* 1e9 Y_1)) 1))"
    with pytest.raises(UnsupportedProperty, match=r":2:\d+: the coefficients"):
        parse_vnnlib(DECLARATIONS + UNIT_BOX + bad)


# ---- several boxes, sharing, size ----------------------------------------------------------------


def test_several_boxes_with_shared_outputs() -> None:
    text = (
        DECLARATIONS
        + UNIT_BOX
        + """
    (assert (or (and (>= X_0 0.5) (<= Y_0 Y_1)) (and (<= X_0 -0.5) (or (<= Y_0 1) (<= Y_1 2)))))
    (assert (or (<= Y_2 5) (<= Y_2 (- 5))))"""
    )
    prop = parse_vnnlib(text)
    assert [tuple(c.lower) + tuple(c.upper) for c in prop.clauses] == (
        [(0.5, -1.0, 1.0, 1.0)] * 2 + [(-1.0, -1.0, -0.5, 1.0)] * 4
    )
    assert [members for _, members in prop.groups()] == [(0, 1), (2, 3, 4, 5)]
    assert prop.violated_clause([0.75, 0], [0, 0, 6]) is None
    assert prop.violated_clause([0.75, 0], [0, 0, -6]) == 0
    assert prop.violated_clause([-0.75, 0], [3, 2, 5]) == 4


def test_an_empty_box_is_an_error_alone_and_left_out_among_others() -> None:
    both = "(assert (or (and (>= X_0 2) (<= Y_0 0)) (<= Y_1 0)))"
    assert len(parse_vnnlib(DECLARATIONS + UNIT_BOX + both).clauses) == 1
    with pytest.raises(InvalidProperty, match=r"2:\d+: X_0 has lower bound 2 above"):
        parse_vnnlib(DECLARATIONS + UNIT_BOX + OUTPUT + "(assert (>= X_0 2))")


def test_nesting_is_no_limit() -> None:
    depth = 20_000
    deep = "(and " * depth + "(or " * depth + "(<= Y_0 Y_1)" + ")" * (2 * depth)
    assert len(parse_vnnlib(f"{DECLARATIONS}{UNIT_BOX}(assert {deep})").clauses) == 1
    alternating = "(or (<= Y_0 0) (and (<= Y_1 0) " * 300 + "(<= Y_2 0)" + "))" * 300
    prop = parse_vnnlib(f"{DECLARATIONS}{UNIT_BOX}(assert {alternating})")
    assert len(prop.clauses) == 301
    total = "(+ Y_0 " * depth + "0" + ")" * depth
    prop = parse_vnnlib(f"{DECLARATIONS}{UNIT_BOX}(assert (<= {total} 1))")
    assert prop.clauses[0].matrix.tolist() == [[float(depth), 0, 0]]
    negated = "(not " * depth + "(<= Y_0 Y_1)" + ")" * depth
    assert len(parse_vnnlib(f"{DECLARATIONS}{UNIT_BOX}(assert {negated})").clauses) == 1


def test_a_product_of_choices_is_counted_before_it_is_made() -> None:
    choices = "(assert (or (<= Y_0 0) (<= Y_1 0)))" * 20
    with pytest.raises(UnsupportedProperty, match=r"1048576 clauses; the limit is 100000"):
        parse_vnnlib(DECLARATIONS + UNIT_BOX + choices)
    with pytest.raises(UnsupportedProperty, match=r"more than 1000000000000 clauses"):
        parse_vnnlib(DECLARATIONS + UNIT_BOX + choices * 500)
    long = "(assert (or " + f"(and {'(<= Y_0 0)' * 20_000})" + "(<= Y_1 0)))"
    with pytest.raises(UnsupportedProperty, match=r"constraints; the limit is"):
        parse_vnnlib(DECLARATIONS + UNIT_BOX + long + choices[: len(choices) // 2])


def many_inputs(count: int) -> str:
    rng = random.Random(1)
    lines = [f"(declare-const X_{i} Real)" for i in range(count)]
    for i in range(count):
        value = rng.random()
        lines += [f"(assert (<= X_{i} {value + 0.01!r}))", f"(assert (>= X_{i} {value!r}))"]
    lines += [f"(declare-const Y_{i} Real)" for i in range(10)]
    lines.append(f"(assert (or {' '.join(f'(and (<= Y_0 Y_{j}))' for j in range(1, 10))}))")
    return "\n".join(lines)


def test_150_000_inputs_take_seconds_and_one_box() -> None:
    text = many_inputs(150_000)
    start = time.process_time()
    prop = parse_vnnlib(text)
    seconds = time.process_time() - start
    assert seconds < 2, f"{seconds:.2f} s; less than 1 s on an idle machine"
    assert prop.describe()["clauses"] == 9
    assert len({id(clause.input_set) for clause in prop.clauses}) == 1


def test_memory_is_linear_in_the_text() -> None:
    peaks = []
    for count in (5_000, 20_000):
        text = many_inputs(count)
        tracemalloc.start()
        parse_vnnlib(text)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 5 * peaks[0]


# ---- the shortcut changes nothing ----------------------------------------------------------------


def random_file(rng: random.Random) -> str:
    """Statements in odd layouts, some of them wrong."""
    n = rng.randint(1, 6)
    lines = [f"(declare-const X_{i} Real)" for i in range(n)]
    lines += ["(declare-const Y_0 Real) ; an output", "( declare-const\n Y_1   Real )"]
    rng.shuffle(lines)
    for i in range(n):
        low = rng.choice([repr(rng.uniform(-1, 0)), "-0.5", "-1e-3", "-0.10", "(- 1)", "0", "-0.0"])
        high = rng.choice([repr(rng.uniform(0, 1)), "+.5", "1E0", "0.1", "1.", "5e-324", low])
        lines += [f"(assert (>= X_{i} {low}))", f"(assert(<= X_{i}\t{high} ) )"]
        if rng.random() < 0.3:
            lines.append(f"(assert (>= {high} X_{i})); again")
        if rng.random() < 0.3:
            lines.append(f"(assert (<= X_{i} {rng.uniform(0, 1):.25f}))")
    lines.append("(assert (or (<= Y_0 Y_1) (and (>= Y_1 0.1) (<= X_0 0.05))))")
    if rng.random() < 0.3:
        wrong = [
            "(assert (<= X_99 1))",
            "(assert (>= X_0 7))",
            "(declare-const X_0 Real)",
            "; (assert (<= X_0 -9))",
            "(assert (<= X_0 nan))",
            "(assert (<= X_0 1e400))",
            "(assert (<= X_0 1))(",
        ]
        lines.insert(rng.randint(0, len(lines)), rng.choice(wrong))
    return rng.choice(["\n", " ", "\r\n", "\r", "\n;comment ( \n", "\r;comment\r"]).join(lines)


def outcome(text: str, *, shortcut: bool) -> list[object]:
    try:
        prop = parse_vnnlib(text, shortcut=shortcut)
    except (InvalidProperty, UnsupportedProperty) as error:
        return [type(error), str(error)]
    arrays = []
    for i, clause in enumerate(prop.clauses):
        box = box_of(prop, i)
        borders = (box.lower, box.upper, box.inner_lower, box.inner_upper)
        arrays.append([a.tolist() for a in (*borders, clause.matrix, clause.offset)])
    exact = [c.outputs.exact for c in prop.clauses]
    return [arrays, exact, prop.groups()[0][1]]


def test_the_shortcut_and_the_general_way_agree() -> None:
    rng = random.Random(7)
    kinds = set()
    for _ in range(400):
        text = random_file(rng)
        fast = outcome(text, shortcut=True)
        assert fast == outcome(text, shortcut=False), text
        kinds.add(fast[0] if isinstance(fast[0], type) else "read")
    assert kinds == {"read", InvalidProperty}


# ---- what is refused, and where ------------------------------------------------------------------

HEAD = DECLARATIONS + "\n" + UNIT_BOX + "\n"  # two lines and one; what follows is line 4

REFUSED = [
    (
        "(assert (<= X_0 X_1))" + OUTPUT,
        UnsupportedProperty,
        "4:9: the inputs X_0 and X_1",
    ),
    ("(assert (<= Y_0 X_1))", UnsupportedProperty, "4:9: Y_0 is compared with the input X_1"),
    ("(assert (<= Y_0 (* Y_0 Y_1)))", UnsupportedProperty, "4:17: a product of variables"),
    ("(assert (<= Y_0 (/ 1 Y_1)))", UnsupportedProperty, "4:17: a division by a variable"),
    ("(assert (<= Y_0 (/ 1 0)))", InvalidProperty, "4:17: a division by zero"),
    ("(assert (<= Y_7 0))", InvalidProperty, "4:13: Y_7 is used but not declared"),
    ("(assert (<= Z_0 0))", InvalidProperty, "4:13: 'Z_0' is neither a declared variable nor"),
    ("(assert (<= Y_0 nan))", InvalidProperty, "4:17: nan: expected a finite number"),
    ("(assert (<= Y_0 -Infinity))", InvalidProperty, "4:17: -Infinity: expected a finite number"),
    ("(assert (<= Y_0 1_0))", InvalidProperty, "4:17: '1_0' is neither"),
    ("(assert (<= Y_0 1e99999))", UnsupportedProperty, "4:17: number '1e99999'"),
    ("(assert (<= Y_0 1e400))", InvalidProperty, "4:9: a bound beyond the range of float64"),
    ("(assert (<= X_0 -1e400))", InvalidProperty, "4:9: a bound beyond the range of float64"),
    (f"(assert (<= Y_0 (* {'1e900 ' * 50})))", UnsupportedProperty, "4:17: a number of more than"),
    ("(assert (<= Y_0 (sin Y_1)))", UnsupportedProperty, "4:17: '(sin ...)' is not a number"),
    ("(assert (<= Y_0))", InvalidProperty, "4:9: '(<= ...)' compares less than two"),
    ("(assert (xor (<= Y_0 1)))", UnsupportedProperty, "4:9: '(xor ...)' is not supported"),
    ("(assert (or))", InvalidProperty, "4:9: '(or)' has 0 operands"),
    ("(assert (not (<= Y_0 0) (<= Y_1 0)))", InvalidProperty, "4:9: '(not ...)' has 2 operands"),
    ("(assert true)", UnsupportedProperty, "4:9: 'true'; expected a comparison"),
    ("(assert)", InvalidProperty, "4:1: (assert ...) takes one formula"),
    ("(assert (<= Y_0 0)", InvalidProperty, "4:1: '(' is never closed"),
    ("(assert (<= Y_0 0)))", InvalidProperty, "4:20: ')' closes nothing"),
    ("(assert (<= Y_0 ]))", InvalidProperty, "4:17: unexpected character ']'"),
    ('(assert (<= Y_0 "))', InvalidProperty, "4:17: unexpected character"),
    ("garbage", InvalidProperty, "4:1: 'garbage'; expected"),
    ("()", InvalidProperty, "4:1: '()'; expected"),
    ("(define-fun f () Real 1)", UnsupportedProperty, "4:1: '(define-fun ...)' is not a statement"),
    ("(declare-const X_0 Real)", InvalidProperty, "4:16: X_0 is declared twice"),
    ("(declare-const X_2 Int)", UnsupportedProperty, "4:20: X_2 has type 'Int'"),
    ("(declare-const X_02 Real)", UnsupportedProperty, "4:16: variable 'X_02'; expected X_i"),
    ("(declare-const W Real)", UnsupportedProperty, "4:16: variable 'W'; expected X_i"),
    ("(declare-const X_2)", InvalidProperty, "4:1: (declare-const ...): expected name and Real"),
    ("(declare-const)", InvalidProperty, "4:1: (declare-const ...): expected name and Real"),
    ("(declare-const X_3 Real)", InvalidProperty, "4:16: X_3 is declared, but X_2 is not"),
    ("(declare-const X_2 Real)" + OUTPUT, InvalidProperty, "4:46: input X_2 has no lower bound"),
    ("", InvalidProperty, "4:1: a clause constrains no output"),
    ("(assert (or (<= X_0 0) (<= Y_0 0)))", InvalidProperty, "a clause constrains no output"),
    ("(assert (<= 1 0))" + OUTPUT, InvalidProperty, "4:9: this never holds"),
    ("(assert (or (<= X_0 -2) (>= X_0 2)))" + OUTPUT, InvalidProperty, "every box is empty"),
    ("(assert (< X_0 0))(assert (>= X_0 0))" + OUTPUT, InvalidProperty, "X_0 is strictly between"),
    ("(vnnlib-version <2.0>)", UnsupportedProperty, "4:1: (vnnlib-version ...) is VNN-LIB 2.0"),
    ("(declare-network N)", UnsupportedProperty, "4:1: (declare-network ...) is VNN-LIB 2.0"),
]


@pytest.mark.parametrize(("text", "kind", "message"), REFUSED)
def test_refusals_name_place_and_reason_in_one_line(
    text: str, kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind) as caught:
        parse_vnnlib(HEAD + text, "spec.vnnlib")
    assert message in str(caught.value)
    assert str(caught.value).startswith("spec.vnnlib:")
    assert "\n" not in str(caught.value)


def test_no_inputs_or_no_outputs() -> None:
    with pytest.raises(InvalidProperty, match="no variable X_i"):
        parse_vnnlib("(declare-const Y_0 Real)(assert (<= Y_0 0))")
    with pytest.raises(InvalidProperty, match="no variable Y_i"):
        parse_vnnlib("(declare-const X_0 Real)(assert (<= X_0 0))")


def test_other_spellings_mean_the_same() -> None:
    plain = parse_vnnlib(DECLARATIONS + UNIT_BOX + "(assert (<= Y_0 Y_1))(assert (>= Y_1 2))")
    other = DECLARATIONS.replace("declare-const Y_0 Real", "declare-fun Y_0 () Real")
    other = "(set-logic QF_LRA)" + other + "(assert (and (<= -1 X_0 1) (= X_1 X_1) (<= -1 X_1 1)))"
    other += "(assert (not (or (> Y_0 Y_1) (< Y_1 2))))(check-sat)"
    same = parse_vnnlib(other)
    for a, b in zip(plain.clauses, same.clauses, strict=True):
        assert a.lower.tolist() == b.lower.tolist()
        assert a.upper.tolist() == b.upper.tolist()
        assert a.matrix.tolist() == b.matrix.tolist()
        assert a.offset.tolist() == b.offset.tolist()


def test_the_syntax_tree_is_ready_for_version_2() -> None:
    text = """(vnnlib-version <2.0>)
    (declare-network N (declare-input X float32 [1, 1, 5]) (declare-output Y real [1, 5]))
    (assert (== X[0, 0, 3] |odd name|)) ; comment"""
    version, network, assertion = parse(Source(text, "v2"))
    assert isinstance(version, Form)
    assert isinstance(network, Form)
    assert isinstance(assertion, Form)
    assert version.head == "vnnlib-version"
    declared = network.items[2]
    assert isinstance(declared, Form)
    assert [s.text for s in declared.items if isinstance(s, Symbol)][-1] == "[1, 1, 5]"
    comparison = assertion.items[1]
    assert isinstance(comparison, Form)
    words = [item.text for item in comparison.items if isinstance(item, Symbol)]
    assert words == ["==", "X[0, 0, 3]", "|odd name|"]
