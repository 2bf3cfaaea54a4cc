"""Laws of the activations, against dense grids in extended precision and 50 digits of mpmath."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import mpmath
import numpy as np
import pytest
import torch
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st
from torch import Tensor

from anybound.errors import AnyboundError, InvalidConfig, InvalidInput, InvalidModel
from anybound.model.activations import (
    Abs,
    Activation,
    Clip,
    Identity,
    LeakyReLU,
    PReLU,
    ReLU,
    Sigmoid,
    Tanh,
    check_bounds,
)
from anybound.model.activations.activation import Between

GRID = 2000
LONG_EPS = float(np.finfo(np.longdouble).eps)
DTYPES = (torch.float32, torch.float64)

Exact = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Case:
    """An activation and, from its definition, σ in extended precision."""

    activation: Activation
    exact: Exact
    kinks: tuple[float, ...] = (0.0,)


def _bent(alpha: float) -> Exact:
    return lambda x: np.where(x > 0, x, np.longdouble(alpha) * x)


def _sigmoid(x: np.ndarray) -> np.ndarray:
    e = np.exp(-np.abs(x))
    return np.where(x >= 0, 1 / (1 + e), e / (1 + e))


CASES = {
    "identity": Case(Identity(), lambda x: x),
    "relu": Case(ReLU(), _bent(0.0)),
    "leaky": Case(LeakyReLU(0.01), _bent(0.01)),
    "leaky_steep": Case(LeakyReLU(2.5), _bent(2.5)),
    "leaky_negative": Case(LeakyReLU(-0.3), _bent(-0.3)),
    "leaky_linear": Case(LeakyReLU(1.0), _bent(1.0)),
    "prelu": Case(PReLU(torch.tensor([0.1], dtype=torch.float64)), _bent(0.1)),
    "prelu_steep": Case(PReLU(torch.tensor([1.7], dtype=torch.float64)), _bent(1.7)),
    "abs": Case(Abs(), np.abs),
    "hard_tanh": Case(Clip(-1.0, 1.0), lambda x: np.clip(x, -1, 1), (-1.0, 1.0)),
    "relu6": Case(Clip(0.0, 6.0), lambda x: np.clip(x, 0, 6), (0.0, 6.0)),
    "clip_tenths": Case(
        Clip(0.1, 0.7), lambda x: np.clip(x, np.longdouble(0.1), np.longdouble(0.7)), (0.1, 0.7)
    ),
    "clip_below": Case(Clip(-0.5, math.inf), lambda x: np.maximum(x, -0.5), (-0.5,)),
    "clip_point": Case(Clip(1.0, 1.0), lambda x: 0 * x + 1, (1.0,)),
    "sigmoid": Case(Sigmoid(), _sigmoid),
    "tanh": Case(Tanh(), np.tanh),
}
S_SHAPED = ("sigmoid", "tanh")

every_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
every_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=["float32", "float64"])
run = settings(
    max_examples=3, deadline=None, derandomize=True, phases=(Phase.explicit, Phase.generate)
)

SPECIAL = torch.tensor(
    [
        # l, u − l, c, g
        [0.0, 0.0, 0.0, 0.0],
        [-0.0, 1e-7, -0.0, -0.0],
        [1.0, 1e-3, 1e-30, 1e-30],
        [-1.0, 100.0, -1e-12, 1e6],
        [1e-6, 2e4, 1.0, 1.0],
        [-1e-6, 2.0, -1.0, -1.0],
        [6.0, 1e-45, -0.25, -0.25],
        [1e4, 0.0, 1e6, -1e-12],
        [-1e4, 1e4, 0.1, -1e-30],
        [1e-30, 7.0, -1e-30, 3.0],
        [-40.0, 40.0, 0.125, 0.01],
        [40.0, 80.0, -0.01, -3.0],
    ],
    dtype=torch.float64,
)


def _rows(seed: int) -> Tensor:
    """48 rows (l, u − l, c, g), about a third of their entries special."""
    generator = torch.Generator().manual_seed(seed)
    plain = torch.randn(48, 4, generator=generator, dtype=torch.float64)
    plain = plain * torch.tensor([4.0, 4.0, 1.0, 1.0])
    plain[:, 1].abs_()
    index = torch.randint(len(SPECIAL), (48, 4), generator=generator)
    special = torch.rand(48, 4, generator=generator) < 0.35
    return torch.where(special, SPECIAL.gather(0, index), plain)


rows = st.integers(0, 2**31).map(_rows)
HARD = torch.tensor(
    [
        [-1e4, 2e4, 1.0, -1.0],
        [-1e4, 2e4, 0.125, -1.0],
        [-1e4, 2e4, 1e-12, 1.0],
        [-3.0, 6.0, -0.25, 1.0],
        [0.0, 0.0, 1.0, 1.0],
        [-1e-6, 2e-6, -1.0, 1.0],
    ],
    dtype=torch.float64,
)


def _tensors(rows: Tensor, dtype: torch.dtype) -> tuple[Tensor, ...]:
    """(c, g, l, u) with l <= u."""
    l, width, c, g = (column.contiguous() for column in rows.to(dtype).unbind(1))
    return c, g, l, l + width


def _long(x: Tensor) -> np.ndarray:
    return x.double().numpy().astype(np.longdouble)[..., None]


def _grid(case: Case, l: Tensor, u: Tensor, count: int = 300) -> np.ndarray:
    """Points of [l, u]: equally spaced, dense around 0, the kinks and the ends."""
    lo, hi = _long(l), _long(u)
    even = lo + (hi - lo) * np.linspace(0, 1, count, dtype=np.longdouble)
    around = np.concatenate([np.linspace(-12, 12, count // 2), np.asarray(case.kinks)])
    near = np.clip(around.astype(np.longdouble) + 0 * lo, lo, hi)
    return np.concatenate([np.minimum(even, hi), near, lo, hi], axis=-1)


def _noise(*terms: np.ndarray) -> np.ndarray:
    """What the oracle's own arithmetic may be wrong by."""
    return 8 * LONG_EPS * sum(np.abs(term) for term in terms)


