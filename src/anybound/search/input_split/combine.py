"""A clause's lower bound from the zonotope of its rows: the best nonnegative combination.

A clause is unreachable in a box if some w >= 0 makes every Σ_r w_r f_r(x) positive. Over the zonotope that is a matrix
game, max over the simplex of

    v_0 − Σ_s |v_s| − Σ_r w_r err_r,      v = Σ_r w_r (c_r, g_r)

solved by exponentiated gradients; the single rows come first. Any w is valid, so only the value is rounded down.
"""

from __future__ import annotations

import math
from typing import Any

from anybound.bound.compact.jit import inner
from anybound.bound.compact.machine import (
    LANES64,
    absolute,
    copysign,
    load,
    multiply_add,
    splat,
    store,
    total,
)
from anybound.search.input_split.zonotope import ZERO, U

L = LANES64
ONE = 1.0
STEPS = 24
SPEED = 4.0


@inner
def combine(net: Any, work: Any, nodes: Any, clause: Any, width: Any) -> Any:
    """The bound; leaves w in `work.weight` and v in `work.sum`."""
    begin = net.first[nodes - 1]
    first, last = net.clause[clause], net.clause[clause + 1]
    best, scale, row = -math.inf, 0.0, first
    for r in range(first, last):
        scale = max(scale, work.upper[begin + r] - work.lower[begin + r])
        work.best[r] = 0.0
        if work.lower[begin + r] > best:
            best, row = work.lower[begin + r], r
    work.best[row] = 1.0
    if best <= 0.0 and last - first > 1 and scale > 0.0:
        best = _play(work, begin, (first, last, width), best, scale)
    for r in range(first, last):
        work.weight[r] = work.best[r]
    _mix(work, first, last, width)
    return best


@inner
def _play(work: Any, begin: Any, rows: Any, best: Any, scale: Any) -> Any:
    first, last, width = rows
    for r in range(first, last):
        work.weight[r] = 1.0 / (last - first)
    for t in range(STEPS):
        _mix(work, first, last, width)
        value = _value(work, begin, rows)
        if value > best:
            best = value
            for r in range(first, last):
                work.best[r] = work.weight[r]
            if best > 0.0:
                break
        step = SPEED / scale / math.sqrt(1.0 + t)
        norm = 0.0
        for r in range(first, last):
            gain = _row_at(work, begin, r, width)
            work.weight[r] *= math.exp(min(max(step * gain, -30.0), 30.0))
            norm += work.weight[r]
        for r in range(first, last):
            work.weight[r] /= norm
    return best


@inner
def _mix(work: Any, first: Any, last: Any, width: Any) -> Any:
    """v."""
    for lane in range(0, width, L):
        v = splat(ZERO)
        for r in range(first, last):
            v = multiply_add(splat(work.weight[r]), load(work.tile, 0, r * width + lane), v)
        store(work.sum, 0, lane, v)


@inner
def _value(work: Any, begin: Any, rows: Any) -> Any:
    """v_0 − Σ|v_s| − Σ w err, rounded down."""
    first, last, width = rows
    a = splat(ZERO)
    for lane in range(0, width, L):
        a = a + absolute(load(work.sum, 0, lane))
    centre = work.sum[0]
    loss, size = 0.0, 0.0
    for r in range(first, last):
        loss += work.weight[r] * work.before[begin + r]
        size += work.weight[r] * (abs(work.lower[begin + r]) + abs(work.upper[begin + r]))
    rounding = U * (width + 2.0 * (last - first) + 16.0)
    return centre - (total(a) - abs(centre)) - loss - rounding * (size + loss)


@inner
def _row_at(work: Any, begin: Any, r: Any, width: Any) -> Any:
    """Row r at the minimiser of v: the derivative of the value in w_r."""
    a, one = splat(ZERO), splat(ONE)
    for lane in range(0, width, L):
        sign = copysign(one, load(work.sum, 0, lane))
        a = multiply_add(sign, load(work.tile, 0, r * width + lane), a)
    c = work.tile[r * width]
    return c - (total(a) - math.copysign(c, c * work.sum[0])) - work.before[begin + r]
