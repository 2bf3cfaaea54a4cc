"""Bounds hold for every network within the stored weights' errors, not only for the stored one.

Fusing maps and reading half precision round; `WeightError` says by how much at most. Here some
other network within these errors is chosen so that it hurts, and q of *that* network in 150 digits
must not be below what the engines call rigorous.
"""

from __future__ import annotations

from dataclasses import replace

import mpmath
import numpy as np
import pytest
import torch
from exact_dual import exact_q
from random_networks import ACTIVATIONS, Case, Draw, case
from torch import Tensor

from anybound.bound.bounds import Bounds
from anybound.bound.compact import plain
from anybound.bound.compact.network import CompactNetwork
from anybound.bound.compact.objective import CompactObjective
from anybound.bound.compact.problems import Children, Parents
from anybound.bound.compact.rigorous import rigorous
from anybound.bound.compact.roots import RootBounds
from anybound.bound.compact.sparse import SparseNetwork
from anybound.bound.decomposition import Decomposition
from anybound.bound.intermediates.crown import BestOfIntervalAndCrown
from anybound.bound.intermediates.strategy import IntermediateStrategy
from anybound.bound.intermediates.wk import BestOfIntervalAndWK
from anybound.bound.interval import interval
from anybound.layers import Layers
from anybound.model.affine import AffineMap, Chain, Dense, Reshape
from anybound.model.affine.map import WeightError
from anybound.model.domains.box import Box
from anybound.model.network import Edge, Network
from anybound.spec.problem import Objective, Problem

ONE_BEND = ("relu", "relu", "leaky", "abs", "identity")
NEARLY = 1 - 2.0**-30  # so that the rounding of the other network's numbers stays within the error


def uncertain(network: Network, draw: Draw) -> Network:
    """The same numbers, each known only up to an error of its own kind and size."""

    def blurred(edge: Edge) -> Edge:
        sizes = 10.0 ** draw.rng.uniform(-9, -2, 3) * (draw.rng.random(3) < 0.7)
        relative, absolute, bias = sizes.tolist()
        known = edge.map.bias is not None
        error = WeightError(relative, absolute, bias if known else 0.0)
        return Edge(edge.source, replace(edge.map, error=error))

    nodes = (replace(n, edges=tuple(map(blurred, n.edges))) for n in network.nodes)
    return Network(tuple(nodes))


def another(network: Network, push: dict[int, Tensor], z: dict[int, Tensor]) -> Network:
    """Each number moved as far as its error allows, in the direction that raises Σ_k push_kᵀ ẑ_k at
    z; `push[k]` is `[size_k]`, `z[j]` `[size_j]`."""

    def moved(k: int, edge: Edge) -> Edge:
        map_, error = edge.map, edge.map.error
        own = torch.from_numpy(map_.sparse().toarray())
        pattern = torch.from_numpy(map_.abs().sparse().toarray()) != 0
        reach = (own.abs() * error.relative + error.absolute * pattern) * NEARLY
        weight = own + reach * torch.sign(torch.outer(push[k], z[edge.source]))
        bias = None
        if map_.bias is not None:
            bias = map_.bias.expand(map_.out_shape).reshape(-1)
            bias = bias + error.bias * NEARLY * torch.sign(push[k])
        return Edge(edge.source, matrix(map_, weight, bias))

    nodes = (
        replace(node, edges=tuple(moved(k, edge) for edge in node.edges))
        for k, node in enumerate(network.nodes)
    )
    return Network(tuple(nodes))


def matrix(like: AffineMap, weight: Tensor, bias: Tensor | None) -> Chain:
    """A matrix between the shapes of another map."""
    flat = Reshape(like.in_shape, (like.in_size,)), Reshape((like.out_size,), like.out_shape)
    return Chain.of(flat[0], Dense.of(weight, bias), flat[1])


def worst(one: Case, rho: Layers, d: int, r: int) -> Case:
    """The case of the network that lowers q(ρ) of sub-problem d and row r most, to first order."""
    p = one.dual.inner_min(rho)
    push = {k: rho.flat(k)[d, r] for k in one.network.hidden}
    push[one.network.n] = -one.rows[r].reshape(-1)
    z = {k: p.z.flat(k)[d, r] for k in one.network.hidden}
    z[0] = p.z0[d, r].reshape(-1)
    return replace(one, network=another(one.network, push, z))