@every_dtype
@every_case
@run
@given(rows)
@example(HARD)
def test_argmin_is_the_minimum_of_the_grid(case: Case, dtype: torch.dtype, rows: Tensor) -> None:
    c, g, l, u = _tensors(rows, dtype)
    x, s, value = case.activation.argmin(c, g, l, u)
    slack = case.activation.slack(c, g, l, u)
    assert value.isfinite().all()
    assert slack.isfinite().all()
    assert bool(((l <= x) & (x <= u)).all())
    info = torch.finfo(dtype)  # torch's strided and vectorised loops may differ by a rounding
    assert torch.allclose(s, case.activation.value(x), rtol=4 * info.eps, atol=info.tiny)
    grid = _grid(case, l, u, GRID)
    linear, curved = _long(c) * grid, _long(g) * case.exact(grid)
    least = (linear + curved - _noise(linear, curved)).min(axis=-1)
    noise = 2 * _noise(linear, curved).max(axis=-1)
    assert (_long(value)[:, 0] - _long(slack)[:, 0] <= least + noise).all()
    # The candidates are enough: no grid point is better than the slack explains.
    assert (_long(value)[:, 0] <= least + _long(slack)[:, 0] + noise).all()
    at_x = _long(c) * _long(x) + _long(g) * case.exact(_long(x))
    assert (np.abs(_long(value) - at_x)[:, 0] <= _long(slack)[:, 0] + noise).all()


@every_dtype
@every_case
@run
@given(rows)
@example(HARD)
def test_slack_is_a_matter_of_roundings(case: Case, dtype: torch.dtype, rows: Tensor) -> None:
    c, g, l, u = _tensors(rows, dtype)
    reach = torch.maximum(l.abs(), u.abs())
    height = torch.maximum(reach * case.activation.lipschitz, torch.ones_like(reach))
    size = c.abs() * (1 + reach) + g.abs() * height
    info = torch.finfo(dtype)
    slack = case.activation.slack(c, g, l, u)
    assert bool((slack <= 48 * info.eps * size + 64 * info.tiny * (1 + reach)).all())


@every_dtype
@every_case
@run
@given(rows)
@example(HARD)
def test_over_and_the_order_of_candidates_give_the_same_value(
    case: Case, dtype: torch.dtype, rows: Tensor
) -> None:
    c, g, l, u = _tensors(rows, dtype)
    ours = case.activation.over(l, u)(c, g).value
    plain = torch.stack(
        [c * x + g * case.activation.value(x) for x in case.activation.candidates(c, g, l, u)]
    ).amin(0)
    assert bool(((ours - plain).abs() <= case.activation.slack(c, g, l, u)).all())


