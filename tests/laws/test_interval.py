"""Laws of interval propagation on random graphs of affine maps.

Oracles: the same recursion in exact rational arithmetic, written out in loops; forward
passes in torch's own operations.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from anybound.bound.interval import affine_interval, interval, propagate
from anybound.errors import InvalidInput
from anybound.model.activations.relu import ReLU
from anybound.model.activations.sigmoid import Sigmoid
from anybound.model.affine.conv import Conv
from anybound.model.affine.dense import Dense
from anybound.model.affine.map import WeightError
from anybound.model.domains.box import Box
from anybound.model.domains.l2_ball import L2Ball
from anybound.model.network import Edge, Network, Node

seeds = st.integers(0, 2**32 - 1)
DTYPES = (torch.float32, torch.float64)
Numbers = list[Fraction]


def cases(count: int) -> settings:
    return settings(max_examples=count, deadline=None, derandomize=True, database=None)


def exact(x: Tensor) -> Numbers:
    return [Fraction(v) for v in x.double().reshape(-1).tolist()]


def doubles(values: Iterable[float]) -> Tensor:
    return torch.tensor(list(values), dtype=torch.float64)


@dataclass(frozen=True)
class Case:
    """A random graph of dense maps and ReLUs, some badly scaled, and a box with D sub-problems."""

    network: Network
    box: Box

    @staticmethod
    def draw(seed: int, dtype: torch.dtype, error: WeightError | None = None) -> Case:
        rng = np.random.default_rng(seed)
        scale = float(10.0 ** rng.choice([0, 0, -8, 8]))
        sizes = rng.integers(1, 5, size=rng.integers(2, 5)).tolist()

        def numbers(*shape: int) -> Tensor:
            values = rng.normal(size=shape) * (rng.random(shape) < 0.8)
            return torch.tensor(values, dtype=dtype)

        nodes = [Node((sizes[0],))]
        for k, size in enumerate(sizes[1:], start=1):
            sources = {k - 1, *rng.choice(k, size=rng.integers(0, 3)).tolist()}
            edges = tuple(
                Edge(
                    j,
                    Dense.of(
                        scale * numbers(size, sizes[j]),
                        numbers(size) if rng.random() < 0.7 else None,
                        error=error or WeightError(),
                    ),
                )
                for j in sorted(sources)
            )
            nodes.append(Node((size,), edges, ReLU() if k < len(sizes) - 1 else None))
        count = int(rng.integers(1, 3))
        a, b = numbers(count, 1, sizes[0]), numbers(count, 1, sizes[0])
        return Case(Network(tuple(nodes)), Box(a.minimum(b), a.maximum(b)))


def exact_affine(node: Node, lower: list[Numbers], upper: list[Numbers]) -> tuple[Numbers, Numbers]:
    """Row by row, each product from the end that makes it smallest or largest."""
    low, high = [Fraction(0)] * node.shape[0], [Fraction(0)] * node.shape[0]
    for edge in node.edges:
        assert isinstance(edge.map, Dense)
        bias = edge.map.bias
        for o, row in enumerate(edge.map.weight):
            ends = [
                sorted((w * l, w * u))
                for w, l, u in zip(exact(row), lower[edge.source], upper[edge.source], strict=True)
            ]
            offset = Fraction(0) if bias is None else Fraction(float(bias[o]))
            low[o] += offset + sum(end[0] for end in ends)
            high[o] += offset + sum(end[1] for end in ends)
    return low, high


def exact_propagate(case: Case, d: int) -> list[tuple[Numbers, Numbers]]:
    lower, upper = [exact(case.box.lower[d])], [exact(case.box.upper[d])]
    zhat = [(lower[0], upper[0])]
    for node in case.network.nodes[1:]:
        low, high = exact_affine(node, lower, upper)
        zhat.append((low, high))
        lower.append([max(v, Fraction(0)) for v in low])
        upper.append([max(v, Fraction(0)) for v in high])
    return zhat


@pytest.mark.parametrize("dtype", DTYPES)
@cases(60)
@given(seed=seeds)
def test_contains_exact_propagation_and_is_close_to_it(dtype: torch.dtype, seed: int) -> None:
    case = Case.draw(seed, dtype)
    found = propagate(case.network, case.box)
    for d in range(case.box.count):
        for k, (low, high) in enumerate(exact_propagate(case, d)):
            lower, upper = exact(found[k].lower[d]), exact(found[k].upper[d])
            for l, u, l_exact, u_exact in zip(lower, upper, low, high, strict=True):
                assert l <= l_exact
                assert u >= u_exact
    # and no wider than it by more than roundings of what would meet in a layer if nothing cancelled
    size = [case.box.magnitude().double()]
    for k, node in enumerate(case.network.nodes[1:], start=1):
        size.append(
            sum(
                (e.map.to(torch.float64).abs_linear(size[e.source]) for e in node.edges),
                start=torch.tensor(3.0, dtype=torch.float64),
            )
        )
        allowed = 500 * k * torch.finfo(dtype).eps * size[k]
        for d in range(case.box.count):
            low, high = exact_propagate(case, d)[k]
            width = doubles(float(b - a) for a, b in zip(low, high, strict=True))
            excess = (found[k].upper.double() - found[k].lower.double())[d, 0] - width
            assert bool((excess <= allowed[d, 0]).all())


@pytest.mark.parametrize("dtype", DTYPES)
@cases(60)
@given(seed=seeds)
def test_is_exact_on_one_affine_map(dtype: torch.dtype, seed: int) -> None:
    """Every border is attained at a corner of the box, up to a few roundings."""
    case = Case.draw(seed, dtype)
    node = case.network.nodes[1]
    lower, upper = propagate(case.network.upto(1), case.box)[1]
    eps = torch.finfo(dtype).eps
    for d in range(case.box.count):
        low, high = exact_affine(node, [exact(case.box.lower[d])], [exact(case.box.upper[d])])
        for edge in node.edges:
            size = edge.map.abs_linear(case.box.magnitude())[d] + 3
        for o in range(node.shape[0]):
            room = 200 * eps * float(size.reshape(-1)[o])
            assert low[o] - Fraction(room) <= Fraction(float(lower[d, 0, o])) <= low[o]
            assert high[o] <= Fraction(float(upper[d, 0, o])) <= high[o] + Fraction(room)


@cases(60)
@given(
    seed=seeds, relative=st.sampled_from([0.0, 1e-6, 0.1]), absolute=st.sampled_from([0.0, 0.01])
)
def test_weights_within_their_error_are_covered(
    seed: int, relative: float, absolute: float
) -> None:
    case = Case.draw(seed, torch.float64, WeightError(relative, absolute, bias=absolute))
    rng = np.random.default_rng(seed)

    def moved(edge: Edge) -> Edge:
        assert isinstance(edge.map, Dense)
        weight, bias = edge.map.weight, edge.map.bias
        sign = torch.tensor(rng.choice([-1.0, 1.0], size=tuple(weight.shape)))
        # a hair less than allowed, for the roundings of this very line
        weight = weight + (1 - 1e-9) * sign * (relative * weight.abs() + absolute)
        return Edge(
            edge.source, Dense.of(weight, None if bias is None else bias + absolute * (1 - 1e-9))
        )

    nodes = (Node(n.shape, tuple(map(moved, n.edges)), n.activation) for n in case.network.nodes)
    true = Case(Network(tuple(nodes)), case.box)
    found = propagate(case.network, case.box)
    for d in range(case.box.count):
        for k, (low, high) in enumerate(exact_propagate(true, d)):
            assert all(a <= b for a, b in zip(exact(found[k].lower[d]), low, strict=True))
            assert all(a >= b for a, b in zip(exact(found[k].upper[d]), high, strict=True))


@cases(40)
@given(seed=seeds)
def test_sub_problems_are_bounded_as_if_alone(seed: int) -> None:
    case = Case.draw(seed, torch.float64)
    together = interval(case.network, case.box)
    for d in range(case.box.count):
        alone = interval(case.network, case.box.pick(torch.tensor([d])))
        scale = together.upper.data.abs().maximum(together.lower.data.abs())[d] + 1
        assert bool(((together.lower.data[d] - alone.lower.data[0]).abs() <= 1e-10 * scale).all())
        assert bool(((together.upper.data[d] - alone.upper.data[0]).abs() <= 1e-10 * scale).all())


def residual_network(rng: np.random.Generator) -> Network:
    """conv → sigmoid → conv (+ the input by another edge) → ReLU → conv, unequal strides."""

    def weight(*shape: int) -> Tensor:
        return torch.tensor(rng.normal(size=shape))

    first = Conv.of((2, 5, 5), weight(3, 2, 3, 3), weight(3), pads=1)
    second = Conv.of(first.out_shape, weight(2, 3, 3, 3), weight(2), stride=2)
    skip = Conv.of((2, 5, 5), weight(2, 2, 2, 2), stride=3)
    last = Conv.of(second.out_shape, weight(1, 2, 2, 2), weight(1))
    return Network(
        (
            Node((2, 5, 5)),
            Node(first.out_shape, (Edge(0, first),), Sigmoid()),
            Node(second.out_shape, (Edge(1, second), Edge(0, skip)), ReLU()),
            Node(last.out_shape, (Edge(2, last),)),
        )
    )


def residual_forward(network: Network, x: Tensor) -> list[Tensor]:
    """[x, ẑ_1, ẑ_2, ẑ_3] for `[N, 2, 5, 5]`, by torch alone."""
    conv = torch.nn.functional.conv2d
    (first,), (second, skip), (last,) = (node.edges for node in network.nodes[1:])
    weights = [edge.map for edge in (first, second, skip, last)]
    a, b, c, d = (m for m in weights if isinstance(m, Conv))
    bias = [None if m.bias is None else m.bias.reshape(-1) for m in (a, b, c, d)]
    one = conv(x, a.weight, bias[0], padding=1)
    two = conv(one.sigmoid(), b.weight, bias[1], stride=2) + conv(x, c.weight, bias[2], stride=3)
    return [x, one, two, conv(two.relu(), d.weight, bias[3])]


@cases(30)
@given(seed=seeds)
def test_every_forward_value_is_inside(seed: int) -> None:
    rng = np.random.default_rng(seed)
    network = residual_network(rng)
    center = torch.tensor(rng.normal(size=(1, 1, 2, 5, 5)))
    box = Box.ball(center, float(rng.choice([0.0, 1e-12, 0.1, 2.0])))
    samples = box.sample(20, torch.Generator().manual_seed(seed))[0]
    found = propagate(network, box)
    for span, zhat in zip(found, residual_forward(network, samples), strict=True):
        assert bool((span.lower[0] <= zhat).all())
        assert bool((zhat <= span.upper[0]).all())
    bounds = interval(network, box)
    for k in network.hidden:
        assert torch.equal(bounds.lower[k], found[k].lower)
        assert torch.equal(bounds.upper[k], found[k].upper)


@cases(30)
@given(seed=seeds)
def test_splits_are_carried_forward(seed: int) -> None:
    """Points of the box within the given bounds keep their values inside the tightened ones."""
    rng = np.random.default_rng(seed)
    network = residual_network(rng)
    box = Box.ball(torch.tensor(rng.normal(size=(1, 1, 2, 5, 5))), 0.3)
    plain = interval(network, box)
    samples = box.sample(40, torch.Generator().manual_seed(seed))[0]
    zhat = residual_forward(network, samples)
    neuron = int(rng.integers(plain.layout.total))
    flat = torch.cat([zhat[1].flatten(1), zhat[2].flatten(1)], dim=1)
    cut = flat[:, neuron].median()
    upper = plain.upper.data.clone()
    upper[..., neuron] = cut
    given_ = type(plain)(plain.lower, plain.upper.like(upper))
    tight = interval(network, box, within=given_)
    assert bool((tight.lower.data >= plain.lower.data).all())
    assert bool((tight.upper.data <= given_.upper.data).all())
    kept = flat[flat[:, neuron] <= cut]
    assert bool(((tight.lower.data[0] <= kept) & (kept <= tight.upper.data[0])).all())


def test_a_ball_is_bounded_through_its_box() -> None:
    network = residual_network(np.random.default_rng(0))
    center, radius = torch.zeros(1, 1, 2, 5, 5).double(), torch.ones(1, 1).double()
    ball, box = L2Ball(center, radius), Box.ball(center, 1.0)
    assert torch.equal(interval(network, ball).lower.data, interval(network, box).lower.data)


def test_overflow_is_refused() -> None:
    huge = Dense.of(torch.full((1, 1), 1e300, dtype=torch.float64))
    nodes = (Node((1,)), Node((1,), (Edge(0, huge),), ReLU()), Node((1,), (Edge(1, huge),), ReLU()))
    network = Network((*nodes, Node((1,), (Edge(2, huge),))))
    box = Box.ball(torch.ones(1, 1, 1).double(), 1.0)
    with pytest.raises(InvalidInput, match="too large"):
        interval(network, box)


def test_a_cancelling_sum_keeps_its_error() -> None:
    """1e16·z − (1e16 − 2)·z over two edges: what is left is far below the roundings."""

    def number(value: float) -> Tensor:
        return torch.tensor([[value]], dtype=torch.float64)

    one = Edge(0, Dense.of(number(1e16)))
    two = Edge(0, Dense.of(number(-1e16 + 2), number(0.1)[0]))
    box = Box.ball(number(1 / 3).unsqueeze(0), 0.0)
    lower, upper = affine_interval((one, two), propagate(Network((Node((1,)),)), box))
    z, weights = Fraction(1 / 3), (Fraction(1e16), Fraction(-1e16 + 2))
    true = sum(weights) * z + Fraction(0.1)
    assert Fraction(float(lower)) <= true <= Fraction(float(upper))
    assert float(upper - lower) < 100
