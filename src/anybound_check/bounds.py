"""The one inequality: a lower bound of a linear function of the network from any multipliers nu.

Over all inputs of a box, with l_v <= x_v <= u_v at every node and any numbers nu_v,

    g.t  =  g.t + sum_v nu_v.(what x_v is computed from - x_v)
         >=  min over the box of h_0.t_0  +  sum_v nu_v.b_v
             +  sum over neurons with an activation of  min over x in [l, u] of (h sigma(x) - nu x)

where h_v = g_v + sum of W^T nu over the readers of v, and nu_v = h_v without an activation. If
a.x_k is to be bounded as well, nu_k grows by a behind these minima. At an activation, nu = s h - beta:
slopes s and shifts beta are proposals by the certificate, or by `_slope`; whatever float comes out of
them is the nu of the inequality.

Rounding: every computed h_v is within gamma |W|^T |nu| of the exact one, which moves t_v's share by
at most as much times max |t_v|. Summed over v, that is |nu_k|.price_k, price_k = gamma |W_k| max|t|:
computed once for all problems. All other errors are within gamma times the sizes added to `loss`.
"""

from __future__ import annotations

from copy import copy
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from anybound_check.arithmetic import HUGE, TINY, UNIT32, Array, Index, Invalid, down, gamma, up
from anybound_check.curves import S_ERROR, s_minimum, s_shaped, slope_below
from anybound_check.network import Network

NONE = np.zeros(0, np.int64)


class Splits(NamedTuple):
    """Of problem `owner`, to x >= at (sign 1) or x <= at (sign -1). Neurons are numbered through all
    activations, and behind them the inputs."""

    neuron: Index = NONE
    owner: Index = NONE
    sign: Array = np.zeros(0)
    at: Array = np.zeros(0)
    beta: Array = np.zeros(0)

    def within(self, first: int, last: int) -> Splits:
        """Those of the neurons first ... last - 1, counted from there."""
        mine = (self.neuron >= first) & (self.neuron < last)
        cut = (self.owner[mine], self.sign[mine], self.at[mine], self.beta[mine])
        return Splits(self.neuron[mine] - first, *cut)

    def cut(self, l: Array, u: Array, place: Index) -> None:
        """The intervals [., R], cut down in place; split neurons stand in the rows `place`."""
        for side, keep, here in ((l, np.maximum, self.sign > 0), (u, np.minimum, self.sign < 0)):
            keep.at(side, (place[here], self.owner[here]), self.at[here])


class Problems(NamedTuple):
    """R problems: minimise goal.t_output + value + aim.x_node over the box `which`."""

    which: Index
    value: Array  # [R], within `loss` of what is meant
    loss: Array
    goal: Array | None = None  # [outputs, R]
    node: int = 0
    aim: Array | None = None  # [size of the node, R]
    columns: Index = NONE  # [A]: neurons with slopes
    slopes: Array = np.zeros((0, 1))  # [A, R] or [A, 1]
    splits: Splits = Splits()


