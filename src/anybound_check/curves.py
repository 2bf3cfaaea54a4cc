"""Sigmoid and tanh: enclosures of their values, and minima of c x + h sigma(x)."""

from __future__ import annotations

import numpy as np

from anybound_check.arithmetic import HUGE, Array

S_ERROR = 2.0**-36  # of a value of `s_shaped`, absolute


def exp_below_zero(x: Array) -> Array:
    """exp(x) for x <= 0, within 2^-39.

    exp(x) = exp(x/128)^128, cut at -40 where it is below 2^-57. |x/128| <= 0.3125, so Taylor's
    remainder after degree 13 is below 2^-59. Horner's error is at most gamma(28) exp(0.3125), 48 u
    relative to exp(-0.3125); seven squarings multiply it by 128 and add 127 u: below 2^13 u."""
    y = np.maximum(x, -40.0) / 128.0
    result = np.ones_like(y)
    for k in range(13, 0, -1):
        result = result * y / k + 1.0
    for _ in range(7):
        result = result * result
    return result


def s_shaped(kind: str, x: Array) -> tuple[Array, Array]:
    """The value and the derivative of "sigmoid" or "tanh", within S_ERROR and 4 S_ERROR.

    s = 1/(1 + e) for e = exp(-|x|) is within |error of e| of the sigmoid of |x|, and
    tanh(x) = 2 sigmoid(2x) - 1. s' = s(1 - s), tanh' = 1 - tanh^2."""
    scale = 2.0 if kind == "tanh" else 1.0
    e = exp_below_zero(-scale * np.abs(x))
    s = np.where(x >= 0, 1.0, e) / (1.0 + e)
    if kind == "tanh":
        t = 2.0 * s - 1.0
        return t, 1.0 - t * t
    return s, s * (1.0 - s)


def s_minimum(kind: str, c: Array, h: Array, l: Array, u: Array) -> Array:
    """At most min over x in [l, u] of c x + h sigma(x) for a sigma that is convex below 0 and
    concave above it, up to errors of size gamma (|c x| + |h|).

    Where h < 0, take x -> -x: tanh(-x) = -tanh(x), sigmoid(-x) = 1 - sigmoid(x). For h >= 0, what
    lies above 0 is smallest at its ends; below 0 every tangent, at p, is a lower bound:
    f(x) >= f(p) + f'(p) (x - p), which is smallest at the ends."""
    offset, flip = np.where((h < 0) & (kind == "sigmoid"), h, 0.0), h < 0
    c, h = np.where(flip, -c, c), np.abs(h)
    l, u = np.where(flip, -u, l), np.where(flip, -l, u)
    a, b = np.minimum(l, 0.0), np.minimum(u, 0.0)
    p = np.clip(_stationary(kind, c, h), a, b)
    y, slope = s_shaped(kind, p)
    tilt = c + h * slope
    below = c * p + h * y + np.minimum(tilt * (a - p), tilt * (b - p))
    below -= h * S_ERROR * (2 + 5 * (b - a))
    ends = [c * x + h * s_shaped(kind, x)[0] for x in (np.maximum(l, 0.0), np.maximum(u, 0.0))]
    above = np.minimum(*ends) - 2 * h * S_ERROR
    return offset + np.where(l >= 0, above, np.where(u <= 0, below, np.minimum(below, above)))


def _stationary(kind: str, c: Array, h: Array) -> Array:
    """About where h sigma'(x) = -c below 0; any number will do."""
    y = np.clip(-c / h * (4.0 if kind == "sigmoid" else 1.0), 0.0, 1.0)
    x = np.arctanh(-np.sqrt(1.0 - y)) * (2.0 if kind == "sigmoid" else 1.0)
    return np.nan_to_num(x, nan=0.0, neginf=-HUGE)


def slope_below(kind: str, a: Array, b: Array) -> Array:
    """The slope of a line below sigma on [a, b]: the chord, or the tangent through (b, sigma(b))
    that touches left of 0, by bisection, or that in the middle. Any number will do."""
    (ya, da), (yb, _) = s_shaped(kind, a), s_shaped(kind, b)
    chord = np.where(b > a, (yb - ya) / (b - a), da)
    left, right = a, np.minimum(b, 0.0)
    for _ in range(20):
        middle = (left + right) / 2
        y, slope = s_shaped(kind, middle)
        flat = y + slope * (b - middle) < yb
        left, right = np.where(flat, middle, left), np.where(flat, right, middle)
    tangent = s_shaped(kind, np.minimum(left, (a + b) / 2))[1]
    return np.where((a >= 0) | ((chord <= da) & (b > 0)), chord, tangent)
