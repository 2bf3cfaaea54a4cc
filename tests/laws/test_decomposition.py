"""Laws of q(ρ) on random graphs, for all activations and input sets.

Oracles: q in 150 digits from its definition; samples of the input set run forward.
"""

from __future__ import annotations

from dataclasses import replace

import mpmath
import pytest
import torch
from exact_dual import exact_q
from hypothesis import given, settings
from hypothesis import strategies as st
from random_networks import ACTIVATIONS, DOMAINS, Case, Draw, case, triangle
from torch import Tensor

from anybound.bound.backward import Start
from anybound.bound.bounds import Bounds
from anybound.bound.decomposition import Decomposition
from anybound.bound.interval import interval
from anybound.errors import AnyboundError
from anybound.layers import Layers
from anybound.model.activations.relu import ReLU
from anybound.model.affine.dense import Dense
from anybound.model.domains.box import Box
from anybound.model.network import Edge, Network, Node
from anybound.spec.problem import Objective, Problem

seeds = st.integers(0, 2**32 - 1)
EXACT_DOMAINS = ("box", "l1", "l2")


def cases(count: int) -> settings:
    return settings(max_examples=count, deadline=None, derandomize=True, database=None)


def close(a: Tensor, b: Tensor, tolerance: float) -> bool:
    return bool(((a - b).abs() <= tolerance * (1 + b.abs())).all())


def check_exactly(one: Case, rho: Layers, *, tightness: float | None) -> None:
    """rigorous(ρ) <= q(ρ), and not much less."""
    rigorous, value = one.dual.rigorous(rho), one.dual.value(rho)
    assert rigorous.dtype == torch.float64
    for d in range(rigorous.shape[0]):
        for r in range(rigorous.shape[1]):
            q = exact_q(one, rho.data[d, r], d, r)
            with mpmath.workdps(50):
                assert mpmath.mpf(float(rigorous[d, r])) <= q
                if tightness is not None:
                    size = 1 + float(rho.data[d, r].abs().sum() + one.rows[r].abs().sum())
                    assert q - mpmath.mpf(float(rigorous[d, r])) <= tightness * size
                    assert abs(q - mpmath.mpf(float(value[d, r]))) <= tightness * size


@cases(30)
@given(seeds)
def test_rigorous_is_below_the_exact_value_and_close_to_it(seed: int) -> None:
    one = case(seed, domains=EXACT_DOMAINS, rows=2, images=False, subproblems=1 + seed % 2)
    check_exactly(one, one.rhos(Draw(seed)), tightness=1e-11)


@cases(30)
@given(seeds)
def test_badly_scaled_weights_are_refused_or_bounded_soundly(seed: int) -> None:
    """Every map's weights and bias, and ρ, scaled by anything from 1e-20 to 1e20."""
    one, draw = case(seed, domains=EXACT_DOMAINS, rows=1, images=False, subproblems=1), Draw(seed)

    def scaled(edge: Edge) -> Edge:
        if not isinstance(edge.map, Dense):
            return edge
        factor, shift = 10.0 ** draw.int(-20, 20), 10.0 ** draw.int(-20, 20)
        bias = None if edge.map.bias is None else edge.map.bias * shift
        return Edge(edge.source, replace(edge.map, weight=edge.map.weight * factor, bias=bias))

    nodes = (replace(n, edges=tuple(map(scaled, n.edges))) for n in one.network.nodes)
    network = Network(tuple(nodes))
    try:
        bounds = interval(network, one.domain)
    except AnyboundError:
        return
    one = replace(one, network=network, bounds=bounds)
    rho = one.rhos(draw)
    sizes = torch.from_numpy(10.0 ** draw.rng.integers(-20, 20, rho.data.shape))
    check_exactly(one, rho.like(rho.data * sizes), tightness=None)