Graph = tuple[np.ndarray, np.ndarray]


def _inside(graph: Graph, sign: int, slope: Tensor, offset: Tensor) -> np.ndarray:
    """sign·(σ(x) − slope·x − offset) over the grid, plus the noise of computing it."""
    x, s = graph
    line = _long(slope) * x
    return sign * (s - line - _long(offset)) + _noise(s, line, _long(offset))


@every_dtype
@every_case
@run
@given(rows)
@example(HARD)
def test_lines_are_on_their_side(case: Case, dtype: torch.dtype, rows: Tensor) -> None:
    _, slope, l, u = _tensors(rows, dtype)
    a = case.activation
    x = _grid(case, l, u)
    graph = x, case.exact(x)
    for relaxation in (a.relax(l, u), a.parallel(l, u)):
        lower_slope, lower_offset, upper_slope, upper_offset = relaxation
        assert (_inside(graph, 1, lower_slope, lower_offset) >= 0).all()
        assert (_inside(graph, -1, upper_slope, upper_offset) >= 0).all()
    for s in (slope, *a.slopes(l, u)):
        assert (_inside(graph, 1, s, a.lower_offset(s, l, u)) >= 0).all()
        assert (_inside(graph, -1, s, a.upper_offset(s, l, u)) >= 0).all()
    for facet in a.facets(l, u, 0.03):
        assert (_inside(graph, facet.sign, facet.slope, facet.offset) >= 0).all()


@every_case
@run
@given(rows)
@example(HARD)
def test_offsets_touch(case: Case, rows: Tensor) -> None:
    _, s, l, u = _tensors(rows, torch.float64)
    a = case.activation
    x = _grid(case, l, u)
    graph = x, case.exact(x)
    scale = (1 + s.abs()).numpy() * (1 + torch.maximum(l.abs(), u.abs()).numpy())
    # Between grid points h apart the least distance is missed by at most |σ''|·h²/8, |σ''| <= 0.8.
    coarse = 0.1 * np.minimum(24 / 149, (u - l).numpy() / 299) ** 2 if _curved(a) else 0
    for sign, offset in ((1, a.lower_offset(s, l, u)), (-1, a.upper_offset(s, l, u))):
        gap = _inside(graph, sign, s, offset).min(axis=-1)
        assert (gap <= 1e-14 * scale + coarse).all()


def _curved(activation: Activation) -> bool:
    return isinstance(activation, Sigmoid | Tanh)


@every_case
@run
@given(rows)
@example(HARD)
def test_lines_touch_where_it_is_said(case: Case, rows: Tensor) -> None:
    """At slopes inside their range, and at its ends where that needs no moving of slopes."""
    _, _, l, u = _tensors(rows, torch.float64)
    a = case.activation
    x = _grid(case, l, u)
    graph, limits = (x, case.exact(x)), a.slopes(l, u)
    coarse = 0.1 * np.minimum(24 / 149, (u - l).numpy() / 299) ** 2 if _curved(a) else 0
    for sign, above, (least, most) in ((1, 0, limits[:2]), (-1, 1, limits[2:])):
        for part in (0.0, 0.3, 1.0) if a.touches_exactly else (0.3,):
            s = least + part * (most - least)
            side = torch.full_like(l, above)
            at, value, offset = a.touching(s, side, Between(l, u, *limits))
            assert torch.equal(value, a.value(at))
            scale = (1 + s.abs()).numpy() * (1 + torch.maximum(l.abs(), u.abs()).numpy())
            gap = _inside(graph, sign, s, offset).min(axis=-1)
            assert (gap <= 1e-14 * scale + coarse).all()
            assert (gap >= -1e-14 * scale).all()


