"""VNN-LIB 1.0: declare-const, and assert of and, or, <= and >= between variables and numbers.

The unsafe set is a union of clauses, each a box of inputs and half-spaces A y <= b of the outputs.
Their order: (and a b) lists, for every clause of a in order, that of b; (or a b) lists those of a,
then those of b; assertions are joined by `and` in the file's order. Clauses whose box is empty are
left out. Decimals are exact rationals, rounded outwards: the unsafe set only grows.
"""

from __future__ import annotations

import re
from decimal import Decimal
from itertools import product
from math import prod
from typing import Any, NamedTuple

import numpy as np

from anybound_check.arithmetic import Array, Unreadable, float_above, float_below

MAX_CLAUSES, MAX_DEPTH, MAX_NUMBERS = 20_000, 40, 2**24
_TOKEN = re.compile(r"[()]|[^\s();]+|;[^\n]*")
_NUMBER = re.compile(r"[-+]?\d{1,60}(\.\d{0,400})?([eE][-+]?\d{1,2})?", re.ASCII)

Atom = tuple[str, str]  # left <= right
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
    declared, common, parts = set[str](), list[Atom](), list[Terms]()
    for form in _forms(text):
        match form:
            case ["declare-const", str(name), "Real"] if name not in declared:
                declared.add(name)
            case ["assert", formula]:
                terms = _terms(formula)
                common += terms[0] if len(terms) == 1 else ()
                parts += [terms] if len(terms) != 1 else []
            case _:
                raise Unreadable(f"not understood in the property: {str(form)[:60]}")
    if declared != {f"X_{i}" for i in range(inputs)} | {f"Y_{i}" for i in range(outputs)}:
        raise Unreadable(f"the property is not about {inputs} inputs and {outputs} outputs")
    _limit(prod(map(len, parts)))
    boxes: dict[tuple[Atom, ...], tuple[Array, Array] | None] = {}
    clauses = []
    for choice in product(*parts):
        own = [atom for term in choice for atom in term]
        key = tuple(atom for atom in own if _is_bound(atom))
        if key not in boxes:
            if len(boxes) * inputs > MAX_NUMBERS:
                raise Unreadable("the property has too many boxes")
            boxes[key] = _box([*(atom for atom in common if _is_bound(atom)), *key], inputs)
        box = boxes[key]
        if box is not None:
            rows = [atom for atom in [*common, *own] if not _is_bound(atom)]
            clauses.append(Clause(*box, *_half_spaces(rows, outputs)))
    return clauses


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


def _terms(form: Any) -> Terms:
    """The disjunctive normal form."""
    match form:
        case ["and", *rest] if rest:
            parts = [_terms(part) for part in rest]
            _limit(prod(map(len, parts)))
            return [tuple(atom for term in choice for atom in term) for choice in product(*parts)]
        case ["or", *rest] if rest:
            options = [term for part in rest for term in _terms(part)]
            _limit(len(options))
            return options
        case ["<=", str(left), str(right)] | [">=", str(right), str(left)]:
            return [((left, right),)]
    raise Unreadable(f"not understood in the property: {str(form)[:60]}")


def _limit(count: int) -> None:
    if count > MAX_CLAUSES:
        raise Unreadable(f"the property has {count} clauses")


def _is_bound(atom: Atom) -> bool:
    return atom[0].startswith("X") or atom[1].startswith("X")


def _box(atoms: list[Atom], inputs: int) -> tuple[Array, Array] | None:
    """The inputs' intervals, rounded outwards; None if one is empty."""
    low, high = dict[str, Decimal](), dict[str, Decimal]()
    for left, right in atoms:
        if left.startswith("X"):
            high[left] = min(_number(right), high.get(left, _number(right)))
        else:
            low[right] = max(_number(left), low.get(right, _number(left)))
    names = [f"X_{i}" for i in range(inputs)]
    if not low.keys() == high.keys() == set(names):
        raise Unreadable("an input lacks a bound, or what is bounded is not an input")
    if any(low[name] > high[name] for name in names):
        return None
    lower = np.array([[float_below(low[name])] for name in names])
    upper = np.array([[float_above(high[name])] for name in names])
    return lower, upper


def _half_spaces(atoms: list[Atom], outputs: int) -> tuple[Array, Array]:
    """A y <= b with b rounded up, from left <= right."""
    matrix, offset = np.zeros((len(atoms), outputs)), np.zeros(len(atoms))
    names = {f"Y_{i}": i for i in range(outputs)}
    for i, (left, right) in enumerate(atoms):
        if left in names:
            matrix[i, names[left]] += 1
        if right in names:
            matrix[i, names[right]] -= 1
        if left not in names:
            offset[i] = float_above(_number(left).copy_negate())
        if right not in names:
            offset[i] = float_above(_number(right))
        if left not in names and right not in names:
            raise Unreadable("two numbers are compared")
    return matrix, offset


def _number(text: str) -> Decimal:
    if not _NUMBER.fullmatch(text):
        raise Unreadable(f"expected a decimal number, got {text[:40]}")
    return Decimal(text)  # exactly, and so are comparisons; sums would be rounded
