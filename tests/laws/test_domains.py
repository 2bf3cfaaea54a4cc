"""Laws of input sets, for every kind, both dtypes, shared and separate sub-problems.

Oracles: exact rational arithmetic for membership and for boxes and l1 balls (whose linear minimum
is rational), HiGHS for the clipped l1 ball, SLSQP for the l2 balls.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog, minimize
from torch import Tensor

from anybound.errors import InvalidInput
from anybound.model.domains.ball import Ball
from anybound.model.domains.box import Box
from anybound.model.domains.clipped_ball import ClippedBall
from anybound.model.domains.domain import Domain
from anybound.model.domains.l1_ball import L1Ball
from anybound.model.domains.l2_ball import L2Ball

DTYPES = (torch.float32, torch.float64)
SHAPES = ((), (1,), (5,), (2, 3))
Maker = Callable[["Draw"], Domain]


class Draw:
    """Random numbers of one test case: plain, zero, tied and badly scaled ones."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.dtype = DTYPES[self.rng.integers(2)]
        self.shape = SHAPES[self.rng.integers(len(SHAPES))]
        self.count = int(self.rng.integers(1, 4))
        self.rows = int(self.rng.integers(1, 4))

    def numbers(self, *lead: int) -> Tensor:
        size = (*lead, *self.shape)
        values = self.rng.normal(size=size)
        kind = self.rng.integers(4)
        if kind == 1:
            values = np.round(values)  # zeros and ties
        elif kind == 2:
            values = values * 10.0 ** self.rng.integers(-6, 6, size=size)
        elif kind == 3:
            values = values * (self.rng.random(size) < 0.5)
        return torch.tensor(values, dtype=self.dtype).reshape(size)

    def coefficients(self) -> Tensor:
        return self.numbers(self.count, self.rows)

    def radius(self, count: int) -> Tensor:
        scale = 10.0 ** self.rng.integers(-3, 2)
        values = self.rng.random((count, 1)) * scale * (self.rng.random((count, 1)) < 0.85)
        return torch.tensor(values, dtype=self.dtype)


def make_box(draw: Draw) -> Box:
    count = draw.count if draw.rng.random() < 0.5 else 1
    a, b = draw.numbers(count, 1), draw.numbers(count, 1)
    if draw.rng.random() < 0.3:
        b = torch.where(b > 0, a, b)  # partly degenerate
    return Box(a.minimum(b), a.maximum(b))


def make_ball(kind: type[Ball]) -> Callable[[Draw], Ball]:
    def make(draw: Draw) -> Ball:
        count = draw.count if draw.rng.random() < 0.5 else 1
        return kind(draw.numbers(count, 1), draw.radius(count))

    return make


def make_clipped(kind: type[Ball]) -> Maker:
    """A box around a point of the ball, so that they meet; the centre is in it or not."""

    def make(draw: Draw) -> ClippedBall:
        ball = make_ball(kind)(draw)
        generator = torch.Generator().manual_seed(int(draw.rng.integers(2**31)))
        inside = ball.sample(1, generator) if draw.rng.random() < 0.7 else ball.center
        scale = float(ball.radius.max()) + 1e-3
        low = inside - scale * draw.numbers(ball.count, 1).abs()
        high = inside + scale * draw.numbers(ball.count, 1).abs()
        return ClippedBall(ball, Box(low, high))

    return make


MAKERS: dict[str, Maker] = {
    "box": make_box,
    "l1": make_ball(L1Ball),
    "l2": make_ball(L2Ball),
    "clipped l1": make_clipped(L1Ball),
    "clipped l2": make_clipped(L2Ball),
}
every_domain = pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS.keys())
seeds = st.integers(0, 2**32 - 1)


def cases(count: int) -> settings:
    return settings(max_examples=count, deadline=None, derandomize=True, database=None)


def flat(x: Tensor) -> Tensor:
    return x.double().reshape(*x.shape[:2], -1)


def fractions(x: Tensor) -> list[Fraction]:
    return [Fraction(v) for v in x.double().reshape(-1).tolist()]