@cases(40)
@given(seeds)
def test_both_sides_at_once_are_those_of_two_problems(seed: int) -> None:
    one = case(seed)
    below, above = one.dual, replace(one, rows=-one.rows).dual
    rho = one.rhos(Draw(seed))
    lower, negative = below.rigorous_sides(rho, below.coefficients(rho))
    for found, wanted in (
        (lower, below.rigorous(rho)),
        (negative, above.rigorous(rho.like(-rho.data))),
    ):
        assert close(found, wanted, 1e-9)


def test_many_biases_that_cancel_are_accounted_for() -> None:
    """Summing ρᵀb over the layers rounds relative to its parts, not to its small result."""
    one = torch.ones(1, 1, dtype=torch.float64)
    sizes = [1e16, *[1.0] * 40, -1e16]  # every 1 is lost
    nodes = [Node((1,))]
    for k, size in enumerate(sizes):
        edge = Edge(k, Dense.of(one * 1e-3, torch.tensor([size], dtype=torch.float64)))
        nodes.append(Node((1,), (edge,), ReLU()))
    nodes.append(Node((1,), (Edge(len(sizes), Dense.of(one)),)))
    network, box = Network(tuple(nodes)), Box(-one[None], one[None])
    still = Layers(network.layout, torch.zeros(1, 1, len(sizes), dtype=torch.float64))
    big = case(0)  # any problem to take the fields from
    one_case = replace(big, network=network, domain=box, bounds=Bounds(still, still), rows=one)
    check_exactly(one_case, still.like(torch.ones_like(still.data)), tightness=None)


@pytest.mark.parametrize("seed", range(8))
def test_coefficients_that_cancel_are_accounted_for(seed: int) -> None:
    """Wᵀρ rounds relative to |W|ᵀ|ρ|, not to its small result; here x multiplies it."""
    draw, n = Draw(seed), 400
    weight, rho = draw.normal(n, 1), draw.normal(n)
    for i in (-2, -1):  # the last multipliers cancel what the others sum up to
        rho[i] = -((weight[:, 0] * rho).sum() - weight[i, 0] * rho[i]) / weight[i, 0]
    one = torch.ones(1, 1, dtype=torch.float64)
    nodes = (
        Node((1,)),
        Node((n,), (Edge(0, Dense.of(weight)),), ReLU()),
        Node((1,), (Edge(1, Dense.of(torch.zeros(1, n, dtype=torch.float64))),)),
    )
    network = Network(nodes)
    nothing = Layers(network.layout, torch.zeros(1, 1, n, dtype=torch.float64))
    box = Box(-one[None], one[None] * draw.int(0, 1))
    a_case = replace(
        case(0), network=network, domain=box, bounds=Bounds(nothing, nothing), rows=one
    )
    check_exactly(a_case, nothing.like(rho[None, None]), tightness=None)


@pytest.mark.parametrize("domain", DOMAINS)
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_q_is_below_every_sample(activation: str, domain: str) -> None:
    """Over all parametrisations 12,000 and more (network, bounds, objective, ρ)."""
    seen = 0
    for seed in range(2):
        names = (activation, activation, *ACTIVATIONS)
        one = case(1000 * seed + 7, activations=names, domains=(domain,), rows=120)
        rho = one.rhos(Draw(seed))
        least = one.sampled_minimum(100, seed)
        q = one.dual.rigorous(rho)
        seen += q.numel()
        assert (q <= least + 1e-12 * (1 + least.abs().nan_to_num(posinf=0))).all()
        assert q.isfinite().all()
    assert seen >= 240


@cases(20)
@given(seeds)
def test_q_is_concave_and_the_mismatch_a_supergradient(seed: int) -> None:
    one, draw = case(seed, rows=16), Draw(seed)
    dual, a, b = one.dual, one.rhos(draw), one.rhos(draw)
    at_a, at_b = dual.inner_min(a), dual.inner_min(b)
    assert close(at_a.value, dual.value(a), 1e-12)
    size = 1 + (a.data.abs() + b.data.abs()).sum(-1) * (1 + at_a.mismatch.abs().sum(-1))
    tangent = at_a.value + (at_a.mismatch * (b.data - a.data)).sum(-1)
    assert (at_b.value <= tangent + 1e-12 * size).all()
    middle = dual.value(a.like((a.data + b.data) / 2))
    assert (middle >= (at_a.value + at_b.value) / 2 - 1e-12 * size).all()


