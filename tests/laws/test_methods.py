"""Laws of every bounding method in the registry, and of the loop that runs them.

Oracles: samples run forward; the relaxation's optimum by SciPy; Wong & Kolter's and CROWN's own
formulas in NumPy; interval arithmetic; line searches on a grid; finite differences.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from random_networks import ACTIVATIONS, Case, Draw, case, pre_activations
from relaxation_lp import optima
from torch import Tensor

from anybound.bound.backward import Start, crown_slopes, propagate
from anybound.bound.decomposition import Decomposition
from anybound.bound.hull import Slopes as Lines
from anybound.bound.lp_solver import Solution
from anybound.bound.method import DualResult, Method, Proposal, Stopped, maximise
from anybound.bound.methods.lp import LP, LPState
from anybound.bound.methods.proximal import (
    Proximal,
    ProximalState,
    Sweeps,
    _block_step,
    _joint_step,
    optimal_step,
)
from anybound.bound.methods.slopes import Slopes, _evaluate
from anybound.bound.methods.supergradient import Supergradient
from anybound.bound.schedules import Geometric, Linear
from anybound.bound.updates import Adam
from anybound.budget import Budget
from anybound.errors import InvalidConfig, InvalidInput
from anybound.layers import Layers
from anybound.model.domains.box import Box
from anybound.registry import METHODS

SHORT = {
    "best_of": "best_of(wk, slopes(iterations=5), dsg(iterations=5))",
    "crown": "crown",
    "dec_dsg": "dec_dsg(iterations=20, evaluate_every=7)",
    "dsg": "dsg(iterations=20)",
    "interval": "interval",
    "lp": "lp",
    "proximal": "proximal(iterations=20, evaluate_every=3)",
    "slopes": "slopes(iterations=12)",
    "supergradient": "supergradient(iterations=20)",
    "then": "then(slopes(iterations=5), supergradient(iterations=8), proximal(iterations=6))",
    "wk": "wk",
}
ITERATIVE = ("dsg", "dec_dsg", "proximal", "slopes", "supergradient", "then", "best_of")
Vector = NDArray[np.float64]


def short(name: str) -> Method[Any]:
    method: Method[Any] = METHODS.parse(SHORT[name])
    return method


def relu_chain(seed: int, rows: int = 3) -> Case:
    return case(
        seed,
        activations=("relu",),
        domains=("box",),
        rows=rows,
        subproblems=1,
        images=False,
        chain=True,
        cuts=False,
    )


def deep(seed: int, rows: int = 3, **options: Any) -> Case:
    """A case with ambiguous neurons in two layers or more."""
    while True:
        one = case(seed, rows=rows, **options)
        if one.network.n > 2 and int(one.dual.hull.ambiguous.sum()) >= 3 * one.bounds.count:
            return one
        seed += 1000


PLAIN = [
    deep(1, activations=("relu",), domains=("box",), cuts=False),
    deep(2, activations=("relu", "leaky", "abs", "hard_tanh"), domains=("box",), cuts=True),
    deep(3, activations=("sigmoid", "tanh"), domains=("box",), cuts=False),
    deep(4, activations=ACTIVATIONS, domains=("box",), subproblems=3),
]
ROUND = [deep(5, domains=("l2",)), deep(6, domains=("clipped_l1",)), deep(7, domains=("l1",))]


def test_every_method_of_the_registry_is_tested() -> None:
    assert {*SHORT, "compiled"} == set(METHODS.names())  # test_compiled has laws of its own


@pytest.mark.parametrize("name", SHORT)
def test_bounds_are_valid_and_never_beyond_the_relaxation(name: str) -> None:
    for one in PLAIN if name == "lp" else PLAIN + ROUND:
        found = maximise(one.dual, short(name))
        proved = one.dual.rigorous(found.rho)
        assert proved.isfinite().all()
        least = one.sampled_minimum(300)
        assert (proved <= least + 1e-12).all()
        # q(ρ) is at least what the method says, its own formula included.
        assert (found.value <= proved + 1e-9 * (1 + proved.abs())).all()
        if one.domain.is_box:
            best = optima(one)
            assert (proved <= best + 1e-6 * (1 + best.abs())).all()


@pytest.mark.parametrize("one", PLAIN, ids=["relu", "cut", "smooth", "mixed"])
def test_lp_reaches_the_optimum(one: Case) -> None:
    proved = one.dual.rigorous(maximise(one.dual, LP(tolerance=1e-5)).rho)
    best = optima(one)
    # A smooth activation's optimum is that of a grid, hence a little too high.
    smooth = any(type(a).__name__ in ("Sigmoid", "Tanh") for _, a in one.network.activations())
    assert ((best - proved).abs() <= (1e-3 if smooth else 1e-6) * (1 + best.abs())).all()


def test_interval_is_interval_propagation() -> None:
    for one in PLAIN + ROUND:
        proved = one.dual.rigorous(maximise(one.dual, short("interval")).rho)
        last = last_layer_by_intervals(one)
        assert torch.allclose(proved, last, rtol=1e-9, atol=1e-9)


def last_layer_by_intervals(one: Case) -> Tensor:
    """Σ_j of the least cᵀW_nj z_j over the ranges of z_j, and the bias."""
    net = one.network
    total = torch.zeros(one.dual.batch, dtype=torch.float64)
    coefficients: dict[int, Tensor] = {}
    for edge in net.nodes[net.n].edges:
        matrix = torch.from_numpy(edge.map.sparse().toarray())
        c = one.rows.flatten(1)
        coefficients[edge.source] = coefficients.get(edge.source, 0) + c @ matrix
        if edge.map.bias is not None:
            total = total + c @ edge.map.bias.expand(edge.map.out_shape).reshape(-1)
    for j, a in coefficients.items():
        if j == 0:
            total = total + one.domain.min(
                a.expand(one.dual.batch[0], *a.shape).reshape(*one.dual.batch, *net.input_shape)
            )
            continue
        sigma = net.nodes[j].activation
        assert sigma is not None
        low, high = sigma.range(one.bounds.lower[j], one.bounds.upper[j])
        low, high = low.flatten(2), high.flatten(2)
        total = total + torch.minimum(a * low, a * high).sum(-1)
    return total


@dataclass
class Chain:
    """A chain of ReLU layers as NumPy arrays: W[k], b[k] for k = 1 … n, l[k], u[k], and the box."""

    one: Case
    W: dict[int, Vector] = field(default_factory=dict)
    b: dict[int, Vector] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for k, node in enumerate(self.one.network.nodes[1:], start=1):
            (edge,) = node.edges
            self.W[k] = edge.map.sparse().toarray()
            zero = torch.zeros(edge.map.out_shape, dtype=torch.float64)
            self.b[k] = (zero if edge.map.bias is None else zero + edge.map.bias).flatten().numpy()

    def limits(self, k: int) -> tuple[Vector, Vector]:
        bounds = self.one.bounds
        return bounds.lower.flat(k)[0, 0].numpy(), bounds.upper.flat(k)[0, 0].numpy()

    def ball(self) -> tuple[Vector, Vector]:
        """(x, ε), ε per coordinate."""
        box = self.one.domain
        assert isinstance(box, Box)
        l, u = box.lower.flatten().numpy(), box.upper.flatten().numpy()
        return (l + u) / 2, (u - l) / 2

    def wong_kolter(self, c: Vector) -> float:
        """−Σ_{i<=n} ν_iᵀ b_i − xᵀν̂_0 − ‖ε ν̂_0‖_1 + Σ_{i<n} Σ_{j ambiguous} l_ij [ν_ij]_+"""
        n = self.one.network.n
        nu, total = -c, c @ self.b[n]
        for k in range(n - 1, 0, -1):
            nu_hat = self.W[k + 1].T @ nu
            l, u = self.limits(k)
            ambiguous = (l < 0) & (u > 0)
            D = np.where(ambiguous, u / np.where(ambiguous, u - l, 1.0), l >= 0)
            nu = D * nu_hat
            total += (l * np.maximum(nu, 0))[ambiguous].sum() - nu @ self.b[k]
        nu_hat = self.W[1].T @ nu
        x, eps = self.ball()
        return float(total - nu_hat @ x - (eps * np.abs(nu_hat)).sum())

    def crown(self, c: Vector) -> float:
        """Backward substitution of a line below where the coefficient is positive, else above."""
        n = self.one.network.n
        a, total = c, 0.0
        for k in range(n, 0, -1):
            total += a @ self.b[k]
            a = self.W[k].T @ a
            if k > 1:
                l, u = self.limits(k - 1)
                ambiguous = (l < 0) & (u > 0)
                chord = np.where(ambiguous, u / np.where(ambiguous, u - l, 1.0), l >= 0)
                below = np.where(ambiguous, u > -l, l >= 0)
                total += (np.minimum(a, 0) * np.where(ambiguous, -chord * l, 0.0)).sum()
                a = np.maximum(a, 0) * below + np.minimum(a, 0) * chord
        x, eps = self.ball()
        return float(total + a @ x - np.abs(a) @ eps)


@pytest.mark.parametrize("seed", range(25))
def test_q_at_the_point_of_wong_and_kolter_is_their_bound(seed: int) -> None:
    """Appendix WK_init with its misprints corrected."""
    one = relu_chain(seed)
    proved = one.dual.rigorous(maximise(one.dual, short("wk")).rho)[0]
    own = [Chain(one).wong_kolter(c.numpy()) for c in one.rows.flatten(1)]
    assert proved.tolist() == pytest.approx(own, rel=1e-10, abs=1e-10)


@pytest.mark.parametrize("seed", range(25))
def test_q_at_the_point_of_crown_is_at_least_its_bound(seed: int) -> None:
    one = relu_chain(seed)
    proved = one.dual.rigorous(maximise(one.dual, short("crown")).rho)[0].numpy()
    own = np.array([Chain(one).crown(c.numpy()) for c in one.rows.flatten(1)])
    assert (proved >= own - 1e-10 * (1 + np.abs(own))).all()


# ---- the loop ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*ITERATIVE, "lp"])
def test_it_may_be_stopped_after_any_iteration(name: str) -> None:
    one = PLAIN[0]
    whole = maximise(one.dual, short(name), trace=True)
    steps = short(name).steps(one.dual)
    assert whole.stopped is Stopped.FINISHED
    assert whole.iterations == steps
    assert [point.iteration for point in whole.trace] == list(range(steps + 1))
    least, last = one.sampled_minimum(300), torch.full(one.dual.batch, -torch.inf).double()
    for k in range(steps + 1):
        found = maximise(one.dual, short(name), Budget(iterations=k))
        assert found.iterations == k
        assert found.stopped is (Stopped.BUDGET if k < steps else Stopped.FINISHED)
        assert torch.equal(found.value, whole.trace[k].value)
        assert (found.value >= last).all()
        assert (one.dual.rigorous(found.rho) <= least).all()
        last = found.value


def test_no_time_leaves_the_start() -> None:
    one = PLAIN[0]
    found = maximise(one.dual, Supergradient(), Budget(seconds=0.0))
    assert found.stopped is Stopped.BUDGET
    assert found.iterations == 0
    assert torch.equal(found.rho.data, Start.WK.rho(one.dual).data)


@dataclass(frozen=True)
class Disturbed(Method[Any]):
    """A method to which something happens in step `at`."""

    inner: Method[Any]
    at: int
    happens: Callable[[Decomposition, Any], Proposal]
    seen: list[int] = field(default_factory=list)

    def steps(self, dual: Decomposition) -> int:
        return self.inner.steps(dual)

    def init(self, dual: Decomposition, warm: Layers | None) -> Any:
        return self.inner.init(dual, warm)

    def step(self, dual: Decomposition, state: Any) -> Any:
        self.seen.append(1)
        return self.inner.step(dual, state)

    def propose(self, dual: Decomposition, state: Any) -> Proposal:
        if len(self.seen) >= self.at:
            return self.happens(dual, state)
        return self.inner.propose(dual, state)


def interrupt(dual: Decomposition, state: Any) -> Proposal:
    raise KeyboardInterrupt


def spoiled(number: float) -> Callable[[Decomposition, Any], Proposal]:
    def propose(dual: Decomposition, state: Any) -> Proposal:
        rho = dual.zeros()
        wild = rho.like(torch.full_like(rho.data, number))
        return Proposal(wild, torch.full(dual.batch, number, dtype=torch.float64))

    return propose


@pytest.mark.parametrize("name", ITERATIVE)
def test_an_interrupt_leaves_what_was_found_before(name: str) -> None:
    one, budget = PLAIN[0], Budget()
    found = maximise(one.dual, Disturbed(short(name), 4, interrupt), budget)
    before = maximise(one.dual, short(name), Budget(iterations=3))
    assert found.stopped is Stopped.INTERRUPTED
    assert torch.equal(found.value, before.value)
    assert torch.equal(found.rho.data, before.rho.data)
    again = maximise(one.dual, short(name), budget.share(0.5))  # what shares the budget stops too
    assert again.stopped is Stopped.INTERRUPTED
    assert again.iterations == 0


@pytest.mark.parametrize("number", [torch.nan, torch.inf, -torch.inf])
@pytest.mark.parametrize("name", ITERATIVE)
def test_what_is_not_a_number_is_never_kept(name: str, number: float) -> None:
    one = PLAIN[0]
    found = maximise(one.dual, Disturbed(short(name), 4, spoiled(number)))
    before = maximise(one.dual, short(name), Budget(iterations=3))
    assert torch.equal(found.value, before.value)
    assert torch.equal(found.rho.data, before.rho.data)
    assert one.dual.rigorous(found.rho).isfinite().all()
    if short(name).steps(one.dual) > 8:
        assert found.stopped is Stopped.OVERFLOW
        assert found.iterations == 8


def test_a_start_that_overflows_leaves_the_intervals_bound() -> None:
    one = PLAIN[0]
    found = maximise(one.dual, Disturbed(Slopes(), 0, spoiled(torch.nan)))
    assert (found.value == -torch.inf).all()
    assert torch.equal(found.rho.data, one.dual.zeros().data)


@pytest.mark.parametrize("name", [*ITERATIVE, "lp", "wk", "crown", "interval"])
def test_a_warm_start_is_never_made_worse(name: str) -> None:
    for one in (PLAIN[1], PLAIN[3]):
        warm = maximise(one.dual, Slopes(iterations=30)).rho
        found = maximise(one.dual, short(name), warm=warm)
        assert (found.value >= one.dual.value(warm) - 1e-12).all()
        assert (one.dual.rigorous(found.rho) <= one.sampled_minimum(300) + 1e-12).all()


def test_a_warm_start_may_be_shared_and_of_another_dtype() -> None:
    one = PLAIN[3]
    d, r = one.dual.batch
    shared = one.dual.zeros().like(torch.zeros(1, 1, one.network.layout.total))
    for name in ITERATIVE:
        found = maximise(one.dual, short(name), warm=shared)
        assert found.rho.data.shape == (d, r, one.network.layout.total)
        assert found.rho.data.dtype == torch.float64


@pytest.mark.parametrize("shape", [(1, 1, 1), (1, 7, None), (None,)])
def test_a_warm_start_of_another_problem_is_refused(shape: tuple[int | None, ...]) -> None:
    one = PLAIN[0]
    size = tuple(one.network.layout.total if s is None else s for s in shape)
    with pytest.raises(InvalidInput, match="warm start"):
        maximise(one.dual, Slopes(), warm=Layers(one.network.layout, torch.zeros(size)))


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("name", [*ITERATIVE, "lp"])
def test_dropping_decided_problems_does_not_change_the_others(name: str, axis: int) -> None:
    """Eight of ten problems are decided at the start; the other two are those of a plain run."""
    method = short(name)
    if axis:
        one = deep(11, activations=("relu", "abs"), domains=("box",), rows=10, subproblems=1)
        dual = one.dual
    else:
        one = deep(11, activations=("relu", "abs"), domains=("box",), rows=1, subproblems=1)
        dual = ten_times(one)
    start = maximise(dual, method, Budget(iterations=0)).value.flatten()
    shift = torch.where(torch.arange(10) % 5 == 0, -1e6, 1e6) - start
    objective = dual.problem.objective
    moved = objective.constant.expand(dual.batch) + shift.reshape(dual.batch)
    error = objective.constant_error.expand(dual.batch)
    objective = replace(objective, constant=moved, constant_error=error)
    dual = Decomposition(replace(dual.problem, objective=objective), dual.hull)
    free, dropped = maximise(dual, method), maximise(dual, method, stop_above=0.0)
    open_ones = torch.arange(10) % 5 == 0
    a, b = free.value.flatten()[open_ones], dropped.value.flatten()[open_ones]
    assert torch.allclose(a, b, rtol=1e-9)
    rho = [found.rho.data.flatten(0, 1)[open_ones] for found in (free, dropped)]
    assert torch.allclose(*rho, rtol=1e-6, atol=1e-6)
    assert (dropped.value.flatten()[~open_ones] > 0).all()


def ten_times(one: Case) -> Decomposition:
    index = torch.zeros(10, dtype=torch.long)
    objective = one.problem.objective
    many = replace(
        objective,
        coefficients={j: a[index] for j, a in objective.coefficients.items()},
        errors={j: e[index] for j, e in objective.errors.items()},
        constant=objective.constant[index],
        constant_error=objective.constant_error[index],
    )
    l, u = (x.like(x.data[index]) for x in (one.bounds.lower, one.bounds.upper))
    box = one.domain
    assert isinstance(box, Box)
    domain = Box(box.lower[index], box.upper[index])
    problem = replace(one.problem, domain=domain, objective=many)
    return Decomposition.between(problem, replace(one.bounds, lower=l, upper=u))


def test_it_stops_when_everything_is_decided() -> None:
    one = PLAIN[0]
    found = maximise(one.dual, Slopes(iterations=50), stop_above=-1e9)
    assert found.stopped is Stopped.DECIDED
    assert found.iterations == 0


@pytest.mark.parametrize("name", [*ITERATIVE, "lp", "wk"])
def test_results_do_not_depend_on_the_batch(name: str) -> None:
    one = PLAIN[3]
    together = maximise(one.dual, short(name))
    for d in range(3):
        alone = maximise(one.pick(d).dual, short(name))
        assert torch.allclose(alone.value[0], together.value[d], rtol=1e-5, atol=1e-6)


def test_results_may_be_differentiated_afterwards() -> None:
    found: DualResult = maximise(PLAIN[0].dual, Slopes(iterations=3))
    noise = 0.1 * Draw(0).normal(*found.rho.data.shape)  # off the ties of CROWN's lines
    rho = found.rho.like((found.rho.data + noise).requires_grad_())
    PLAIN[0].dual.value(rho).sum().backward()
    assert rho.data.grad is not None
    assert torch.allclose(rho.data.grad, PLAIN[0].dual.inner_min(rho).mismatch.detach())


@pytest.mark.parametrize(
    "text",
    [
        "slopes(iterations=0)",
        "supergradient(iterations=-3)",
        "dsg(iterations=0)",
        "proximal(iterations=0)",
        "proximal(inner=0)",
        "proximal(momentum=1.0)",
        "lp(seconds=0)",
        "lp(tolerance=-1.0)",
        "best_of(wk)",
        "then()",
        "slopes(steps=3)",
        "simplex",
        "slopes(iterations='many')",
        "slopes; import os",
    ],
)
def test_bad_parameters_are_refused_in_one_line(text: str) -> None:
    with pytest.raises(InvalidConfig) as caught:
        METHODS.parse(text)
    assert "\n" not in str(caught.value)


# ---- proximal ---------------------------------------------------------------------------------


def augmented_lagrangian(dual: Decomposition, state: ProximalState, eta: float) -> Tensor:
    """eq. z_updates at the state's primal variables, from their definition."""
    d = state.zhat_b.data - dual.net.apply(state.z0, state.z).data
    linear = dual.problem.objective.constant + sum(
        (a * (state.z[j] if j else state.z0)).flatten(2).sum(-1)
        for j, a in dual.problem.objective.coefficients.items()
    )
    return linear + (state.rho.data * d).sum(-1) + (d * d).sum(-1) / (2 * eta)


