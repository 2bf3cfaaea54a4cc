"""Passes keep the function; the oracle is the network before them, written out by hand."""

from __future__ import annotations

import torch
from torch import Tensor

from anybound.model.activations.identity import Identity
from anybound.model.activations.relu import ReLU
from anybound.model.affine.dense import Dense
from anybound.model.network import Edge, Network, Node
from anybound.model.passes.inline import inline
from anybound.model.passes.normalise import normalise
from anybound.model.passes.prune import prune


def dense(rows: int, columns: int, *, bias: bool = True) -> Dense:
    b = torch.randn(rows, dtype=torch.float64) if bias else None
    return Dense.of(torch.randn(rows, columns, dtype=torch.float64), b)


def forked() -> tuple[Network, Tensor]:
    """Node 2 is linear with one reader, node 3 linear with two, node 4 is read by nobody."""
    torch.manual_seed(0)
    nodes = (
        Node((3,)),
        Node((4,), (Edge(0, dense(4, 3)),), ReLU()),
        Node((2,), (Edge(1, dense(2, 4)), Edge(0, dense(2, 3))), Identity()),
        Node((4,), (Edge(1, dense(4, 4)),), Identity()),
        Node((5,), (Edge(3, dense(5, 4)),), ReLU()),
        Node((3,), (Edge(2, dense(3, 2)), Edge(3, dense(3, 4)), Edge(1, dense(3, 4))), ReLU()),
        Node((1,), (Edge(5, dense(1, 3)), Edge(3, dense(1, 4)))),
    )
    return Network(nodes), torch.randn(7, 3, dtype=torch.float64)


def test_prune_drops_what_cannot_reach_the_output() -> None:
    network, x = forked()
    pruned = prune(network)
    assert [node.shape for node in pruned.nodes] == [(3,), (4,), (2,), (4,), (3,), (1,)]
    torch.testing.assert_close(pruned.forward(x), network.forward(x), rtol=0, atol=0)


def test_inline_composes_linear_nodes_with_one_reader() -> None:
    network, x = forked()
    inlined = normalise(network)
    assert [node.shape for node in inlined.nodes] == [(3,), (4,), (4,), (3,), (1,)]
    # Two edges from node 1 into the same node are one.
    assert [edge.source for edge in inlined.nodes[3].edges] == [0, 1, 2]
    torch.testing.assert_close(inlined.forward(x), network.forward(x), rtol=1e-12, atol=1e-12)


def test_inline_through_several_linear_nodes() -> None:
    torch.manual_seed(1)
    nodes = [Node((3,))]
    nodes += [Node((3,), (Edge(k, dense(3, 3)),), Identity()) for k in range(4)]
    nodes.append(Node((2,), (Edge(4, dense(2, 3)),)))
    network, x = Network(tuple(nodes)), torch.randn(5, 3, dtype=torch.float64)
    assert len(normalise(network).nodes) == 2
    torch.testing.assert_close(normalise(network).forward(x), network.forward(x))
    torch.testing.assert_close(inline(network).forward(x), network.forward(x))
