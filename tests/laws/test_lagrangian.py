"""Laws of the Lagrangian-relaxation dual d(μ, λ), and the paper's Theorem 1: q(μ) >= d(μ, λ)."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from random_networks import ACTIVATIONS, Case, Draw, case, triangle
from torch import Tensor

from anybound.bound.lagrangian import Lagrangian
from anybound.layers import Layers

seeds = st.integers(0, 2**32 - 1)


def cases(count: int) -> settings:
    return settings(max_examples=count, deadline=None, derandomize=True, database=None)


def draw_dual_point(one: Case, draw: Draw) -> tuple[Layers, Layers]:
    """μ and λ, of which some λ are close to the one that makes the duals equal."""
    mu = one.rhos(draw)
    best = -one.dual.coefficients(mu).hidden.data
    noise = one.rhos(draw).data
    return mu, mu.like(best * (draw.normal(*best.shape[:2], 1) > 0) + noise)


def scale(one: Case, mu: Layers, lam: Layers) -> Tensor:
    return 1 + (mu.data.abs() + lam.data.abs()).sum(-1) + one.rows.abs().sum()


def check_theorem_1(one: Case, draw: Draw) -> int:
    mu, lam = draw_dual_point(one, draw)
    d, q = Lagrangian(one.dual).value(mu, lam), one.dual.value(mu)
    assert (q >= d - 1e-11 * scale(one, mu, lam)).all()
    return q.numel()


def test_theorem() -> None:
    """Theorem 1 of the paper, for ReLU networks, on 10,000 and more (network, bounds, μ, λ)."""
    count = sum(
        check_theorem_1(case(seed, activations=("relu",), rows=300), Draw(seed))
        for seed in range(30)
    )
    assert count >= 10_000


@cases(20)
@given(seeds)
def test_theorem_1_holds_for_every_activation(seed: int) -> None:
    check_theorem_1(case(seed, activations=ACTIVATIONS, rows=20), Draw(seed))


@cases(20)
@given(seeds)
def test_d_is_q_where_lambda_is_minus_the_coefficient(seed: int) -> None:
    one = case(seed, rows=10)
    mu = one.rhos(Draw(seed))
    lam = mu.like(-one.dual.coefficients(mu).hidden.data)
    gap = Lagrangian(one.dual).value(mu, lam) - one.dual.value(mu)
    assert (gap.abs() <= 1e-11 * scale(one, mu, lam)).all()


@cases(20)
@given(seeds)
def test_d_is_below_every_sample(seed: int) -> None:
    one, draw = case(seed, rows=20), Draw(seed)
    mu, lam = draw_dual_point(one, draw)
    least = one.sampled_minimum(200, seed)
    assert (Lagrangian(one.dual).value(mu, lam) <= least + 1e-11 * scale(one, mu, lam)).all()


@cases(20)
@given(seeds)
def test_d_is_concave_and_has_the_supergradients_given(seed: int) -> None:
    one, draw = case(seed, rows=10), Draw(seed)
    (mu, lam), (mu2, lam2) = draw_dual_point(one, draw), draw_dual_point(one, draw)
    at = Lagrangian(one.dual).inner_min(mu, lam)
    tangent = at.value + (at.grad_mu * (mu2.data - mu.data)).sum(-1)
    tangent = tangent + (at.grad_lam * (lam2.data - lam.data)).sum(-1)
    size = scale(one, mu, lam) + scale(one, mu2, lam2)
    reach = 1 + at.grad_mu.abs().sum(-1) + at.grad_lam.abs().sum(-1)
    assert (Lagrangian(one.dual).value(mu2, lam2) <= tangent + 1e-12 * size * reach).all()


def test_d_of_a_neuron_by_hand() -> None:
    """min x ↦ max(x, 0) on [−1, 2]: d = min over z of (g + λ) z + min over x of μ x − λ max(x, 0)."""
    one = triangle(lower=-1.0, upper=2.0, first=1.0, second=1.0)
    like = one.dual.zeros()
    mu, lam = (like.like(torch.full_like(like.data, v)) for v in (0.5, -0.25))
    # P_0: −0.5·x on [−1, 2] is −1; (1 − 0.25)·z on [0, 2] is 0; 0.5 x + 0.25 max(x, 0) is −0.5 at −1
    assert float(Lagrangian(one.dual).value(mu, lam)) == -1.5