def copied(state: ProximalState) -> ProximalState:
    return replace(
        state,
        z0=state.z0.clone(),
        z=state.z.like(state.z.data.clone()),
        zhat_b=state.zhat_b.like(state.zhat_b.data.clone()),
        d=state.d.like(state.d.data.clone()),
    )


def between(a: ProximalState, b: ProximalState, t: float) -> ProximalState:
    def mix(x: Tensor, y: Tensor) -> Tensor:
        return (1 - t) * x + t * y

    z, zhat_b = mix(a.z.data, b.z.data), mix(a.zhat_b.data, b.zhat_b.data)
    return replace(a, z0=mix(a.z0, b.z0), z=a.z.like(z), zhat_b=a.zhat_b.like(zhat_b))


@pytest.mark.parametrize("sweeps", Sweeps)
def test_the_augmented_lagrangian_never_rises_within_an_outer_step(sweeps: Sweeps) -> None:
    for one in PLAIN + ROUND:
        dual, eta = one.dual, 2.0
        state = Proximal(iterations=8).init(dual, one.rhos(Draw(3)))
        last = augmented_lagrangian(dual, state, eta)
        for _ in range(6):
            for j in range(dual.net.n if sweeps is Sweeps.GAUSS_SEIDEL else 1):
                if sweeps is Sweeps.GAUSS_SEIDEL:
                    _block_step(dual, state, j, eta)
                else:
                    _joint_step(dual, state, eta)
                now = augmented_lagrangian(dual, state, eta)
                assert (now <= last + 1e-9 * (1 + last.abs())).all()
                last = now
            true_d = state.zhat_b.data - dual.net.apply(state.z0, state.z).data
            assert torch.allclose(state.d.data, true_d, atol=1e-8)