class Region:
    """Intervals [size, B] of all x_v (`lower`, `upper`) and t_v (`out`) over B input boxes."""

    def __init__(self, network: Network, lower: Array, upper: Array, single: bool) -> None:
        """Over the boxes [n, B]; `single` for the network executed in float32."""
        self.network, self.single, count = network, single, lower.shape[1]
        self.lower = [np.full((node.size, count), -np.inf) for node in network.nodes]
        self.upper = [np.full((node.size, count), np.inf) for node in network.nodes]
        self.lower[0], self.upper[0] = lower, upper
        self.out = list(zip(self.lower, self.upper, strict=True))
        self.price: list[Array | None] = [None] * len(network.nodes)
        self.terms = dict[int, Array]()  # in float32: of |W| |t| + |b|, where sums are merged
        self.propagate(0)

    def copy(self) -> Region:
        """With arrays that are shared until they are replaced."""
        twin = copy(self)
        twin.lower, twin.upper, twin.out = self.lower[:], self.upper[:], self.out[:]
        twin.price, twin.terms = self.price[:], self.terms.copy()
        return twin

    @property
    def empty(self) -> NDArray[np.bool_]:
        """[B]: whether some interval is empty: then the box holds no input in question."""
        pairs = zip(self.lower, self.upper, strict=True)
        return np.asarray(np.any([(l > u).any(0) for l, u in pairs], axis=0))

    def propagate(self, first: int) -> None:
        """Interval arithmetic from node `first` on; intervals only shrink."""
        for v in range(first, len(self.network.nodes)):
            node = self.network.nodes[v]
            if v:
                l, u = self._affine(v)
                self.lower[v], self.upper[v] = np.maximum(self.lower[v], l), np.minimum(self.upper[v], u)  # fmt: skip
            l, u = self.lower[v], self.upper[v]
            if node.activation == "relu":
                l, u = np.maximum(l, 0.0), np.maximum(u, 0.0)
            elif node.activation:
                l = s_shaped(node.activation, l)[0] - 2 * S_ERROR
                u = s_shaped(node.activation, u)[0] + 2 * S_ERROR
            self.out[v] = l, u
            if not (_size(self.lower[v], self.upper[v]) <= HUGE).all():
                raise Invalid("the network's values are too large, or not numbers")

    def _affine(self, v: int) -> tuple[Array, Array]:
        """W c + b -+ |W| r for centers c and radii r; the price of the node on the way."""
        node, g = self.network.nodes[v], self.network.gamma
        if node.exact:
            (source, op), = node.edges  # fmt: skip
            l, u = self.out[source]
            self.terms[v] = self._merged(v) + op.forward(_size(l, u))  # where they are needed
            return op.forward(l), op.forward(u)
        bias = np.zeros((node.size, 1)) if node.bias is None else node.bias
        value, radius, size = bias, np.zeros((node.size, 1)), np.abs(bias)
        for source, op in node.edges:
            center, reach = _ball(*self.out[source])
            value = value + op.forward(center)
            radius = radius + op.forward(reach, absolute=True)
            size = size + op.forward(_size(*self.out[source]), absolute=True)
        # |computed - exact| <= gamma (|W| |c| + |b|) <= 2 gamma size, as |c| <= max|t|.
        extra = 4 * g * size + 4 * g * radius + TINY
        if self.single:  # each way to sum is gamma32 terms wrong, plus subnormal products
            count, merged = self.network.merged[v], self._merged(v)
            self.terms[v] = size + merged
            extra = extra + 1.01 * gamma(count, UNIT32) * (size + 2 * merged) + count * 2.0**-125
            if not (self.terms[v] < 2.0**120).all():
                raise Invalid("a float32 sum may overflow")
        self.price[v] = extra
        return down(value - (radius + extra)), up(value + (radius + extra))

    def _merged(self, v: int) -> Array:
        """The terms of the sums that the sum for x_v may go on from, instead of from their results.

        With T the terms of x_v so merged, and T_s those of a summand, which others may read as computed
        in another order: x_v is within gamma32 T of the reals, and x_s within gamma32 T_s, so x_v is
        within gamma32 (T + T_s) of what follows from x_s."""
        total = np.zeros((self.network.nodes[v].size, 1))
        for source, op in self.network.nodes[v].edges if self.single else ():
            if self.network.is_summand(source, op):
                total = total + op.forward(self.terms[source])
        return total

    def divided(self, count: int, splits: Splits) -> Region:
        """`count` copies of the only box, with neurons and inputs split."""
        region = self.copy()
        for side in (region.lower, region.upper):
            side[:] = [np.repeat(x, count, 1) for x in side]
        for v, first in zip([*self.network.acts, 0], self.network.first, strict=True):
            own = splits.within(first, first + self.network.nodes[v].size)
            own.cut(region.lower[v], region.upper[v], own.neuron)
        region.propagate(0)
        return region

    def improve(self, v: int, neuron: Index, sign: Array, which: Index, value: Array) -> None:
        """sign times the neuron's x is at least `value`, in the boxes `which`; where that is
        infinity, the box is empty already."""
        value = np.where(value < np.inf, value, -np.inf)
        self.lower[v], self.upper[v] = self.lower[v].copy(), self.upper[v].copy()
        Splits(neuron, which, sign, sign * value).cut(self.lower[v], self.upper[v], neuron)

    def bound(self, problems: Problems) -> Array:
        """Lower bounds [R]; infinity where a split leaves nothing."""
        sweep, nodes, h = _Sweep(self, problems), self.network.nodes, dict[int, Array]()
        if problems.goal is not None:
            h[self.network.output] = problems.goal
        for v in range(max([problems.node, *h]), 0, -1):
            nu = problems.aim if v == problems.node else None
            if v in h:
                own = h.pop(v)
                own = sweep.relax(v, own) if nodes[v].activation else own
                nu = own if nu is None else sweep.sum(own, nu, self.lower[v], self.upper[v])
            if nu is None:
                continue
            sweep.pay(v, nu)
            for source, op in nodes[v].edges:
                share = op.adjoint(nu)
                h[source] = sweep.sum(h[source], share, *self.out[source]) if source in h else share
        if 0 in h:
            center, reach = (sweep.columns(x) for x in _ball(*self.out[0]))
            sweep.value += _dot(center, h[0]) - _dot(reach, np.abs(h[0]))
            sweep.loss += 4 * self.network.gamma * _dot(np.abs(center) + reach, np.abs(h[0]))
        lower = down(sweep.value - 1.001 * sweep.loss - 2 * TINY)
        return np.where(sweep.void, np.inf, np.where(np.isfinite(lower), lower, -np.inf))


