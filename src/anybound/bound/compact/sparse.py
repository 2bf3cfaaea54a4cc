"""The affine maps of a network as one sparse float64 matrix per node.

    ẑ_k = W_k [z_0; z_1; …; z_{k−1}] + b_k

The columns are all neurons of the nodes before k in order, so that a graph is as easy as a chain.
Built once per network; whatever depends on bounds is cut out of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from math import prod
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray

from anybound.model.affine.chain import parts_of
from anybound.model.affine.csr import Csr
from anybound.model.network import Edge, Network
from anybound.rounding import gamma

Vector = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class SparseNode:
    """W_k `[size_k, columns]` with sorted indices, b_k, and how far the exact numbers may be.

    |W* − W| <= relative·magnitude + absolute at entries the maps allow, |b* − b| <= bias_error;
    `magnitude` is Σ |W_e| over the edges e, which may cancel in W = Σ W_e, and |W_m| ⋯ |W_1| for
    maps applied one after the other; `uncancelled` is that where it is not just |W|. `lost` is at
    least what underflow takes from an entry of `magnitude` times a vector."""

    matrix: Csr
    uncancelled: Csr | None
    bias: Vector
    relative: float
    absolute: float
    bias_error: float
    lost: float

    @classmethod
    def of(cls, edges: Sequence[Edge], size: int, offsets: Sequence[int]) -> Self:
        """The sum of a node's edges; node j's first column is `offsets[j]`."""
        matrix = _total([(edge, edge.map.sparse()) for edge in edges], offsets)
        uncancelled = None
        parallel = len({edge.source for edge in edges}) < len(edges)
        if parallel or any(_composed(edge) for edge in edges):
            uncancelled = _total([(edge, edge.map.abs().sparse()) for edge in edges], offsets)
        bias, largest = np.zeros(size), 0.0  # what is lost depends on the summands, not on the sum
        for edge in edges:
            if edge.map.bias is not None:
                own = edge.map.bias.expand(edge.map.out_shape)
                bias = bias + own.double().cpu().numpy().reshape(-1)
                largest += float(own.abs().max())
        errors = [edge.map.error for edge in edges]
        return cls(
            matrix,
            uncancelled,
            bias,
            max(
                e.map.error.relative + gamma(e.map.fan_in + len(edges), torch.float64)
                for e in edges
            ),
            sum(
                e.map.error.absolute + (e.map.lost(torch.float64) if _composed(e) else 0.0)
                for e in edges
            ),
            sum(error.bias for error in errors) + gamma(len(edges), torch.float64) * largest,
            sum(edge.map.lost(torch.float64) for edge in edges),
        )

    @cached_property
    def magnitude(self) -> Csr:
        """What the error of an entry is relative to."""
        return abs(self.matrix) if self.uncancelled is None else abs(self.uncancelled)


def _composed(edge: Edge) -> bool:
    """Whether W is a product of several matrices with weights, which `sparse` multiplies out."""
    return sum(part.has_weights for part in parts_of(edge.map)) > 1


def _total(parts: list[tuple[Edge, Csr]], offsets: Sequence[int]) -> Csr:
    """The sum of the edges' matrices, each with its columns moved to where its source stands."""
    total = None
    for edge, own in parts:
        moved = own.moved(offsets[edge.source], offsets[-1])
        total = moved if total is None else total + moved
    if total is None:
        raise ValueError("a node without edges has no pre-activation")
    return total


@dataclass(frozen=True, eq=False)
class SparseNetwork:
    """All nodes of a network; they are converted when first asked for."""

    network: Network

    @cached_property
    def offsets(self) -> tuple[int, ...]:
        """Where node j's neurons stand among those of the nodes 0 … n−1."""
        return (0, *accumulate(prod(node.shape) for node in self.network.nodes[:-1]))

    @cached_property
    def _nodes(self) -> dict[int, SparseNode]:
        return {}

    def node(self, k: int) -> SparseNode:
        """W_k and b_k, k >= 1."""
        if k not in self._nodes:
            node = self.network.nodes[k]
            self._nodes[k] = SparseNode.of(node.edges, prod(node.shape), self.offsets)
        return self._nodes[k]
