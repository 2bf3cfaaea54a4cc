"""Properties whose threshold lies at, or a hair's breadth from, the exact minimum of a small network's margin.

Whatever is said of them is checked by two points, in exact arithmetic and without tolerance:

- the lowest point known, an input of the set: where its margin is not positive, the property does not hold, and no
  proved lower bound may exceed its margin;
- the witness that is given: it lies in the set, and its output lies in the unsafe set.

Fractions evaluate ReLU networks exactly; sigmoid and tanh are evaluated to 60 digits. The lowest point comes from
`oracle` and is moved to the vertex of the linear piece it lies on, or by sequential quadratic programs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from functools import cached_property
from math import nextafter

import numpy as np
import torch
from oracle import SIGMA, Array, Layer, Region, forward, margin
from scipy.optimize import linprog, minimize
from small_networks import ACTIVATIONS, Small, small

from anybound import Outcome, Verdict
from anybound.model.affine import Dense
from anybound.model.network import Edge, Network, Node
from anybound.spec.property import HalfSpaces, Property

DISTANCES = (0.0, 1e-9, -1e-9, 1e-6, -1e-6, 1e-3, -1e-3)
_DIGITS = Context(prec=60)
_NEAR = 1e-7  # of an inequality that holds with equality at a vertex
Number = Fraction | Decimal


@dataclass(frozen=True, eq=False)
class Close:
    """A case with its threshold moved to the lowest margin, less `distance` times its size: > 0 should hold."""

    case: Small
    distance: float

    @cached_property
    def lowest(self) -> list[Array]:
        """For each clause the lowest point known."""
        case = self.case
        return [
            lowest_point(case, A, b, exact.point)
            for (A, b), exact in zip(case.clauses, case.exact, strict=True)
        ]

    @cached_property
    def prop(self) -> Property:
        """At a distance of 0 the lowest point is just unsafe."""
        least = min(self._margin(i, self.case.shifted(0.0)) for i in range(len(self.lowest)))
        shift = float(least) - self.distance * abs(float(least))
        while self.distance <= 0 and self._least(self.case.shifted(shift)) > 0:
            shift = nextafter(shift + 1e-16 * abs(shift), np.inf)
        return self.case.shifted(shift)

    @cached_property
    def margins(self) -> list[Number]:
        """Of each clause at its lowest point, exactly."""
        return [self._margin(i, self.prop) for i in range(len(self.lowest))]

    def at_distance(self, distance: float) -> Close:
        """The same case at another distance, its lowest points known already."""
        other = replace(self, distance=distance)
        other.__dict__["lowest"] = self.lowest
        return other

    def _least(self, prop: Property) -> Number:
        return min(self._margin(i, prop) for i in range(len(self.lowest)))

    def _margin(self, clause: int, prop: Property) -> Number:
        outputs = prop.clauses[clause].outputs
        return exact_margin(self.case.layers, outputs, self.lowest[clause])


def close(seed: int, distance: float, **kind: object) -> Close:
    """The case of a seed."""
    return Close(small(seed, **kind), distance)  # type: ignore[arg-type]


def wild(seed: int, distance: float) -> Close:
    """A dense ReLU network over a box whose weights, biases and inputs are of sizes far apart, so that sums cancel,
    overflow in float32 or vanish; the lowest point known is one of many tried."""
    rng = np.random.default_rng(seed)
    span = float(rng.choice([3, 9, 18, 36]))
    sizes = rng.integers(1, 6, int(rng.integers(3, 6))).tolist()
    layers, nodes = [], [Node((sizes[0],))]
    for k in range(1, len(sizes)):
        shape = (sizes[k], sizes[k - 1])
        scale = 10.0 ** rng.uniform(-span, span, (shape[0], 1 if rng.random() < 0.5 else shape[1]))
        W = (rng.normal(size=shape) * scale).clip(-1e37, 1e37)
        W = np.round(W) if rng.random() < 0.3 else W
        b = (rng.normal(size=shape[0]) * 10.0 ** rng.uniform(-span, span)).clip(-1e37, 1e37)
        name = "relu" if k < len(sizes) - 1 else "none"
        layers.append(Layer(((k - 1, W),), b, name))
        edge = Edge(k - 1, Dense.of(torch.tensor(W), torch.tensor(b)))
        nodes.append(Node((shape[0],), (edge,), ACTIVATIONS[name]))
    radius = float(10.0 ** rng.uniform(-min(span, 20), min(span, 20)))
    center = rng.normal(size=sizes[0]) * radius * float(rng.choice([0, 1, 1e3]))
    region = Region(center, radius, np.inf)
    A = rng.normal(size=(int(rng.integers(1, 3)), sizes[-1]))
    case = Small(layers, Network(tuple(nodes)), region, [(A, np.zeros(len(A)))], "wild")
    close = Close(case, distance)
    tried = center + radius * rng.choice([-1, 1, 0, 0.5, -0.3], (200, sizes[0]))
    tried = np.clip(tried, region.lower, region.upper)
    values = margin(layers, A, np.zeros(len(A)), tried)
    close.__dict__["lowest"] = [tried[np.where(np.isfinite(values), values, np.inf).argmin()]]
    return close


def fault(close: Close, outcome: Outcome) -> str:
    """What is wrong with an outcome; empty if nothing is."""
    for bounds, highest in zip(outcome.clauses, close.margins, strict=True):
        if np.isnan(bounds.lower):
            return f"clause {bounds.clause} has a bound that is no number"
        if np.isfinite(bounds.lower) and _number(bounds.lower, highest) > highest:
            return (
                f"clause {bounds.clause} >= {bounds.lower!r}, but is {float(highest)!r} at a point"
            )
    if outcome.verdict is Verdict.HOLDS and min(close.margins) <= 0:
        return f"holds, but is {float(min(close.margins))!r} at a point"
    if outcome.verdict is Verdict.VIOLATED:
        return _false_witness(close, outcome)
    return ""


def _false_witness(close: Close, outcome: Outcome) -> str:
    witness = outcome.witness
    if witness is None:
        return "violated, without a witness"
    clause = close.prop.clauses[witness.clause]
    if not _is_inside(close.case.region, witness.input):
        return f"the witness {witness.input} is outside"
    if not np.array_equal(witness.output, _replayed(close.case, witness.input)):
        return "the witness has the output of another input"
    if not clause.outputs.contains(witness.output):
        return "the witness's output is safe"
    value = exact_margin(close.case.layers, clause.outputs, witness.input)
    if close.case.kind == "wild":  # how far float64 is from the reals there, nobody knows
        return ""
    rounding = 1e-13 * (1 + float(np.abs(witness.output).max()))
    return "" if float(value) <= rounding else f"the witness is worth {float(value)!r}"


def _replayed(case: Small, x: Array) -> Array:
    from anybound.deciding import NormalForm

    return NormalForm(case.network)(x)


def _is_inside(region: Region, x: Array) -> bool:
    """In exact arithmetic; for a box between its borders as floating-point numbers."""
    if region.norm == np.inf:
        return bool(((region.lower <= x) & (x <= region.upper)).all())
    steps = [
        abs(Fraction(float(a)) - Fraction(float(c))) for a, c in zip(x, region.center, strict=True)
    ]
    order = int(region.norm)
    return sum(step**order for step in steps) <= Fraction(region.radius) ** order


# --- exact values ---


def exact_margin(layers: list[Layer], outputs: HalfSpaces, x: Array) -> Number:
    """max_m (a_mᵀ f(x) − b_m)."""
    smooth = any(layer.activation in ("sigmoid", "tanh") for layer in layers)
    make: Callable[[float], Number] = Decimal if smooth else Fraction
    with localcontext(_DIGITS):
        z: list[list[Number]] = [[make(float(v)) for v in x]]
        for layer in layers:
            z.append(_layer(layer, z, make))
        return max(
            _dot(row, z[-1], make) - make(float(b))
            for row, b in zip(outputs.matrix, outputs.offset, strict=True)
        )


def _layer(layer: Layer, z: list[list[Number]], make: Callable[[float], Number]) -> list[Number]:
    out = []
    for i, bias in enumerate(layer.bias):
        terms = [_dot(W[i], z[j], make) for j, W in layer.edges]
        out.append(_sigma(layer.activation, sum(terms, make(float(bias)))))
    return out


def _dot(row: Array, z: list[Number], make: Callable[[float], Number]) -> Number:
    return sum((make(float(w)) * v for w, v in zip(row, z, strict=True)), make(0.0))


def _sigma(name: str, x: Number) -> Number:
    if name == "relu":
        return max(x, x * 0)
    if name == "none":
        return x
    assert isinstance(x, Decimal)
    if name == "sigmoid":
        return 1 / (1 + (-x).exp())
    double = (-2 * x).exp()
    return (1 - double) / (1 + double)


def _number(value: float, like: Number) -> Number:
    return type(like)(float(value))


# --- the lowest point ---


def lowest_point(case: Small, A: Array, b: Array, start: Array) -> Array:
    """A point of the region, at most as high as `start`."""
    found = [start, _by_programs(case, A, b, start)]
    if all(layer.activation in ("relu", "none") for layer in case.layers) and case.region.norm != 2:
        found += _on_its_piece(case, A, b, start)
    inside = [case.region.inside(x) for x in found]
    return min(inside, key=lambda x: float(margin(case.layers, A, b, x)))


def _by_programs(case: Small, A: Array, b: Array, start: Array) -> Array:
    """Sequential quadratic programming for min t, t >= every row, in the region."""
    region, n = case.region, len(start)

    def rows(v: Array) -> Array:
        return np.asarray(v[n] - (forward(case.layers, v[:n]) @ A.T - b))

    limits = [*zip(region.lower, region.upper, strict=True), (None, None)]
    constraints = [{"type": "ineq", "fun": rows}]
    if region.norm == 2:
        inside = {
            "type": "ineq",
            "fun": lambda v: region.radius**2 - ((v[:n] - region.center) ** 2).sum(),
        }
        constraints.append(inside)
    if region.norm == 1:
        return start
    first = np.append(start, margin(case.layers, A, b, start))
    with np.errstate(all="ignore"):
        found = minimize(
            lambda v: v[n], first, bounds=limits, constraints=constraints, method="SLSQP",
            options={"ftol": 1e-15, "maxiter": 50},
        )  # fmt: skip
    x = found.x[:n]
    return x if np.isfinite(x).all() else start


def _on_its_piece(case: Small, A: Array, b: Array, start: Array) -> list[Array]:
    """The vertex of the linear piece around a point that is lowest there, by a linear program, and that vertex again
    from the equations of its faces."""
    signs, rows = _linear_forms(case.layers, start)
    goal, offset = A @ rows[0], A @ rows[1] - b
    n, m, region = len(start), len(offset), case.region
    ball = _faces(region)
    left = np.concatenate(
        [
            np.hstack([goal, -np.ones((m, 1))]),
            *(np.hstack([W, np.zeros((len(W), 1))]) for W, _ in (signs, ball)),
        ]
    )
    right = np.concatenate([-offset, signs[1], ball[1]])
    solved = linprog(
        np.append(np.zeros(n), 1.0), left, right, bounds=[(None, None)] * (n + 1), method="highs"
    )
    if solved.status != 0:
        return []
    active = np.abs(right - left @ solved.x) < _NEAR
    if np.linalg.matrix_rank(left[active]) < n + 1:
        return [solved.x[:n]]
    vertex = np.linalg.lstsq(left[active], right[active], rcond=None)[0]
    return [solved.x[:n], vertex[:n]]


def _linear_forms(layers: list[Layer], x: Array) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
    """The inequalities W x <= c of the linear piece around x, and the outputs as (W, c) of W x + c."""
    forms = [(np.eye(len(x)), np.zeros(len(x)))]
    normals, limits = [np.zeros((0, len(x)))], [np.zeros(0)]
    for layer in layers:
        W = sum((own @ forms[j][0] for j, own in layer.edges), np.zeros((len(layer.bias), len(x))))
        c = sum((own @ forms[j][1] for j, own in layer.edges), layer.bias)
        if layer.activation == "relu":
            on = (W @ x + c >= 0).astype(float)
            normals.append((1 - 2 * on)[:, None] * W)
            limits.append((2 * on - 1) * c)
            W, c = on[:, None] * W, on * c
        forms.append((W, c))
    return (np.concatenate(normals), np.concatenate(limits)), forms[-1]


def _faces(region: Region) -> tuple[Array, Array]:
    """A box or an l1 ball as W x <= c."""
    n = len(region.center)
    if region.norm == np.inf:
        W = np.concatenate([np.eye(n), -np.eye(n)])
        return W, np.concatenate([region.upper, -region.lower])
    W = np.array(np.meshgrid(*[[-1.0, 1.0]] * n)).reshape(n, -1).T
    return W, W @ region.center + region.radius


assert set(SIGMA) == {"relu", "sigmoid", "tanh", "none"}
