"""The exact minimum of a ReLU network over a rectangle (two inputs vary), in fractions, cell by cell.

The network is affine on convex polygons: every neuron cuts each polygon by the line where its input is 0. A linear
function is smallest at a vertex; a maximum of several at one, after cutting where two of them are equal.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import combinations

from exact_certificate import CONSTANT, Forms, Interval

Point = tuple[Fraction, Fraction]
Plane = tuple[Fraction, Fraction, Fraction]  # a x + b y + c
Cell = tuple[list[Point], list[Plane]]
Row = tuple[Mapping[int, int | Fraction], Fraction]  # coefficients of outputs, b: sum <= b
ZERO = Fraction(0)


def minimum(forms: Forms, box: Sequence[Interval], rows: Sequence[Row]) -> Fraction:
    """The least, over the box, of the largest (a y - b) of the rows."""
    return min(_least(polygon, _values(forms, known, rows)) for polygon, known in cells(forms, box))


def cells(forms: Forms, box: Sequence[Interval]) -> list[Cell]:
    """Convex polygons, and what the variables are on each."""
    first, second = sorted(range(len(box)), key=lambda i: box[i][0] - box[i][1])[:2]
    assert all(l == u for i, (l, u) in enumerate(box) if i not in (first, second))
    (l, u), (low, high) = box[first], box[second]
    corners = [(l, low), (u, low), (u, high), (l, high)]
    inputs: list[Plane] = [(ZERO, ZERO, l) for l, _ in box]
    inputs[first], inputs[second] = (Fraction(1), ZERO, ZERO), (ZERO, Fraction(1), ZERO)
    parts: list[Cell] = [(corners, inputs)]
    for form in forms.neurons:
        found = []
        for polygon, known in parts:
            plane = _plane(form, known)
            for side, sign in zip(_cut(polygon, plane), (1, -1), strict=True):
                if side:
                    found.append((side, [*known, plane if sign > 0 else (ZERO, ZERO, ZERO)]))
        parts = found
    return parts


def _plane(form: dict[int, Fraction], known: list[Plane]) -> Plane:
    total = [ZERO, ZERO, form.get(CONSTANT, ZERO)]
    for variable, a in form.items():
        if variable != CONSTANT:
            total = [x + a * y for x, y in zip(total, known[variable], strict=True)]
    return total[0], total[1], total[2]


def _values(forms: Forms, known: list[Plane], rows: Sequence[Row]) -> list[Plane]:
    outputs = [_plane(form, known) for form in forms.outputs]
    found = []
    for coefficients, b in rows:
        total = [ZERO, ZERO, -b]
        for i, a in coefficients.items():
            total = [x + a * y for x, y in zip(total, outputs[i], strict=True)]
        found.append((total[0], total[1], total[2]))
    return found


def _at(plane: Plane, point: Point) -> Fraction:
    return plane[0] * point[0] + plane[1] * point[1] + plane[2]


def _cut(polygon: list[Point], plane: Plane) -> tuple[list[Point], list[Point]]:
    """The parts where the plane is >= 0 and <= 0; empty where only an edge or a corner is."""
    values = [_at(plane, point) for point in polygon]
    if min(values) >= 0:
        return polygon, []
    if max(values) <= 0:
        return [], polygon
    sides: tuple[list[Point], list[Point]] = ([], [])
    for i, (p, v) in enumerate(zip(polygon, values, strict=True)):
        q, w = polygon[i - 1], values[i - 1]
        if v * w < 0:
            t = w / (w - v)
            crossing = (q[0] + t * (p[0] - q[0]), q[1] + t * (p[1] - q[1]))
            sides[0].append(crossing)
            sides[1].append(crossing)
        if v >= 0:
            sides[0].append(p)
        if v <= 0:
            sides[1].append(p)
    return sides


def _least(polygon: list[Point], planes: list[Plane]) -> Fraction:
    """Of the largest of the planes."""
    parts = [polygon]
    for first, second in combinations(planes, 2):
        difference = (first[0] - second[0], first[1] - second[1], first[2] - second[2])
        parts = [side for part in parts for side in _cut(part, difference) if side]
    return min(max(_at(plane, point) for plane in planes) for part in parts for point in part)
