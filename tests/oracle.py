"""The exact answer for small networks, by numpy and scipy alone: nothing of the project takes part.

    minimum of  max_m (a_mᵀ f(x) − b_m)  over x in a region         (positive: the conjunction is unreachable)

ReLU networks: a mixed-integer program (a binary per ambiguous neuron, big-M from intervals), solved by
HiGHS. An l1 ball is a polyhedron; an l2 ball is approached by tangent planes at the last solutions until the
bounds meet. Sigmoid and tanh: branch and bound over boxes of inputs with intervals, by the mean value form.

Both return an interval [lower, upper] that holds the minimum, and the point where `upper` is taken.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import Bounds as Limits
from scipy.optimize import LinearConstraint, milp

Array = NDArray[np.float64]
TOLERANCE = 2e-6  # of HiGHS, on networks whose weights and values are around 1


@dataclass(frozen=True, eq=False)
class Layer:
    """ẑ = Σ_j W_j z_j + b over `edges` (j, W_j), z = σ(ẑ); layer 0 is the input."""

    edges: tuple[tuple[int, Array], ...]
    bias: Array
    activation: str  # relu, sigmoid, tanh, or none for the output


@dataclass(frozen=True, eq=False)
class Region:
    """A box (norm inf) or a ball of norm 1 or 2."""

    center: Array
    radius: float
    norm: float

    @property
    def lower(self) -> Array:
        return self.center - self.radius

    @property
    def upper(self) -> Array:
        return self.center + self.radius

    def distance(self, x: Array) -> Array:
        """Of points `[..., n]` from the centre."""
        return np.linalg.norm(x - self.center, self.norm, axis=-1)

    def inside(self, x: Array) -> Array:
        """A point of the region near x: x, or on the way to the centre."""
        if self.norm == np.inf:
            return np.clip(x, self.lower, self.upper)
        far = max(float(self.distance(x)), 1e-300)
        return self.center + (x - self.center) * min(1.0, self.radius / far * (1 - 1e-12))


class Exact(NamedTuple):
    """lower <= minimum <= upper, and a point of the region with that value."""

    lower: float
    upper: float
    point: Array


SIGMA = {
    "relu": lambda x: np.maximum(x, 0),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "tanh": np.tanh,
    "none": lambda x: x,
}


def forward(layers: list[Layer], x: Array) -> Array:
    """Outputs `[..., n_out]` of inputs `[..., n]`."""
    z = [x]
    for layer in layers:
        zhat = layer.bias + sum(z[j] @ W.T for j, W in layer.edges)
        z.append(SIGMA[layer.activation](zhat))
    return z[-1]


def margin(layers: list[Layer], A: Array, b: Array, x: Array) -> Array:
    """max_m (a_mᵀ f(x) − b_m)."""
    return (forward(layers, x) @ A.T - b).max(-1)


def minimum(layers: list[Layer], region: Region, A: Array, b: Array, boxes: int = 4000) -> Exact:
    """The least margin."""
    if any(layer.activation in ("sigmoid", "tanh") for layer in layers):
        return smooth_minimum(layers, region, A, b, boxes)
    return relu_minimum(layers, region, A, b)


# --- ReLU: mixed-integer programming ---


class _Program:
    """Rows low <= Σ values·x[columns] <= high, and limits of the variables."""

    def __init__(self) -> None:
        self.lower: list[float] = []
        self.upper: list[float] = []
        self.integer: list[int] = []
        self.rows: list[tuple[Array, Array]] = []
        self.low: list[float] = []
        self.high: list[float] = []

    def variables(self, lower: Array, upper: Array, integer: int = 0) -> NDArray[np.int64]:
        first = len(self.lower)
        self.lower += list(lower)
        self.upper += list(upper)
        self.integer += [integer] * len(lower)
        return np.arange(first, first + len(lower))

    def row(self, columns: Array, values: Array, low: float, high: float) -> None:
        self.rows.append((np.asarray(columns), np.asarray(values, float)))
        self.low.append(low)
        self.high.append(high)

    def minimise(self, column: int) -> Array:
        matrix = np.zeros((len(self.rows), len(self.lower)))
        for i, (columns, values) in enumerate(self.rows):
            np.add.at(matrix[i], columns, values)
        cost = np.zeros(len(self.lower))
        cost[column] = 1
        result = milp(
            cost,
            integrality=np.array(self.integer),
            bounds=Limits(np.array(self.lower), np.array(self.upper)),
            constraints=LinearConstraint(matrix, np.array(self.low), np.array(self.high)),
            options={"mip_rel_gap": 0.0},
        )
        assert result.status == 0, result.message
        return np.asarray(result.x)


def relu_minimum(layers: list[Layer], region: Region, A: Array, b: Array) -> Exact:
    program = _Program()
    x = program.variables(region.lower, region.upper)
    if region.norm == 1:
        away = program.variables(np.zeros(len(x)), np.full(len(x), region.radius))
        for i, (xi, ti) in enumerate(zip(x, away, strict=True)):
            program.row([ti, xi], [1, -1], -region.center[i], np.inf)
            program.row([ti, xi], [1, 1], region.center[i], np.inf)
        program.row(away, np.ones(len(x)), -np.inf, region.radius)
    columns, lows, highs = [x], [region.lower], [region.upper]
    for layer in layers:
        low, high = _image(layer, lows, highs)
        zhat = program.variables(low, high)
        for i, out in enumerate(zhat):
            parts = [(columns[j], W[i]) for j, W in layer.edges]
            program.row(
                np.concatenate([[out], *(c for c, _ in parts)]),
                np.concatenate([[1.0], *(-w for _, w in parts)]),
                layer.bias[i],
                layer.bias[i],
            )
        columns.append(zhat if layer.activation == "none" else _relu(program, zhat, low, high))
        lows.append(SIGMA[layer.activation](low))
        highs.append(SIGMA[layer.activation](high))
    t = int(program.variables(np.array([-np.inf]), np.array([np.inf]))[0])
    for a, offset in zip(A, b, strict=True):
        program.row(np.append(columns[-1], t), np.append(a, -1.0), -np.inf, offset)
    return _solve(program, layers, region, (A, b), x, t)


def _relu(program: _Program, zhat: Array, low: Array, high: Array) -> NDArray[np.int64]:
    """z = max(ẑ, 0)."""
    z = program.variables(np.maximum(low, 0), np.maximum(high, 0))
    for i, (l, u) in enumerate(zip(low, high, strict=True)):
        if l >= 0:
            program.row([z[i], zhat[i]], [1, -1], 0, 0)
        elif u > 0:
            on = int(program.variables(np.zeros(1), np.ones(1), integer=1)[0])
            program.row([z[i], zhat[i]], [1, -1], 0, np.inf)
            program.row([z[i], zhat[i], on], [1, -1, -l], -np.inf, -l)
            program.row([z[i], on], [1, -u], -np.inf, 0)
    return z


def _solve(
    program: _Program,
    layers: list[Layer],
    region: Region,
    goal: tuple[Array, Array],
    x: Array,
    t: int,
) -> Exact:
    """One program, or for the l2 ball as many as its tangent planes take to converge."""
    lower, upper, best = -np.inf, np.inf, region.center
    for _ in range(60):
        found = program.minimise(t)
        lower = max(lower, float(found[t]) - TOLERANCE)
        point = region.inside(found[x])
        value = float(margin(layers, *goal, point))
        if value < upper:
            upper, best = value, point
        outside = found[x] - region.center
        far = np.linalg.norm(outside)
        if region.norm != 2 or far <= region.radius * (1 + 1e-9) or upper - lower <= 2e-4:
            break
        normal = outside / far  # the tangent plane at the point of the sphere that is closest
        program.row(x, normal, -np.inf, float(normal @ region.center) + region.radius)
    assert lower <= upper + TOLERANCE, (lower, upper)
    return Exact(min(lower, upper), upper, best)


def _image(layer: Layer, lows: list[Array], highs: list[Array]) -> tuple[Array, Array]:
    """ẑ for inputs in intervals `[..., n]`, a little widened."""
    middle, reach = layer.bias, np.zeros(len(layer.bias))
    for j, W in layer.edges:
        middle = middle + (lows[j] + highs[j]) / 2 @ W.T
        reach = reach + (highs[j] - lows[j]) / 2 @ np.abs(W).T
    return middle - reach - 1e-9, middle + reach + 1e-9


# --- sigmoid and tanh: branch and bound over the inputs ---


def smooth_minimum(layers: list[Layer], region: Region, A: Array, b: Array, boxes: int) -> Exact:
    """Boxes are halved along their widest side, all those in play at once; `boxes` is when to stop."""
    low, high = region.lower[None].copy(), region.upper[None].copy()
    best = region.center
    upper = float(margin(layers, A, b, best))
    while True:
        middles = (low + high) / 2
        points = middles[region.distance(middles) <= region.radius]
        if len(points):
            values = margin(layers, A, b, points)
            if values.min() < upper:
                upper, best = float(values.min()), points[values.argmin()]
        bound = _box_bounds(layers, low, high, A, b)
        open_ = bound < upper - 1e-9
        if not open_.any() or open_.sum() > boxes or (high - low).max() < 1e-7:
            return Exact(min(float(bound.min(initial=upper)), upper), upper, best)
        # what was dropped has bounds of at least upper − 1e-9
        low, high = low[open_], high[open_]
        axis, at = (high - low).argmax(1), np.arange(len(low))
        cut = (low[at, axis] + high[at, axis]) / 2
        left, right = high.copy(), low.copy()
        left[at, axis], right[at, axis] = cut, cut
        low, high = np.concatenate([low, right]), np.concatenate([left, high])
        keep = region.distance(np.clip(region.center, low, high)) <= region.radius * (1 + 1e-12)
        low, high = low[keep], high[keep]


def _box_bounds(layers: list[Layer], low: Array, high: Array, A: Array, b: Array) -> Array:
    """Lower bounds `[B]` of the margin: the larger of the interval and of the mean value form."""
    lows, highs, slopes = [low], [high], []
    for layer in layers:
        l, u = _image(layer, lows, highs)
        slopes.append(_slope_range(layer.activation, l, u))
        lows.append(SIGMA[layer.activation](l) - 1e-12)
        highs.append(SIGMA[layer.activation](u) + 1e-12)
    plain = (lows[-1] @ np.maximum(A, 0).T + highs[-1] @ np.minimum(A, 0).T) - b
    middle, reach = (low + high) / 2, (high - low) / 2
    at_middle = forward(layers, middle) @ A.T - b
    for m in range(len(A)):
        g_low, g_high = _gradient_range(layers, slopes, A[m], len(low))
        steepest = np.maximum(np.abs(g_low), np.abs(g_high))
        plain[:, m] = np.maximum(plain[:, m], at_middle[:, m] - (steepest * reach).sum(1))
    return plain.max(1) - 1e-9


def _slope_range(name: str, l: Array, u: Array) -> tuple[Array, Array]:
    """The least and the largest σ' on [l, u]."""
    if name == "none":
        return np.ones_like(l), np.ones_like(u)
    if name == "relu":
        return (l > 0).astype(float), (u > 0).astype(float)

    def slope(x: Array) -> Array:
        s = SIGMA[name](x)
        return s * (1 - s) if name == "sigmoid" else 1 - s * s

    far, near = np.maximum(np.abs(l), np.abs(u)), np.clip(0.0, l, u)
    return slope(far) - 1e-12, slope(near) + 1e-12


def _gradient_range(
    layers: list[Layer], slopes: list[tuple[Array, Array]], a: Array, count: int
) -> tuple[Array, Array]:
    """The derivative of aᵀ f by the input lies in these, `[B, n]`."""
    sizes = [None] * (len(layers) + 1)
    low: list[Array | None] = list(sizes)
    high: list[Array | None] = list(sizes)
    low[-1], high[-1] = np.tile(a, (count, 1)), np.tile(a, (count, 1))
    for k in range(len(layers), 0, -1):
        if low[k] is None:
            continue
        s_low, s_high = slopes[k - 1]
        corners = [g * s for g, s in itertools.product((low[k], high[k]), (s_low, s_high))]
        g_low, g_high = np.minimum.reduce(corners), np.maximum.reduce(corners)
        for j, W in layers[k - 1].edges:
            up, down = np.maximum(W, 0), np.minimum(W, 0)
            add_low, add_high = g_low @ up + g_high @ down, g_high @ up + g_low @ down
            low[j] = add_low if low[j] is None else low[j] + add_low
            high[j] = add_high if high[j] is None else high[j] + add_high
    assert low[0] is not None
    assert high[0] is not None
    return low[0] - 1e-9, high[0] + 1e-9
