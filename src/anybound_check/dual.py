"""The one inequality: a lower bound of a linear function of the network from any multipliers nu.

Over all inputs of a box, with l_v <= t_v <= u_v at every node and any numbers nu_v,

    start.t  =  start.t + sum_v nu_v.(what t_v is computed from - t_v)
            >=  min over the box of h_0.t_0  +  sum over linear v of nu_v.b_v
                +  sum over activations of  min over x in [l, u] of (h sigma(x) - nu x)

where h_v = start_v + sum of W^T nu over the readers of v, and a linear node that no activation
reads takes nu_v = h_v. At a pre-activation, nu = s h - beta: slopes s and shifts beta are proposals
by the certificate, or by `_slope`; whatever float comes out of them is the nu of the inequality.

Rounding: every computed h_v is within gamma |W|^T |nu| of the exact one, which moves t_v's share by
at most as much times max |t_v|. Summed over v, that is |nu_k|.price_k, price_k = gamma |W_k| max|t|:
computed once for all problems. All other errors are within gamma times the sizes added to `loss`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from anybound_check.arithmetic import (  # fmt: skip
    HUGE,
    S_ERROR,
    TINY,
    UNIT,
    UNIT32,
    Array,
    Index,
    Invalid,
    down,
    gamma,
    s_shaped,
    up,
)
from anybound_check.network import Network

Flags = NDArray[np.bool_]
NONE = np.zeros(0, np.int64)


class Hints(NamedTuple):
    """Proposals for R problems. Neurons are numbered through all activations.

    Problem j splits neuron `split[i]` where `owner[i]` = j, to x >= 0 (`sign[i]` = 1) or x <= 0."""

    columns: Index = NONE  # [A]: neurons with slopes
    slopes: Array = np.zeros((0, 1))  # [A, R] or [A, 1]
    split: Index = NONE
    owner: Index = NONE
    sign: Index = NONE
    beta: Array = np.zeros(0)


@dataclass(eq=False)
class Region:
    """Intervals [size, B] of every node's values over B input boxes, by default for all of them."""

    network: Network
    lower: list[Array]
    upper: list[Array]
    price: list[Array | None]
    single: bool  # the network executed in float32, not over the reals

    @classmethod
    def over(cls, network: Network, lower: Array, upper: Array, single: bool = False) -> Region:
        """The boxes [n, B]."""
        count, nodes = lower.shape[1], network.nodes
        low = [np.full((node.size, count), -np.inf) for node in nodes]
        high = [np.full((node.size, count), np.inf) for node in nodes]
        low[0], high[0] = lower, upper
        region = cls(network, low, high, [None] * len(nodes), single)
        region.propagate(1)
        return region

    def copy(self) -> Region:
        return Region(self.network, self.lower[:], self.upper[:], self.price[:], self.single)

    @property
    def empty(self) -> Flags:
        """[B]: whether some interval is empty: then the box holds no input in question."""
        crossed = [(l > u).any(0) for l, u in zip(self.lower, self.upper, strict=True)]
        return np.asarray(np.any(np.stack(crossed), axis=0))

    def propagate(self, first: int) -> None:
        """Interval arithmetic from node `first` on; intervals only shrink."""
        for v in range(first, len(self.network.nodes)):
            node = self.network.nodes[v]
            l, u = self._activated(v) if node.activation else self._affine(v)
            self.lower[v], self.upper[v] = (
                np.maximum(self.lower[v], l),
                np.minimum(self.upper[v], u),
            )
            if not (self.magnitude(v) <= HUGE).all():
                raise Invalid("the network's values are too large, or not numbers")

    def magnitude(self, v: int) -> Array:
        return np.maximum(np.abs(self.lower[v]), np.abs(self.upper[v]))

    def _affine(self, v: int) -> tuple[Array, Array]:
        """W c + b -+ |W| r for centers c and radii r; the price of the node on the way."""
        node, g = self.network.nodes[v], self.network.gamma
        if node.exact:
            (source, op), = node.edges  # fmt: skip
            return op.forward(self.lower[source]), op.forward(self.upper[source])
        bias = np.zeros((node.size, 1)) if node.bias is None else node.bias
        value, radius, size = bias, np.zeros((node.size, 1)), np.abs(bias)
        for source, op in node.edges:
            l, u = self.lower[source], self.upper[source]
            center = l / 2 + u / 2
            reach = up(np.maximum(u - center, center - l))  # a difference is one rounding wrong
            value = value + op.forward(center)
            radius = radius + op.forward(np.maximum(reach, 0.0), absolute=True)
            size = size + op.forward(self.magnitude(source), absolute=True)
        # |computed - exact| <= gamma (|W| |c| + |b|) <= 2 gamma size, as |c| <= max|t|.
        extra = 4 * g * size + 4 * g * radius + TINY
        if self.single:  # t_v in float32: gamma32 (|W| |t| + |b|), plus subnormal products
            extra = extra + 1.01 * gamma(node.fan, UNIT32) * size + node.fan * 2.0**-125
        self.price[v] = extra
        return down(value - (radius + extra)), up(value + (radius + extra))

    def _activated(self, v: int) -> tuple[Array, Array]:
        node = self.network.nodes[v]
        l, u = (side[node.edges[0][0]] for side in (self.lower, self.upper))
        if node.activation == "relu":
            return np.maximum(l, 0.0), np.maximum(u, 0.0)
        low, high = s_shaped(node.activation, l)[0], s_shaped(node.activation, u)[0]
        return low - 2 * S_ERROR, high + 2 * S_ERROR

    def divided(self, count: int, owner: Index, index: Index, sign: Index, at: Array) -> Region:
        """`count` copies of the only box, with neurons or inputs split as `tree` describes it."""
        lower, upper = ([np.repeat(x, count, 1) for x in side] for side in (self.lower, self.upper))
        first = 0
        for v, stop in zip([*self.network.pre, 0], [*self.network.offsets[1:], 2**62], strict=True):
            mine = (index >= first) & (index < stop)
            row, column, side, place = (x[mine] for x in (index, owner, sign, at))
            _cut(lower[v], upper[v], row - first, column, side, place)
            first = stop if v else first
        region = Region(self.network, lower, upper, self.price[:], self.single)
        region.propagate(1)
        return region

    def improve(self, v: int, neuron: Index, sign: Array, which: Index, value: Array) -> None:
        """sign times the neuron is at least `value`, in the boxes `which`."""
        self.lower[v], self.upper[v] = self.lower[v].copy(), self.upper[v].copy()
        low, high = sign > 0, sign < 0
        np.maximum.at(self.lower[v], (neuron[low], which[low]), value[low])
        np.minimum.at(self.upper[v], (neuron[high], which[high]), -value[high])

    def bound(
        self, start: dict[int, Array], value: Array, loss: Array, hints: Hints, which: Index
    ) -> Array:
        """Lower bounds [R] of start.t + value, start [size_v, R] by node and [R] within `loss` of
        what is meant; infinity where a split leaves nothing. Problem j is over box `which[j]`."""
        sweep = _Sweep(self, hints, None if self.lower[0].shape[1] == 1 else which, value, loss)
        h = dict(start)
        for v in range(max(h), 0, -1):
            if v not in h:
                continue
            node, arrived = self.network.nodes[v], h.pop(v)
            nu = sweep.activation(v, arrived) if node.activation else sweep.linear(v, arrived)
            for source, op in node.edges:
                share = op.adjoint(nu)
                if source in h:
                    share = h[source] + share
                    sweep.added(source, share)
                h[source] = share
        if 0 in h:
            sweep.input(h[0])
        lower = down(sweep.value - 1.001 * sweep.loss - 2 * TINY)
        return np.where(sweep.void, np.inf, np.where(np.isfinite(lower), lower, -np.inf))


