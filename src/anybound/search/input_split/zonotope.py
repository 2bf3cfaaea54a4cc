"""Bounds of every neuron over one box: forward propagation of a zonotope, rigorous in float64.

    z = c + Σ_s g_s e_s ± err,      e_s in [−1, 1]

The first symbols are the inputs; every ambiguous neuron adds one, as with λ = (u − left·l)/(u − l)

    σ(x) in λx + [0, 2μ],     2μ = max((left − λ)·l, (1 − λ)·u)     ⇒     σ(x) = λx + μ + μ e

(mirrored twins share theirs; when there is no room for more, μ goes to err). `err` takes rounding: a product of m terms
errs by at most γ_m Σ|w| s with s = |c| + Σ|g|, so that err_k = Σ|w|(err + γ s) + slack, up to the factors of `wide`.
What rests on a number being the very one that was stored (λ, a box's centre) is `exact`: its operations are not
reordered.

A box is worked on alone: symbols are the vector axis, only live neurons have rows, and a box with few ambiguous neurons
is cheap. Rows are `[width]` numbers, width a multiple of `LANES64`: c, the inputs, the symbols, zeros.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from anybound.bound.compact.jit import exact, inner
from anybound.bound.compact.machine import (
    LANES64,
    absolute,
    load,
    multiply_add,
    splat,
    store,
    total,
)
from anybound.search.input_split.folded import Index, Net, Vector

L = LANES64
ZERO = 0.0
U = 2.0**-52
LOST = 1e-300  # more than a product loses by underflow
DEAD = -1


class Work(NamedTuple):
    """The state of one box. N neurons, up to S symbols and inputs, D inputs."""

    z: Vector  # rows of live neurons after σ, node by node
    tile: Vector  # rows of the node at hand before σ
    place: Index  # [N]: where a live neuron's row begins in z, or DEAD
    live: Index  # [N]: the live neurons, node by node
    live_first: Index  # [n + 2]
    width: Index  # [n + 1]: of a node's rows
    error: Vector  # [N]: err after σ
    before: Vector  # [N + PAD]: err before σ
    size: Vector  # [N]: at least |c| + Σ|g| after σ
    lower: Vector  # [N]
    upper: Vector  # [N]
    owner: Index  # [S]: the neuron that made a symbol
    share: Vector  # [S · D]: how much of the owner's width each input makes
    h: Vector  # [N]: adjoint coefficients
    nu: Vector  # [N + PAD]
    weight: Vector  # [R]: of a clause's rows
    best: Vector  # [R]
    sum: Vector  # [S]: Σ_r weight_r g_r
    value: Vector  # [N + PAD]: z at a point
    score: Vector  # [D]: of the worst clause's error, what each input is to blame for
    cut_lower: Vector  # [D]: what of the box can violate a clause (see `clip`)
    cut_upper: Vector  # [D]
    empty: Vector  # [1]: 1 where rows show that nothing of it can
    hull_lower: Vector  # [D]: the least box around what can violate some clause
    hull_upper: Vector  # [D]
    close: Vector  # [D]: how close rows of a hidden layer are to cutting it
    top: Vector  # [N]: at most ẑ, if a clause is to be violated
    bottom: Vector  # [N]: at least


def make_work(net: Net, symbols: int) -> Work:
    """Buffers for boxes with up to `symbols` symbols beside the inputs."""
    inputs = int(net.first[1])
    neurons, nodes = int(net.first[-1]), len(net.first) - 1
    stride = -(-(1 + inputs + symbols) // L) * L
    rows = int(net.clause[-1])
    widest = int(np.diff(net.first).max())
    return Work(
        z=np.zeros(neurons * stride + L),
        tile=np.zeros((widest + 16) * stride),
        place=np.zeros(neurons, np.int64),
        live=np.zeros(neurons, np.int64),
        live_first=np.zeros(nodes + 1, np.int64),
        width=np.zeros(nodes, np.int64),
        error=np.zeros(neurons),
        before=np.zeros(neurons + 64),
        size=np.zeros(neurons),
        lower=np.zeros(neurons),
        upper=np.zeros(neurons),
        owner=np.zeros(stride, np.int64),
        share=np.zeros(stride * inputs),
        h=np.zeros(neurons),
        nu=np.zeros(neurons + 64),
        weight=np.zeros(rows),
        best=np.zeros(rows),
        sum=np.zeros(stride),
        value=np.zeros(neurons + 64),
        score=np.zeros(inputs),
        cut_lower=np.zeros(inputs),
        cut_upper=np.zeros(inputs),
        empty=np.zeros(1),
        hull_lower=np.zeros(inputs),
        hull_upper=np.zeros(inputs),
        close=np.zeros(inputs),
        top=np.zeros(neurons),
        bottom=np.zeros(neurons),
    )


@inner
def propagate(net: Any, work: Any, lower: Any, upper: Any, nodes: Any, stride: Any) -> Any:
    """Rows of the last node in `work.tile`, bounds of all neurons; returns the width of those rows.

    `net` and `work` are addresses; `lower` and `upper` are arrays of the box."""
    used = net.first[1] + 1
    end = inputs_row(net, work, lower, upper)
    for k in range(1, nodes):
        width = _affine(net, work, k)
        fresh = _bound(net, work, k, width)
        if k == nodes - 1:
            return width
        room = stride - used
        wider = -(-(used + min(fresh, room)) // L) * L
        end, used = _activate(net, work, k, (width, wider, used, stride), end)
    return used


@inner
def inputs_row(net: Any, work: Any, lower: Any, upper: Any) -> Any:
    """Node 0: c ± r e_i for every input."""
    count = net.first[1]
    width = -(-(1 + count) // L) * L
    work.width[0], work.live_first[0], work.live_first[1] = width, 0, count
    for i in range(count):
        for lane in range(0, width, L):
            store(work.z, 0, i * width + lane, splat(ZERO))
        c = _middle(lower[i], upper[i])
        r = _reach(lower[i], upper[i], c)
        work.z[i * width], work.z[i * width + 1 + i] = c, r
        work.place[i], work.live[i] = i * width, i
        work.error[i], work.size[i] = 0.0, abs(c) + r
        work.lower[i], work.upper[i] = lower[i], upper[i]
    return count * width


@inner
def _affine(net: Any, work: Any, k: Any) -> Any:
    """ẑ_k = Σ_j W_kj z_j + b_k in `work.tile` and err in `work.before`; returns the width of the rows.

    Constant ones, without a map, have coefficients of all inputs as well."""
    begin, rows = net.first[k], net.first[k + 1] - net.first[k]
    width = work.width[0]
    for p in range(net.maps[k], net.maps[k + 1]):
        width = max(width, work.width[net.source[p]])
    for i in range(rows):
        for lane in range(0, width, L):
            store(work.tile, 0, i * width + lane, splat(ZERO))
        work.tile[i * width] = net.bias[begin + i]
    for i in range(-(-rows // 16) * 16):
        work.before[begin + i] = 0.0
    for p in range(net.maps[k], net.maps[k + 1]):
        source = net.source[p]
        if net.stride[p]:
            _dense(
                net, work, p, (work.live_first[source], work.live_first[source + 1]), rows, width
            )
            _dense_error(
                net, work, p, (work.live_first[source], work.live_first[source + 1]), begin, rows
            )
        else:
            _sparse(net, work, p, begin, rows, width)
    for i in range(rows):
        work.before[begin + i] = (
            net.wide * (work.before[begin + i] + net.gamma * abs(net.bias[begin + i]))
            + net.slack[begin + i]
        )
    return width


@inner
def _dense(net: Any, work: Any, p: Any, span: Any, rows: Any, width: Any) -> Any:
    """tile += W z for a dense map, four rows and two vectors at a time. Rows behind the last are scratch."""
    source = net.source[p]
    narrow = work.width[source]
    for i in range(0, rows, 4):
        lane = 0
        while lane + 2 * L <= narrow:
            _dense_4x2(net, work, p, span, i, (width, lane))
            lane += 2 * L
        if lane < narrow:
            _dense_4x1(net, work, p, span, i, (width, lane))


@inner
def _dense_4x2(net: Any, work: Any, p: Any, span: Any, i: Any, at: Any) -> Any:
    width, lane = at
    first, stride = net.first[net.source[p]], net.stride[p]
    t = i * width + lane
    a0, b0 = load(work.tile, 0, t), load(work.tile, 0, t + L)
    a1, b1 = load(work.tile, 0, t + width), load(work.tile, 0, t + width + L)
    a2, b2 = load(work.tile, 0, t + 2 * width), load(work.tile, 0, t + 2 * width + L)
    a3, b3 = load(work.tile, 0, t + 3 * width), load(work.tile, 0, t + 3 * width + L)
    base = net.start[p] + i - first * stride
    for q in range(span[0], span[1]):
        j = work.live[q]
        w = base + j * stride
        x = work.place[j] + lane
        za, zb = load(work.z, 0, x), load(work.z, 0, x + L)
        w0, w1 = splat(net.dense[w]), splat(net.dense[w + 1])
        w2, w3 = splat(net.dense[w + 2]), splat(net.dense[w + 3])
        a0, b0 = multiply_add(w0, za, a0), multiply_add(w0, zb, b0)
        a1, b1 = multiply_add(w1, za, a1), multiply_add(w1, zb, b1)
        a2, b2 = multiply_add(w2, za, a2), multiply_add(w2, zb, b2)
        a3, b3 = multiply_add(w3, za, a3), multiply_add(w3, zb, b3)
    store(work.tile, 0, t, a0)
    store(work.tile, 0, t + L, b0)
    store(work.tile, 0, t + width, a1)
    store(work.tile, 0, t + width + L, b1)
    store(work.tile, 0, t + 2 * width, a2)
    store(work.tile, 0, t + 2 * width + L, b2)
    store(work.tile, 0, t + 3 * width, a3)
    store(work.tile, 0, t + 3 * width + L, b3)


@inner
def _dense_4x1(net: Any, work: Any, p: Any, span: Any, i: Any, at: Any) -> Any:
    width, lane = at
    first, stride = net.first[net.source[p]], net.stride[p]
    t = i * width + lane
    a0, a1 = load(work.tile, 0, t), load(work.tile, 0, t + width)
    a2, a3 = load(work.tile, 0, t + 2 * width), load(work.tile, 0, t + 3 * width)
    base = net.start[p] + i - first * stride
    for q in range(span[0], span[1]):
        j = work.live[q]
        w = base + j * stride
        za = load(work.z, 0, work.place[j] + lane)
        a0 = multiply_add(splat(net.dense[w]), za, a0)
        a1 = multiply_add(splat(net.dense[w + 1]), za, a1)
        a2 = multiply_add(splat(net.dense[w + 2]), za, a2)
        a3 = multiply_add(splat(net.dense[w + 3]), za, a3)
    store(work.tile, 0, t, a0)
    store(work.tile, 0, t + width, a1)
    store(work.tile, 0, t + 2 * width, a2)
    store(work.tile, 0, t + 3 * width, a3)


@inner
def _dense_error(net: Any, work: Any, p: Any, span: Any, begin: Any, rows: Any) -> Any:
    """before += |W| (err + γ s), 16 rows at a time."""
    first, stride = net.first[net.source[p]], net.stride[p]
    for i in range(0, rows, 2 * L):
        a, b = load(work.before, 0, begin + i), load(work.before, 0, begin + i + L)
        base = net.start[p] + i - first * stride
        for q in range(span[0], span[1]):
            j = work.live[q]
            e = splat(work.error[j] + net.gamma * work.size[j])
            a = multiply_add(absolute(load(net.dense, 0, base + j * stride)), e, a)
            b = multiply_add(absolute(load(net.dense, 0, base + j * stride + L)), e, b)
        store(work.before, 0, begin + i, a)
        store(work.before, 0, begin + i + L, b)


@inner
def _sparse(net: Any, work: Any, p: Any, begin: Any, rows: Any, width: Any) -> Any:
    """The same for a sparse map, row by row."""
    source = net.source[p]
    first, narrow = net.first[source], work.width[source]
    for i in range(rows):
        head, tail = net.row[net.start[p] + i], net.row[net.start[p] + i + 1]
        error = 0.0
        for q in range(head, tail):
            j = first + net.column[q]
            if work.place[j] != DEAD:
                error += abs(net.weight[q]) * (work.error[j] + net.gamma * work.size[j])
                w = splat(net.weight[q])
                for lane in range(0, narrow, L):
                    t = i * width + lane
                    z = load(work.z, 0, work.place[j] + lane)
                    store(work.tile, 0, t, multiply_add(w, z, load(work.tile, 0, t)))
        work.before[begin + i] += error


@inner
def _bound(net: Any, work: Any, k: Any, width: Any) -> Any:
    """l and u of a node's neurons; returns how many need a symbol of their own."""
    begin, fresh = net.first[k], 0
    for i in range(net.first[k + 1] - begin):
        g = begin + i
        c, reach = work.tile[i * width], _radius(work, i * width, width) + work.before[g]
        reach = reach * net.wide + 4.0 * U * abs(c)
        work.lower[g], work.upper[g] = c - reach, c + reach
        if _bends(net, work, g) and not _has_twin(net, work, g):
            fresh += 1
    return fresh


