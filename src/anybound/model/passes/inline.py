"""A node without a nonlinearity that only one edge reads is composed into that edge:

ẑ_m = A z_k + …,  z_k = Σ_j W_kj z_j + b_k   becomes   ẑ_m = Σ_j (A W_kj) z_j + A b_k + …
"""

from __future__ import annotations

from dataclasses import replace

from anybound.model.activations.identity import Identity
from anybound.model.affine.add import add
from anybound.model.affine.fuse import compose
from anybound.model.affine.map import AffineMap
from anybound.model.network import Edge, Network, Node


def inline(network: Network) -> Network:
    """The network without such nodes' being read; `prune` then drops them."""
    nodes = list(network.nodes)
    readers = network.successors
    for k in network.hidden:
        if isinstance(nodes[k].activation, Identity) and len(readers[k]) == 1:
            ((reader, _),) = readers[k]
            nodes[reader] = _without(nodes[reader], k, nodes[k])
    return Network(tuple(nodes))


def _without(node: Node, k: int, source: Node) -> Node:
    """`node` with its one edge from k replaced by edges from the sources of k."""
    by_source: dict[int, list[AffineMap]] = {}
    for edge in node.edges:
        if edge.source != k:
            by_source.setdefault(edge.source, []).append(edge.map)
            continue
        outer = edge.map
        for inner in source.edges:
            by_source.setdefault(inner.source, []).append(compose(outer, inner.map))
            outer = outer.without_bias()  # counted once
    edges = (Edge(j, total) for j, maps in sorted(by_source.items()) for total in add(maps))
    return replace(node, edges=tuple(edges))