class _Sweep:
    """The sums of one backward pass: the value, and at least the errors in it."""

    def __init__(
        self, region: Region, hints: Hints, at: Index | None, value: Array, loss: Array
    ) -> None:
        self.region, self.hints, self.at = region, hints, at
        self.value, self.loss = value.copy(), loss.copy()
        self.void = np.zeros(len(value), bool)

    def columns(self, x: Array) -> Array:
        """[n, B] -> [n, 1] or [n, R]."""
        return x if self.at is None or x.shape[1] == 1 else x[:, self.at]

    def linear(self, v: int, h: Array) -> Array:
        node, price = self.region.network.nodes[v], self.region.price[v]
        if node.bias is not None:
            self.value += node.bias[:, 0] @ h
        if price is not None:  # the bias is part of it, 4 gamma |b|
            self.loss += _dot(self.columns(price), np.abs(h))
        return h

    def added(self, v: int, total: Array) -> None:
        """A sum of two shares is half a unit in the last place wrong."""
        self.loss += 2 * UNIT * _dot(self.columns(self.region.magnitude(v)), np.abs(total))

    def input(self, h: Array) -> None:
        l, u = self.columns(self.region.lower[0]), self.columns(self.region.upper[0])
        center = l / 2 + u / 2
        reach = up(np.maximum(u - center, center - l))
        size = np.abs(h)
        self.value += _dot(center, h) - _dot(reach, size)
        self.loss += 4 * self.region.network.gamma * _dot(np.abs(center) + reach, size)

    def activation(self, v: int, h: Array) -> Array:
        """nu of the pre-activation; the neurons' minima."""
        region, node = self.region, self.region.network.nodes[v]
        pre = node.edges[0][0]
        low, high = region.lower[pre], region.upper[pre]
        k = region.network.pre.index(pre)
        first, last = region.network.offsets[k : k + 2]
        mine = (self.hints.split >= first) & (self.hints.split < last)
        split, owner, sign, beta = (
            x[mine] for x in (self.hints.split, self.hints.owner, self.hints.sign, self.hints.beta)
        )
        # Elsewhere a ReLU is affine: nu = h or 0, and the minimum of h relu(x) - nu x is 0 exactly.
        bent = np.asarray(((low < 0) & (high > 0)).any(axis=1) | (node.activation != "relu"))
        bent[split - first] = True
        live = np.flatnonzero(bent)
        place = np.cumsum(bent) - 1
        nu = h * self.columns((low >= 0).astype(float))
        l, u, own = self.columns(low[live]), self.columns(high[live]), h[live]
        if len(split):
            l, u = (np.broadcast_to(x, own.shape).copy() for x in (l, u))
            _cut(l, u, place[split - first], owner, sign, np.zeros(len(sign)))
        slope = _slope(node.activation, own, l, u)
        listed = np.flatnonzero((self.hints.columns >= first) & (self.hints.columns < last))
        listed = listed[bent[self.hints.columns[listed] - first]]
        rows = place[self.hints.columns[listed] - first]
        usable = (l[rows] < 0) & (u[rows] > 0) & (own[rows] >= 0) | (node.activation != "relu")
        slope[rows] = np.where(usable, self.hints.slopes[listed], slope[rows])
        proposed = slope * own
        np.subtract.at(proposed, (place[split - first], owner), sign * beta)
        nu[live] = proposed
        size = (np.abs(proposed) + np.abs(own)) * np.maximum(np.abs(l), np.abs(u))
        if node.activation == "relu":
            minimum = relu_minimum(-proposed, own, l, u)
        else:
            minimum = s_minimum(node.activation, -proposed, own, l, u)
            size = size + np.abs(own) + np.abs(minimum)
        self.void |= (l > u).any(0)
        self.value += minimum.sum(0)
        self.loss += 8 * region.network.gamma * size.sum(0)
        return nu


