"""Linear arithmetic over the variables of a property, in exact rational numbers.

    value = sum over v of coefficients[v] * v + constant

Decimals are the rationals they spell. Numbers that would grow without bound are refused, so that
no text can ask for more than a fixed multiple of its own length.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Literal, NamedTuple

from anybound.io.vnnlib.syntax import Form, Node, Symbol, show
from anybound.io.vnnlib.tokens import Source, excerpt

__all__ = ["Linear", "Scope", "Variable", "difference", "linear"]

_NUMBER = re.compile(r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?(?P<exponent>\d+))?", re.ASCII)
_VARIABLE = re.compile(r"(?P<kind>[XY])_(?P<index>0|[1-9]\d{0,8})", re.ASCII)
_NOT_FINITE = re.compile(r"[-+]?(?:inf(?:inity)?|nan)", re.IGNORECASE)
_ZERO, _ONE = Fraction(0), Fraction(1)
_MAX_DIGITS = 1000
_MAX_EXPONENT = 1000
_MAX_BITS = 20_000


class Variable(NamedTuple):
    """X_number, an input, or Y_number, an output."""

    kind: Literal["X", "Y"]
    number: int

    def __str__(self) -> str:
        return f"{self.kind}_{self.number}"


@dataclass(slots=True)
class Linear:
    """A linear function of variables."""

    coefficients: dict[Variable, Fraction]
    constant: Fraction


@dataclass(frozen=True)
class Scope:
    """The text, and the indices of the inputs and outputs declared so far with their places."""

    source: Source
    inputs: dict[int, int] = field(default_factory=dict)
    outputs: dict[int, int] = field(default_factory=dict)

    def declare(self, name: str, offset: int) -> None:
        """Take note of a variable X_i or Y_i."""
        match = _VARIABLE.fullmatch(name)
        if match is None:
            message = f"variable {excerpt(name)}; expected X_i (an input) or Y_i (an output)"
            raise self.source.unsupported(offset, message)
        declared = self.inputs if match["kind"] == "X" else self.outputs
        if int(match["index"]) in declared:
            raise self.source.invalid(offset, f"{name} is declared twice")
        declared[int(match["index"])] = offset

    def leaf(self, symbol: Symbol) -> Linear:
        """A variable or a number."""
        match = _VARIABLE.fullmatch(symbol.text)
        if match is None:
            return Linear({}, self._number(symbol))
        index = int(match["index"])
        if match["kind"] == "X" and index in self.inputs:
            return Linear({Variable("X", index): _ONE}, _ZERO)
        if match["kind"] == "Y" and index in self.outputs:
            return Linear({Variable("Y", index): _ONE}, _ZERO)
        raise self.source.invalid(symbol.offset, f"{symbol.text} is used but not declared before")

    def _number(self, symbol: Symbol) -> Fraction:
        text = symbol.text
        match = _NUMBER.fullmatch(text)
        if match is None:
            if _NOT_FINITE.fullmatch(text):
                raise self.source.invalid(symbol.offset, f"{text}: expected a finite number")
            message = f"{excerpt(text)} is neither a declared variable nor a number"
            raise self.source.invalid(symbol.offset, message)
        exponent = match["exponent"] or "0"
        if len(text) > _MAX_DIGITS or int(exponent) > _MAX_EXPONENT:
            message = f"number {excerpt(text)}: more than {_MAX_DIGITS} digits or exponents"
            raise self.source.unsupported(symbol.offset, message)
        return Fraction(text)


@dataclass(slots=True)
class _Call:
    """A form on its way to being evaluated."""

    form: Form
    values: list[Linear]


def linear(node: Node, scope: Scope) -> Linear:
    """The linear function that an expression of + - * / stands for."""
    if isinstance(node, Symbol):
        return scope.leaf(node)
    calls = [_opened(node, scope)]
    while True:
        call = calls[-1]
        position = len(call.values) + 1
        if position < len(call.form.items):
            argument = call.form.items[position]
            if isinstance(argument, Form):
                calls.append(_opened(argument, scope))
            else:
                call.values.append(scope.leaf(argument))
            continue
        value = _OPERATORS[call.form.head](call.values, call.form, scope)
        _check_size(value, call.form, scope)
        calls.pop()
        if not calls:
            return value
        calls[-1].values.append(value)


def difference(left: Linear, right: Linear) -> Linear:
    """left - right, made of `left`, which is used up."""
    result = left.coefficients
    for variable, factor in right.coefficients.items():
        rest = result[variable] - factor if variable in result else -factor
        if rest:
            result[variable] = rest
        else:
            del result[variable]
    return Linear(result, left.constant - right.constant if right.constant else left.constant)


def _opened(form: Form, scope: Scope) -> _Call:
    if form.head not in _OPERATORS:
        message = f"{show(form)} is not a number, a variable or one of + - * /"
        raise scope.source.unsupported(form.offset, message)
    if len(form.items) < 2:
        raise scope.source.invalid(form.offset, f"{show(form)} has no operand")
    return _Call(form, [])


def _plus(values: list[Linear], _form: Form, _scope: Scope) -> Linear:
    return _sum(values)


def _minus(values: list[Linear], _form: Form, _scope: Scope) -> Linear:
    if len(values) == 1:
        return difference(Linear({}, _ZERO), values[0])
    return difference(values[0], _sum(values[1:]))


def _times(values: list[Linear], form: Form, scope: Scope) -> Linear:
    functions = [value for value in values if value.coefficients]
    if len(functions) > 1:
        raise scope.source.unsupported(form.offset, "a product of variables; expected linear terms")
    factor = _ONE
    for value in values:
        if not value.coefficients:
            factor *= value.constant
            _check_size(Linear({}, factor), form, scope)
    return _scaled(functions[0] if functions else Linear({}, _ONE), factor)


def _divided(values: list[Linear], form: Form, scope: Scope) -> Linear:
    result, *divisors = values
    for divisor in divisors:
        if divisor.coefficients:
            raise scope.source.unsupported(
                form.offset, "a division by a variable; expected a number"
            )
        if divisor.constant == 0:
            raise scope.source.invalid(form.offset, "a division by zero")
        result = _scaled(result, 1 / divisor.constant)
        _check_size(result, form, scope)
    return result


_OPERATORS: dict[str, Callable[[list[Linear], Form, Scope], Linear]] = {
    "+": _plus,
    "-": _minus,
    "*": _times,
    "/": _divided,
}


def _sum(values: list[Linear]) -> Linear:
    """The sum, gathered in the largest operand: linear work for nested sums."""
    total = max(values, key=lambda value: len(value.coefficients))
    for value in values:
        if value is not total:
            for variable, factor in value.coefficients.items():
                total.coefficients[variable] = total.coefficients.get(variable, _ZERO) + factor
            total.constant += value.constant
    for variable in [v for v, factor in total.coefficients.items() if not factor]:
        del total.coefficients[variable]
    return total


def _scaled(value: Linear, factor: Fraction) -> Linear:
    if factor == 1:
        return value
    scaled = {v: factor * c for v, c in value.coefficients.items()} if factor else {}
    return Linear(scaled, factor * value.constant)


def _check_size(value: Linear, form: Form, scope: Scope) -> None:
    """Refuse exact numbers that outgrow every float64 by far."""
    for number in (value.constant, *value.coefficients.values()):
        if number.numerator.bit_length() + number.denominator.bit_length() > _MAX_BITS:
            raise scope.source.unsupported(form.offset, f"a number of more than {_MAX_BITS} bits")