@pytest.mark.parametrize("sweeps", Sweeps)
def test_steps_are_optimal_on_the_way_to_the_vertex(sweeps: Sweeps) -> None:
    """Against a grid over [0, 1] between the old point and the conditional gradient."""
    grid = torch.linspace(0, 1, 41).tolist()
    for one in PLAIN:
        dual, eta = one.dual, 0.7
        state = Proximal(iterations=8).init(dual, one.rhos(Draw(5)))
        for j in [*range(dual.net.n)] * 2:
            old, new, vertex = copied(state), copied(state), copied(state)
            if sweeps is Sweeps.GAUSS_SEIDEL:
                _block_step(dual, new, j, eta)
            else:
                _joint_step(dual, new, eta)
            to_vertex(dual, vertex, eta, j if sweeps is Sweeps.GAUSS_SEIDEL else None)
            best = torch.stack(
                [augmented_lagrangian(dual, between(old, vertex, t), eta) for t in grid]
            )
            here = augmented_lagrangian(dual, new, eta)
            assert (here <= best.amin(0) + 1e-9 * (1 + here.abs())).all()
            state = new


def to_vertex(dual: Decomposition, state: ProximalState, eta: float, block: int | None) -> None:
    """The conditional gradient in place of the block's variables."""
    d = state.zhat_b.data - dual.net.apply(state.z0, state.z).data
    p = dual.inner_min(state.rho.like(state.rho.data + d / eta))
    if block is None:
        state.z0, state.z, state.zhat_b = p.z0, p.z, p.zhat_b
    elif block == 0:
        state.z0 = p.z0
    else:
        state.z[block].copy_(p.z[block])
        state.zhat_b[block].copy_(p.zhat_b[block])


