"""Nodes from which no path leads to the output are dropped; the input always stays."""

from __future__ import annotations

from dataclasses import replace

from anybound.model.network import Edge, Network


def prune(network: Network) -> Network:
    needed = {0, network.n}
    for k in reversed(range(1, network.n + 1)):
        if k in needed:
            needed.update(edge.source for edge in network.nodes[k].edges)
    if len(needed) == len(network.nodes):
        return network
    place = {old: new for new, old in enumerate(sorted(needed))}
    return Network(
        tuple(
            replace(
                network.nodes[k],
                edges=tuple(Edge(place[e.source], e.map) for e in network.nodes[k].edges),
            )
            for k in sorted(needed)
        )
    )