def dot(a: Tensor, b: Tensor) -> Fraction:
    return sum((p * q for p, q in zip(fractions(a), fractions(b), strict=True)), Fraction())


def rounding(domain: Domain, g: Tensor) -> Tensor:
    """What the roundings in gᵀz may amount to, `[D, R]`.

    Where a ball and a box barely meet, the multiplier is huge and half of the digits are left."""
    eps = torch.finfo(g.dtype).eps
    if isinstance(domain, ClippedBall):
        offset = domain.limits.project(domain.ball.center) - domain.ball.center
        room = 1 - domain.ball.norm(flat(offset)) / domain.ball.radius.clamp(min=1e-300)
        factor = torch.where(room > 0.01, 1000 * eps, 10 * eps**0.5)
        sizes = flat(domain.ball.magnitude() + domain.limits.magnitude()).norm(dim=-1)
    else:
        factor, sizes = torch.tensor(100 * eps), flat(domain.magnitude()).norm(dim=-1)
    return factor * flat(g).norm(dim=-1) * sizes + 1e-30


def is_in(domain: Domain, d: int, z: Tensor) -> bool:
    """Membership by exact arithmetic."""
    if isinstance(domain, ClippedBall):
        return is_in(domain.ball, d, z) and is_in(domain.limits, d, z)
    d %= domain.count
    if isinstance(domain, Box):
        limits = zip(
            fractions(domain.lower[d]), fractions(z), fractions(domain.upper[d]), strict=True
        )
        return all(l <= x <= u for l, x, u in limits)
    assert isinstance(domain, Ball)
    r = Fraction(float(domain.radius[d, 0]))
    offset = [a - b for a, b in zip(fractions(z), fractions(domain.center[d]), strict=True)]
    if isinstance(domain, L1Ball):
        return sum(map(abs, offset)) <= r
    return sum(x * x for x in offset) <= r * r


def assert_all_in(domain: Domain, z: Tensor) -> None:
    assert bool(domain.contains(z).all())
    for d in range(z.shape[0]):
        for point in z[d]:
            assert is_in(domain, d, point)


@every_domain
@cases(40)
@given(seed=seeds)
def test_argmin_is_in_the_set_and_attains_the_minimum(make: Maker, seed: int) -> None:
    draw = Draw(seed)
    domain, g = make(draw), draw.coefficients()
    z = domain.argmin(g)
    assert z.shape == g.shape
    assert z.dtype == draw.dtype
    assert_all_in(domain, z)
    gap = (flat(g) * flat(z)).sum(-1) - domain.min(g).double()
    # z is feasible, so it stays away from the border by the rounding of its largest coordinate
    assert bool((gap.abs() <= rounding(domain, g)).all())


@every_domain
@cases(40)
@given(seed=seeds)
def test_min_less_slack_is_below_every_feasible_value(make: Maker, seed: int) -> None:
    draw = Draw(seed)
    domain, g = make(draw), draw.coefficients()
    samples = domain.sample(8, torch.Generator().manual_seed(seed))
    assert samples.shape == (domain.count, 8, *draw.shape)
    lower = domain.min(g) - domain.slack(g)
    assert lower.shape == (draw.count, draw.rows)
    for d in range(draw.count):
        points = [*samples[d % domain.count], *domain.argmin(g)[d]]
        for j in range(draw.rows):
            best = min(dot(g[d, j], z) for z in points)
            assert Fraction(float(lower[d, j])) <= best


@every_domain
@cases(40)
@given(seed=seeds)
def test_slack_is_a_rounding_error(make: Maker, seed: int) -> None:
    """So that the laws above are not met by a slack of infinity."""
    draw = Draw(seed)
    domain, g = make(draw), draw.coefficients()
    assert bool((domain.slack(g) <= rounding(domain, g)).all())


@every_domain
@cases(40)
@given(seed=seeds)
def test_projections_and_samples_are_in_the_set(make: Maker, seed: int) -> None:
    draw = Draw(seed)
    domain, x = make(draw), draw.coefficients()
    assert_all_in(domain, domain.project(x))
    generator = torch.Generator().manual_seed(seed)
    assert_all_in(domain, domain.sample(6, generator).expand(domain.count, 6, *draw.shape))