def test_optimal_step_of_a_parabola() -> None:
    linear = torch.tensor([[-1.0, -4.0, 1.0, -1.0, 0.0, 1.0]])
    curvature = torch.tensor([[2.0, 2.0, 2.0, 0.0, 0.0, 0.0]])
    expected = [0.5, 1.0, 0.0, 1.0, 0.0, 0.0]
    assert optimal_step(linear, curvature)[0].tolist() == expected


def test_proximal_converges_to_the_relaxation() -> None:
    one = PLAIN[0]
    found = maximise(one.dual, Proximal(iterations=1000, eta=Linear(5.0, 50.0)))
    assert torch.allclose(found.value, optima(one), rtol=1e-3, atol=1e-3)


def test_supergradient_converges_to_the_relaxation() -> None:
    one = PLAIN[0]
    found = maximise(one.dual, Supergradient(iterations=2000, schedule=Geometric(0.1, 1e-5)))
    assert torch.allclose(found.value, optima(one), rtol=1e-3, atol=1e-3)


# ---- slopes -----------------------------------------------------------------------------------


def branched(one: Case, draw: Draw) -> Decomposition:
    """Some ambiguous neurons cut where branching cuts them, on the side of some point.

    The cuts are constraints that bind: nothing else knows of them."""
    hull = one.dual.hull
    mask = hull.ambiguous & (draw.normal(*hull.ambiguous.shape) > 0)
    x = one.domain.sample(1, draw.generator())
    here = pre_activations(one.network, x.expand(one.bounds.count, *x.shape[1:]))
    l, u = one.bounds.lower.data.clone(), one.bounds.upper.data.clone()
    for k, sigma in one.network.flat_activations():
        at = one.network.layout.span(k)
        cut = sigma.split_at(l[..., at], u[..., at])
        right = here[..., at] > cut
        l[..., at] = torch.where(mask[..., at] & right, cut, l[..., at])
        u[..., at] = torch.where(mask[..., at] & ~right, cut, u[..., at])
    bounds = replace(one.bounds, lower=one.bounds.lower.like(l), upper=one.bounds.upper.like(u))
    return Decomposition.between(one.problem, bounds, mask)


