"""Every numbered equation of the paper that the code implements, by its LaTeX label, errata applied.

Small numbers worked out by hand, or the paper's expression written once more in NumPy. A network
here is ẑ_1 = W_1 x + b_1, ẑ_2 = W_2 ReLU(ẑ_1) + b_2, out = cᵀ ẑ_2 behind one more ReLU, unless said.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from random_networks import Case, Draw, case, triangle
from relaxation_lp import optima
from torch import Tensor

from anybound.bound.backward import Start
from anybound.bound.decomposition import Decomposition
from anybound.bound.hull import Hull
from anybound.bound.lagrangian import Lagrangian
from anybound.bound.linear_program import LinearProgram
from anybound.bound.method import maximise
from anybound.bound.methods.lp import LP
from anybound.bound.methods.proximal import Proximal, ProximalState, _block_step, _joint_step
from anybound.bound.methods.supergradient import Supergradient
from anybound.bound.schedules import Linear
from anybound.bound.updates import Adam
from anybound.layers import Layers
from anybound.model.activations import ReLU, Sigmoid
from anybound.model.domains.box import Box
from anybound.model.domains.l2_ball import L2Ball

Vector = NDArray[np.float64]


@dataclass
class Chain:
    """A ReLU chain in NumPy: W[k], b[k] for k = 1 … n, l[k], u[k] for k < n, c."""

    one: Case

    def __post_init__(self) -> None:
        net, bounds = self.one.network, self.one.bounds
        self.n = net.n
        self.W, self.b = {}, {}
        for k, node in enumerate(net.nodes[1:], start=1):
            (edge,) = node.edges
            self.W[k] = edge.map.sparse().toarray()
            zero = torch.zeros(node.shape, dtype=torch.float64)
            self.b[k] = (zero if edge.map.bias is None else zero + edge.map.bias).numpy()
        self.l = {k: bounds.lower.flat(k)[0, 0].numpy() for k in net.hidden}
        self.u = {k: bounds.upper.flat(k)[0, 0].numpy() for k in net.hidden}
        self.c = self.one.rows[0].numpy()
        self.dual = replace(self.one, rows=self.one.rows[:1]).dual

    def split(self, rho: Layers) -> dict[int, Vector]:
        """ρ_1 … ρ_n with ρ_n = −c."""
        return {k: rho.flat(k)[0, 0].numpy() for k in self.one.network.hidden} | {self.n: -self.c}

    def rho(self, seed: int) -> Layers:
        like = self.dual.zeros()
        return like.like(Draw(seed).normal(*like.data.shape))


def relu_chain(seed: int) -> Chain:
    while True:
        one = case(
            seed,
            activations=("relu",),
            domains=("box",),
            rows=1,
            subproblems=1,
            images=False,
            chain=True,
            cuts=False,
        )
        if one.network.n >= 3 and bool(one.dual.hull.ambiguous.any()):
            return Chain(one)
        seed += 1000


chains = pytest.mark.parametrize("chain", [relu_chain(s) for s in range(6)])


def box_of(chain: Chain) -> tuple[Vector, Vector]:
    box = chain.one.domain
    assert isinstance(box, Box)
    return box.lower.flatten().numpy(), box.upper.flatten().numpy()


def layer(value: Layers, k: int) -> Vector:
    return np.asarray(value.flat(k)[0, 0].numpy())


# ---- the problem and its duals ----------------------------------------------------------------


@chains
def test_eq_planet_relax(chain: Chain) -> None:
    """The linear program's optimum is that of the relaxation as convex combinations of vertices."""
    one = replace(chain.one, rows=chain.one.rows[:1])
    assert float(maximise(one.dual, LP()).value) == pytest.approx(float(optima(one)), abs=1e-6)