@every_domain
@cases(40)
@given(seed=seeds)
def test_projection_leaves_inner_points_where_they_are(make: Maker, seed: int) -> None:
    draw = Draw(seed)
    domain = make(draw)
    inside = domain.sample(4, torch.Generator().manual_seed(seed))
    eps = torch.finfo(draw.dtype).eps
    moved = (domain.project(inside) - inside).abs()
    scale = domain.magnitude().amax() + 1e-30
    assert bool((moved <= 50 * eps * scale).all())


@every_domain
@cases(40)
@given(seed=seeds)
def test_box_is_tight(make: Maker, seed: int) -> None:
    """It holds every point, and the minimum of ± each coordinate is its border."""
    draw = Draw(seed)
    domain = make(draw)
    lower, upper = domain.box()
    assert lower.shape == upper.shape == (domain.count, 1, *draw.shape)
    n = lower[0].numel()
    samples = domain.sample(8, torch.Generator().manual_seed(seed))
    assert bool(((lower <= samples) & (samples <= upper)).all())
    unit = (
        torch.eye(n, dtype=draw.dtype)
        .reshape(1, n, *draw.shape)
        .expand(domain.count, -1, *draw.shape)
    )
    # reach is a square root of a difference: half the digits where the ball barely meets the box
    tolerance = torch.finfo(draw.dtype).eps ** 0.5 * (domain.magnitude().amax() + 1e-30)
    assert bool(((domain.min(unit) - flat(lower)[:, 0]).abs() <= tolerance).all())
    assert bool(((domain.min(-unit) + flat(upper)[:, 0]).abs() <= tolerance).all())
    assert torch.equal(domain.magnitude(), lower.abs().maximum(upper.abs()))


@pytest.mark.parametrize(("kind", "legs"), [(L1Ball, (3, 4, 7)), (L2Ball, (3, 4, 5))])
@pytest.mark.parametrize("dtype", DTYPES)
def test_box_holds_points_that_are_exactly_on_the_sphere(
    kind: type[Ball], legs: tuple[int, int, int], dtype: torch.dtype
) -> None:
    """‖(3k, ±4k)‖ is 7k and 5k in exact arithmetic: reach must not be rounded inwards."""
    for k in (1.0, 0.375, 3.0, 11 * 2.0**-40, 12345.0, 1000003.0):
        a, b, r = (torch.tensor(k * leg, dtype=dtype) for leg in legs)
        assert (a.double() / 3 == b.double() / 4) & (a.double() / 3 == k)  # representable
        on_sphere = torch.stack([torch.stack([a, b]), torch.stack([a, -b])])[None]
        on_sphere = torch.cat([on_sphere, torch.stack([r, 0 * r]).expand(1, 1, 2)], dim=1)
        limits = Box(torch.stack([a, -2 * r])[None, None], torch.stack([2 * r, 2 * r])[None, None])
        domain = ClippedBall(kind(torch.zeros(1, 1, 2, dtype=dtype), r.reshape(1, 1)), limits)
        assert bool(domain.contains(on_sphere).all())
        lower, upper = domain.box()
        assert bool(((lower <= on_sphere) & (on_sphere <= upper)).all())


@every_domain
@cases(40)
@given(seed=seeds)
def test_conversion_only_enlarges(make: Maker, seed: int) -> None:
    draw = Draw(seed)
    draw.dtype = torch.float64
    domain = make(draw)
    samples = domain.sample(6, torch.Generator().manual_seed(seed))
    narrow = domain.to(torch.float32)
    assert narrow.box()[0].dtype == torch.float32
    assert_all_in(narrow, samples)
    assert_all_in(narrow.to(torch.float64), samples)


@every_domain
@cases(30)
@given(seed=seeds)
def test_sub_problems_do_not_depend_on_each_other(make: Maker, seed: int) -> None:
    draw = Draw(seed)
    domain, g = make(draw), draw.coefficients()
    index = torch.tensor([draw.count - 1])
    picked = domain.pick(index)
    if domain.count == 1:
        assert picked.count == 1
    close = rounding(domain, g)[index]
    assert bool(((picked.min(g[index]) - domain.min(g)[index]).abs() <= close).all())
    assert bool(
        domain.contains(picked.argmin(g[index]).expand(draw.count, -1, *draw.shape))[index].all()
    )