def not_above(bound: float, one: Case, rho: Tensor, d: int, r: int) -> bool:
    with mpmath.workdps(50):
        return bool(mpmath.mpf(bound) <= exact_q(one, rho, d, r))


@pytest.mark.parametrize("seed", range(40))
def test_the_portable_engine_covers_every_network_within_the_errors(seed: int) -> None:
    one = case(seed, activations=ACTIVATIONS, domains=("box", "l1", "l2"), rows=2)
    one = replace(one, network=uncertain(one.network, Draw(seed)))
    rho = one.rhos(Draw(seed + 1))
    proved = one.dual.rigorous(rho)
    for d in range(proved.shape[0]):
        for r in range(2):
            other = worst(one, rho, d, r)
            assert not_above(float(proved[d, r]), other, rho.data[d, r], d, r)


@pytest.mark.parametrize("seed", range(60))
def test_the_compact_engine_covers_every_network_within_the_errors(seed: int) -> None:
    one = case(seed, activations=ONE_BEND, domains=("box",), subproblems=1, rows=3)
    draw = Draw(seed)
    one = replace(one, network=uncertain(one.network, draw))
    assert isinstance(one.domain, Box)
    network = CompactNetwork.of(SparseNetwork(one.network), one.bounds, one.domain)
    objective = CompactObjective.of(one.problem.objective, network)
    parents, children = Parents.roots(network, np.arange(3)), Children.same(3)
    slope = parents.slope * draw.rng.random(parents.slope.shape).astype(np.float32)
    bound = rigorous(network, objective, parents, children, slope)
    sweep = plain.backward(
        network, objective, plain.signs(parents, children), parents.row, slope.astype(np.float64)
    )
    rho = plain.multipliers(network, sweep.nu)
    for r in range(3):
        other = worst(one, rho, 0, r)
        assert not_above(bound[r], other, rho.data[0, r], 0, 0 if len(other.rows) == 1 else r)


STRATEGIES: list[IntermediateStrategy | RootBounds] = [
    BestOfIntervalAndWK(),
    BestOfIntervalAndCrown(),
    RootBounds(),
]


@pytest.mark.parametrize("strategy", STRATEGIES, ids=["wk", "crown", "compact"])
@pytest.mark.parametrize("seed", range(12))
def test_intermediate_bounds_cover_every_network_within_the_errors(
    seed: int, strategy: IntermediateStrategy | RootBounds
) -> None:
    """Samples of the input set, run through networks moved at random."""
    draw = Draw(seed)
    one = case(seed, activations=ONE_BEND, domains=("box",), subproblems=1, cuts=False)
    network = uncertain(one.network, draw)
    assert isinstance(one.domain, Box)
    if isinstance(strategy, RootBounds):
        bounds = strategy.bounds(SparseNetwork(network), one.domain)
    else:
        bounds = strategy.bounds(network, one.domain)
    x = one.domain.sample(50, draw.generator())
    for _ in range(4):
        sizes = [(k, int(np.prod(node.shape))) for k, node in enumerate(network.nodes)]
        other = another(
            network,
            {k: draw.normal(n) for k, n in sizes},
            {k: draw.normal(n) for k, n in sizes},
        )
        for k, zhat in enumerate(other.trace(x)):
            if 0 < k < network.n:
                slack = 1e-12 * (1 + zhat.abs())
                assert (bounds.lower[k] <= zhat + slack).all()
                assert (zhat <= bounds.upper[k] + slack).all()


@pytest.mark.parametrize("seed", range(12))
def test_functions_of_single_neurons_cover_the_errors_of_the_last_layer(seed: int) -> None:
    """`Objective.neurons` gathers rows; `Objective.rows` multiplies. Both must cover W*."""
    draw = Draw(seed)
    one = case(seed, domains=("box",), subproblems=1, cuts=False)
    network = uncertain(one.network, draw)
    size = network.output_size
    bounds = interval(network, one.domain)
    sign = torch.from_numpy(draw.rng.choice([-1.0, 1.0], size))
    objective = Objective.neurons(network, torch.arange(size), sign)
    dual = Decomposition.between(Problem(network, one.domain, objective), bounds)
    unit = torch.diag(sign).reshape(size, *network.output_shape)
    whole = Case(network, one.domain, Bounds(bounds.lower, bounds.upper), unit)
    rho = whole.rhos(draw)
    proved = dual.rigorous(rho)
    for r in range(size):
        other = worst(whole, rho, 0, r)
        assert not_above(float(proved[0, r]), other, rho.data[0, r], 0, r)