def test_eq_planet_relu_hull() -> None:
    """z >= 0, z >= ẑ, z <= u (ẑ − l)/(u − l); z = 0 where u <= 0; z = ẑ where l >= 0."""
    one = triangle(lower=-1.0, upper=3.0, first=1.0, second=1.0)
    rows = LinearProgram(Hull(one.network, one.domain, one.bounds)).rows
    facets = {
        tuple(np.round([*a, low], 12))
        for a, low in zip(rows.matrix.toarray(), rows.lower, strict=True)
    }
    # columns: x, ẑ, z
    assert (0.0, 0.0, 1.0, 0.0) in facets
    assert (0.0, -1.0, 1.0, 0.0) in facets
    assert (0.0, 0.75, -1.0, -0.75) in facets
    for l, u, slope in ((-3.0, -1.0, 0.0), (1.0, 3.0, 1.0)):
        low, high = (torch.tensor([v], dtype=torch.float64) for v in (l, u))
        signs = {(f.sign, float(f.slope), float(f.offset)) for f in ReLU().facets(low, high, 1e-3)}
        assert {(1, slope, 0.0), (-1, slope, 0.0)} <= signs


@chains
def test_eq_nonprox_problem(chain: Chain) -> None:
    """q(ρ) = min ẑ_A,n + Σ ρ_kᵀ(ẑ_B,k − ẑ_A,k), P_k by P_k with ρ_n = −c (eq. dual_decomp_vs_dj)."""
    rho = chain.rho(1)
    r, (low, high) = chain.split(rho), box_of(chain)
    cost = -chain.W[1].T @ r[1]
    total = np.minimum(cost * low, cost * high).sum() - r[1] @ chain.b[1]
    for k in range(1, chain.n):
        g = -chain.W[k + 1].T @ r[k + 1]
        l, u = chain.l[k], chain.u[k]
        vertices = [(l, np.maximum(l, 0)), (u, np.maximum(u, 0)), (np.clip(0, l, u),) * 2]
        vertices[2] = (vertices[2][0], np.maximum(vertices[2][0], 0))
        total += np.min([r[k] * x + g * z for x, z in vertices], axis=0).sum()
        total -= r[k + 1] @ chain.b[k + 1]
    assert float(chain.dual.value(rho)) == pytest.approx(total, rel=1e-12, abs=1e-12)


@chains
def test_eq_dj_prob_main(chain: Chain) -> None:
    """d(μ, λ) in the decomposed form of eq. dj_dual_decomp, with μ_n = −c."""
    mu, lam = chain.rho(2), chain.rho(3)
    m, (low, high) = chain.split(mu), box_of(chain)
    cost = -chain.W[1].T @ m[1]
    total = np.minimum(cost * low, cost * high).sum() - sum(m[k] @ chain.b[k] for k in m)
    for k in range(1, chain.n):
        l, u, λ = chain.l[k], chain.u[k], layer(lam, k)
        points = [l, u, np.clip(0, l, u)]
        total += np.min([m[k] * x - λ * np.maximum(x, 0) for x in points], axis=0).sum()
        at_z = λ - chain.W[k + 1].T @ m[k + 1]
        total += np.minimum(at_z * np.maximum(l, 0), at_z * np.maximum(u, 0)).sum()
    assert float(Lagrangian(chain.dual).value(mu, lam)) == pytest.approx(
        total, rel=1e-12, abs=1e-12
    )


@chains
def test_eq_vs_dj_replacement(chain: Chain) -> None:
    """Theorem 1's choice ρ = μ."""
    mu, lam = chain.rho(4), chain.rho(5)
    assert float(chain.dual.value(mu)) >= float(Lagrangian(chain.dual).value(mu, lam)) - 1e-12


# ---- supergradient ----------------------------------------------------------------------------


def test_eq_subgradient_update() -> None:
    """ρ ← ρ + α (ẑ_B − ẑ_A) through Adam: the first step is α in the gradient's direction."""
    chain = relu_chain(1)
    method = Supergradient(iterations=10, schedule=Linear(0.1, 0.1))
    state = method.init(chain.dual, chain.rho(6))
    gradient = chain.dual.inner_min(state.rho).mismatch
    step = method.step(chain.dual, state).rho.data - state.rho.data
    expected = torch.where(gradient.abs() > 1e-6, 0.1 * gradient.sign(), step)
    assert torch.allclose(step, expected, atol=1e-3)


