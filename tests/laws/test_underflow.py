"""Bounds hold where numbers fall below the smallest normal ones: what underflow takes may come back,
multiplied by later weights.

Oracle: the layers that the network was made of, in fractions, at points of the input set.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from random_networks import Case, Draw
from torch import Tensor

from anybound.bound.compact.network import CompactNetwork
from anybound.bound.compact.objective import CompactObjective
from anybound.bound.compact.problems import Children, Parents
from anybound.bound.compact.rigorous import rigorous
from anybound.bound.compact.sparse import SparseNetwork
from anybound.bound.interval import interval, propagate
from anybound.errors import AnyboundError
from anybound.model.activations import LeakyReLU
from anybound.model.affine import AffineMap, Chain, Dense, Scale
from anybound.model.affine.fuse import compose
from anybound.model.domains.box import Box
from anybound.model.network import Edge, Network, Node
from anybound.search.input_split.splitter import InputSplitter

seeds = st.integers(0, 2**32 - 1)
Numbers = list[Fraction]


def cases(count: int) -> settings:
    return settings(max_examples=count, deadline=None, derandomize=True, database=None)


@dataclass(frozen=True)
class Layers:
    """Affine maps, one list a layer, and σ(x) = max(x, 0) + bend·min(x, 0) between layers."""

    maps: list[list[AffineMap]]
    bend: float
    fused: bool

    def network(self) -> Network:
        nodes = [Node(self.maps[0][0].in_shape)]
        for k, maps in enumerate(self.maps):
            whole = maps[0]
            for m in maps[1:]:
                whole = compose(m, whole) if self.fused else Chain.of(whole, m)
            last = k == len(self.maps) - 1
            activation = None if last else LeakyReLU(self.bend)
            nodes.append(Node(whole.out_shape, (Edge(k, whole),), activation))
        return Network(tuple(nodes))

    def exact(self, x: Numbers) -> list[Numbers]:
        """ẑ_1, …, ẑ_n at one point."""
        out, alpha = [], Fraction(self.bend)
        for maps in self.maps:
            for m in maps:
                x = exact_affine(m, x)
            out.append(x)
            x = [v if v > 0 else alpha * v for v in x]
        return out


def exact_affine(m: AffineMap, x: Numbers) -> Numbers:
    matrix = m.sparse().toarray()
    bias = [0.0] * len(matrix) if m.bias is None else m.bias.reshape(-1).tolist()
    return [
        sum((Fraction(float(w)) * v for w, v in zip(row, x, strict=True)), Fraction(b))
        for row, b in zip(matrix, bias, strict=True)
    ]


def points(box: Box, draw: Draw, count: int = 6) -> list[Numbers]:
    """Corners and others."""
    low, high = box.lower.reshape(-1).numpy(), box.upper.reshape(-1).numpy()
    part = np.where(
        draw.rng.random((count, len(low))) < 0.7, draw.rng.random((count, 1)) < 0.5, 0.5
    )
    inner = np.clip(low + part * (high - low), low, high)
    return [[Fraction(float(v)) for v in x] for x in (low, high, *inner)]


def number(value: float) -> Tensor:
    return torch.tensor([[value]], dtype=torch.float64)


def line(*layers: tuple[float, ...], bend: float = 0.0) -> Layers:
    """One neuron a layer, one number a map."""
    return Layers([[Dense.of(number(w)) for w in maps] for maps in layers], bend, fused=False)


def wild(seed: int) -> Layers:
    """Dense maps and scales of any size, the next one likely to undo what the last one did."""
    draw, spent = Draw(seed), 0
    size, layers = draw.int(1, 3), []
    for _ in range(draw.int(1, 4)):
        maps: list[AffineMap] = []
        for _ in range(draw.int(1, 3)):
            power = (
                int(np.clip(-spent + draw.int(-20, 20), -300, 300))
                if draw.chance(0.5)
                else draw.int(-300, 100)
            )
            spent += power
            if draw.chance(0.3):
                maps.append(Scale.of((size,), draw.normal(size) * 10.0**power))
            else:
                after = draw.int(1, 3)
                bias = draw.normal(after) * 10.0 ** draw.int(-300, 0) if draw.chance(0.4) else None
                maps.append(Dense.of(draw.normal(after, size) * 10.0**power, bias))
                size = after
        layers.append(maps)
    return Layers(layers, 0.1 if draw.chance(0.3) else 0.0, fused=draw.chance(0.5))


def boxed(layers: Layers, low: float, high: float) -> Box:
    size = layers.maps[0][0].in_shape
    ends = (torch.full((1, 1, *size), v, dtype=torch.float64) for v in (low, high))
    return Box(*ends)


def random_box(layers: Layers, draw: Draw) -> Box:
    center = draw.normal(1, 1, *layers.maps[0][0].in_shape)
    return Box.ball(center, float(10.0 ** draw.int(-3, 0)))


LINES = [
    (line((1e-200, 1e-200, 1e200, 1e180), (1.0,)), 1.0, 1.0),
    (line((1e-200,), (1e-200,), (1e300,), (1e100,)), 0.5, 1.0),
    (line((1e-200,), (-1e-200,)), 1e299, 1e300),
    (line((1e-310,), (-1e300,)), -1.0, 1.0),
    (line((1e300,), (-1e-310,)), 1e-290, 1.0),
    (line((1e-160, 1e-160), (-1e300,)), 1.0, 2.0),
    (line((1e-300,), (1e-300,), (-1e300, 1e300), bend=0.3), -1.0, 1.0),
    (line((1e-170,), (1e-170,), (1e170,), (1e170,), bend=1e-200), -1e300, 1.0),
]


def check(layers: Layers, box: Box, draw: Draw) -> int:
    """Every bound against every point; returns how many bounds were finite."""
    network = layers.network()
    seen = [layers.exact(x) for x in points(box, draw)]
    try:
        spans = propagate(network, box)[1:]
        bounds = interval(network, box)
    except AnyboundError:
        return 0
    for k, span in enumerate(spans):
        for at in seen:
            check_inside(span.lower, at[k], span.upper)
    outputs = network.output_shape[0]
    rows = torch.cat([torch.eye(outputs), -torch.eye(outputs)]).double()
    one = Case(network, box, bounds, rows)
    least = [min(sign * at[-1][i] for at in seen) for sign in (1, -1) for i in range(outputs)]
    found = [*one.dual.rigorous(one.rhos(draw))[0].tolist()]
    check_below(found, least)
    check_below(compact_bounds(one), least)
    check_below(split_bounds(one), least)
    return sum(np.isfinite(v) for v in found)


def check_inside(lower: Tensor, exact: Numbers, upper: Tensor) -> None:
    for l, v, u in zip(lower.reshape(-1).tolist(), exact, upper.reshape(-1).tolist(), strict=True):
        assert not l > v, (l, float(v))
        assert not u < v, (float(v), u)


def check_below(bounds: list[float], least: Numbers) -> None:
    for bound, value in zip(bounds, least, strict=True):
        assert not bound > value, (bound, float(value))


def compact_bounds(one: Case) -> list[float]:
    network = CompactNetwork.of(SparseNetwork(one.network), one.bounds, one.domain)
    objective = CompactObjective.of(one.problem.objective, network)
    parents = Parents.roots(network, np.arange(len(one.rows)))
    children = Children.same(len(one.rows))
    return rigorous(network, objective, parents, children, parents.slope).tolist()


def split_bounds(one: Case) -> list[float]:
    clauses = [[r] for r in range(len(one.rows))]
    splitter = InputSplitter.of(one.problem, one.bounds, clauses)
    return splitter.bound(splitter.root).bound[0].tolist()


@pytest.mark.parametrize(("layers", "low", "high"), LINES)
def test_what_vanishes_is_not_forgotten(layers: Layers, low: float, high: float) -> None:
    check(layers, boxed(layers, low, high), Draw(0))


@cases(150)
@given(seeds)
def test_numbers_of_any_size(seed: int) -> None:
    draw, layers = Draw(seed + 1), wild(seed)
    check(layers, random_box(layers, draw), draw)


def test_most_of_these_cases_have_bounds() -> None:
    finite = 0
    for seed in range(60):
        draw, layers = Draw(seed + 1), wild(seed)
        finite += check(layers, random_box(layers, draw), draw) > 0
    assert finite > 20


@pytest.mark.filterwarnings("error")
def test_compact_bounds_of_what_overflows_are_minus_infinity() -> None:
    layers = line((1e-200,), (1e-200,), (1e300,), (1e100,))
    network, box = layers.network(), boxed(layers, 0.5, 1.0)
    one = Case(network, box, interval(network, box), torch.tensor([[1.0], [-1.0]]).double())
    assert compact_bounds(one) == [-np.inf, -np.inf]