def test_the_mismatch_is_the_gradient_where_q_is_smooth() -> None:
    smooth = total = 0
    for seed in range(20):
        one, draw = case(seed, rows=8, cuts=False), Draw(seed)
        dual, rho, h = one.dual, one.rhos(draw), 1e-6
        rho = rho.like(rho.data + 0.1 * draw.normal(*rho.data.shape))  # off the ties of the starts
        v = draw.normal(*rho.data.shape)
        up, down = (dual.inner_min(rho.like(rho.data + s * h * v)) for s in (1, -1))
        slopes = [(p.mismatch * v).sum(-1) for p in (up, down, dual.inner_min(rho))]
        here = (slopes[0] - slopes[1]).abs() <= 1e-3 * (1 + slopes[2].abs())
        difference = (up.value - down.value) / (2 * h)
        assert close(difference[here], slopes[2][here], 1e-3)
        smooth, total = smooth + int(here.sum()), total + here.numel()
    assert smooth > 0.8 * total


@cases(20)
@given(seeds)
def test_the_inner_minimiser_is_feasible_and_attains_the_value(seed: int) -> None:
    one, draw = case(seed, rows=5), Draw(seed)
    dual, rho = one.dual, one.rhos(draw)
    p = dual.inner_min(rho)
    l, u = one.bounds.lower.data, one.bounds.upper.data
    slightly = 1e-12 * (1 + l.abs() + u.abs())
    assert (p.zhat_b.data >= l - slightly).all()
    assert (p.zhat_b.data <= u + slightly).all()
    for k, activation in one.network.activations():
        assert close(activation.value(p.zhat_b[k]), p.z[k], 1e-12)  # on the graph of σ
    again = one.network.apply(p.z0, p.z)
    assert close(again.data, p.zhat_a.data, 1e-12)
    objective = one.problem.objective
    linear = objective.constant + sum(
        (a * (p.z[j] if j else p.z0)).flatten(2).sum(-1) for j, a in objective.coefficients.items()
    )
    lagrangian = linear + (rho.data * p.mismatch).sum(-1)
    size = 1 + (rho.data.abs() * (1 + p.mismatch.abs())).sum(-1)
    assert ((lagrangian - p.value).abs() <= 1e-9 * size).all()


@cases(10)
@given(seeds)
def test_a_batch_is_its_problems_one_by_one(seed: int) -> None:
    one, draw = case(seed, rows=3, subproblems=3), Draw(seed)
    rho = one.rhos(draw)
    rho = rho.like(rho.data + 0.1 * draw.normal(*rho.data.shape))  # off the ties of the starts
    rigorous, mismatch = one.dual.rigorous(rho), one.dual.inner_min(rho).mismatch
    for d in range(len(rho.data)):
        for r in range(3):
            alone = replace(one.pick(d), rows=one.rows[r : r + 1])
            single = rho.like(rho.data[d : d + 1, r : r + 1])
            assert close(alone.dual.rigorous(single), rigorous[d : d + 1, r : r + 1], 1e-12)
            assert close(alone.dual.inner_min(single).mismatch[0, 0], mismatch[d, r], 1e-7)


@cases(15)
@given(seeds)
def test_bounds_may_be_shared_by_several_input_sets(seed: int) -> None:
    """Bounds that hold for all sets, D = 1, give what copies of them do."""
    one, draw = case(seed, rows=2, subproblems=2), Draw(seed)
    shared = Bounds(
        one.bounds.lower.like(one.bounds.lower.data.amin(0, keepdim=True)),
        one.bounds.upper.like(one.bounds.upper.data.amax(0, keepdim=True)),
    )
    copies = Bounds(*(x.like(x.data.expand(2, -1, -1)) for x in (shared.lower, shared.upper)))
    rho = replace(one, bounds=copies).rhos(draw)
    for d in range(len(rho.data)):
        domain = one.domain.pick(torch.tensor([d]))
        alone = Decomposition.between(
            Problem(one.network, domain, Objective.rows(one.network, one.rows)), shared
        )
        expected = alone.rigorous(rho.like(rho.data[d : d + 1]))
        if one.domain.count == 2:
            several = replace(one, bounds=shared).dual.rigorous(rho)
            assert close(several[d : d + 1], expected, 1e-12)
        assert close(replace(one, bounds=copies).dual.rigorous(rho)[d : d + 1], expected, 1e-12)