@every_domain
@cases(40)
@given(seed=seeds)
def test_clip_is_the_intersection(make: Maker, seed: int) -> None:
    draw = Draw(seed)
    domain = make(draw)
    samples = domain.sample(12, torch.Generator().manual_seed(seed))
    lower, _ = domain.box()
    middle = samples[:, :1]
    half = domain.clip(lower, middle)
    assert_all_in(domain, half.sample(6, torch.Generator().manual_seed(seed)))
    expected = domain.contains(samples) & flat(samples <= middle).all(-1)
    assert torch.equal(half.contains(samples), expected)


# The exact optimum by means that are not ours.


def exact_box(box: Box, d: int, g: Tensor) -> Fraction:
    limits = zip(fractions(g), fractions(box.lower[d]), fractions(box.upper[d]), strict=True)
    return sum((min(c * l, c * u) for c, l, u in limits), Fraction())


@cases(40)
@given(seed=seeds)
def test_eq_box_bounds_sol(seed: int) -> None:
    """z_0 = l_0 where W_1ᵀρ_1 < 0 and u_0 where W_1ᵀρ_1 ≥ 0, for the minimum of −ρ_1ᵀW_1 z_0."""
    draw = Draw(seed)
    box, pulled_back = make_box(draw), draw.coefficients()  # W_1ᵀρ_1
    expected = torch.where(pulled_back < 0, box.lower, box.upper)
    assert torch.equal(box.argmin(-pulled_back), expected)
    lower = box.min(-pulled_back) - box.slack(-pulled_back)
    for d in range(draw.count):
        for j in range(draw.rows):
            assert Fraction(float(lower[d, j])) <= exact_box(box, d % box.count, -pulled_back[d, j])


@cases(40)
@given(seed=seeds)
def test_l1_minimum_is_a_vertex(seed: int) -> None:
    draw = Draw(seed)
    ball, g = make_ball(L1Ball)(draw), draw.coefficients()
    lower = ball.min(g) - ball.slack(g)
    for d in range(draw.count):
        center, radius = (
            ball.center[d % ball.count],
            Fraction(float(ball.radius[d % ball.count, 0])),
        )
        for j in range(draw.rows):
            best = dot(g[d, j], center) - radius * max(map(abs, fractions(g[d, j])))
            assert Fraction(float(lower[d, j])) <= best
            assert abs(Fraction(float(ball.min(g)[d, j])) - best) <= Fraction(
                float(ball.slack(g)[d, j])
            )


@cases(40)
@given(seed=seeds)
def test_l2_minimum_in_rational_arithmetic(seed: int) -> None:
    """q ≤ gᵀx̄ − ε‖g‖  ⇔  q ≤ gᵀx̄ and (gᵀx̄ − q)² ≥ ε² gᵀg, which needs no root."""
    draw = Draw(seed)
    ball, g = make_ball(L2Ball)(draw), draw.coefficients()
    lower, upper = ball.min(g) - ball.slack(g), ball.min(g) + ball.slack(g)
    for d in range(draw.count):
        center, radius = (
            ball.center[d % ball.count],
            Fraction(float(ball.radius[d % ball.count, 0])),
        )
        for j in range(draw.rows):
            depth = dot(g[d, j], center) - Fraction(float(lower[d, j]))
            assert depth >= 0
            assert depth**2 >= radius**2 * dot(g[d, j], g[d, j])
            depth = dot(g[d, j], center) - Fraction(float(upper[d, j]))
            assert depth <= 0 or depth**2 <= radius**2 * dot(g[d, j], g[d, j])


def numpy_problem(domain: ClippedBall, g: Tensor) -> tuple[np.ndarray, ...]:
    arrays = (g, domain.ball.center, domain.limits.lower, domain.limits.upper)
    return tuple(x.double().reshape(-1).numpy() for x in arrays)


