"""A property is an unsafe set: the network violates it at x if (x, f(x)) lies in the set.

The set is in disjunctive form, a union of clauses, each an input set X_i and output half-spaces:

    unsafe = union over i of { (x, y) : x in X_i, A_i y <= b_i },   A_i [m_i, n_out], b_i [m_i]

The property holds if no clause is reached. Proofs use `matrix` and `offset` (rounded up, so that
the set only grows; strict inequalities closed). Witnesses are judged by `violated_by`, in exact
arithmetic on the exact right-hand sides, strict inequalities strict. Input sets and half-spaces are
shared between clauses: nine output disjuncts over 150,000 inputs store one box.
"""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import TypedDict

import numpy as np
import numpy.typing as npt

from anybound.errors import InvalidProperty
from anybound.spec.input_sets import BallSet, BoxSet, InputSet, as_point
from anybound.spec.rounding import FloatArray, round_up

__all__ = [
    "MAX_CLAUSES",
    "BallSet",
    "BoxSet",
    "Clause",
    "HalfSpaces",
    "InputSet",
    "Property",
    "PropertySummary",
]

MAX_CLAUSES = 100_000


@dataclass(frozen=True, eq=False)
class HalfSpaces:
    """The conjunction matrix @ y <= offset, [m, n_out] and [m]; row k holds with < where strict[k].

    `exact` are the right-hand sides before rounding, by default those given in `offset`.
    """

    matrix: FloatArray
    offset: FloatArray
    exact: tuple[Fraction, ...] = ()
    strict: tuple[bool, ...] = ()

    def __post_init__(self) -> None:
        matrix = np.array(self.matrix, dtype=np.float64, ndmin=2)
        offset = np.array(self.offset, dtype=np.float64).reshape(-1)
        rows = matrix.shape[0]
        if matrix.ndim != 2 or offset.size != rows or matrix.size == 0:
            raise InvalidProperty(
                f"half-spaces: matrix {matrix.shape} and offset {offset.shape}; "
                "expected [m, n_out] and [m], m >= 1"
            )
        if not (np.isfinite(matrix).all() and np.isfinite(offset).all()):
            raise InvalidProperty("half-spaces: matrix and offset must be finite")
        exact = self.exact or tuple(Fraction(float(b)) for b in offset)
        strict = self.strict or (False,) * rows
        if len(exact) != rows or len(strict) != rows:
            raise InvalidProperty(f"half-spaces: exact and strict need {rows} values each")
        for name, array in (("matrix", matrix), ("offset", offset)):
            array.setflags(write=False)
            object.__setattr__(self, name, array)
        object.__setattr__(self, "exact", exact)
        object.__setattr__(self, "strict", strict)

    @staticmethod
    def rounded(
        matrix: FloatArray, exact: tuple[Fraction, ...], strict: tuple[bool, ...]
    ) -> "HalfSpaces":
        """Half-spaces with these exact right-hand sides; `offset` is rounded up."""
        return HalfSpaces(matrix, np.array([round_up(b) for b in exact]), exact, strict)

    @property
    def output_size(self) -> int:
        """The number of outputs, n_out."""
        return int(self.matrix.shape[1])

    def contains(self, y: npt.ArrayLike) -> bool:
        """Whether the float64 point y lies in the exact set; one that is not finite does not."""
        point = as_point(y, self.output_size, "output")
        return bool(np.isfinite(point).all()) and all(
            self._row_holds(k, point) for k in range(len(self.exact))
        )

    def _row_holds(self, k: int, y: FloatArray) -> bool:
        row = self.matrix[k]
        value = sum(
            (Fraction(float(row[j])) * Fraction(float(y[j])) for j in np.flatnonzero(row)),
            Fraction(),
        )
        return value < self.exact[k] or (value == self.exact[k] and not self.strict[k])


@dataclass(frozen=True, eq=False)
class Clause:
    """One conjunction of the unsafe set: x in `input_set` and y in `outputs`."""

    input_set: InputSet
    outputs: HalfSpaces

    @property
    def lower(self) -> FloatArray:
        """The lower border [n_in] of a box around the inputs, rounded down."""
        return self.input_set.lower

    @property
    def upper(self) -> FloatArray:
        """The upper border [n_in] of a box around the inputs, rounded up."""
        return self.input_set.upper

    @property
    def matrix(self) -> FloatArray:
        """A of A y <= b, [m, n_out]."""
        return self.outputs.matrix

    @property
    def offset(self) -> FloatArray:
        """b of A y <= b, [m], rounded up."""
        return self.outputs.offset

    def closest_input(self, x: npt.ArrayLike) -> FloatArray:
        """A float64 input of this clause near x: the candidate for a witness."""
        return self.input_set.closest(x)

    def violated_by(self, x: npt.ArrayLike, y: npt.ArrayLike) -> bool:
        """Whether (x, y) lies in the clause, without tolerance."""
        return self.outputs.contains(y) and self.input_set.contains(x)


