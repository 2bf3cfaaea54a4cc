"""Assertions as nested conjunctions and choices of linear constraints, without negations.

    Conjunction: all leaves hold and, of every choice, at least one option
    Choice:      its options are conjunctions

A leaf bounds one input (`Bound`), is a half-space of the outputs (`Row`), or is never true
(`Never`). Built top-down with an explicit stack: nested `and`s (and `or`s) flow into one, at no
cost.
"""

from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise

from anybound.io.vnnlib.arithmetic import Linear, Scope, difference, linear
from anybound.io.vnnlib.syntax import Form, Node, show

__all__ = ["Bound", "Choice", "Conjunction", "Leaf", "Never", "Row", "add_assertion"]


@dataclass(frozen=True, slots=True, eq=False)
class Bound:
    """X_index <= value (where `upper`) or X_index >= value; < and > where `strict`."""

    index: int
    upper: bool
    value: Fraction
    strict: bool
    offset: int


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """sum over j of coefficients[j] * Y_j <= value; < where `strict`."""

    coefficients: dict[int, Fraction]
    value: Fraction
    strict: bool
    offset: int


@dataclass(frozen=True, slots=True, eq=False)
class Never:
    """A constraint between numbers that does not hold."""

    offset: int


Leaf = Bound | Row | Never


@dataclass(slots=True, eq=False, repr=False)
class Conjunction:
    """All of `leaves`, and one option of each of `choices`."""

    leaves: list[Leaf] = field(default_factory=list)
    choices: list["Choice"] = field(default_factory=list)

    def choice(self) -> "Choice":
        """A new choice among what has to hold."""
        self.choices.append(Choice())
        return self.choices[-1]


@dataclass(slots=True, eq=False, repr=False)
class Choice:
    """At least one of `options`."""

    options: list[Conjunction] = field(default_factory=list)

    def option(self) -> Conjunction:
        """A new option to choose."""
        self.options.append(Conjunction())
        return self.options[-1]


_CONNECTIVES = ("and", "or", "not", "=>")
# The comparison that holds exactly where the other does not; = is a pair of them.
_NEGATED = {"<=": (">",), ">=": ("<",), "<": (">=",), ">": ("<=",), "=": ("<", ">")}
_POSITIVE = {"<=": ("<=",), ">=": (">=",), "<": ("<",), ">": (">",), "=": ("<=", ">=")}


def add_assertion(node: Node, root: Conjunction, scope: Scope) -> None:
    """Add the formula `node` to what has to hold."""
    work: list[tuple[Node, bool, Conjunction | Choice]] = [(node, True, root)]
    while work:
        node, positive, target = work.pop()
        if not isinstance(node, Form):
            raise scope.source.unsupported(node.offset, f"{show(node)}; expected a comparison")
        if node.head in _CONNECTIVES:
            parts, conjunctive = _parts(node, positive, scope)
            if len(parts) > 1:
                target = _conjunction(target) if conjunctive else _choice(target)
            work.extend((part, sign, target) for part, sign in reversed(parts))
            continue
        leaves = _comparison(node, positive, scope)
        if positive or len(leaves) == 1:
            _conjunction(target).leaves.extend(leaf for leaf in leaves if leaf is not None)
        else:
            choice = _choice(target)
            for leaf in leaves:
                choice.option().leaves.extend([] if leaf is None else [leaf])


def _conjunction(target: Conjunction | Choice) -> Conjunction:
    return target.option() if isinstance(target, Choice) else target


def _choice(target: Conjunction | Choice) -> Choice:
    return target.choice() if isinstance(target, Conjunction) else target


def _parts(form: Form, positive: bool, scope: Scope) -> tuple[list[tuple[Node, bool]], bool]:
    """The operands of a connective with their signs, and whether all of them have to hold."""
    operands = form.arguments
    expected = {"not": 1, "=>": 2}.get(form.head)
    if not operands or (expected is not None and len(operands) != expected):
        wanted = "at least 1" if expected is None else str(expected)
        message = f"{show(form)} has {len(operands)} operands; expected {wanted}"
        raise scope.source.invalid(form.offset, message)
    if form.head == "not":
        return [(operands[0], not positive)], True
    if form.head == "=>":  # a => b is (or (not a) b)
        return [(operands[0], not positive), (operands[1], positive)], not positive
    return [(operand, positive) for operand in operands], (form.head == "and") == positive


def _comparison(form: Form, positive: bool, scope: Scope) -> list[Leaf | None]:
    """The constraints of a chain of comparisons, None for one that always holds.

    All of them have to hold if `positive`, else at least one.
    """
    operators = (_POSITIVE if positive else _NEGATED).get(form.head)
    if operators is None:
        message = f"{show(form)} is not supported; expected and, or, not, =>, <=, >=, <, > or ="
        raise scope.source.unsupported(form.offset, message)
    if len(form.items) < 3:
        raise scope.source.invalid(form.offset, f"{show(form)} compares less than two things")
    operands = form.arguments
    return [
        _leaf(difference(linear(left, scope), linear(right, scope)), operator, form.offset, scope)
        for left, right in pairwise(operands)
        for operator in operators
    ]


def _leaf(function: Linear, operator: str, offset: int, scope: Scope) -> Leaf | None:
    """The constraint function <= 0 (or >=, <, >)."""
    strict = operator in ("<", ">")
    if operator in (">=", ">"):
        function = difference(Linear({}, Fraction(0)), function)
    terms, value = function.coefficients, -function.constant
    if not terms:
        return None if value > 0 or (value == 0 and not strict) else Never(offset)
    inputs = [variable for variable in terms if variable.kind == "X"]
    outputs = [variable for variable in terms if variable.kind == "Y"]
    if inputs and outputs:
        message = f"{outputs[0]} is compared with the input {inputs[0]}; this is not supported yet"
        raise scope.source.unsupported(offset, message)
    if len(inputs) > 1:
        message = f"the inputs {inputs[0]} and {inputs[1]} are coupled; this is not supported yet"
        raise scope.source.unsupported(offset, message)
    if inputs:
        factor = terms[inputs[0]]
        limit = value / factor if factor != 1 else value
        return Bound(inputs[0].number, factor > 0, limit, strict, offset)
    return Row({variable.number: c for variable, c in terms.items()}, value, strict, offset)