def gradient_cases() -> list[tuple[str, Decomposition]]:
    found = []
    for seed, names in enumerate((("relu",), ("sigmoid", "tanh"), ("abs", "prelu", "hard_tanh"))):
        one = deep(20 + seed, activations=names, cuts=False, domains=("l2",), subproblems=1)
        found.append((names[0], one.dual))
        found.append((f"{names[0]} branched", branched(one, Draw(seed))))
    return found


GRADIENT_CASES = gradient_cases()


@pytest.mark.parametrize("size", [0.3, 0.003])
@pytest.mark.parametrize(("name", "dual"), GRADIENT_CASES, ids=[n for n, _ in GRADIENT_CASES])
def test_gradients_of_slopes_are_finite_differences(
    name: str, dual: Decomposition, size: float
) -> None:
    """∂q/∂s and ∂q/∂β at random slopes inside their ranges; kinks of q are left out.

    Large β push the minimisers of split neurons to an end of [l, u], small ones do not."""
    draw, h = Draw(7), 1e-6
    low_min, low_max, up_min, up_max = dual.hull.slope_limits
    full = (*dual.batch, dual.net.layout.total)
    part = 0.1 + 0.8 * torch.from_numpy(draw.rng.random(full))
    lower, upper = low_min + part * (low_max - low_min), up_min + part * (up_max - up_min)
    has_cuts = dual.hull.branched is not None
    mask = dual.hull.branched if has_cuts else torch.zeros_like(dual.hull.ambiguous)
    assert mask is not None
    beta = size * draw.normal(*full) * mask

    def q(lower: Tensor, upper: Tensor, beta: Tensor) -> Tensor:
        return dual.value(propagate(dual, Lines(lower, upper), beta if has_cuts else None).rho)

    like = Adam().init(lower)
    state = _evaluate(dual, lower, upper, beta, like, like, 0)
    assert torch.allclose(state.value, q(lower, upper, beta))
    for_lower = state.g * state.gradient * (state.g > 0)
    for_upper = state.g * state.gradient * (state.g < 0)
    for_beta = -state.gradient * mask
    free = (low_max > low_min) | (up_max > up_min)
    agree = total = 0
    for i in range(full[-1]):
        unit = torch.zeros(full, dtype=torch.float64)
        unit[..., i] = h
        tries = [(lower + s * unit, upper, beta) for s in (1, -1)], for_lower
        more = [(lower, upper + s * unit, beta) for s in (1, -1)], for_upper
        last = [(lower, upper, beta + s * unit) for s in (1, -1)], for_beta
        for (up, down), expected in (tries, more, last):
            where = mask[0, 0, i] if expected is for_beta else free[0, 0, i]
            if not bool(where):
                continue
            here, ahead, behind = q(lower, upper, beta), q(*up), q(*down)
            right, left = (ahead - here) / h, (here - behind) / h
            smooth = (right - left).abs() <= 1e-3 * (1 + right.abs())
            difference = (right + left) / 2
            close = (difference - expected[..., i]).abs() <= 1e-3 * (1 + difference.abs())
            agree += int((close & smooth).sum())
            total += int(smooth.sum())
    assert total > 10
    assert agree == total


