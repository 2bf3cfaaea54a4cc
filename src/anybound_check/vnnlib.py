"""VNN-LIB 1.0: declare-const, and assert of and, or, <= and >= between variables and numbers.

The unsafe set is a union of clauses, each a box of inputs and half-spaces A y <= b of the outputs.
Their order: (and a b) lists, for every clause of a in order, that of b; (or a b) lists those of a,
then those of b; assertions are joined by `and` in the file's order. Clauses whose box is empty are
left out. Decimals are exact rationals, rounded outwards: the unsafe set only grows. For a witness
they are rounded inwards.
"""

from __future__ import annotations

import re
from decimal import Decimal
from itertools import product
from math import prod
from typing import Any, NamedTuple

import numpy as np

from anybound_check.arithmetic import Array, Unreadable, float_above, float_below

MAX_CLAUSES, MAX_NUMBERS, MAX_DEPTH = 20_000, 2**22, 100
_NUMBER = re.compile(r"[-+]?\d{1,60}(\.\d{0,400})?([eE][-+]?\d{1,2})?", re.ASCII)
_BLANKS = " \t\n\r"

Atom = tuple[str, str]  # left <= right
Box = tuple[Array, Array]
Bounds = tuple[dict[str, Decimal], dict[str, Decimal]]  # below and above, by input


class Clause(NamedTuple):
    """Inputs lower <= x <= upper [n, 1] whose outputs have matrix y <= offset, [m, outputs], [m]."""

    lower: Array
    upper: Array
    matrix: Array
    offset: Array


def read_property(content: bytes, inputs: int, outputs: int, outward: bool = True) -> list[Clause]:
    """The clauses of a file, for a network with so many inputs and outputs."""
    names, formulas = list[str](), list[Any]()
    for form in _forms(content.decode("utf-8", "replace")):
        match form:
            case ["declare-const", str(name), "Real"]:
                names.append(name)
            case ["assert", formula]:
                formulas.append(formula)
            case _:
                raise Unreadable(f"not understood in the property: {str(form)[:60]}")
    known = [*(f"X_{i}" for i in range(inputs)), *(f"Y_{i}" for i in range(outputs))]
    if sorted(names) != sorted(known):
        raise Unreadable(f"the property is not about {inputs} inputs and {outputs} outputs")
    parts = [_terms(formula) for formula in formulas]
    common = [atom for terms in parts if len(terms) == 1 for atom in terms[0]]
    shared = [atom for atom in common if not _is_bound(atom)]
    choices = [terms for terms in parts if len(terms) != 1]
    _limit(choices)
    read, boxes, clauses = _Reader(inputs, outputs, outward), dict[Any, Box | None](), []
    everywhere = read.bounds(tuple(filter(_is_bound, common)), ({}, {}))
    for choice in product(*choices):
        own = [atom for term in choice for atom in term]
        key = tuple(atom for atom in own if _is_bound(atom))
        if key not in boxes:
            if len(boxes) * inputs > MAX_NUMBERS:
                raise Unreadable("the property has too many boxes")
            boxes[key] = read.box(*read.bounds(key, everywhere))
        box = boxes[key]
        if box is not None:
            rows = [atom for atom in own if not _is_bound(atom)]
            clauses.append(Clause(*box, *read.half_spaces([*shared, *rows])))
    return clauses


def _forms(text: str) -> list[Any]:
    """Nested lists of words."""
    if not set('"\\|').isdisjoint(text):  # between which others read semicolons and blanks as words
        raise Unreadable("the property has a quote, a bar or a backslash")
    text = re.sub(r";[^\n\r]*", "", text)
    if not set(_BLANKS).issuperset(re.findall(r"\s", text)):  # which others read as parts of words
        raise Unreadable("the property has a blank that is neither a space, a tab nor a line's end")
    open_lists: list[list[Any]] = [[]]
    for word in text.replace("(", " ( ").replace(")", " ) ").split():
        if word == "(":
            open_lists.append([])
        elif word != ")":
            open_lists[-1].append(word)
        elif len(open_lists) > 1:
            form = open_lists.pop()
            open_lists[-1].append(form)
        else:
            raise Unreadable("the property closes a bracket that is not open")
        if len(open_lists) > MAX_DEPTH:
            raise Unreadable("the property is nested too deeply")
    if len(open_lists) > 1:
        raise Unreadable("the property leaves a bracket open")
    return open_lists[0]