@inner
def _radius(work: Any, at: Any, width: Any) -> Any:
    """Σ_s |g_s|."""
    a = splat(ZERO)
    for lane in range(0, width, L):
        a = a + absolute(load(work.tile, 0, at + lane))
    # the centre is taken out of the sum again, which may lose `width` roundings of it
    c = abs(work.tile[at])
    radius = total(a) - c
    if radius < 0.0:  # unlike a maximum, that leaves a NaN as it is
        radius = 0.0
    return radius + U * width * c


@inner
def _bends(net: Any, work: Any, g: Any) -> Any:
    return work.lower[g] < 0.0 and work.upper[g] > 0.0 and net.left[g] != 1.0


@inner
def _has_twin(net: Any, work: Any, g: Any) -> Any:
    """Whether an earlier neuron's row holds all there is to know of σ here."""
    return net.twin[g] >= 0 and _bends(net, work, net.twin[g])


@inner
def _activate(net: Any, work: Any, k: Any, shape: Any, end: Any) -> Any:
    """Rows of σ(ẑ_k) behind `end` in z; returns where they end and how many numbers of a row are in use."""
    width, wider, used, stride = shape
    alive = work.live_first[k]
    for i in range(net.first[k + 1] - net.first[k]):
        g, t = net.first[k] + i, i * width
        factor, mu = 1.0, 0.0
        l, u = work.lower[g], work.upper[g]
        bends = _bends(net, work, g)
        if bends:
            factor = _chord(net, l, u, g)
            mu = 0.5 * _gap(net, l, u, g, factor)
        elif u <= 0.0:
            factor = net.left[g]
        if factor == 0.0 and not bends:
            work.place[g] = DEAD
            continue
        work.place[g], work.live[alive] = end, g
        alive += 1
        if bends and _has_twin(net, work, g):
            _copy_twin(net, work, g, (t, end, width, wider))
        else:
            _scale(work, (t, end, width, wider), factor)
            work.size[g] = _sized(work, g, factor) + 2.0 * mu
            work.error[g] = abs(factor) * work.before[g] + 4.0 * U * work.size[g] + LOST
            if bends:
                work.z[end] += mu
                if used < stride:
                    work.z[end + used] = mu
                    _remember(net, work, g, t, used)
                    used += 1
                else:
                    work.error[g] = work.error[g] * net.wide + mu
        end += wider
    work.live_first[k + 1], work.width[k] = alive, wider
    return end, used