@every_case
@pytest.mark.parametrize("tolerance", [0.1, 1e-3])
def test_facets_describe_the_hull(case: Case, tolerance: float) -> None:
    generator = torch.Generator().manual_seed(7)
    l = torch.empty(40, dtype=torch.float64).uniform_(-9, 5, generator=generator)
    u = l + torch.empty_like(l).uniform_(0, 12, generator=generator)
    l, u = (
        torch.cat([l, l.new_tensor([-1e4, -50.0, 2.0])]),
        torch.cat([u, u.new_tensor([1e4, 60.0, 2.0])]),
    )
    facets = case.activation.facets(l, u, tolerance)
    # The width of the facets' polyhedron against that of the hull, in direction (−slope, ±1).
    x = l + (u - l) * torch.linspace(0, 1, 301, dtype=torch.float64)[:, None]
    top = torch.stack([f.slope * x + f.offset for f in facets if f.sign < 0]).amin(0)
    bottom = torch.stack([f.slope * x + f.offset for f in facets if f.sign > 0]).amax(0)
    grid = torch.from_numpy(_grid(case, l, u, GRID).astype(np.float64)).sort(-1).values
    sigma = torch.from_numpy(case.exact(grid.numpy().astype(np.longdouble)).astype(np.float64))
    for i in range(len(l)):
        phi = _concave_envelope(grid[i].numpy(), sigma[i].numpy(), x[:, i].numpy())
        psi = -_concave_envelope(grid[i].numpy(), -sigma[i].numpy(), x[:, i].numpy())
        excess = 0.0 if not _curved(case.activation) else tolerance
        rounding = 1e-9 + 1e-3 * excess  # the grid's envelope lies inside the true one
        assert (top[:, i].numpy() - phi).max() <= excess + rounding
        assert (psi - bottom[:, i].numpy()).max() <= excess + rounding


def _concave_envelope(x: np.ndarray, y: np.ndarray, at: np.ndarray) -> np.ndarray:
    """The upper hull of the points, by a monotone chain."""
    hull: list[tuple[float, float]] = []
    for point in zip(x.tolist(), y.tolist(), strict=True):
        while len(hull) > 1 and _turns_up(hull[-2], hull[-1], point):
            hull.pop()
        if hull and hull[-1][0] == point[0]:
            hull[-1] = max(hull[-1], point)
        else:
            hull.append(point)
    xs, ys = zip(*hull, strict=True)
    return np.interp(at, xs, ys)


def _turns_up(a: tuple[float, float], b: tuple[float, float], c: tuple[float, float]) -> bool:
    return (b[1] - a[1]) * (c[0] - b[0]) <= (c[1] - b[1]) * (b[0] - a[0])


@every_dtype
@every_case
@run
@given(rows)
@example(HARD)
def test_range_is_outward_and_tight(case: Case, dtype: torch.dtype, rows: Tensor) -> None:
    _, _, l, u = _tensors(rows, dtype)
    low, high = (_long(x)[:, 0] for x in case.activation.range(l, u))
    values = case.exact(_grid(case, l, u))
    least, most = values.min(-1), values.max(-1)
    info = torch.finfo(dtype)
    height = np.maximum(np.maximum(np.abs(least), np.abs(most)), np.abs(case.kinks).max())
    tolerance = 8 * info.eps * height + 4 * info.tiny
    assert (low <= least).all()
    assert (least - low <= tolerance).all()
    assert (most <= high).all()
    assert (high - most <= tolerance).all()


@every_case
@run
@given(rows)
@example(HARD)
def test_slopes_are_those_of_the_envelopes(case: Case, rows: Tensor) -> None:
    _, _, l, u = _tensors(rows, torch.float64)
    a = case.activation
    lower_min, lower_max, upper_min, upper_max = a.slopes(l, u)
    relaxation = a.relax(l, u)
    steepest = max(1.0, a.lipschitz)
    for s in (lower_min, lower_max, upper_min, upper_max):
        assert bool((s.abs() <= steepest).all())
    assert bool((lower_min <= relaxation.lower_slope).all())
    assert bool((relaxation.lower_slope <= lower_max).all())
    assert bool((upper_min <= relaxation.upper_slope).all())
    assert bool((relaxation.upper_slope <= upper_max).all())
    fixed = a.fixed(l, u)
    if not _curved(a):
        assert torch.equal(lower_min[fixed], lower_max[fixed])
        assert torch.equal(upper_min[fixed], upper_max[fixed])
        assert torch.equal(lower_min[fixed], upper_min[fixed])


