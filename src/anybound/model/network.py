"""The network in normal form: a directed acyclic graph of affine maps and activations.

    ẑ_k = Σ_j W_kj z_j + b_k,    z_k = σ_k(ẑ_k),    k = 1 … n,   z_0 the input,   ẑ_n the output (σ_n absent)

A chain is the case of one edge per node. Indices are the paper's and never shifted: `nodes[0]` is
the input, `nodes[k]` layer k, `nodes[n]` the output. Nodes are in topological order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from anybound.errors import InvalidModel
from anybound.layers import Layers, Layout
from anybound.model.activations.activation import Activation
from anybound.model.affine.map import AffineMap, Shape

_SHOWN = 8  # layers in the text of a network


@dataclass(frozen=True, eq=False)
class Edge:
    """z_source ↦ W z_source + b, one summand of a pre-activation."""

    source: int
    map: AffineMap


@dataclass(frozen=True, eq=False)
class Node:
    """Layer k: the edges whose sum is ẑ_k, and σ_k (None for the input and the output)."""

    shape: Shape
    edges: tuple[Edge, ...] = ()
    activation: Activation | None = None
    name: str = ""


@dataclass(frozen=True, eq=False)
class Network:
    """nodes[0] is the input, nodes[1 … n−1] are hidden layers, nodes[n] is the output."""

    nodes: tuple[Node, ...]

    def __post_init__(self) -> None:
        if not self.nodes:
            raise InvalidModel("a network needs at least an input node")
        for k, node in enumerate(self.nodes):
            _check(self.nodes, k, node)

    def __repr__(self) -> str:
        shapes = (node.shape for node in self.nodes[1:-1])
        kinds = (type(node.activation).__name__ for node in self.nodes[1:-1])
        layers = [f"{kind} {list(shape)}" for kind, shape in zip(kinds, shapes, strict=True)]
        if len(layers) > _SHOWN:
            layers[_SHOWN // 2 : -(_SHOWN // 2)] = [f"{len(layers) - _SHOWN} more"]
        parts = [f"{list(self.input_shape)}", *layers, f"{list(self.output_shape)}"]
        return f"Network({' → '.join(parts)}; {self.layout.total:,} hidden neurons)"

    @property
    def n(self) -> int:
        """The index of the output node."""
        return len(self.nodes) - 1

    @property
    def hidden(self) -> range:
        return range(1, self.n)

    @property
    def input_shape(self) -> Shape:
        return self.nodes[0].shape

    @property
    def output_shape(self) -> Shape:
        return self.nodes[-1].shape

    @cached_property
    def input_size(self) -> int:
        return _size(self.input_shape)

    @cached_property
    def output_size(self) -> int:
        return _size(self.output_shape)

    @cached_property
    def layout(self) -> Layout:
        """Of the hidden layers' pre- and post-activations."""
        return Layout(tuple(node.shape for node in self.nodes[1:-1]))

    @cached_property
    def successors(self) -> tuple[tuple[tuple[int, AffineMap], ...], ...]:
        """For every j < n, the (k, W_kj) of the nodes k that read z_j."""
        found: list[list[tuple[int, AffineMap]]] = [[] for _ in self.nodes]
        for k, node in enumerate(self.nodes):
            for edge in node.edges:
                found[edge.source].append((k, edge.map))
        return tuple(tuple(pairs) for pairs in found)

    @cached_property
    def bias_count(self) -> int:
        """The number of maps with a bias."""
        return sum(edge.map.bias is not None for node in self.nodes for edge in node.edges)

    @cached_property
    def dtype(self) -> torch.dtype:
        """The widest dtype of the weights."""
        dtype = torch.float16
        for node in self.nodes:
            for edge in node.edges:
                dtype = torch.promote_types(dtype, edge.map.dtype)
        return dtype

    def is_in(self, dtype: torch.dtype) -> bool:
        """Whether all weights and biases are of this dtype."""
        maps = [edge.map for node in self.nodes for edge in node.edges]
        return all(m.dtype == dtype for m in maps if m.has_weights or m.bias is not None)

    def activations(self) -> Iterator[tuple[int, Activation]]:
        """(k, σ_k) of every hidden layer."""
        for k in self.hidden:
            activation = self.nodes[k].activation
            if activation is not None:
                yield k, activation

    def flat_activations(self) -> Iterator[tuple[int, Activation]]:
        """(k, σ_k) for values `[..., size_k]`, as they lie in the buffer of `Layers`."""
        for k, activation in self.activations():
            yield k, activation.flattened(self.nodes[k].shape)

    def affine(self, k: int, z0: Tensor, z: Layers) -> Tensor:
        """ẑ_k = Σ_j W_kj z_j + b_k, `[..., *shape_k]`."""
        return sum_of(
            edge.map.apply(z[edge.source] if edge.source else z0) for edge in self.nodes[k].edges
        )

    def apply(self, z0: Tensor, z: Layers) -> Layers:
        """ẑ_k of every hidden layer from independent z_0 … z_{n−1}."""
        if self.n == 1:
            return z
        zhat = z.like(torch.empty_like(z.data))
        for k in self.hidden:
            self.write_affine(k, z0, z, zhat[k])
        return zhat

    def write_affine(self, k: int, z0: Tensor, z: Layers, into: Tensor) -> None:
        """`affine(k, z0, z)` into a block of `Layers`, without a copy of it."""
        for i, edge in enumerate(self.nodes[k].edges):
            source = z[edge.source] if edge.source else z0
            image = edge.map.linear(source)
            into.copy_(image) if i == 0 else into.add_(image)
            if edge.map.bias is not None:
                into.add_(edge.map.bias)

    def transpose(self, j: int, rho: Layers) -> Tensor | None:
        """Σ_k W_kjᵀ ρ_k over the hidden successors k of j, `[..., *shape_j]`; None if there are none."""
        terms = [map_.transpose(rho[k]) for k, map_ in self.successors[j] if k < self.n]
        return sum_of(terms) if terms else None

    def bias_dot(self, rho: Layers) -> Tensor:
        """Σ_k ρ_kᵀ b_k over the hidden layers, `[...]`."""
        total = rho.data.new_zeros(rho.data.shape[:-1])
        for k in self.hidden:
            for edge in self.nodes[k].edges:
                if edge.map.bias is not None:
                    total = total + edge.map.bias_dot(rho[k])
        return total

    def forward(self, x: Tensor) -> Tensor:
        """The network's output, `[..., *output_shape]`, for inputs `[..., *input_shape]`."""
        return self.trace(x)[self.n]

    def trace(self, x: Tensor) -> list[Tensor]:
        """[x, ẑ_1, …, ẑ_n]: every pre-activation of a forward pass, with the input in place 0."""
        zhat, z = [x], [x]
        for node in self.nodes[1:]:
            zhat.append(sum_of(edge.map.apply(z[edge.source]) for edge in node.edges))
            z.append(zhat[-1] if node.activation is None else node.activation.value(zhat[-1]))
        return zhat

    def upto(self, k: int) -> Network:
        """The sub-network whose output is ẑ_k; indices stay as they are."""
        return Network((*self.nodes[:k], replace(self.nodes[k], activation=None)))

    def to(self, dtype: torch.dtype, device: torch.device | None = None) -> Network:
        return Network(
            tuple(
                replace(
                    node, edges=tuple(Edge(e.source, e.map.to(dtype, device)) for e in node.edges)
                )
                for node in self.nodes
            )
        )


