"""Laws of bounds by small trees: they hold, gain, and are exact where trees may grow out.

Oracles: samples of the input set run forward, and mixed-integer programs.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import minimum
from random_networks import case
from small_networks import small

from anybound.bound.compact.roots import RootBounds
from anybound.bound.compact.sparse import SparseNetwork
from anybound.budget import Budget
from anybound.model.domains.box import Box
from anybound.model.network import Network
from anybound.search.neuron_trees import NeuronTrees

seeds = st.integers(0, 2**32 - 1)
SMALL = NeuronTrees(subproblems=12, group=3, least_gain=0.0)
KINDS = ("relu", "relu", "leaky", "abs", "identity")
GROWN = NeuronTrees(subproblems=1000, least_gain=0.0, programs=True)


def cases(count: int) -> settings:
    return settings(max_examples=count, deadline=None, derandomize=True, database=None)


def problem(seed: int) -> tuple[Network, Box]:
    """A random network of any kind, and a box."""
    one = case(seed, activations=KINDS, domains=("box",), subproblems=1, cuts=False)
    assert isinstance(one.domain, Box)
    return one.network, one.domain


@cases(20)
@given(seeds)
def test_bounds_hold_and_are_no_looser(seed: int) -> None:
    network, box = problem(seed)
    sparse = SparseNetwork(network)
    root = RootBounds().bounds(sparse, box)
    bounds, gain = SMALL.bounds(sparse, box, root, Budget())
    assert 0 <= gain <= 1
    assert bool((bounds.lower.data >= root.lower.data).all())
    assert bool((bounds.upper.data <= root.upper.data).all())
    x = box.sample(300, torch.Generator().manual_seed(seed))
    for k, zhat in enumerate(network.trace(x)[1:-1], start=1):
        assert bool((zhat.flatten(2) >= bounds.lower.flat(k)).all())
        assert bool((zhat.flatten(2) <= bounds.upper.flat(k)).all())


def test_a_spent_budget_leaves_the_bounds_as_they_were() -> None:
    network, box = problem(3)
    sparse = SparseNetwork(network)
    root = RootBounds().bounds(sparse, box)
    bounds, gain = SMALL.bounds(sparse, box, root, Budget(0.0))
    assert gain == 0
    assert torch.equal(bounds.lower.data, root.lower.data)


@cases(8)
@given(seeds)
def test_grown_trees_are_exact(seed: int) -> None:
    one = small(seed, "relu", np.inf)
    corners = (torch.tensor(one.region.lower), torch.tensor(one.region.upper))
    box = Box(*(x.reshape(1, 1, *one.network.input_shape) for x in corners))
    sparse = SparseNetwork(one.network)
    bounds, _ = GROWN.bounds(sparse, box, RootBounds().bounds(sparse, box), Budget())
    for k in range(2, one.network.n):
        layers = [*one.layers[: k - 1], replace(one.layers[k - 1], activation="none")]
        for i in range(len(layers[-1].bias)):
            l, u = (float(side.flat(k)[0, 0, i]) for side in (bounds.lower, bounds.upper))
            row, zero = np.eye(len(layers[-1].bias))[i : i + 1], np.zeros(1)
            least = minimum(layers, one.region, row, zero)
            most = minimum(layers, one.region, -row, zero)
            assert l <= least.upper + 1e-6
            assert -most.upper - 1e-6 <= u
            if l < 0 < u:  # else the proof of a sign was enough
                assert l >= least.lower - 0.02
                assert u <= -most.lower + 0.02