class _Sweep:
    """The sums of one backward pass: the value, and at least the errors in it."""

    def __init__(self, region: Region, problems: Problems) -> None:
        self.region, self.problems = region, problems
        self.value, self.loss = problems.value.copy(), problems.loss.copy()
        self.void = np.zeros(len(self.value), bool)

    def columns(self, x: Array) -> Array:
        """[n, B] -> [n, 1] or [n, R]."""
        return x if x.shape[1] == 1 else x[:, self.problems.which]

    def pay(self, v: int, nu: Array) -> None:
        """The bias, and the price of the node, of which the bias' 4 gamma |b| are part."""
        bias, price = self.region.network.nodes[v].bias, self.region.price[v]
        self.value += 0.0 if bias is None else bias[:, 0] @ nu
        self.loss += 0.0 if price is None else _dot(self.columns(price), np.abs(nu))

    def sum(self, a: Array, b: Array, l: Array, u: Array) -> Array:
        """a + b, half a unit in the last place wrong; what they multiply lies in [l, u]."""
        total = a + b
        self.loss += gamma(2) * _dot(self.columns(_size(l, u)), np.abs(total))
        return total

    def relax(self, v: int, h: Array) -> Array:
        """nu from h; the neurons' minima."""
        network, hints, kind = self.region.network, self.problems, self.region.network.nodes[v].activation  # fmt: skip
        low, high = self.region.lower[v], self.region.upper[v]
        first = int(network.first[network.acts.index(v)])
        splits = hints.splits.within(first, first + len(h))
        # Elsewhere a ReLU is affine: nu = h or 0, and the minimum of h relu(x) - nu x is 0 exactly.
        bent = np.asarray(((low < 0) & (high > 0)).any(axis=1) | (kind != "relu"))
        bent[splits.neuron] = True
        live, place = np.flatnonzero(bent), np.cumsum(bent) - 1
        nu = h * self.columns((low >= 0).astype(float))
        l, u, own = self.columns(low[live]), self.columns(high[live]), h[live]
        if len(splits.neuron):
            l, u = (np.broadcast_to(x, own.shape).copy() for x in (l, u))
            splits.cut(l, u, place[splits.neuron])
        slope = _slope(kind, own, l, u)
        listed = np.flatnonzero((hints.columns >= first) & (hints.columns < first + len(h)))
        listed = listed[bent[hints.columns[listed] - first]]
        rows = place[hints.columns[listed] - first]
        usable = (l[rows] < 0) & (u[rows] > 0) & (own[rows] >= 0) | (kind != "relu")
        slope[rows] = np.where(usable, hints.slopes[listed], slope[rows])
        proposed = slope * own
        np.subtract.at(proposed, (place[splits.neuron], splits.owner), splits.sign * splits.beta)
        nu[live] = proposed
        size = (np.abs(proposed) + np.abs(own)) * _size(l, u)
        if kind == "relu":  # smallest at an end or at 0
            ends = [own * np.maximum(x, 0.0) - proposed * x for x in (l, u)]
            minimum = np.minimum(*ends)
            minimum = np.where((l < 0) & (u > 0), np.minimum(minimum, 0.0), minimum)
        else:
            minimum = s_minimum(kind, -proposed, own, l, u)
            size = size + np.abs(own) + np.abs(minimum)
        self.void |= (l > u).any(0)
        self.value += minimum.sum(0)
        self.loss += 8 * network.gamma * size.sum(0)
        return nu


def _slope(kind: str, h: Array, l: Array, u: Array) -> Array:
    """A slope for each neuron where the certificate has none: CROWN's."""
    if kind != "relu":
        return np.where(h >= 0, slope_below(kind, l, u), slope_below(kind, -u, -l))
    upper = np.where(u <= 0, 0.0, np.where(l >= 0, 1.0, u / (u - l)))
    return np.where((h >= 0) & (l < 0) & (u > 0), np.where(u > -l, 1.0, 0.0), upper)


def _ball(l: Array, u: Array) -> tuple[Array, Array]:
    """A center, and a radius that reaches both ends; a difference is one rounding wrong."""
    center = l / 2 + u / 2
    return center, np.maximum(up(np.maximum(u - center, center - l)), 0.0)


def _size(l: Array, u: Array) -> Array:
    return np.maximum(np.abs(l), np.abs(u))


def _dot(a: Array, b: Array) -> Array:
    """The columns' scalar products, [n, 1 or R] and [n, R] -> [R]."""
    result: Array = a[:, 0] @ b if a.shape[1] == 1 else (a * b).sum(0)
    return result
