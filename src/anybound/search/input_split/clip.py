"""Clipping: a box is cut down to what of it can violate a clause.

Where f(x) >= v + Σ_i s_i d_i(x) all over a box, with s_i >= 0 and d_i the distance of x_i from the end of its interval
where the least value v <= 0 is attained,

    f(x) <= 0   ⇒   d_i(x) <= −v / s_i        for each input on its own.

So it is for every row of the clause by its zonotope, and for their combination by the adjoint sweep. Where the only
hidden layer reads the inputs sparsely, the intervals of what a violation leaves of its neurons cut the inputs as well,

    Σ_j a_j z_j + b <= 0,    ẑ_j = Σ_i w_ji x_i + b_j <= u_j

until nothing moves any more: on formulas written as networks that is unit propagation. A box of which nothing is left
cannot violate the clause. Ends move outwards by more than rounding can take.

An input that a row is close to cutting is a good one to split: then the row cuts another. How close is 2^−m with m the
number of intervals such as its own for which the row has room (on formulas: Jeroslow and Wang's rule).
"""

from __future__ import annotations

import math
from typing import Any

from anybound.bound.compact.jit import inner
from anybound.search.input_split.zonotope import LOST, U

SWEEPS = 32  # through the hidden layer's rows, at most
MOVES = 0.05  # of an input's interval: what is worth another sweep


@inner
def begin_cut(net: Any, work: Any, lower: Any, upper: Any) -> Any:
    """What is left is the whole box."""
    work.empty[0] = 0.0
    for i in range(net.first[1]):
        work.cut_lower[i], work.cut_upper[i] = lower[i], upper[i]


@inner
def cut_by_rows(net: Any, work: Any, nodes: Any, clause: Any, width: Any, box: Any) -> Any:
    """Each row's zonotope: x_i = c_i + r_i e_i, so that s_i = |g_i| / r_i; the product loses less than `LOST`."""
    begin = net.first[nodes - 1]
    for r in range(net.clause[clause], net.clause[clause + 1]):
        value = work.lower[begin + r]
        if value <= 0.0:
            for i in range(net.first[1]):
                g = work.tile[r * width + 1 + i]
                if g != 0.0:
                    radius = work.z[work.place[i] + 1 + i]
                    _within(work, box, i, g, (LOST - value * radius) / abs(g))


@inner
def cut_by_adjoint(net: Any, work: Any, value: Any, box: Any) -> Any:
    """The combination that the adjoint sweep has just bounded by `value`: s_i = |h_i|."""
    if value <= 0.0:
        for i in range(net.first[1]):
            h = work.h[i]
            if h != 0.0:
                _within(work, box, i, h, -value / abs(h))


@inner
def _within(work: Any, box: Any, i: Any, slope: Any, distance: Any) -> Any:
    """x_i is no farther than that from its end of the box where `slope`·x_i is least; a NaN cuts nothing."""
    lower, upper = box
    if slope > 0.0:
        end = _above(lower[i], distance)
        if end < work.cut_upper[i]:
            work.cut_upper[i] = end
    else:
        end = _below(upper[i], distance)
        if end > work.cut_lower[i]:
            work.cut_lower[i] = end


@inner
def _above(low: Any, distance: Any) -> Any:
    """At least low + distance."""
    reach = distance * (1.0 + 16.0 * U) + LOST
    return low + reach + 2.0 * U * (abs(low) + reach) + LOST


@inner
def _below(high: Any, distance: Any) -> Any:
    """At most high − distance."""
    return -_above(-high, distance)


@inner
def is_cut_away(net: Any, work: Any) -> Any:
    """Whether nothing is left."""
    crossed = work.empty[0] > 0.0
    for i in range(net.first[1]):
        crossed = crossed or work.cut_lower[i] > work.cut_upper[i]
    return crossed


@inner
def cut_by_layer(net: Any, work: Any, nodes: Any, clause: Any) -> Any:
    """The only hidden layer's rows, as long as they move something."""
    if not reads_sparsely(net, nodes):
        return
    begin, end = net.first[1], net.first[2]
    for g in range(begin, end):
        work.top[g], work.bottom[g] = math.inf, -math.inf
    for r in range(net.clause[clause], net.clause[clause + 1]):
        _limit_neurons(net, work, r)
    moves, sweeps = True, 0
    while moves and sweeps < SWEEPS and not is_cut_away(net, work):
        moves, sweeps = False, sweeps + 1
        for g in range(begin, end):
            if work.top[g] < work.upper[g]:
                moves = _cut_row(net, work, g, 1.0, work.top[g]) or moves
            if work.bottom[g] > work.lower[g]:
                moves = _cut_row(net, work, g, -1.0, -work.bottom[g]) or moves


@inner
def find_close(net: Any, work: Any) -> Any:
    """How close rows of the hidden layer are to cutting each input; whether there are such rows."""
    for i in range(net.first[1]):
        work.close[i] = 0.0
    some = False
    for g in range(net.first[1], net.first[2]):
        if work.top[g] < work.upper[g]:
            _close_in(net, work, g, 1.0, work.top[g])
            some = True
        if work.bottom[g] > work.lower[g]:
            _close_in(net, work, g, -1.0, -work.bottom[g])
            some = True
    return some