@every_case
@run
@given(rows)
def test_fixed_means_affine(case: Case, rows: Tensor) -> None:
    _, _, l, u = _tensors(rows, torch.float64)
    lo, hi, grid = _long(l), _long(u), _grid(case, l, u)
    width = np.where(hi > lo, hi - lo, 1)
    line = case.exact(lo) + (case.exact(hi) - case.exact(lo)) * ((grid - lo) / width)
    error = np.abs(case.exact(grid) - line).max(-1)
    fixed = case.activation.fixed(l, u).numpy()
    assert (error[fixed] <= 1e-15 * (1 + np.abs(grid).max(-1)[fixed])).all()
    if not _curved(case.activation):
        # float64 says "not affine" only where the graph bends visibly, or at a rounding of it.
        assert (error[~fixed] > 0).all()


@every_case
@run
@given(rows)
def test_split_is_inside_what_is_not_fixed(case: Case, rows: Tensor) -> None:
    _, _, l, u = _tensors(rows, torch.float64)
    at = case.activation.split_at(l, u)
    wide = ~case.activation.fixed(l, u) & (u - l > 1e-3)
    assert bool(((l < at) & (at < u))[wide].all())


@every_dtype
@every_case
def test_parameters_broadcast(case: Case, dtype: torch.dtype) -> None:
    """[D, R, n] coefficients over [D, 1, n] bounds are [D, 1, n] ones repeated."""
    generator = torch.Generator().manual_seed(3)
    c, g = (torch.randn(3, 5, 7, generator=generator, dtype=dtype) for _ in range(2))
    l = torch.randn(3, 1, 7, generator=generator, dtype=dtype)
    u = l + torch.rand(3, 1, 7, generator=generator, dtype=dtype) * 3
    wide = case.activation.argmin(c, g, l, u)
    full = case.activation.argmin(c, g, l.expand_as(c).clone(), u.expand_as(c).clone())
    for ours, other in zip(wide, full, strict=True):
        assert ours.shape == c.shape
        assert ours.dtype == dtype
        assert torch.allclose(ours, other, rtol=1e-5, atol=1e-6)


def test_prelu_has_a_slope_per_channel() -> None:
    alpha = torch.tensor([0.0, 0.5, -1.0, 3.0]).reshape(4, 1, 1)
    generator = torch.Generator().manual_seed(5)
    l = torch.randn(2, 1, 4, 3, 3, generator=generator)
    u = l + torch.rand(2, 1, 4, 3, 3, generator=generator) * 2
    c, g = (torch.randn(2, 6, 4, 3, 3, generator=generator) for _ in range(2))
    together = PReLU(alpha)
    for channel in range(4):
        alone = LeakyReLU(float(alpha[channel]))
        pick = (slice(None), slice(None), channel)
        for ours, other in zip(
            (*together.argmin(c, g, l, u), *together.relax(l, u), *together.slopes(l, u)),
            (
                *alone.argmin(c[pick], g[pick], l[pick], u[pick]),
                *alone.relax(l[pick], u[pick]),
                *alone.slopes(l[pick], u[pick]),
            ),
            strict=True,
        ):
            assert torch.equal(ours[pick], other)
    assert together.lipschitz == 3.0


@every_case
def test_gradient_of_the_value_is_the_minimiser(case: Case) -> None:
    """Envelope theorem: ∂value/∂c = x and ∂value/∂g = σ(x)."""
    generator = torch.Generator().manual_seed(11)
    c, g = (
        torch.randn(50, generator=generator, dtype=torch.float64, requires_grad=True)
        for _ in range(2)
    )
    l = torch.randn(50, generator=generator, dtype=torch.float64) - 0.5
    minimum = case.activation.argmin(c, g, l, l + 2)
    at_c, at_g = torch.autograd.grad(minimum.value.sum(), (c, g))
    assert torch.allclose(at_c, minimum.x.detach())
    assert torch.allclose(at_g, minimum.s.detach())


# Tie rules (a supergradient method starts exactly at ties).