def _terms(form: Any) -> list[tuple[Atom, ...]]:
    """The disjunctive normal form."""
    match form:
        case ["and", *rest] if rest:
            parts = [_terms(part) for part in rest]
            _limit(parts)
            return [tuple(atom for term in choice for atom in term) for choice in product(*parts)]
        case ["or", *rest] if rest:
            options = [term for part in rest for term in _terms(part)]
            _limit([options])
            return options
        case ["<=", str(left), str(right)] | [">=", str(right), str(left)]:
            return [((left, right),)]
    raise Unreadable(f"not understood in the property: {str(form)[:60]}")


def _limit(parts: list[list[tuple[Atom, ...]]]) -> None:
    """Refuse more than can be listed: each choice of a term of every part is a clause."""
    count = prod(map(len, parts))
    atoms = sum(count // len(terms) * sum(map(len, terms)) for terms in parts)
    if count > MAX_CLAUSES or atoms > MAX_NUMBERS:
        raise Unreadable(f"the property has {count} clauses of {atoms} comparisons")


def _is_bound(atom: Atom) -> bool:
    return atom[0].startswith("X") or atom[1].startswith("X")


class _Reader:
    """Atoms as numbers. `below` and `above` are directions; witnesses swap them."""

    def __init__(self, inputs: int, outputs: int, outward: bool) -> None:
        self.inputs = [f"X_{i}" for i in range(inputs)]
        self.outputs = {f"Y_{i}": i for i in range(outputs)}
        self.numbers = 0  # in all half-spaces
        self.below, self.above = (
            (float_below, float_above) if outward else (float_above, float_below)
        )

    def bounds(self, atoms: tuple[Atom, ...], known: Bounds) -> Bounds:
        """The bounds known, and tighter ones."""
        low, high = known[0].copy(), known[1].copy()
        for left, right in atoms:
            if left.startswith("X"):
                number = _number(right)
                high[left] = min(number, high.get(left, number))
            else:
                number = _number(left)
                low[right] = max(number, low.get(right, number))
        return low, high

    def box(self, low: dict[str, Decimal], high: dict[str, Decimal]) -> Box | None:
        """The inputs' intervals; None if one is empty."""
        if not low.keys() == high.keys() == set(self.inputs):
            raise Unreadable("an input lacks a bound, or what is bounded is not an input")
        if any(low[name] > high[name] for name in self.inputs):
            return None
        lower = np.array([[self.below(low[name])] for name in self.inputs])
        return lower, np.array([[self.above(high[name])] for name in self.inputs])

    def half_spaces(self, atoms: list[Atom]) -> Box:
        """A y <= b with b rounded, from left <= right."""
        self.numbers += len(atoms) * len(self.outputs)
        if self.numbers > MAX_NUMBERS:
            raise Unreadable("the property has too many half-spaces")
        matrix, offset = np.zeros((len(atoms), len(self.outputs))), np.zeros(len(atoms))
        for i, pair in enumerate(atoms):
            if not self.outputs.keys() & set(pair):
                raise Unreadable("two numbers are compared")
            for side, sign in zip(pair, (1, -1), strict=True):
                if side in self.outputs:
                    matrix[i, self.outputs[side]] += sign
                else:
                    number = _number(side)
                    offset[i] = self.above(number.copy_negate() if sign > 0 else number)
        return matrix, offset


def _number(text: str) -> Decimal:
    if not _NUMBER.fullmatch(text):
        raise Unreadable(f"expected a decimal number, got {text[:40]}")
    return Decimal(text)  # exactly, and so are comparisons; sums would be rounded