@cases(30)
@given(seeds)
def test_single_precision_stays_within_its_own_margin(seed: int) -> None:
    """In float32, too, `rigorous` is below the exact value; the search's value is so up to its margin."""
    one, draw = case(seed, rows=6), Draw(seed)
    exact, rough = (
        one.dual,
        Decomposition.between(one.problem.to(torch.float32), one.bounds.to(torch.float32)),
    )
    rho = one.rhos(draw).to(torch.float32)
    safe = rough.rigorous(rho).double()
    wide = rho.to(torch.float64)
    top = exact.value(wide) + 1e-11 * (1 + wide.data.abs().sum(-1))
    assert (safe <= top).all()
    margin = rough.value(rho).double() - safe
    assert (rough.value(rho).double() <= top + 1.01 * margin).all()
    assert (margin <= 1e-3 * (1 + wide.data.abs().sum(-1)) * (1 + one.rows.abs().sum())).all()


@pytest.mark.parametrize(
    ("lower", "upper", "second", "chosen"),
    [
        (-1.0, 3.0, -1.0, -1.0),  # ambiguous, ν̂ > 0: the three vertices tie, l is taken
        (-1.0, 3.0, 1.0, 0.0),  # ambiguous, ν̂ < 0: 0 is the only minimiser
        (1.0, 3.0, -1.0, 3.0),  # passing: coefficient 0, u is taken
        (-3.0, -1.0, -1.0, -1.0),  # blocked: coefficient 0, u is taken
    ],
)
def test_ties_at_the_start_of_wong_and_kolter(
    lower: float, upper: float, second: float, chosen: float
) -> None:
    one = triangle(lower=lower, upper=upper, first=1.0, second=second)
    p = one.dual.inner_min(Start.WK.rho(one.dual))
    assert float(p.zhat_b.data) == chosen


def test_where_the_input_has_no_cost_its_upper_limit_is_taken() -> None:
    one = triangle(lower=-1.0, upper=3.0, first=1.0, second=-1.0)
    p = one.dual.inner_min(one.dual.zeros())
    assert float(p.z0) == 3.0


@pytest.mark.parametrize("reads_input", [True, False])
def test_networks_without_hidden_layers(reads_input: bool) -> None:
    weight = torch.tensor([[1.0, -2.0]], dtype=torch.float64) * reads_input
    network = Network((Node((2,)), Node((1,), (Edge(0, Dense.of(weight, weight[:, 0])),))))
    box = Box.ball(torch.ones(1, 1, 2, dtype=torch.float64), 0.5)
    dual = Decomposition.between(
        Problem(network, box, Objective.rows(network, torch.ones(1, 1, dtype=torch.float64))),
        interval(network, box),
    )
    rho = dual.zeros()
    expected = (0.5 - 3.0 + 1.0) * reads_input
    assert float(dual.value(rho)) == pytest.approx(expected)
    assert -1e-12 <= float(dual.rigorous(rho)) - expected <= 0
    assert dual.inner_min(rho).mismatch.shape == (1, 1, 0)


def test_a_value_that_overflows_is_no_bound() -> None:
    one = triangle(lower=-1.0, upper=3.0, first=1.0, second=1.0)
    for wild in (torch.inf, torch.nan, 1e308):
        rho = one.dual.zeros()
        rigorous = one.dual.rigorous(rho.like(torch.full_like(rho.data, wild)))
        assert float(rigorous) == -torch.inf or float(rigorous) <= 0