def relu_minimum(c: Array, h: Array, l: Array, u: Array) -> Array:
    """min over x in [l, u] of c x + h max(x, 0): at an end or at 0."""
    ends = np.minimum(c * l + h * np.maximum(l, 0.0), c * u + h * np.maximum(u, 0.0))
    return np.where((l < 0) & (u > 0), np.minimum(ends, 0.0), ends)


def s_minimum(kind: str, c: Array, h: Array, l: Array, u: Array) -> Array:
    """At most min over x in [l, u] of c x + h sigma(x) for a sigma that is convex below 0 and
    concave above it, up to errors of size gamma (|c x| + |h|).

    Where h < 0, take x -> -x: tanh(-x) = -tanh(x), sigmoid(-x) = 1 - sigmoid(x). For h >= 0, what
    lies above 0 is smallest at its ends; below 0 every tangent, at p, is a lower bound:
    f(x) >= f(p) + f'(p) (x - p), which is smallest at the ends."""
    offset = np.where((h < 0) & (kind == "sigmoid"), h, 0.0)
    c, h, l, u = _reflected(c, h, l, u)
    a, b = np.minimum(l, 0.0), np.minimum(u, 0.0)
    p = np.clip(_stationary(kind, c, h), a, b)
    y, slope = s_shaped(kind, p)
    tilt = c + h * slope
    below = c * p + h * y + np.minimum(tilt * (a - p), tilt * (b - p))
    below -= h * S_ERROR * (2 + 5 * (b - a))
    ends = [c * x + h * s_shaped(kind, x)[0] for x in (np.maximum(l, 0.0), np.maximum(u, 0.0))]
    above = np.minimum(*ends) - 2 * h * S_ERROR
    value = np.where(l >= 0, above, np.where(u <= 0, below, np.minimum(below, above)))
    return value + offset