@inner
def _sized(work: Any, g: Any, factor: Any) -> Any:
    """At least |factor| (|c| + Σ|g_s|), as |c| + Σ|g_s| <= |l| + |u|... of the row before σ."""
    return abs(factor) * (abs(work.lower[g]) + abs(work.upper[g]))


@exact
def _middle(lower: Any, upper: Any) -> Any:
    return 0.5 * lower + 0.5 * upper


@exact
def _reach(lower: Any, upper: Any, middle: Any) -> Any:
    """At least the distance of the middle from either end."""
    return max(upper - middle, middle - lower) * (1.0 + 2.0 * U)


@exact
def _chord(net: Any, l: Any, u: Any, g: Any) -> Any:
    """λ, between `left` and 1: then σ(x) − λx is nowhere negative."""
    left = net.left[g]
    return min(max((u - left * l) / (u - l), left), 1.0)


@exact
def _gap(net: Any, l: Any, u: Any, g: Any, factor: Any) -> Any:
    """At least the maximum of σ(x) − λx over [l, u]; its minimum is 0 at the bend."""
    return max((net.left[g] - factor) * l, (1.0 - factor) * u) * (1.0 + 8.0 * U) + LOST


@inner
def _scale(work: Any, shape: Any, factor: Any) -> Any:
    """A row of z as a multiple of one of the tile."""
    source, target, width, wider = shape
    f = splat(factor)
    for lane in range(0, width, L):
        store(work.z, 0, target + lane, f * load(work.tile, 0, source + lane))
    for lane in range(width, wider, L):
        store(work.z, 0, target + lane, splat(ZERO))