def linear_program(domain: ClippedBall, g: Tensor) -> float:
    """min gᵀz with |z − c| ≤ t, Σt ≤ r, l ≤ z ≤ u, by HiGHS."""
    a, c, l, u = numpy_problem(domain, g)
    n, eye = len(a), np.eye(len(a))
    rows = np.block([[eye, -eye], [-eye, -eye], [np.zeros((1, n)), np.ones((1, n))]])
    right = np.concatenate([c, -c, [float(domain.ball.radius)]])
    limits = [*zip(l, u, strict=True), *[(0, None)] * n]
    found = linprog(np.concatenate([a, 0 * a]), A_ub=rows, b_ub=right, bounds=limits)
    assert found.status == 0
    return float(found.fun)


def descend(domain: ClippedBall, g: Tensor) -> float:
    """min gᵀz with ‖z − c‖² ≤ r², l ≤ z ≤ u, by SLSQP."""
    a, c, l, u = numpy_problem(domain, g)
    r = float(domain.ball.radius)
    found = minimize(
        lambda z: a @ z,
        np.clip(c, l, u),
        jac=lambda z: a,
        bounds=list(zip(l, u, strict=True)),
        constraints={
            "type": "ineq",
            "fun": lambda z: r * r - np.sum((z - c) ** 2),
            "jac": lambda z: -2 * (z - c),
        },
        method="SLSQP",
        options={"ftol": 1e-10, "maxiter": 500},
    )
    assert found.status in (0, 8)  # converged, or no descent left in its arithmetic
    assert np.linalg.norm(found.x - c) <= r + 1e-8
    return float(found.fun)


@pytest.mark.parametrize(
    ("kind", "solve"), [(L1Ball, linear_program), (L2Ball, descend)], ids=["l1", "l2"]
)
@cases(40)
@given(seed=seeds, center_inside=st.booleans())
def test_clipped_minimum_against_a_solver(
    kind: type[Ball], solve: Callable[[ClippedBall, Tensor], float], seed: int, center_inside: bool
) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 9))
    center, g, a, b = (torch.tensor(rng.normal(size=(1, 1, n))) for _ in range(4))
    lower, upper = a.minimum(b), a.maximum(b)
    if center_inside:
        lower, upper = lower.minimum(center), upper.maximum(center)
    closest = kind.norm((center.clamp(lower, upper) - center)[:, 0])
    ball = kind(center, (closest + rng.uniform(0.05, 2.0)).reshape(1, 1))
    domain = ClippedBall(ball, Box(lower, upper))
    value, slack = float(domain.min(g)), float(domain.slack(g))
    assert value - slack <= solve(domain, g) + 1e-6
    assert value == pytest.approx(solve(domain, g), abs=1e-6)


@pytest.mark.parametrize("kind", [L1Ball, L2Ball])
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_box_that_touches_the_ball_in_one_point(kind: type[Ball], dtype: torch.dtype) -> None:
    ball = kind(torch.zeros(1, 1, 2, dtype=dtype), torch.ones(1, 1, dtype=dtype))
    lower = torch.tensor([[[1.0, -1.0]]], dtype=dtype)
    domain = ClippedBall(ball, Box(lower, lower + 2))
    g = torch.tensor([[[1.0, 1.0], [-1.0, 0.5], [0.0, -2.0]]], dtype=dtype)
    only = torch.tensor([[[1.0, 0.0]]], dtype=dtype)
    assert torch.equal(domain.argmin(g), only.expand(1, 3, 2))
    exact = torch.tensor([[1.0, -1.0, 0.0]], dtype=dtype)
    assert bool((domain.min(g) - domain.slack(g) <= exact).all())
    assert bool((domain.min(g) >= exact - 1e-4).all())  # no finite multiplier attains it