def _reflected(c: Array, h: Array, l: Array, u: Array) -> tuple[Array, Array, Array, Array]:
    negative = h < 0
    return (
        np.where(negative, -c, c),
        np.abs(h),
        np.where(negative, -u, l),
        np.where(negative, -l, u),
    )


def _stationary(kind: str, c: Array, h: Array) -> Array:
    """About where h sigma'(x) = -c below 0; any number will do."""
    with np.errstate(all="ignore"):
        y = np.clip(-c / h * (4.0 if kind == "sigmoid" else 1.0), 0.0, 1.0)
        x = np.arctanh(-np.sqrt(1.0 - y)) * (2.0 if kind == "sigmoid" else 1.0)
    return np.nan_to_num(x, nan=0.0, neginf=-HUGE)


def _slope(kind: str, h: Array, l: Array, u: Array) -> Array:
    """A slope for each neuron where the certificate has none: CROWN's."""
    with np.errstate(all="ignore"):
        if kind == "relu":
            upper = np.where(u <= 0, 0.0, np.where(l >= 0, 1.0, u / (u - l)))
            return np.where((h >= 0) & (l < 0) & (u > 0), np.where(u > -l, 1.0, 0.0), upper)
        return np.where(h >= 0, _below(kind, l, u), _below(kind, -u, -l))


def _below(kind: str, a: Array, b: Array) -> Array:
    """The slope of a line below sigma on [a, b]: the chord, or the tangent through (b, sigma(b))
    that touches left of 0, by bisection, or one in the middle."""
    (ya, da), (yb, _) = s_shaped(kind, a), s_shaped(kind, b)
    chord = np.where(b > a, (yb - ya) / (b - a), da)
    left, right = a, np.minimum(b, 0.0)
    for _ in range(20):
        middle = (left + right) / 2
        y, slope = s_shaped(kind, middle)
        flat = y + slope * (b - middle) < yb
        left, right = np.where(flat, middle, left), np.where(flat, right, middle)
    tangent = s_shaped(kind, np.where(b <= 0, (a + b) / 2, left))[1]
    return np.where((a >= 0) | ((chord <= da) & (b > 0)), chord, tangent)


def _cut(l: Array, u: Array, row: Index, column: Index, sign: Index, at: Array) -> None:
    """Intervals cut in place, to x >= at where the sign is positive, else to x <= at."""
    for side, keep, here in ((l, np.maximum, sign > 0), (u, np.minimum, sign < 0)):
        keep.at(side, (row[here], column[here]), at[here])


def _dot(a: Array, b: Array) -> Array:
    """The columns' scalar products, [n, 1 or R] and [n, R] -> [R]."""
    result: Array = a[:, 0] @ b if a.shape[1] == 1 else (a * b).sum(0)
    return result