@pytest.mark.parametrize(
    "names", [("relu",), ("leaky", "prelu"), ("abs", "hard_tanh"), ("sigmoid", "tanh")]
)
def test_slopes_converge_to_the_relaxation(names: tuple[str, ...]) -> None:
    """Where bounds come from intervals the manifold holds an optimum of the relaxation."""
    one = deep(31, activations=names, domains=("box",), cuts=False, subproblems=2)
    found = maximise(one.dual, Slopes(iterations=400, schedule=Geometric(0.2, 1e-4)))
    start = maximise(one.dual, short("wk")).value
    best = optima(one)
    assert (best - found.value <= 0.02 * (best - start) + 1e-4 * (1 + best.abs())).all()


@pytest.mark.parametrize("names", [("relu",), ("abs", "leaky"), ("sigmoid", "tanh")])
def test_slopes_and_multipliers_converge_where_neurons_are_split(names: tuple[str, ...]) -> None:
    """A binding cut is worth nothing to the slopes alone, and all it can be worth with β."""
    one = deep(41, activations=names, domains=("box",), cuts=False, subproblems=1)
    worth = 0.0
    decay = Geometric(0.2, 1e-4)
    method = Slopes(iterations=400, schedule=decay, beta_schedule=decay)
    for seed in range(2):
        dual = branched(one, Draw(seed))
        best = optima(replace(one, bounds=dual.bounds))
        found = maximise(dual, method)
        alone = maximise(replace(dual, hull=replace(dual.hull, branched=None)), method).value
        start = maximise(dual, short("wk")).value
        assert (dual.rigorous(found.rho) <= best + 1e-4 * (1 + best.abs())).all()
        assert (best - found.value <= 0.05 * (best - start) + 1e-3 * (1 + best.abs())).all()
        worth = max(worth, float((found.value - alone).max()))
    assert worth > 1e-3


