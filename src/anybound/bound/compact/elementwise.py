"""One pass for what takes PyTorch many: the hull's minimum and Adam's step, in float32.

The plain readings are `BentOracle` and `Adam`, of which these give the same up to rounding; `bound.kernels` says when
they are used. Arrays are flat; a row of terms begins every `*_row` numbers.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from anybound.bound.compact.jit import inner, kernel
from anybound.bound.compact.machine import (
    LANES,
    addresses,
    load,
    maximum,
    minimum,
    splat,
    square_root,
    store,
    where_less,
)

Single = NDArray[np.float32]
_ZERO, _ONE = np.float32(0), np.float32(1)
_SOME = np.zeros(1, np.float32)


class Terms(NamedTuple):
    """Of minima over [l, u] of c·x + g·σ(x), σ(x) = max(x, 0) + left·min(x, 0), `chord` σ's over [l, u].

    Rows of c and g share those of the bounds by `share`, or all of them where `bound_row` is 0."""

    c: Single
    g: Single
    lower: Single
    upper: Single
    chord: Single
    left: float
    c_row: int
    g_row: int
    bound_row: int
    share: int


class Minima(NamedTuple):
    """Minimisers x, σ(x) and the values, `[rows, length]`."""

    x: Single
    s: Single
    value: Single
    length: int


_TERMS = Terms(_SOME, _SOME, _SOME, _SOME, _SOME, 0.0, 0, 0, 0, 1)


@kernel(_TERMS, Minima(_SOME, _SOME, _SOME, 0), 0)
def hull_minima(terms: Any, minima: Any, rows: Any) -> Any:
    """By the tie rule of `Bent`."""
    t, m, count = addresses(terms), addresses(minima), minima.length
    whole = count - count % LANES
    for row in range(rows):
        c, g, out = row * t.c_row, row * t.g_row, row * count
        b = row // t.share * t.bound_row
        for i in range(0, whole, LANES):
            _vector(t, m, c + i, g + i, b + i, out + i)
        for i in range(whole, count):
            _number(t, m, c + i, g + i, b + i, out + i)


@inner
def _vector(t: Any, m: Any, at_c: Any, at_g: Any, at_bound: Any, out: Any) -> Any:
    c, g = load(t.c, 0, at_c), load(t.g, 0, at_g)
    l, u, chord = load(t.lower, 0, at_bound), load(t.upper, 0, at_bound), load(t.chord, 0, at_bound)
    zero, one = splat(_ZERO), splat(_ONE)
    bends = where_less(l, zero, where_less(zero, u, one, zero), zero)
    # the sign of g·chord + c without the sum, which might be fused: ties have to stay ties
    product, minus = g * chord, zero - c
    end = where_less(
        zero, bends, where_less(product, minus, u, l), where_less(minus, product, l, u)
    )
    s = maximum(end, zero) + splat(np.float32(t.left)) * minimum(end, zero)
    value = c * end + g * s
    above = where_less(zero, bends, where_less(zero, value, one, zero), zero)  # the bend is better
    store(m.x, 0, out, where_less(zero, above, zero, end))
    store(m.s, 0, out, where_less(zero, above, zero, s))
    store(m.value, 0, out, where_less(zero, above, zero, value))


@inner
def _number(t: Any, m: Any, at_c: Any, at_g: Any, at_bound: Any, out: Any) -> Any:
    """The same for one number."""
    c, g = t.c[at_c], t.g[at_g]
    l, u = t.lower[at_bound], t.upper[at_bound]
    product, minus = g * t.chord[at_bound], -c
    bends = l < _ZERO and u > _ZERO
    end = u
    if product > minus or (bends and product == minus):
        end = l
    s = end if end > _ZERO else np.float32(t.left) * end
    value = c * end + g * s
    if bends and value > _ZERO:
        end, s, value = _ZERO, _ZERO, _ZERO
    m.x[out], m.s[out], m.value[out] = end, s, value


class Averages(NamedTuple):
    """Adam's step from x to `moved`; its averages change in place."""

    x: Single
    gradient: Single
    first: Single
    second: Single
    moved: Single
    length: int


class Rates(NamedTuple):
    """moved = x + step·m / (√v + epsilon), the shares of the new gradient in m and in v being `fresh`."""

    step: float
    epsilon: float
    fresh: float
    fresh_square: float


@kernel(Averages(_SOME, _SOME, _SOME, _SOME, _SOME, 0), Rates(0.0, 0.0, 0.0, 0.0))
def adam_step(averages: Any, rates: Any) -> Any:
    """All numbers alike."""
    a, count = addresses(averages), averages.length
    whole = count - count % LANES
    share, share_of_square = np.float32(rates.fresh), np.float32(rates.fresh_square)
    length, least = np.float32(rates.step), np.float32(rates.epsilon)
    fresh, square, step, epsilon = splat(share), splat(share_of_square), splat(length), splat(least)
    for i in range(0, whole, LANES):
        gradient, m, v = load(a.gradient, 0, i), load(a.first, 0, i), load(a.second, 0, i)
        m = m + fresh * (gradient - m)
        v = v + square * (gradient * gradient - v)
        store(a.first, 0, i, m)
        store(a.second, 0, i, v)
        store(a.moved, 0, i, load(a.x, 0, i) + step * m / (square_root(v) + epsilon))
    for i in range(whole, count):
        gradient, m, v = a.gradient[i], a.first[i], a.second[i]
        m += share * (gradient - m)
        v += share_of_square * (gradient * gradient - v)
        a.first[i], a.second[i] = m, v
        a.moved[i] = a.x[i] + length * m / (np.sqrt(v) + least)