@pytest.mark.parametrize("kind", [L1Ball, L2Ball])
@pytest.mark.parametrize("scale", [1e-300, 1e-30, 1e30, 1e150])
def test_extreme_coefficients(kind: type[Ball], scale: float) -> None:
    g = scale * torch.tensor([[[3.0, -4.0, 0.0]]], dtype=torch.float64)
    ball = kind(torch.ones(1, 1, 3, dtype=torch.float64), torch.ones(1, 1, dtype=torch.float64))
    box = Box(*(x * torch.ones(1, 1, 3, dtype=torch.float64) for x in (0.9, 1.5)))
    for domain in (ball, ClippedBall(ball, box)):
        plain = domain.min(g / scale) * scale
        assert torch.allclose(domain.min(g), plain, rtol=1e-9, atol=0)
        assert torch.allclose(domain.argmin(g), domain.argmin(g / scale), rtol=1e-9)


def test_l1_projection_is_euclidean() -> None:
    rng = np.random.default_rng(5)
    for _ in range(20):
        center, x = (torch.tensor(rng.normal(size=(1, 1, 4))) for _ in range(2))
        ball = L1Ball(center, torch.tensor([[rng.uniform(0.1, 2.0)]], dtype=torch.float64))
        projected = ball.project(x)
        # the variational inequality (x − p)ᵀ(v − p) ≤ 0 at the vertices v of the ball
        for i in range(4):
            for sign in (-1.0, 1.0):
                vertex = center.clone()
                vertex[0, 0, i] += sign * ball.radius[0, 0]
                assert float(((x - projected) * (vertex - projected)).sum()) <= 1e-9


def test_sphere_membership_is_exact() -> None:
    """(3, 4)/5 is on the unit circle for no pair of floats; scaled to integers it is."""
    ball = L2Ball(torch.zeros(1, 1, 2, dtype=torch.float64), torch.full((1, 1), 5.0).double())
    on = torch.tensor([[[3.0, 4.0]]], dtype=torch.float64)
    out = torch.nextafter(on, torch.full_like(on, 9.0))
    assert ball.contains(on).tolist() == [[True]]
    assert ball.contains(out).tolist() == [[False]]


def test_l_infinity_ball_rounds_outwards() -> None:
    center = torch.tensor([[[0.3, 0.1, 0.95]]], dtype=torch.float64)
    for dtype in DTYPES:
        box = Box.ball(center.to(dtype), 0.1, clip=(0.0, 1.0))
        for c, l, u in zip(
            fractions(center.to(dtype)), fractions(box.lower), fractions(box.upper), strict=True
        ):
            assert l <= max(Fraction(0), c - Fraction(0.1))
            assert u >= min(Fraction(1), c + Fraction(0.1))
            assert float(u - l) <= 0.2 + 1e-6


POINT = torch.zeros(1, 1, 2)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Box(POINT + 1, POINT), "exceeds upper"),
        (lambda: Box(POINT, POINT.double()), "alike"),
        (lambda: Box(POINT[0, 0], POINT[0, 0]), "leading axes"),
        (lambda: Box(POINT / 0, POINT), "NaN or infinity"),
        (lambda: Box(POINT.long(), POINT.long()), "floating-point"),
        (lambda: Box.ball(POINT, -1.0), "≥ 0"),
        (lambda: Box.ball(POINT, float("nan")), "≥ 0"),
        (lambda: Box.ball(POINT + 3, 1.0, clip=(0.0, 1.0)), "exceeds upper"),
        (lambda: L2Ball(POINT, torch.tensor([[-1.0]])), "negative"),
        (lambda: L1Ball(POINT, torch.tensor([[torch.inf]])), "not finite"),
        (lambda: L2Ball(POINT, torch.ones(3, 1)), "one per sub-problem"),
        (lambda: L2Ball(POINT, torch.ones(1, 1)).clip(POINT + 2, POINT + 3), "no point in common"),
        (
            lambda: L1Ball(POINT, torch.ones(1, 1)).clip(POINT + 0.6, POINT + 3),
            "no point in common",
        ),
        (
            lambda: ClippedBall(
                L2Ball(POINT, torch.ones(1, 1)), Box(POINT[..., :1], POINT[..., :1])
            ),
            "alike",
        ),
    ],
)
def test_bad_sets_are_refused_in_one_line(build: Callable[[], Domain], message: str) -> None:
    with pytest.raises(InvalidInput, match=message) as caught:
        build()
    assert "\n" not in str(caught.value)