def test_adam_is_kingma_and_ba() -> None:
    """ε is added after the bias correction of the second moment, as in torch."""
    weight = torch.zeros(3, dtype=torch.float64, requires_grad=True)
    reference = torch.optim.Adam([weight], lr=0.1)
    adam, x = Adam(), torch.zeros(3, dtype=torch.float64)
    y, moments, others, draw = x, adam.init(x), adam.init(x), Draw(0)
    for _ in range(20):
        gradient = draw.normal(3)
        weight.grad = -gradient  # torch descends
        reference.step()
        x = x + 0.1 * adam.direction(moments, gradient)
        y = adam.ascend(y, others, gradient, 0.1)
        assert torch.allclose(x, weight.detach(), rtol=1e-12)
        assert torch.allclose(y, x, rtol=1e-12)


def test_eq_box_bounds_sol() -> None:
    """x_0 = l_0 where ρ_1ᵀW_1 < 0, u_0 where it is >= 0."""
    box = Box(torch.tensor([[[-1.0, -2.0, -3.0]]]), torch.tensor([[[4.0, 5.0, 6.0]]]))
    rho_w = torch.tensor([[[-2.0, 0.0, 3.0]]])
    assert box.argmin(-rho_w).flatten().tolist() == [-1.0, 5.0, 6.0]


def test_sec_innerminp0_l2_ball() -> None:
    """x̄ + ε W_1ᵀρ_1/‖W_1ᵀρ_1‖, with the value −ρᵀW x̄ − ε ‖W_1ᵀρ_1‖ (printed with √ε and ρ_1)."""
    center, radius = torch.tensor([[[1.0, 2.0]]]).double(), torch.tensor([[0.25]]).double()
    rho_w = torch.tensor([[[3.0, 4.0]]]).double()
    ball = L2Ball(center, radius)
    assert ball.argmin(-rho_w).flatten().tolist() == pytest.approx([1.15, 2.2])
    assert float(ball.min(-rho_w)) == pytest.approx(-11 - 0.25 * 5)


@pytest.mark.parametrize("g", [-2.0, -0.5, 0.0, 0.5, 2.0])
@pytest.mark.parametrize("rho", [-1.5, -0.4, 0.0, 0.4, 1.5])
def test_eq_ambrelu_linopt(rho: float, g: float) -> None:
    """(ρ − [r]_+ u/(u−l)) ẑ − [r]_− max(ẑ, 0) + [r]_+ u l/(u−l) on a fine grid, r = ρ_{k+1}ᵀW_{k+1}."""
    l, u, r = -1.0, 3.0, -g
    x = np.linspace(l, u, 4001)
    values = (rho - max(r, 0) * u / (u - l)) * x - min(r, 0) * np.maximum(x, 0)
    values = values + max(r, 0) * u * l / (u - l)  # the constant that the paper leaves out
    found = ReLU().argmin(*(torch.tensor([v], dtype=torch.float64) for v in (rho, g, l, u)))
    assert float(found.value) == pytest.approx(values.min(), abs=1e-12)
    assert float(found.x) in (l, 0.0, u)


def test_eq_pk_sub_of_fixed_neurons() -> None:
    """ρ ẑ where blocking, (ρ − W_{k+1}ᵀρ_{k+1}) ẑ where passing: l where the cost is positive, else u."""

    def argmin(c: float, g: float, l: float, u: float) -> float:
        return float(
            ReLU().argmin(*(torch.tensor([v], dtype=torch.float64) for v in (c, g, l, u))).x
        )

    for rho in (-1.0, 0.0, 1.0):
        assert argmin(rho, 7.0, -3.0, -1.0) == (-3.0 if rho > 0 else -1.0)
        assert argmin(rho, -0.5, 1.0, 3.0) == (1.0 if rho - 0.5 > 0 else 3.0)


# ---- proximal ---------------------------------------------------------------------------------


def started(chain: Chain, seed: int) -> ProximalState:
    """ρ and a primal point that do not belong together."""
    state = Proximal(iterations=8).init(chain.dual, chain.rho(seed))
    return replace(state, rho=chain.rho(seed + 50))