def _check(nodes: tuple[Node, ...], k: int, node: Node) -> None:
    """Refuse a node that is not in normal form."""
    if bool(node.edges) != (k > 0):
        raise InvalidModel(f"node {k} has {len(node.edges)} edges; the input has none, others some")
    if (node.activation is not None) != (0 < k < len(nodes) - 1):
        raise InvalidModel(
            f"node {k}: hidden layers have an activation (`Identity()` if nothing else), the input "
            "and the output have none"
        )
    for edge in node.edges:
        if not 0 <= edge.source < k:
            raise InvalidModel(f"node {k} reads node {edge.source}; it may read those before it")
        shapes = (nodes[edge.source].shape, node.shape)
        if (tuple(edge.map.in_shape), tuple(edge.map.out_shape)) != tuple(map(tuple, shapes)):
            raise InvalidModel(
                f"node {k}: a map from {edge.map.in_shape} to {edge.map.out_shape} cannot join "
                f"layers of shapes {shapes[0]} and {shapes[1]}"
            )


def sum_of(terms: Iterator[Tensor] | list[Tensor]) -> Tensor:
    """The sum of at least one tensor, without a zero to start from."""
    iterator = iter(terms)
    total = next(iterator)
    for term in iterator:
        total = total + term
    return total


def _size(shape: Shape) -> int:
    return int(torch.Size(shape).numel())