def test_crown_is_the_start_of_slopes() -> None:
    for one in PLAIN + ROUND:
        start = maximise(one.dual, Slopes(), Budget(iterations=0))
        assert torch.equal(
            start.rho.data, propagate(one.dual, crown_slopes(one.dual.hull)).rho.data
        )


# ---- linear programs --------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", ["interior_point", "dual_simplex"])
@pytest.mark.parametrize("seconds", [1e-9, 0.005, 0.02])
def test_an_interrupted_solver_still_gives_a_bound(algorithm: str, seconds: float) -> None:
    """At least that of the start, whatever multipliers it was left with."""
    one = deep(51, activations=("relu",), domains=("box",), subproblems=1, rows=4)
    text = f"lp(algorithm={algorithm}, seconds={seconds})"
    found = maximise(one.dual, METHODS.parse(text))
    assert (found.value >= maximise(one.dual, short("wk")).value).all()
    assert (one.dual.rigorous(found.rho) <= optima(one) + 1e-6).all()


def test_both_algorithms_find_the_same_optimum() -> None:
    for one in PLAIN:
        a, b = (
            maximise(one.dual, METHODS.parse(f"lp(algorithm={name})")).value
            for name in ("interior_point", "dual_simplex")
        )
        assert torch.allclose(a, b, rtol=1e-6, atol=1e-6)


