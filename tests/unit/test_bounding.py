"""The `bounds` call: what it proves, what it refuses, and its derivatives by the weights."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from random_networks import DOMAINS, Case, Draw, case
from torch import Tensor

import anybound
from anybound.bound.bounds import Bounds
from anybound.bound.intermediates.strategy import IntermediateStrategy, LayerTask, layer_by_layer
from anybound.bound.interval import interval
from anybound.bound.method import Stopped
from anybound.bounding import bounds, differentiable_bounds
from anybound.budget import Budget
from anybound.errors import AnyboundError, InvalidConfig, InvalidInput, InvalidModel
from anybound.model.activations.relu import ReLU
from anybound.model.affine.conv import Conv
from anybound.model.affine.dense import Dense
from anybound.model.domains.box import Box
from anybound.model.domains.domain import Domain
from anybound.model.domains.l2_ball import L2Ball
from anybound.model.network import Edge, Network, Node
from anybound.model.weights import weights, with_weights
from anybound.registry import INTERMEDIATES


def plain(seed: int = 1, **options: Any) -> Case:
    """One sub-problem whose bounds are those of intervals."""
    return case(seed, subproblems=1, cuts=False, **options)


def check(one: Case, lower: Tensor, upper: Tensor) -> None:
    x = one.domain.sample(300, torch.Generator().manual_seed(0))
    values = one.values(x).squeeze(0) if one.domain.count == 1 else one.values(x)
    assert (lower <= values.amin(-2) + 1e-12 * (1 + values.abs().amax())).all()
    assert (upper >= values.amax(-2) - 1e-12 * (1 + values.abs().amax())).all()
    assert lower.dtype == upper.dtype == torch.float64


@pytest.mark.parametrize("domain", DOMAINS)
@pytest.mark.parametrize("intermediate", ["interval", "wk", "crown", "iterative"])
def test_bounds_hold_on_samples(domain: str, intermediate: str) -> None:
    for seed in range(6):
        one = plain(seed, domains=(domain,))
        found = bounds(one.network, one.domain, one.rows, intermediate=intermediate)
        check(one, found.lower, found.upper)
        assert found.lower.shape == (4,)


@pytest.mark.parametrize("strategy", ["interval", "wk", "crown", "iterative"])
def test_intermediate_bounds_hold_and_are_within_intervals(strategy: str) -> None:
    for seed in range(12):
        one = case(seed, cuts=False)
        between = INTERMEDIATES.parse(strategy).bounds(one.network, one.domain)
        loose = interval(one.network, one.domain)
        blur = 1e-12 * (1 + loose.lower.data.abs() + loose.upper.data.abs())
        assert (between.lower.data >= loose.lower.data - blur).all()
        assert (between.upper.data <= loose.upper.data + blur).all()
        within = replace(one, bounds=between)
        assert within.sampled_minimum(200).isfinite().all()  # some sample was inside …
        x = one.domain.sample(200, torch.Generator().manual_seed(1))
        for k in one.network.hidden:  # … and all are
            zhat = one.network.trace(x)[k]
            assert (zhat >= between.lower[k] - 1e-12 * (1 + zhat.abs())).all()
            assert (zhat <= between.upper[k] + 1e-12 * (1 + zhat.abs())).all()


def test_a_batch_of_input_sets_gives_their_bounds_one_by_one() -> None:
    one = case(5, subproblems=3, cuts=False, domains=("box",), rows=2)
    box = one.domain
    assert isinstance(box, Box)
    many = Box(
        box.lower.expand(3, *box.lower.shape[1:]) + 0,
        box.upper + torch.zeros(3, *[1] * (box.upper.ndim - 1)),
    )
    found = bounds(one.network, many, one.rows)
    assert found.lower.shape == found.upper.shape == (3, 2)
    check(replace(one, domain=many), found.lower, found.upper)
    for d in range(3):
        alone = bounds(one.network, many.pick(torch.tensor([d])), one.rows)
        assert torch.allclose(alone.lower, found.lower[d], rtol=1e-4, atol=1e-5)


def test_every_layer_can_be_bounded_and_outputs_are_the_default() -> None:
    one = plain(9, activations=("relu",))
    found = bounds(one.network, one.domain)
    assert found.lower.shape == (one.network.output_size,)
    x = one.domain.sample(200, torch.Generator().manual_seed(0))
    for k, zhat in enumerate(one.network.trace(x)):
        if k:
            found = bounds(one.network, one.domain, layer=k)
            assert (found.lower <= zhat[0].flatten(1).amin(0) + 1e-12).all()
            assert (found.upper >= zhat[0].flatten(1).amax(0) - 1e-12).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_networks_and_sets_of_any_precision_are_bounded_in_float64(dtype: torch.dtype) -> None:
    """float32 numbers are taken at their word: what they say is exact."""
    for seed in range(6):
        one = plain(seed, activations=("relu", "leaky"))
        network, domain = one.network.to(dtype), one.domain.to(dtype)
        found = bounds(network, domain, one.rows)
        exact = replace(one, network=network.to(torch.float64), domain=domain.to(torch.float64))
        check(exact, found.lower, found.upper)
        mixed = bounds(network, one.domain, one.rows)
        check(replace(exact, domain=one.domain), mixed.lower, mixed.upper)


def affine(weight: Tensor) -> Network:
    return Network((Node((2,)), Node((len(weight),), (Edge(0, Dense.of(weight, weight[:, 0])),))))


@pytest.mark.parametrize(
    "method",
    [
        "interval",
        "wk",
        "crown",
        "dsg(iterations=3)",
        "slopes",
        "proximal(iterations=4)",
        "supergradient(iterations=3)",
        "lp",
    ],
)
@pytest.mark.parametrize("size", [1.0, 0.0])
def test_affine_networks_and_constant_ones(method: str, size: float) -> None:
    weight = size * torch.tensor([[1.0, -2.0], [0.5, 3.0]], dtype=torch.float64)
    box = Box.ball(torch.ones(1, 1, 2, dtype=torch.float64), 0.5)
    found = bounds(affine(weight), box, method=method)
    centre = weight.sum(1) + weight[:, 0]
    reach = 0.5 * weight.abs().sum(1)
    assert torch.allclose(found.lower, centre - reach)
    assert torch.allclose(found.upper, centre + reach)
    assert (found.lower <= centre - reach).all()


def test_an_output_that_does_not_read_the_last_layers() -> None:
    """Layer 1 feeds nothing; the output reads the input alone, or nothing that varies."""
    weight = torch.tensor([[1.0, 2.0]], dtype=torch.float64)
    nodes = (
        Node((2,)),
        Node((1,), (Edge(0, Dense.of(weight)),), ReLU()),
        Node((1,), (Edge(0, Dense.of(weight)),)),
    )
    box = Box.ball(torch.zeros(1, 1, 2, dtype=torch.float64), 1.0)
    for method in ("slopes", "lp", "proximal(iterations=4)", "dsg(iterations=4)"):
        found = bounds(Network(nodes), box, method=method)
        assert float(found.lower) == pytest.approx(-3.0, abs=1e-6)
        assert float(found.upper) == pytest.approx(3.0, abs=1e-6)


def test_many_rows_are_bounded_part_by_part(monkeypatch: pytest.MonkeyPatch) -> None:
    one = plain(9, rows=7)
    whole = bounds(one.network, one.domain, one.rows)
    every = bounds(one.network, one.domain)
    monkeypatch.setattr("anybound.bound.row_search.PART_BYTES", 1)
    parts = bounds(one.network, one.domain, one.rows)
    assert torch.allclose(parts.lower, whole.lower, rtol=1e-5, atol=1e-6)
    assert torch.allclose(parts.upper, whole.upper, rtol=1e-5, atol=1e-6)
    again = bounds(one.network, one.domain, one.rows, warm=whole, method="wk")
    assert (again.lower >= whole.lower).all()
    assert (again.upper <= whole.upper).all()
    single = bounds(one.network, one.domain)
    assert torch.allclose(single.lower, every.lower, rtol=1e-5, atol=1e-6)


# ---- going on from a result -------------------------------------------------------------------


def test_going_on_is_never_worse() -> None:
    for seed in range(8):
        one = plain(seed)
        first = bounds(one.network, one.domain, one.rows, method="slopes(iterations=5)")
        for method in ("supergradient(iterations=3)", "dsg(iterations=3)", "wk", "slopes"):
            then = bounds(one.network, one.domain, one.rows, method=method, warm=first)
            assert (then.lower >= first.lower).all()
            assert (then.upper <= first.upper).all()
            check(one, then.lower, then.upper)


def test_bounds_of_a_larger_set_do_not_inherit_those_of_a_smaller_one() -> None:
    """Intermediate bounds of a warm start hold for its own input set only."""
    one = plain(9, activations=("relu",), domains=("box",))
    center = torch.zeros(1, 1, *one.network.input_shape, dtype=torch.float64)
    small, large = Box.ball(center, 1e-3), Box.ball(center, 2.0)
    start = bounds(one.network, small, one.rows)
    found = bounds(one.network, large, one.rows, warm=start)
    check(replace(one, domain=large), found.lower, found.upper)
    other = with_weights(one.network, {n: -3 * w for n, w in weights(one.network).items()})
    found = bounds(other, small, one.rows, warm=start)
    check(replace(one, network=other, domain=small), found.lower, found.upper)


# ---- stopping ---------------------------------------------------------------------------------


@pytest.mark.parametrize("timeout", [0.0, 1e-3])
def test_without_time_there_are_bounds_all_the_same(timeout: float) -> None:
    one = plain(9)
    found = bounds(one.network, one.domain, one.rows, timeout=timeout, method="supergradient")
    assert found.stopped is Stopped.BUDGET
    assert found.lower.isfinite().all()
    check(one, found.lower, found.upper)


class Interrupted(IntermediateStrategy):
    """Someone presses Ctrl-C while a layer is tightened."""

    def bounds(self, network: Network, domain: Domain, budget: Budget | None = None) -> Bounds:
        def tighten(task: LayerTask) -> Any:
            raise KeyboardInterrupt

        return layer_by_layer(network, domain, tighten, budget)


def test_an_interrupt_during_intermediate_bounds_ends_everything_with_valid_bounds() -> None:
    one = plain(9)
    assert one.network.n > 1
    found = bounds(one.network, one.domain, one.rows, intermediate=Interrupted())
    assert found.stopped is Stopped.INTERRUPTED
    assert found.iterations == 0
    check(one, found.lower, found.upper)


def test_iterations_limit_the_method_and_show_in_the_trace() -> None:
    one = plain(9)
    found = bounds(one.network, one.domain, one.rows, iterations=3, trace=True)
    assert found.iterations == 3
    assert found.trace is not None
    assert found.trace.iterations == (0, 1, 2, 3)
    assert found.trace.lower.shape == found.trace.upper.shape == (4, 4)
    assert (found.trace.lower.diff(dim=0) >= 0).all()
    assert (found.trace.upper.diff(dim=0) <= 0).all()
    assert list(found.trace.seconds) == sorted(found.trace.seconds)


# ---- what is refused --------------------------------------------------------------------------

NAN = float("nan")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"rows": torch.ones(2, 99)}, "rows"),
        ({"rows": torch.ones(0, 3)}, "rows"),
        ({"rows": np.full((1, 3), NAN)}, "finite"),
        ({"rows": np.full((1, 3), np.inf)}, "finite"),
        ({"rows": "abc"}, "rows"),
        ({"rows": [[1.0, 2.0], [3.0]]}, "rows"),
        ({"layer": 17}, "layer"),
        ({"layer": 0}, "layer"),
        ({"method": "slopse"}, "slopes"),
        ({"method": "slopes(iterations=0)"}, "iterations"),
        ({"iterations": 0}, "iterations"),
        ({"iterations": -1}, "iterations"),
        ({"timeout": -1.0}, "seconds"),
        ({"timeout": NAN}, "seconds"),
        ({"intermediate": "magic"}, "intermediate"),
    ],
)
def test_bad_arguments_are_refused_in_one_line(arguments: dict[str, Any], says: str) -> None:
    weight = torch.ones(3, 2, dtype=torch.float64)
    network = Network(
        (
            Node((2,)),
            Node((3,), (Edge(0, Dense.of(weight)),), ReLU()),
            Node((3,), (Edge(1, Dense.of(torch.ones(3, 3).double())),)),
        )
    )
    box = Box.ball(torch.zeros(1, 1, 2, dtype=torch.float64), 1.0)
    with pytest.raises(AnyboundError, match=says) as caught:
        bounds(network, box, **arguments)
    assert "\n" not in str(caught.value)


def test_a_set_of_another_dimension_is_refused() -> None:
    box = Box.ball(torch.zeros(1, 1, 5, dtype=torch.float64), 1.0)
    with pytest.raises(InvalidInput, match=r"input set has points of shape \(5,\)"):
        bounds(affine(torch.ones(1, 2).double()), box)


def test_bounds_of_another_network_or_batch_are_refused() -> None:
    one, other = plain(9), plain(10)
    with pytest.raises(InvalidConfig, match="another network"):
        bounds(one.network, one.domain, one.rows, intermediate=other.bounds)
    twice = Bounds(
        *(x.like(x.data.expand(2, -1, -1)) for x in (one.bounds.lower, one.bounds.upper))
    )
    with pytest.raises(InvalidConfig, match="sub-problems"):
        bounds(one.network, one.domain, one.rows, intermediate=twice)
    wild = Bounds(one.bounds.lower, one.bounds.upper.like(one.bounds.upper.data * torch.inf))
    with pytest.raises(InvalidInput, match="NaN or infinite"):
        bounds(one.network, one.domain, one.rows, intermediate=wild)


def test_a_warm_start_of_other_functions_is_refused() -> None:
    one = plain(9)
    warm = bounds(one.network, one.domain, one.rows)
    with pytest.raises(InvalidInput, match="warm start"):
        bounds(one.network, one.domain, one.rows[:3], warm=warm)


def test_lp_refuses_sets_that_are_no_boxes() -> None:
    one = plain(9, domains=("l2",), activations=("relu",))
    assert isinstance(one.domain, L2Ball)
    with pytest.raises(InvalidConfig, match=r"box as input set, not a L2Ball; use another method"):
        bounds(one.network, one.domain, one.rows, method="lp")


@pytest.mark.parametrize(("module", "backend"), [("highspy", "highs"), ("gurobipy", "gurobi")])
def test_a_missing_solver_is_named(
    module: str, backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, module, None)
    one = plain(9, domains=("box",), activations=("relu",))
    with pytest.raises(anybound.AnyboundError, match=r"pip install 'anybound\[") as caught:
        bounds(one.network, one.domain, one.rows, method=f"lp(backend={backend})")
    assert "\n" not in str(caught.value)


def test_a_solver_without_licence_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    class GurobiError(Exception):
        pass

    def refuse(**_: object) -> None:
        raise GurobiError("no licence\nfound")

    fake = SimpleNamespace(GurobiError=GurobiError, Env=refuse)
    monkeypatch.setitem(__import__("sys").modules, "gurobipy", fake)
    one = plain(9, domains=("box",), activations=("relu",))
    with pytest.raises(anybound.AnyboundError, match=r"^Gurobi: no licence found; .*use highs$"):
        bounds(one.network, one.domain, one.rows, method="lp(backend=gurobi)")


def test_weights_that_overflow_are_refused_or_bounded() -> None:
    for scale in (1e30, 1e160, 1e305):
        weight = torch.full((2, 2), scale, dtype=torch.float64)
        network = Network(
            (
                Node((2,)),
                Node((2,), (Edge(0, Dense.of(weight)),), ReLU()),
                Node((2,), (Edge(1, Dense.of(weight)),)),
            )
        )
        box = Box.ball(torch.zeros(1, 1, 2, dtype=torch.float64), 1.0)
        for search in (torch.float32, torch.float64):
            try:
                found = bounds(network, box, search=search)
            except AnyboundError:
                continue
            assert (found.lower <= 0).all()
            assert (found.upper >= 4 * scale * scale).all()


def test_networks_that_are_not_in_normal_form_are_refused() -> None:
    one = Dense.of(torch.ones(1, 1, dtype=torch.float64))
    wide = Dense.of(torch.ones(2, 1, dtype=torch.float64))
    x, relu = Node((1,)), Node((1,), (Edge(0, one),), ReLU())
    for nodes in (
        (),
        (x, Node((1,))),  # nothing to read
        (relu, Node((1,), (Edge(0, one),))),  # an input that reads
        (x, Node((1,), (Edge(0, one),)), Node((1,), (Edge(1, one),))),  # hidden, no activation
        (x, relu),  # an output with one
        (x, Node((1,), (Edge(1, one),))),  # reads itself
        (x, Node((1,), (Edge(0, wide),))),  # shapes that do not fit
    ):
        with pytest.raises(InvalidModel) as caught:
            Network(nodes)
        assert "\n" not in str(caught.value)


# ---- derivatives ------------------------------------------------------------------------------


def small_network(draw: Draw) -> Network:
    """A convolution, a skip edge, a dense layer, per-channel slopes."""
    from anybound.model.activations.leaky_relu import PReLU
    from anybound.model.affine.chain import Chain
    from anybound.model.affine.structural import Reshape

    conv = Conv.of((1, 4, 4), draw.normal(2, 1, 3, 3), draw.normal(2), stride=2, pads=1)
    back = Conv.of((2, 2, 2), draw.normal(2, 2, 3, 3) / 3, draw.normal(2), pads=1)
    head = Chain.of(Reshape((2, 2, 2), (8,)), Dense.of(draw.normal(2, 8), draw.normal(2)))
    return Network(
        (
            Node((1, 4, 4)),
            Node((2, 2, 2), (Edge(0, conv),), ReLU()),
            Node((2, 2, 2), (Edge(1, back), Edge(0, replace(conv))), PReLU(draw.normal(2, 1, 1))),
            Node(
                (2,),
                (Edge(2, head), Edge(1, head)),
            ),
        )
    )


def test_weights_are_named_and_exchanged() -> None:
    network = small_network(Draw(0))
    named = weights(network)
    assert "1.0.weight" in named
    assert "2.alpha" in named
    assert "3.0.maps.1.weight" in named
    same = with_weights(network, named)
    x = Draw(1).normal(1, 3, 1, 4, 4)
    assert torch.equal(same.forward(x), network.forward(x))
    zero = with_weights(network, {n: torch.zeros_like(w) for n, w in named.items()})
    assert float(zero.forward(x).abs().max()) == 0
    with pytest.raises(InvalidInput, match="no weight 'nonsense'"):
        with_weights(network, {"nonsense": torch.ones(1)})
    with pytest.raises(InvalidInput, match="expected"):
        with_weights(network, {"1.0.weight": torch.ones(1)})


@pytest.mark.parametrize("recompute", [False, True])
@pytest.mark.parametrize("kind", ["box", "l2"])
def test_derivatives_by_the_weights_are_finite_differences(kind: str, recompute: bool) -> None:
    draw, h = Draw(3), 1e-6
    network = small_network(draw)
    center = draw.normal(1, 1, 1, 4, 4)
    radius = torch.full((1, 1), 0.3, dtype=torch.float64)
    domain: Domain = Box.ball(center, 0.2) if kind == "box" else L2Ball(center, radius)
    rows = draw.normal(3, 2)
    result = bounds(network, domain, rows, method="supergradient(iterations=20)")
    noisy = replace(
        result, rho=result.rho.like(result.rho.data + 0.05 * draw.normal(*result.rho.data.shape))
    )
    values = {name: w.clone().requires_grad_() for name, w in weights(network).items()}
    direction = {name: draw.normal(*w.shape) for name, w in values.items()}

    def total(step: float) -> Tensor:
        moved = {n: w + step * direction[n] for n, w in values.items()}
        lower, upper = differentiable_bounds(
            with_weights(network, moved), domain, rows, noisy, recompute=recompute
        )
        return (lower * torch.arange(1.0, 4.0)).sum() - upper.sum()

    total(0.0).backward()
    slope = sum(
        float((w.grad * direction[n]).sum()) for n, w in values.items() if w.grad is not None
    )
    assert all(w.grad is not None for w in values.values())
    with torch.no_grad():
        difference = float(total(h) - total(-h)) / (2 * h)
    assert slope == pytest.approx(difference, rel=1e-4, abs=1e-4)


def test_differentiable_bounds_are_the_proved_ones_and_train() -> None:
    draw = Draw(4)
    network, center = small_network(draw), draw.normal(1, 1, 1, 4, 4)
    domain, rows = Box.ball(center, 0.1), torch.tensor([[1.0, -1.0]]).double()
    for _ in range(3):
        found = bounds(network, domain, rows, intermediate="iterative")
        values = {name: w.clone().requires_grad_() for name, w in weights(network).items()}
        lower, upper = differentiable_bounds(with_weights(network, values), domain, rows, found)
        assert torch.allclose(lower, found.lower, rtol=1e-6)
        assert torch.allclose(upper, found.upper, rtol=1e-6)
        assert (lower >= found.lower).all()
        (-lower.sum()).backward()
        network = with_weights(
            network,
            {n: (w - 1e-3 * w.grad).detach() for n, w in values.items() if w.grad is not None},
        )
        better = bounds(network, domain, rows, intermediate="iterative")
        assert float(better.lower) > float(found.lower)