@every_dtype
def test_relu_ties_at_the_start_of_wong_and_kolter(dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(2)
    l = -torch.rand(500, generator=generator, dtype=dtype) - 1e-3
    u = torch.rand(500, generator=generator, dtype=dtype) + 1e-3
    nu = torch.randn(500, generator=generator, dtype=dtype)
    relu = ReLU()
    rho = relu.parallel(l, u).lower_slope * nu
    x = relu.argmin(rho, -nu, l, u).x
    assert torch.equal(x[nu > 0], l[nu > 0])  # every point of the upper edge is optimal: l first
    assert bool((x[nu < 0] == 0).all())  # unique


@every_dtype
@pytest.mark.parametrize(
    ("l", "u", "c", "g", "expected"),
    [
        (-1.0, 2.0, 0.0, 0.0, -1.0),  # all of [l, u] ties: l
        (-1.0, 2.0, 0.0, 1.0, -1.0),  # l ties with 0: l
        (-1.0, 2.0, -1.0, 1.0, 2.0),  # u ties with 0: u
        (-2.0, 2.0, 0.5, -1.0, -2.0),  # l ties with u: l
        (-3.0, -1.0, 0.0, 1.0, -1.0),  # blocking: u
        (1.0, 3.0, -2.0, 2.0, 3.0),  # passing: u
        (0.0, 3.0, -2.0, 2.0, 3.0),
        (-3.0, 0.0, 0.0, 2.0, 0.0),
    ],
)
def test_relu_tie_rule(
    dtype: torch.dtype, l: float, u: float, c: float, g: float, expected: float
) -> None:
    arguments = (torch.tensor([v], dtype=dtype) for v in (c, g, l, u))
    assert ReLU().argmin(*arguments).x.item() == expected


@pytest.mark.parametrize(("c", "g"), [(-3e299, 1e300), (-0.9e300, 1e300), (0.3e300, -1e300)])
def test_subnormal_widths_do_not_tilt_the_chord(c: float, g: float) -> None:
    """The chord tells which end is the better one, however narrow [l, u] is."""
    l, u, cost, weight = (torch.tensor([x], dtype=torch.float64) for x in (-1e-310, 1e-310, c, g))
    found = ReLU().argmin(cost, weight, l, u).value - ReLU().slack(cost, weight, l, u)
    ends = (Fraction(x) for x in (-1e-310, 0.0, 1e-310))
    least = min(Fraction(c) * x + Fraction(g) * max(x, Fraction(0)) for x in ends)
    assert Fraction(found.item()) <= least
    assert ReLU().chord(u, 2 * u).item() == 1.0


def test_fixed_relu_has_exact_lines() -> None:
    l, u = torch.tensor([1.0, 0.0, -3.0, -2.0, 0.0]), torch.tensor([2.0, 5.0, -1.0, 0.0, 0.0])
    for relaxation in (ReLU().relax(l, u), ReLU().parallel(l, u)):
        expected = torch.tensor([1.0, 1.0, 0.0, 0.0, 0.0])
        assert torch.equal(relaxation.lower_slope, expected)
        assert torch.equal(relaxation.upper_slope, expected)
        assert not relaxation.lower_offset.any()
        assert not relaxation.upper_offset.any()


def test_relu_relaxations_are_crown_and_wong_kolter() -> None:
    l, u = torch.tensor([-1.0, -2.0, -1.0]), torch.tensor([2.0, 1.0, 1.0])
    crown, wk = ReLU().relax(l, u), ReLU().parallel(l, u)
    assert crown.lower_slope.tolist() == [1.0, 0.0, 0.0]  # 1 if u > −l, else 0
    assert torch.equal(crown.upper_slope, u / (u - l))
    assert torch.equal(wk.lower_slope, u / (u - l))
    assert torch.allclose(wk.upper_offset, -l * u / (u - l))
    assert not wk.lower_offset.any()


# The equations of the paper's appendix "Sigmoid Activation function", by their labels.

PAPER = [(-6.0, -1.0), (-5.0, 0.2), (-3.0, 4.0), (-0.5, 6.0), (0.5, 4.0), (0.0, 3.0), (-4.0, 0.0)]


def _bounds(pairs: list[tuple[float, float]]) -> tuple[Tensor, Tensor]:
    l, u = torch.tensor(pairs, dtype=torch.float64).unbind(1)
    return l, u


@pytest.mark.parametrize("name", S_SHAPED)
def test_eq_sig_lin_upper_bound(name: str) -> None:
    """Case 1, σ'(u) >= chord: φ(x) = (σ(u) − σ(l))/(u − l)·(x − l) + σ(l) is the whole upper
    envelope."""
    case = CASES[name]
    l, u = _bounds(PAPER)
    chord = (case.activation.value(u) - case.activation.value(l)) / (u - l)
    first = case.activation.slope(u) >= chord
    assert first.tolist() == [True, True, False, False, False, False, True]
    upper = case.activation.relax(l, u)
    offset = case.activation.value(l) - chord * l
    assert torch.allclose(upper.upper_slope[first], chord[first], rtol=1e-12)
    assert torch.allclose(upper.upper_offset[first], offset[first], rtol=1e-12)
    _, _, upper_min, upper_max = case.activation.slopes(l, u)
    assert torch.allclose(upper_min[first], upper_max[first], rtol=1e-12)


@pytest.mark.parametrize("name", S_SHAPED)
def test_eq_sig_pw_upper_bound(name: str) -> None:
    """Case 2: a line from l to t with σ'(t) = (σ(t) − σ(l))/(t − l), t > 0; compared with a hull of
    points."""
    case = CASES[name]
    assert isinstance(case.activation, Sigmoid | Tanh)
    l, u = _bounds([(-3.0, 4.0), (-0.5, 6.0), (-1e-3, 2.0), (-40.0, 40.0)])
    t = case.activation.tangent(l, u)
    for i in range(len(l)):
        start = mpmath.mpf(float(l[i]))
        sigma = mpmath.tanh if name == "tanh" else lambda x: 1 / (1 + mpmath.exp(-x))
        root = mpmath.findroot(
            lambda x, a=start, f=sigma: mpmath.diff(f, x) * (x - a) - (f(x) - f(a)),
            (float(t[i]) * 0.9, float(t[i]) * 1.1),
            solver="anderson",
        )
        assert abs(float(t[i]) - float(root)) <= 1e-7
    # Case 1 (t = u) and the special case l >= 0 (errata E24: no root, φ = σ, t := l).
    l, u = _bounds([(-6.0, -1.0), (0.0, 3.0), (0.5, 4.0)])
    assert case.activation.tangent(l, u).tolist() == [-1.0, 0.0, 0.5]


@pytest.mark.parametrize("name", S_SHAPED)
def test_eq_ub_match_fun(name: str) -> None:
    """On [t, u] the upper envelope is σ: its tangents touch there."""
    case = CASES[name]
    assert isinstance(case.activation, Sigmoid | Tanh)
    l, u = _bounds([(-3.0, 4.0), (-0.5, 6.0), (0.5, 4.0)])
    t = case.activation.tangent(l, u)
    for share in (0.0, 0.3, 0.7, 1.0):
        x = t + share * (u - t)
        s = case.activation.slope(x)
        touch = s * x + case.activation.upper_offset(s, l, u)
        assert torch.allclose(touch, case.activation.value(x), rtol=0, atol=1e-13)


@pytest.mark.parametrize("name", S_SHAPED)
@run
@given(rows)
def test_eq_pk_sub_for_sig(name: str, rows: Tensor) -> None:
    """The minimum over cvx_hull is that over the graph: σ's own argmin beats every point of the
    hull."""
    case = CASES[name]
    c, g, l, u = _tensors(rows, torch.float64)
    value = (case.activation.argmin(c, g, l, u).value - case.activation.slack(c, g, l, u)).numpy()
    x, z = _long(l), case.exact(_long(l))
    for share in np.linspace(0, 1, 9):
        y = _long(l) + (_long(u) - _long(l)) * np.longdouble(share)
        for mix in (0.25, 0.5, 0.9):
            point_x, point_z = (1 - mix) * x + mix * y, (1 - mix) * z + mix * case.exact(y)
            f = (_long(c) * point_x + _long(g) * point_z)[:, 0]
            assert (value <= f + 1e-15 * np.abs(f)).all()


@pytest.mark.parametrize("name", S_SHAPED)
@run
@given(rows)
def test_eq_siglinopt(name: str, rows: Tensor) -> None:
    """min of c·x + [g]₋φ(x) + [g]₊ψ(x), the envelopes replaced by their facets, is never larger."""
    case = CASES[name]
    c, g, l, u = _tensors(rows.clamp(-6, 9), torch.float64)
    x = l + (u - l) * torch.linspace(0, 1, 401, dtype=torch.float64)[:, None]
    facets = case.activation.facets(l, u, 1e-3)
    phi = torch.stack([f.slope * x + f.offset for f in facets if f.sign < 0]).amin(0)
    psi = torch.stack([f.slope * x + f.offset for f in facets if f.sign > 0]).amax(0)
    relaxed = (c * x + g.clamp(max=0) * phi + g.clamp(min=0) * psi).amin(0)
    value = case.activation.argmin(c, g, l, u).value
    step = (u - l) / 400
    coarse = (c.abs() + g.abs()) * step
    assert bool((relaxed <= value + coarse + 1e-9).all())
    assert bool((value <= relaxed + 1e-3 * g.abs() + coarse + 1e-9).all())


@pytest.mark.parametrize("name", S_SHAPED)
def test_eq_with_sig_subp(name: str) -> None:
    """The roots of c + g·σ'(x): for the sigmoid σ⁻¹((1 ± √(1 + 4c/g))/2), with errata E25."""
    case = CASES[name]
    peak = mpmath.mpf("0.25") if name == "sigmoid" else mpmath.mpf(1)
    wide = torch.tensor([-1e3], dtype=torch.float64), torch.tensor([1e3], dtype=torch.float64)
    for ratio in (1e-300, 1e-12, 1e-3, 0.1, 0.2, 0.2499):
        for g in (2.0, -2.0):
            c = torch.tensor([-ratio * g], dtype=torch.float64)
            *_, root = case.activation.candidates(c, torch.tensor([g], dtype=torch.float64), *wide)
            with mpmath.workdps(700):
                q = mpmath.sqrt(1 - (-mpmath.mpf(float(c)) / g) / peak)
                exact = mpmath.atanh(q) if name == "tanh" else mpmath.log((1 + q) / (1 - q))
            assert abs(abs(float(root)) - float(exact)) <= 1e-13 * float(exact) + 1e-13
            assert math.copysign(1, float(root)) == -math.copysign(1, g)  # where g·σ is convex


@pytest.mark.parametrize("name", S_SHAPED)
@every_dtype
def test_torch_evaluates_sigma_as_well_as_slack_assumes(name: str, dtype: torch.dtype) -> None:
    """Relative error <= 4 eps for σ, <= 12 eps for σ', against 50 digits."""
    activation = CASES[name].activation
    generator = torch.Generator().manual_seed(13)
    scales = (1e-30, 1e-6, 1e-2, 0.5, 2.0, 8.0, 30.0)
    x = torch.cat([torch.randn(60, generator=generator, dtype=torch.float64) * s for s in scales])
    x = x.clamp(-40, 40).to(dtype)
    sigma = mpmath.tanh if name == "tanh" else lambda v: 1 / (1 + mpmath.exp(-v))
    prime = (
        (lambda v: mpmath.sech(v) ** 2) if name == "tanh" else lambda v: mpmath.sech(v / 2) ** 2 / 4
    )
    eps = torch.finfo(dtype).eps
    layouts = (x, torch.stack([x, x], 1)[:, 0])  # vectorised and strided loops
    with mpmath.workdps(50):
        points = [mpmath.mpf(float(v)) for v in x]
        for function, exact, bound in (
            (activation.value, sigma, 4 * eps),
            (activation.slope, prime, 12 * eps),
        ):
            truth = [exact(v) for v in points]
            for layout in layouts:
                pairs = zip(function(layout).tolist(), truth, strict=True)
                assert all(abs(mpmath.mpf(a) - b) <= bound * abs(b) for a, b in pairs)


# Bad input.


@pytest.mark.parametrize(
    ("l", "u", "words"),
    [
        (math.nan, 1.0, "NaN or infinity"),
        (-math.inf, 1.0, "NaN or infinity"),
        (0.0, math.inf, "NaN or infinity"),
        (2.0, 1.0, "lower > upper"),
    ],
)
def test_bad_bounds_are_refused(l: float, u: float, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        check_bounds(torch.tensor([0.0, l]), torch.tensor([1.0, u]))


def test_good_bounds_are_accepted() -> None:
    check_bounds(torch.tensor([0.0, -1e30]), torch.tensor([0.0, 1e30]))


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: LeakyReLU(math.nan), InvalidModel),
        (lambda: PReLU(torch.tensor([1.0, math.inf])), InvalidModel),
        (lambda: Clip(2.0, 1.0), InvalidModel),
        (lambda: Clip(math.nan, 1.0), InvalidModel),
        (lambda: Clip(math.inf, math.inf), InvalidModel),
        (lambda: Tanh().facets(torch.zeros(1), torch.ones(1), 0.0), InvalidConfig),
    ],
)
def test_bad_parameters_are_refused(make: Callable[[], object], error: type[AnyboundError]) -> None:
    with pytest.raises(error) as caught:
        make()
    assert "\n" not in str(caught.value)