def test_both_solvers_find_the_same_optimum() -> None:
    pytest.importorskip("gurobipy", reason="an optional solver: pip install 'anybound[gurobi]'")
    for one in PLAIN:  # small enough for the licence that comes with it
        a, b = (
            maximise(one.dual, METHODS.parse(f"lp(backend={name})")).value
            for name in ("highs", "gurobi")
        )
        assert torch.allclose(a, b, rtol=1e-6, atol=1e-6)


class Rambling:
    """A solver that is stopped with multipliers of its own invention."""

    def minimise(self, cost: Vector, seconds: float) -> Solution:
        y = np.random.default_rng(0).normal(size=10_000) * 10
        y[::7] = np.nan
        return Solution(float("nan"), y, None, optimal=False)


def test_whatever_a_solver_returns_the_bound_holds() -> None:
    class Stub(LP):
        def _at(self, dual: Decomposition, state: LPState, d: int) -> LPState:
            return replace(super()._at(dual, state, d), solver=Rambling())

        def within(self, budget: Budget) -> LP:
            return self

    for one in PLAIN:
        found = maximise(one.dual, Stub())
        assert (one.dual.rigorous(found.rho) <= one.sampled_minimum(300) + 1e-12).all()
        assert (found.value >= maximise(one.dual, short("wk")).value - 1e-12).all()