def lagrangian(dual: Decomposition, state: ProximalState, eta: float) -> float:
    """eq. z_updates: ẑ_A,n + Σ ρᵀ(ẑ_B − ẑ_A) + Σ ‖ẑ_B − ẑ_A‖²/(2η)."""
    d = state.zhat_b.data - dual.net.apply(state.z0, state.z).data
    output = dual.problem.objective.constant
    for j, a in dual.problem.objective.coefficients.items():
        output = output + (a * (state.z[j] if j else state.z0)).flatten(2).sum(-1)
    return float(output + (state.rho.data * d).sum() + (d * d).sum() / (2 * eta))


@chains
def test_eq_z_updates(chain: Chain) -> None:
    """A pass lowers the augmented Lagrangian, and many passes find its minimum over the hulls."""
    eta, state = 1.0, started(chain, 7)
    values = [lagrangian(chain.dual, state, eta)]
    for _ in range(400):
        for j in range(chain.n):
            _block_step(chain.dual, state, j, eta)
        values.append(lagrangian(chain.dual, state, eta))
    assert all(b <= a + 1e-9 * (1 + abs(a)) for a, b in pairwise(values))
    # Frank-Wolfe's gap bounds what is left: the linearisation's minimum over the hulls.
    grad = state.rho.like(state.rho.data + state.d.data / eta)
    p = chain.dual.inner_min(grad)
    left = values[-1] - (float(p.value) - float((state.d.data**2).sum()) / (2 * eta))
    assert -1e-9 <= left <= 0.05 * (1 + abs(values[-1]))


@chains
def test_eq_optimal_gamma(chain: Chain) -> None:
    """One step for all blocks: −[(x̂_A,n − ẑ_A,n) + Σ g_kᵀ δd_k] / Σ ‖δd_k‖²/η, clamped."""
    eta, state = 0.5, started(chain, 8)
    dual, d = chain.dual, state.d.data
    g = state.rho.like(state.rho.data + d / eta)
    x = dual.inner_min(g)
    output = [chain.c @ (chain.W[chain.n] @ layer(z, chain.n - 1)) for z in (x.z, state.z)]
    delta = x.mismatch - d
    numerator = output[0] - output[1] + float((g.data * delta).sum())
    gamma = min(1.0, max(0.0, -numerator / float((delta * delta).sum() / eta)))
    expected = (1 - gamma) * state.zhat_b.data + gamma * x.zhat_b.data  # eq. jacobi-update
    _joint_step(dual, state, eta)
    assert torch.allclose(state.zhat_b.data, expected, atol=1e-12)


@chains
def test_eq_optimal_gamma_gauss(chain: Chain) -> None:
    """Block k: −[g_kᵀ(x̂_B − ẑ_B) + g_{k+1}ᵀ(ẑ_A − x̂_A)] / [‖x̂_B − ẑ_B‖²/η + ‖ẑ_A − x̂_A‖²/η].

    For k = n − 1 (eq. optimal-gamma-gauss-final) the second terms are cᵀ(x̂_A,n − ẑ_A,n) and 0."""
    eta, state = 0.5, started(chain, 9)
    for k in range(1, chain.n):
        grad = state.rho.data + state.d.data / eta
        g = chain.split(state.rho.like(grad))
        x_b, x_z = vertex(chain, g, k)
        z_b, z = layer(state.zhat_b, k).copy(), layer(state.z, k).copy()
        step_a = chain.W[k + 1] @ (x_z - z)
        numerator = g[k] @ (x_b - z_b) - g[k + 1] @ step_a  # g_n = −c
        denominator = (x_b - z_b) @ (x_b - z_b) / eta
        if k < chain.n - 1:
            denominator += step_a @ step_a / eta
        gamma = 0.0 if numerator >= 0 else 1.0
        if denominator > 0:
            gamma = min(1.0, max(0.0, -numerator / denominator))
        _block_step(chain.dual, state, k, eta)
        assert layer(state.zhat_b, k) == pytest.approx(z_b + gamma * (x_b - z_b), abs=1e-12)


