"""Sigmoid and tanh in the checker against mpmath: values, derivatives, and minima over intervals."""

import mpmath
import numpy as np
import pytest
from numpy.typing import NDArray

from anybound_check.curves import S_ERROR, exp_below_zero, s_minimum, s_shaped

EXTREMES = [
    0.0,
    5e-324,
    1e-308,
    1e-20,
    0.3125,
    1.0,
    19.9,
    20.1,
    36.7,
    39.99,
    40.0,
    745.2,
    1e10,
    2.0**200,
]
CURVES = {"sigmoid": lambda x: 1 / (1 + mpmath.exp(-x)), "tanh": mpmath.tanh}


def inputs(seed: int, count: int = 400) -> NDArray[np.float64]:
    rng = np.random.default_rng(seed)
    random = rng.normal(size=count) * 10 ** rng.uniform(-6, 2.5, count)
    return np.concatenate([random, EXTREMES, np.negative(EXTREMES)])


def test_exponentials_are_within_their_error() -> None:
    x = -np.abs(inputs(0))
    with mpmath.workdps(40):
        for value, at in zip(exp_below_zero(x), x, strict=True):
            assert abs(value - mpmath.exp(mpmath.mpf(at))) <= mpmath.mpf(2) ** -39


@pytest.mark.parametrize("kind", CURVES)
def test_values_and_slopes_are_within_their_errors(kind: str) -> None:
    x = inputs(1)
    values, slopes = s_shaped(kind, x)
    with mpmath.workdps(40):
        for at, value, slope in zip(x, values, slopes, strict=True):
            y = CURVES[kind](mpmath.mpf(at))
            exact = y * (1 - y) if kind == "sigmoid" else 1 - y * y
            assert abs(value - y) <= S_ERROR
            assert abs(slope - exact) <= 4 * S_ERROR


@pytest.mark.parametrize("kind", CURVES)
def test_minima_are_below_all_values_and_near_one(kind: str) -> None:
    """Up to gamma (|c x| + |h|), as it says."""
    rng = np.random.default_rng(2)
    count = 250
    h = rng.normal(size=count) * 10 ** rng.uniform(-3, 3, count) * (rng.random(count) < 0.95)
    c = -h * rng.uniform(-0.1, 1.1, count) * (0.25 if kind == "sigmoid" else 1.0)
    middle, radius = rng.normal(size=count) * 4, 10 ** rng.uniform(-4, 2, count)
    l, u = middle - radius, middle + radius
    with np.errstate(all="ignore"):
        lower = s_minimum(kind, c, h, l, u)
    with mpmath.workdps(40):
        for a, b, low, high, bound in zip(c, h, l, u, lower, strict=True):
            points = _candidates(kind, a, b, low, high)
            least = min(mpmath.mpf(a) * x + mpmath.mpf(b) * CURVES[kind](x) for x in points)
            size = abs(a) * max(abs(low), abs(high)) + abs(b)
            assert bound <= least + 1e-14 * size
            assert bound >= least - 2 * S_ERROR * abs(b) * (2 + 5 * (high - low)) - 1e-12 * size


def _candidates(kind: str, c: float, h: float, l: float, u: float) -> list[mpmath.mpf]:
    """The ends, and where the derivative vanishes."""
    found = [mpmath.mpf(l), mpmath.mpf(u)]
    scale = 4 if kind == "sigmoid" else 1
    y = -scale * mpmath.mpf(c) / mpmath.mpf(h) if h else mpmath.mpf(-1)
    if 0 < y <= 1:
        root = mpmath.atanh(mpmath.sqrt(1 - y)) * (2 if kind == "sigmoid" else 1)
        found += [x for x in (root, -root) if l < x < u]
    return found