@inner
def _close_in(net: Any, work: Any, g: Any, sign: Any, top: Any) -> Any:
    """What one row, sign·ẑ_g <= top, adds."""
    p, i = net.maps[1], g - net.first[1]
    head, tail = net.row[net.start[p] + i], net.row[net.start[p] + i + 1]
    room = top - sign * net.bias[g]
    for q in range(head, tail):
        w, x = sign * net.weight[q], net.column[q]
        room -= min(w * work.cut_lower[x], w * work.cut_upper[x])
    for q in range(head, tail):
        x = net.column[q]
        width = abs(net.weight[q]) * (work.cut_upper[x] - work.cut_lower[x])
        if width > 0.0:
            work.close[x] += 2.0 ** -min(room / width, 60.0)


@inner
def reads_sparsely(net: Any, nodes: Any) -> Any:
    """Whether the only hidden layer reads nothing but the inputs, by a sparse map."""
    return nodes == 3 and net.maps[2] - net.maps[1] == 1 and net.stride[net.maps[1]] == 0


@inner
def _limit_neurons(net: Any, work: Any, r: Any) -> Any:
    """Σ_j a_j z_j + b <= 0: z_j is within −least / |a_j| of its own end, for each neuron."""
    last = net.first[2] + r
    least, size = net.bias[last], abs(net.bias[last]) + net.slack[last]
    for p in range(net.maps[2], net.maps[3]):
        source = net.source[p]
        for j in range(net.first[source], net.first[source + 1]):
            a = _weight(net, p, r, j - net.first[source])
            low, high = _range(net, work, source, j)
            least += min(a * low, a * high)
            size += abs(a) * max(abs(low), abs(high))
    least -= net.slack[last] + U * (2.0 * last + 64.0) * size + LOST
    if not least <= 0.0:
        return
    for p in range(net.maps[2], net.maps[3]):
        if net.source[p] == 1:
            for j in range(net.first[1], net.first[2]):
                a = _weight(net, p, r, j - net.first[1])
                if a != 0.0:
                    _limit(net, work, j, a, -least / abs(a))


@inner
def _limit(net: Any, work: Any, j: Any, a: Any, distance: Any) -> Any:
    """What z_j = σ(ẑ_j) being that close to its end says of ẑ_j: z_j <= t with t >= 0 says ẑ_j <= t, and z_j >= t
    with t > 0 that ẑ_j >= t, as σ(x) < t for all x < t if σ's slope on the left is no less than 0."""
    low, high = _range(net, work, 1, j)
    if a > 0.0:
        end = _above(low, distance)
        if 0.0 <= end < work.top[j]:
            work.top[j] = end
    else:
        end = _below(high, distance)
        if net.left[j] >= 0.0 and end > 0.0 and end > work.bottom[j]:
            work.bottom[j] = end


@inner
def _range(net: Any, work: Any, source: Any, j: Any) -> Any:
    """Ends of z_j: an input in what is left of the box, or σ between the neuron's bounds."""
    if source == 0:
        return work.cut_lower[j], work.cut_upper[j]
    l, u, left = work.lower[j], work.upper[j], net.left[j]
    at_l = max(l, 0.0) + left * min(l, 0.0)
    at_u = max(u, 0.0) + left * min(u, 0.0)
    low, high = min(at_l, at_u), max(at_l, at_u)
    if l < 0.0 < u:
        low = min(low, 0.0)
    spare = 4.0 * U * (abs(l) + abs(u)) + LOST
    return low - spare if left != 0.0 else low, high + spare


@inner
def _weight(net: Any, p: Any, r: Any, j: Any) -> Any:
    """Entry (r, j) of a map."""
    if net.stride[p]:
        return net.dense[net.start[p] + j * net.stride[p] + r]
    for q in range(net.row[net.start[p] + r], net.row[net.start[p] + r + 1]):
        if net.column[q] == j:
            return net.weight[q]
    return 0.0


@inner
def _cut_row(net: Any, work: Any, g: Any, sign: Any, top: Any) -> Any:
    """sign·ẑ_g <= top cuts every input of a row; whether one moved by much."""
    p = net.maps[1]
    i = g - net.first[1]
    head, tail = net.row[net.start[p] + i], net.row[net.start[p] + i + 1]
    least, size = sign * net.bias[g], abs(net.bias[g]) + net.slack[g]
    for q in range(head, tail):
        w, x = sign * net.weight[q], net.column[q]
        low, high = work.cut_lower[x], work.cut_upper[x]
        least += min(w * low, w * high)
        size += abs(w) * max(abs(low), abs(high))
    least -= net.slack[g] + U * (2.0 * (tail - head) + 64.0) * size + LOST
    room = top - least
    room += 2.0 * U * (abs(top) + abs(least))
    if room < 0.0:  # no point of what is left is there
        work.empty[0] = 1.0
        return False
    moves = False
    for q in range(head, tail):
        moves = _move(work, net.column[q], sign * net.weight[q], room) or moves
    return moves


@inner
def _move(work: Any, x: Any, w: Any, room: Any) -> Any:
    """w·x_i may rise by so much above its least value."""
    low, high = work.cut_lower[x], work.cut_upper[x]
    if w == 0.0:
        return False
    if w > 0.0:
        end = _above(low, room / abs(w))
        if end < high:
            work.cut_upper[x] = end
            return high - end > MOVES * (high - low)
    else:
        end = _below(high, room / abs(w))
        if end > low:
            work.cut_lower[x] = end
            return end - low > MOVES * (high - low)
    return False