def vertex(chain: Chain, g: dict[int, Vector], k: int) -> tuple[Vector, Vector]:
    """Block k's conditional gradient: the best vertex at g in place of ρ."""
    cost, l, u = -chain.W[k + 1].T @ g[k + 1], chain.l[k], chain.u[k]
    points = np.stack([l, u, np.clip(0, l, u)])
    best = np.argmin(g[k] * points + cost * np.maximum(points, 0), axis=0)
    x = np.take_along_axis(points, best[None], 0)[0]
    return x, np.maximum(x, 0)


def test_eq_momentum_updates() -> None:
    """π ← μ π + d/η, ρ ← ρ + π (without momentum eq. lambda_updates), with d after the inner passes."""
    chain = relu_chain(2)
    for momentum in (0.0, 0.3):
        method = Proximal(iterations=20, momentum=momentum, eta=Linear(2.0, 2.0))
        state = method.init(chain.dual, None)
        velocity = torch.zeros_like(state.rho.data)
        for _ in range(5):
            rho = state.rho.data
            state = method.step(chain.dual, state)
            d = state.zhat_b.data - chain.dual.net.apply(state.z0, state.z).data
            velocity = momentum * velocity + d / 2.0
            assert torch.allclose(state.rho.data, rho + velocity, atol=1e-12)


def test_eta_grows_with_the_passes_done() -> None:
    """400 passes, two a step: the last η is 497.55, not 500."""
    assert Proximal().eta.at(398, 400) == pytest.approx(497.55)
    assert Proximal().steps(relu_chain(0).dual) == 200


@chains
def test_eq_new_ag(chain: Chain) -> None:
    """The augmented Lagrangian with momentum is ρᵀd − η/2 ‖ρ − ρ^t‖² at ρ = ρ^t + μ π + d/η."""
    state, eta, momentum = started(chain, 10), 0.7, 0.3
    pi, d = chain.rho(11).data, state.d.data
    ahead = state.rho.data + momentum * pi + d / eta
    proximal = (ahead * d).sum() - eta / 2 * ((ahead - state.rho.data) ** 2).sum()
    printed = (state.rho.data * d).sum() + (d * d).sum() / (2 * eta)
    printed = printed - eta / 2 * ((momentum * pi) ** 2).sum()
    assert float(proximal) == pytest.approx(float(printed), rel=1e-10)


# ---- Wong & Kolter ----------------------------------------------------------------------------


@chains
def test_eq_kw_obj(chain: Chain) -> None:
    """−Σ_{i<=n} ν_iᵀb_i − x̄ᵀν̂_0 − ε‖ν̂_0‖_1 + Σ l_ij [ν_ij]_+: q at eq. kw_to_ours_dual's ρ = ν."""
    rho = Start.WK.rho(chain.dual)
    nu = chain.split(rho)
    low, high = box_of(chain)
    nu_0 = chain.W[1].T @ nu[1]
    total = -sum(nu[k] @ chain.b[k] for k in nu)
    total -= nu_0 @ (low + high) / 2 + np.abs(nu_0) @ (high - low) / 2
    for k in range(1, chain.n):
        nu_hat = chain.W[k + 1].T @ nu[k + 1]
        l, u = chain.l[k], chain.u[k]
        ambiguous = (l < 0) & (u > 0)
        D = np.where(ambiguous, u / np.where(ambiguous, u - l, 1), l >= 0)
        assert nu[k] == pytest.approx(D * nu_hat, abs=1e-12)  # ν_k = D_k ν̂_k
        total += (l * np.maximum(nu[k], 0))[ambiguous].sum()
    assert float(chain.dual.value(rho)) == pytest.approx(total, rel=1e-11, abs=1e-11)


# ---- sigmoid ----------------------------------------------------------------------------------


def sigmoid(x: Vector) -> Vector:
    return np.asarray(1 / (1 + np.exp(-x)))


