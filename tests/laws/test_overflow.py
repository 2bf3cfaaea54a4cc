"""Where products of finite numbers are beyond the largest float64, there is no bound, and never a wrong one.

Oracle: the network, or the definition of a minimum, in fractions.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import torch
from torch import Tensor

from anybound.bound.bounds import Bounds
from anybound.bound.compact.network import CompactNetwork
from anybound.bound.compact.objective import Aim, CompactObjective
from anybound.bound.compact.problems import Children, Parents
from anybound.bound.compact.rigorous import rigorous
from anybound.bound.compact.sparse import SparseNetwork
from anybound.bound.decomposition import Decomposition
from anybound.bound.interval import interval
from anybound.layers import Layers
from anybound.model.activations import Abs, Activation, LeakyReLU, ReLU
from anybound.model.affine import Dense
from anybound.model.domains.box import Box
from anybound.model.network import Edge, Network, Node
from anybound.spec.problem import Objective, Problem

H, T, S, OFFSET = 1e154, 1e154, 4e154, 0.6e308


def tensor(values: object) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def saturating() -> Network:
    """x ↦ 0.6e308 − H·relu(y),  y = relu(x) − relu(x − T), which is min(x, T) for x >= 0."""
    first = Dense.of(tensor([[1.0], [1.0]]), tensor([0.0, -T]))
    second = Dense.of(tensor([[1.0, -1.0]]))
    last = Dense.of(tensor([[-H]]), tensor([OFFSET]))
    return Network(
        (
            Node((1,)),
            Node((2,), (Edge(0, first),), ReLU()),
            Node((1,), (Edge(1, second),), ReLU()),
            Node((1,), (Edge(2, last),)),
        )
    )


def box() -> Box:
    return Box(tensor([[[-S]]]), tensor([[[S]]]))


def bounds(network: Network) -> Bounds:
    """The exact ones."""
    lower, upper = tensor([[[-S, -S - T, 0.0]]]), tensor([[[S, S - T, T]]])
    return Bounds(Layers(network.layout, lower), Layers(network.layout, upper))


def holds(bound: float) -> bool:
    """Whether it is one, or none, of the output at x = S."""
    return bound == -np.inf or Fraction(bound) <= Fraction(OFFSET) - Fraction(H) * Fraction(T)


@pytest.mark.parametrize("sign", [0, 1, -1])
def test_the_compact_engine_loses_no_infinity(sign: int) -> None:
    """With these slopes all terms are finite but one neuron's minimum, which is that of ∞ − ∞."""
    network = saturating()
    net = CompactNetwork.of(SparseNetwork(network), bounds(network), box())
    objective = CompactObjective.of(Objective.rows(network, tensor([[1.0]])), net)
    signs = np.array([[0, 0], [sign, sign]], np.int8)  # the other problem of the chunk may be split
    slope = np.full((2, 2), 0.5, np.float32)
    parents = Parents(np.zeros(2, np.int64), signs, slope, np.ones((2, 1), np.float32))
    found = rigorous(net, objective, parents, Children.same(2), slope)
    assert holds(float(found[0]))


def test_a_negative_scale_of_a_function_counts_as_zero() -> None:
    """min x over [−1, 1] where relu(x)/8 − 1 <= 0 is −1; adding the negative function would raise it."""
    first, last = Dense.of(tensor([[1.0]])), Dense.of(tensor([[0.125]]), tensor([-1.0]))
    nodes = Node((1,), (Edge(0, first),), ReLU()), Node((1,), (Edge(1, last),))
    network, unit = Network((Node((1,)), *nodes)), Box(tensor([[[-1.0]]]), tensor([[[1.0]]]))
    net = CompactNetwork.of(SparseNetwork(network), interval(network, unit), unit)
    objective = CompactObjective.of(Objective.rows(network, tensor([[1.0]])), net)
    aim = Aim(np.array([-1.0], np.float32), net.ambiguous[:1], np.ones(1, np.float32))
    parents = Parents.roots(net, np.zeros(1, np.int64))
    found = rigorous(net, objective, parents, Children.same(1), parents.slope, aim)
    assert found[0] <= -1.0


def test_the_portable_engine_loses_no_infinity() -> None:
    network = saturating()
    problem = Problem(network, box(), Objective.rows(network, tensor([[1.0]])))
    dual = Decomposition.between(problem, bounds(network))
    rho = Layers(network.layout, tensor([[[H / 2, -H / 2, H]]]))
    assert holds(float(dual.rigorous(rho)))


@pytest.mark.parametrize("activation", [ReLU(), LeakyReLU(0.5), Abs()], ids=repr)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_minimum_that_overflows_is_not_finite(activation: Activation, dtype: torch.dtype) -> None:
    """c·x is beyond the largest number, and what g·σ(x) takes away again is not."""
    largest = torch.finfo(dtype).max
    c, g = torch.tensor([0.7 * largest, -0.45 * largest], dtype=dtype)
    l, u = torch.tensor([2.0, 4.0], dtype=dtype)
    value = float(activation.argmin(c, g, l, u).value)
    exact = (Fraction(float(c)) + Fraction(float(g))) * 2
    assert not np.isfinite(value) or Fraction(value) <= exact
