"""VNN-LIB 1.0: declare-const, and assert of and, or, <= and >= between variables and numbers.

The unsafe set is a union of clauses, each a box of inputs and half-spaces A y <= b of the outputs.
Their order: (and a b) lists, for every clause of a in order, that of b; (or a b) lists those of a,
then those of b; assertions are joined by `and` in the file's order. Clauses whose box is empty are
left out. Decimals are exact rationals, rounded outwards: the unsafe set only grows.
"""

from __future__ import annotations

import re
from fractions import Fraction
from itertools import product
from math import prod
from typing import Any, NamedTuple

import numpy as np

from anybound_check.arithmetic import Array, Unreadable, float_above, float_below

MAX_CLAUSES, MAX_DEPTH = 20_000, 40
_TOKEN = re.compile(r"[()]|[^\s();]+|;[^\n]*")
_NUMBER = re.compile(r"[-+]?\d{1,60}(\.\d{0,400})?([eE][-+]?\d{1,2})?", re.ASCII)
_VARIABLE = re.compile(r"([XY])_(0|[1-9]\d{0,8})", re.ASCII)

Atom = tuple[str, ...]
Terms = list[tuple[Atom, ...]]


class Clause(NamedTuple):
    """The inputs lower <= x <= upper [n, 1] whose outputs have matrix y <= offset, [m, n_out], [m]."""

    lower: Array
    upper: Array
    matrix: Array
    offset: Array


def read_property(content: bytes, inputs: int, outputs: int) -> list[Clause]:
    """The clauses of a file, for a network with so many inputs and outputs."""
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Unreadable("the property is not a text") from error
    declared: set[str] = set()
    common: list[Atom] = []
    parts: list[Terms] = []
    for form in _forms(text):
        if (
            len(form) == 3
            and form[0] == "declare-const"
            and form[2] == "Real"
            and form[1] not in declared
        ):
            declared.add(form[1])
        elif len(form) == 2 and form[0] == "assert":
            terms = _terms(form[1], 0)
            common += terms[0] if len(terms) == 1 else ()
            parts += [terms] if len(terms) != 1 else []
        else:
            raise Unreadable(f"not understood in the property: {str(form)[:60]}")
    if declared != {f"X_{i}" for i in range(inputs)} | {f"Y_{i}" for i in range(outputs)}:
        raise Unreadable(f"the network has {inputs} inputs, {outputs} outputs, the property others")
    _limit(prod(map(len, parts)))
    box: dict[str, Fraction] = {}
    rows = _apply(common, box)
    read = (_clause(dict(box), rows, [a for t in choice for a in t], inputs, outputs)
            for choice in product(*parts))  # fmt: skip
    return [clause for clause in read if clause is not None]


def _forms(text: str) -> list[Any]:
    """Nested lists of words."""
    stack: list[list[Any]] = [[]]
    for token in _TOKEN.findall(text):
        if token == "(":
            stack.append([])
        elif token == ")":
            done = stack.pop()
            if not stack:
                raise Unreadable("the property closes a parenthesis that is not open")
            stack[-1].append(done)
        elif token[0] != ";":
            stack[-1].append(token)
        if len(stack) > MAX_DEPTH:
            raise Unreadable("the property is nested too deeply")
    if len(stack) != 1 or not all(isinstance(form, list) for form in stack[0]):
        raise Unreadable("the property is not a list of complete statements")
    return stack[0]


def _terms(form: Any, depth: int) -> Terms:
    """The disjunctive normal form."""
    head, *rest = form if isinstance(form, list) and form else [""]
    if head == "and" and rest:
        parts = [_terms(part, depth + 1) for part in rest]
        _limit(prod(map(len, parts)))
        return [tuple(atom for term in choice for atom in term) for choice in product(*parts)]
    if head == "or" and rest:
        options = [term for part in rest for term in _terms(part, depth + 1)]
        _limit(len(options))
        return options
    if head not in ("<=", ">=") or len(rest) != 2 or not all(isinstance(a, str) for a in rest):
        raise Unreadable(f"not understood in the property: {str(form)[:60]}")
    return [((rest[0], rest[1]) if head == "<=" else (rest[1], rest[0]),)]


def _limit(count: int) -> None:
    if count > MAX_CLAUSES:
        raise Unreadable(f"the property has {count} clauses")


def _apply(atoms: list[Atom], box: dict[str, Fraction]) -> list[Atom]:
    """Put the bounds of inputs into `box`; the others are rows."""
    rows: list[Atom] = []
    for left, right in atoms:
        for name, other, side in ((left, right, "<"), (right, left, ">")):
            if name.startswith("X_"):
                key, value = side + name, _number(other)
                old = box.get(key, value)
                box[key] = min(old, value) if side == "<" else max(old, value)
        if not left.startswith("X_") and not right.startswith("X_"):
            rows.append((left, right))
    return rows


def _clause(
    box: dict[str, Fraction], rows: list[Atom], own: list[Atom], inputs: int, outputs: int
) -> Clause | None:
    rows = rows + _apply(own, box)
    names = [f"X_{i}" for i in range(inputs)]
    if set(box) != {side + name for side in "<>" for name in names}:
        raise Unreadable("an input lacks a bound, or what is bounded is not an input")
    if any(box[">" + name] > box["<" + name] for name in names):
        return None
    lower = np.array([[float_below(box[">" + name])] for name in names])
    upper = np.array([[float_above(box["<" + name])] for name in names])
    matrix, offset = np.zeros((len(rows), outputs)), np.zeros(len(rows))
    for i, atom in enumerate(rows):  # left - right <= 0
        constant = Fraction(0)
        for term, sign in zip(atom, (1, -1), strict=True):
            variable = _VARIABLE.fullmatch(term)
            if variable is None:
                constant -= sign * _number(term)
            elif int(variable[2]) < outputs:
                matrix[i, int(variable[2])] += sign
            else:
                raise Unreadable(f"{term} is not an output")
        offset[i] = float_above(constant)
    return Clause(lower, upper, matrix, offset)


def _number(text: str) -> Fraction:
    if not _NUMBER.fullmatch(text):
        raise Unreadable(f"expected a decimal number, got {text[:40]}")
    return Fraction(text)