@inner
def _copy_twin(net: Any, work: Any, g: Any, shape: Any) -> Any:
    """σ(x) = σ(x'), or σ(x') + (1 + left)·x for a mirrored twin x' = −x; x' and x differ by at most the slack."""
    source, target, width, wider = shape
    twin = net.twin[g]
    factor = 1.0 + net.left[g] if net.mirrored[g] else 0.0
    f = splat(factor)
    other = work.place[twin]
    for lane in range(0, width, L):
        own = load(work.tile, 0, source + lane)
        store(work.z, 0, target + lane, multiply_add(f, own, load(work.z, 0, other + lane)))
    for lane in range(width, wider, L):
        store(work.z, 0, target + lane, load(work.z, 0, other + lane))
    work.size[g] = work.size[twin] + _sized(work, g, factor)
    distance = net.slack[g] + net.slack[twin]
    own_error = factor * work.before[g] + 3.0 * distance + 4.0 * U * work.size[g]
    work.error[g] = (work.error[twin] + own_error + LOST) * net.wide


@inner
def _remember(net: Any, work: Any, g: Any, t: Any, symbol: Any) -> Any:
    """The inputs' shares of the width of the neuron that a symbol belongs to."""
    inputs = net.first[1]
    work.owner[symbol] = g
    width = work.upper[g] - work.lower[g]
    for i in range(inputs):
        work.share[symbol * inputs + i] = abs(work.tile[t + 1 + i]) / width