def envelope(l: float, u: float, x: Vector) -> Vector:
    """φ: the concave envelope of the sigmoid on a grid, as the least of all chords above it."""
    from scipy.spatial import ConvexHull

    points = np.linspace(l, u, 4001)
    hull = ConvexHull(np.c_[points, sigmoid(points)])
    # Facets whose outer normal points up: normal·p + offset <= 0 inside.
    up = hull.equations[hull.equations[:, 1] > 1e-12]
    return np.asarray(np.min([-(a * x + c) / b for a, b, c in up], axis=0))


def upper_facets(l: float, u: float) -> list[tuple[float, float]]:
    low, high = (torch.tensor([v], dtype=torch.float64) for v in (l, u))
    facets = Sigmoid().facets(low, high, 1e-5)
    return [(float(f.slope), float(f.offset)) for f in facets if f.sign < 0]


@pytest.mark.parametrize(("l", "u"), [(-4.0, 0.5), (-3.0, -1.0), (-2.0, 0.3)])
def test_eq_sig_lin_upper_bound(l: float, u: float) -> None:
    """Case 1: the chord through (l, σ(l)) and (u, σ(u)) (printed σ(l) twice)."""
    slope = (sigmoid(np.array(u)) - sigmoid(np.array(l))) / (u - l)
    x = np.linspace(l, u, 101)
    chord = slope * (x - l) + sigmoid(np.array(l))
    found = np.min([s * x + t for s, t in upper_facets(l, u)], axis=0)
    assert found == pytest.approx(chord, abs=1e-9)
    assert chord == pytest.approx(envelope(l, u, x), abs=1e-5)


@pytest.mark.parametrize(("l", "u"), [(-2.0, 6.0), (-1.0, 3.0), (0.5, 4.0), (-6.0, 9.0)])
def test_eq_sig_pw_upper_bound(l: float, u: float) -> None:
    """Case 2: a line to the tangent point t, then σ; for l >= 0 only σ."""
    x = np.linspace(l, u, 101)
    found = np.min([s * x + t for s, t in upper_facets(l, u)], axis=0)
    assert found == pytest.approx(envelope(l, u, x), abs=2e-5)
    tangent = Sigmoid().tangent(*(torch.tensor([v], dtype=torch.float64) for v in (l, u)))
    t = np.array(float(tangent))
    if l < 0:
        s = sigmoid(t)
        assert s * (1 - s) == pytest.approx((s - sigmoid(np.array(l))) / (t - l), abs=1e-9)
    else:
        assert float(t) == pytest.approx(l)


@pytest.mark.parametrize(("l", "u"), [(-4.0, 0.5), (-2.0, 6.0), (0.5, 4.0)])
@pytest.mark.parametrize("c", [-0.4, -0.1, 0.0, 0.05, 0.3])
@pytest.mark.parametrize("g", [-2.0, -1.0, 0.0, 1.0, 3.0])
def test_eq_with_sig_subp(l: float, u: float, c: float, g: float) -> None:
    """min c x + g σ(x) at l, u or the root of c + g σ(1 − σ) (eqs. siglinopt, pk_sub_for_sig)."""
    x = np.linspace(l, u, 20001)
    values = c * x + g * sigmoid(x)
    found = Sigmoid().argmin(*(torch.tensor([v], dtype=torch.float64) for v in (c, g, l, u)))
    assert float(found.value) == pytest.approx(values.min(), abs=1e-6)
    assert float(found.value) <= values.min() + 1e-12
    if l < float(found.x) < u:
        s = sigmoid(np.array(float(found.x)))
        assert c + g * s * (1 - s) == pytest.approx(0, abs=1e-9)


def test_indices_are_the_papers() -> None:
    """nodes[0] is z_0, hidden layers are k = 1 … n − 1, the output is ẑ_n."""
    chain = relu_chain(3)
    net = chain.one.network
    assert net.hidden == range(1, net.n)
    x: Tensor = chain.one.domain.sample(1, torch.Generator().manual_seed(0))
    z = x.flatten().numpy()
    for k in range(1, net.n):
        z = np.maximum(chain.W[k] @ z + chain.b[k], 0)
    out = chain.W[net.n] @ z + chain.b[net.n]
    assert net.forward(x).flatten().numpy() == pytest.approx(out)