class PropertySummary(TypedDict):
    """What `Property.describe` tells; counts, and widths of input intervals over all clauses."""

    inputs: int
    outputs: int
    clauses: int
    input_sets: int
    half_spaces: list[int]
    narrowest: float
    widest: float
    fixed_inputs: int


@dataclass(frozen=True, eq=False, repr=False)
class Property:
    """An unsafe set: the union of `clauses`, all over n_in inputs and n_out outputs."""

    clauses: tuple[Clause, ...]
    name: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "clauses", tuple(self.clauses))
        if not self.clauses:
            raise InvalidProperty("property: no clause; expected at least one")
        sizes = {(c.input_set.size, c.outputs.output_size) for c in self.clauses}
        if len(sizes) > 1:
            raise InvalidProperty(f"property: clauses of different (inputs, outputs): {sizes}")

    @property
    def input_size(self) -> int:
        """The number of inputs, n_in."""
        return self.clauses[0].input_set.size

    @property
    def output_size(self) -> int:
        """The number of outputs, n_out."""
        return self.clauses[0].outputs.output_size

    def groups(self) -> list[tuple[InputSet, tuple[int, ...]]]:
        """The distinct input sets, each with the indices of the clauses over it."""
        members: dict[int, list[int]] = {}
        for i, clause in enumerate(self.clauses):
            members.setdefault(id(clause.input_set), []).append(i)
        return [(self.clauses[m[0]].input_set, tuple(m)) for m in members.values()]

    def violated_clause(self, x: npt.ArrayLike, y: npt.ArrayLike) -> int | None:
        """The first clause that contains (x, y), without tolerance; None if there is none."""
        point, output = (
            as_point(x, self.input_size, "input"),
            as_point(y, self.output_size, "output"),
        )
        inside = [i for s, members in self.groups() if s.contains(point) for i in members]
        return next((i for i in sorted(inside) if self.clauses[i].outputs.contains(output)), None)

    def violated_by(self, x: npt.ArrayLike, y: npt.ArrayLike) -> bool:
        """Whether the input x with output y = f(x) is a witness against the property."""
        return self.violated_clause(x, y) is not None

    def in_precision(self, dtype: npt.DTypeLike) -> "Property":
        """The property for a network that reads its input as `dtype`; see `BoxSet.in_precision`."""
        convert = _once_each(lambda input_set: input_set.in_precision(dtype))
        return Property(
            tuple(Clause(convert(c.input_set), c.outputs) for c in self.clauses), self.name
        )

    def __or__(self, other: "Property") -> "Property":
        """The property that is violated where either of the two is."""
        return Property(self.clauses + other.clauses, self.name or other.name)

    def describe(self) -> PropertySummary:
        """Counts and widths, as plain data."""
        sets = [input_set for input_set, _ in self.groups()]
        rows = [len(c.outputs.exact) for c in self.clauses]
        widths = [s.upper - s.lower for s in sets]
        return PropertySummary(
            inputs=self.input_size,
            outputs=self.output_size,
            clauses=len(self.clauses),
            input_sets=len(sets),
            half_spaces=sorted(set(rows)),
            narrowest=min(float(w.min()) for w in widths),
            widest=max(float(w.max()) for w in widths),
            fixed_inputs=min(s.fixed for s in sets),
        )

    def __repr__(self) -> str:
        about = self.describe()
        return (
            f"Property({self.name!r}: {about['inputs']} inputs, {about['outputs']} outputs, "
            f"{about['clauses']} clauses over {about['input_sets']} input sets, "
            f"widths {about['narrowest']:.4g} to {about['widest']:.4g})"
        )


def _once_each(convert: Callable[[InputSet], InputSet]) -> Callable[[InputSet], InputSet]:
    """`convert`, called once per object, so that what was shared stays shared."""
    done: dict[int, InputSet] = {}

    def lookup(input_set: InputSet) -> InputSet:
        if id(input_set) not in done:
            done[id(input_set)] = convert(input_set)
        return done[id(input_set)]

    return lookup
