"""The weights of a clause of several half-spaces, one more multiplier that is ascended with the slopes.

A clause is unreachable if for some weights w >= 0 the minimum of Σ_r w_r f_r is positive. The derivative of that
minimum is f_r at the forward sweep's point,

    f_r = Σ_j a_jr z_j + constant_r,

and a step multiplies w_r by 1 ± step at most,

    w_r ← w_r (1 + step·clip((f_r − f̄)/d, −1, 1)),     f̄ = Σ_r w_r f_r,     d = Σ_r w_r |f_r − f̄|,

which knows no scale, and divides by the sum: w stays on the simplex {w >= 0, Σ w = 1}. Here f is its mean over the last
steps. The minimiser jumps from corner to corner of the relaxation, and only on average do its values tell which row
deserves more. Clauses of one row do nothing of this.

Buffers are `[…, WIDTH]`; M rows of the longest clause (no buffers at all where that is 1), m live coefficients.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from anybound.bound.compact.jit import inner
from anybound.bound.compact.machine import (
    LANES,
    absolute,
    load,
    maximum,
    minimum,
    splat,
    store,
    where_zero,
)

_FLOOR = np.float32(1e-4)  # below it a weight starts from there: else one that reached 0 would stay
_FRESH = np.float32(0.1)  # the share of a step in the mean, at least
_TINY = np.float32(1e-30)
_ZERO, _ONE = np.float32(0), np.float32(1)


@inner
def load_function(goal: Any, weights: Any, clause: Any, work: Any, i: Any) -> Any:
    """Column i's function into `work.goal` and `work.constant`; its rows, too, if it may choose among them."""
    first, count = goal.start[clause], goal.length[clause]
    if work.choices == 1:
        work.constant[i] = goal.constant[first]
        for j in range(len(work.goal)):
            work.goal[j, i] = goal.coefficient[j, first]
        return
    work.constant[i] = 0
    work.goal[:, i] = 0
    for r in range(work.choices):
        used = r < count
        w, at = (weights[r], first + r) if used else (_ZERO, first)
        work.share[r, i], work.used[r, i] = w, _ONE if used else _ZERO
        work.shift[r, i], work.mean[r, i] = goal.constant[at], 0
        work.constant[i] += w * goal.constant[at]
        for j in range(len(work.goal)):
            work.function[j * work.choices + r, i] = goal.coefficient[j, at]
            work.goal[j, i] += w * goal.coefficient[j, at]


@inner
def climb_weights(net: Any, goal: Any, work: Any, step: Any, t: Any, width: Any) -> Any:
    """The t-th step of every problem whose `work.step` is not 0; `net`, `goal` and `work` are addresses."""
    if work.choices > 1:
        _evaluate(net, goal, work, width)
        fresh = max(np.float32(1 / (1 + t)), _FRESH)
        for lane in range(0, width, LANES):
            _move(work, splat(step), splat(fresh), lane)
        _combine(net, goal, work, width)


@inner
def _evaluate(net: Any, goal: Any, work: Any, width: Any) -> Any:
    """f_r at z."""
    for r in range(work.choices):
        for lane in range(0, width, LANES):
            store(work.rise, r, lane, load(work.shift, r, lane))
    for row in range(net.first[net.layers + 1]):
        if goal.number[row] >= 0:
            for r in range(work.choices):
                at = goal.number[row] * work.choices + r
                for lane in range(0, width, LANES):
                    term = load(work.function, at, lane) * load(work.x, row, lane)
                    store(work.rise, r, lane, load(work.rise, r, lane) + term)


@inner
def _move(work: Any, step: Any, fresh: Any, lane: Any) -> Any:
    """w from f."""
    middle, most, total = splat(_ZERO), splat(_TINY), splat(_ZERO)
    zero, one, floor = splat(_ZERO), splat(_ONE), splat(_FLOOR)
    for r in range(work.choices):
        old = load(work.mean, r, lane)
        mean = old + fresh * (load(work.rise, r, lane) - old)
        store(work.mean, r, lane, mean)
        middle = middle + load(work.share, r, lane) * mean
    for r in range(work.choices):
        rise = load(work.used, r, lane) * (load(work.mean, r, lane) - middle)
        store(work.rise, r, lane, rise)
        most = most + load(work.share, r, lane) * absolute(rise)
    for r in range(work.choices):
        w = maximum(load(work.share, r, lane), floor * load(work.used, r, lane))
        rise = minimum(maximum(load(work.rise, r, lane) / most, zero - one), one)
        w = w * (one + step * rise)
        store(work.rise, r, lane, w)
        total = total + w
    constant = splat(_ZERO)
    for r in range(work.choices):
        w = load(work.rise, r, lane) / total
        w = where_zero(load(work.step, 0, lane), load(work.share, r, lane), w)
        store(work.share, r, lane, w)
        constant = constant + w * load(work.shift, r, lane)
    store(work.constant, 0, lane, constant)


@inner
def _combine(net: Any, goal: Any, work: Any, width: Any) -> Any:
    """Σ_r w_r a_jr."""
    for row in range(net.first[net.layers + 1]):
        number = goal.number[row]
        if number >= 0:
            for lane in range(0, width, LANES):
                total = splat(_ZERO)
                for r in range(work.choices):
                    a = load(work.function, number * work.choices + r, lane)
                    total = total + load(work.share, r, lane) * a
                store(work.goal, number, lane, total)
