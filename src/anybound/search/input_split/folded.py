"""A network cut down to what varies over a box, with every rounding error bounded beforehand.

    ẑ_k = Σ_j W_kj z_j + b_k ± slack_k,      z_k = max(ẑ_k, 0) + left·min(ẑ_k, 0)

Inputs whose interval is a few roundings wide, neurons that depend on no other input, and neurons that are 0 all over
the box are constants: they become part of b_k. Node 0 are the varying inputs; the last node are the rows
a_rᵀ f(x) − b_r to prove positive. `slack` covers whatever separates the stored numbers from the exact ones; the
rounding of products at run time comes on top (`zonotope`), or is bounded here once and for all by `price` (`adjoint`).

Maps are kept by pair of nodes: dense ones transposed `[source neurons, rows]`, rows padded to vectors; sparse
ones by row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray

from anybound.bound.bounds import Bounds
from anybound.bound.compact.sparse import SparseNetwork
from anybound.model.activations.activation import Activation
from anybound.model.activations.bent import Bent
from anybound.model.activations.identity import Identity
from anybound.model.affine.csr import Csr
from anybound.model.domains.box import Box
from anybound.model.network import Network
from anybound.rounding import gamma, underflow
from anybound.search.input_split.twins import Twins, find_twins
from anybound.spec.problem import Problem

Vector = NDArray[np.float64]
Index = NDArray[np.int64]

PAD = 16  # rows of a dense map are a multiple of this
_DENSE = 0.25  # share of nonzeros above which a map is kept dense
_NEGLIGIBLE = 2.0**-40  # relative width of an interval that is as good as a point
_SAFE = 1.001  # covers the rounding of error bounds themselves
_TINY = 1e-280  # times the largest number: more than underflow can take in any sum here


class Net(NamedTuple):
    """What the kernels read. N neurons of all nodes one after the other, P maps; node n has no activation."""

    first: Index  # [n + 2]: node k's neurons are first[k] : first[k + 1]
    maps: Index  # [n + 2]: node k's maps are maps[k] : maps[k + 1]
    source: Index  # [P]: the node a map reads
    start: Index  # [P]: where it begins, in `dense` or in `row`
    stride: Index  # [P]: padded rows of a dense map, 0 for a sparse one
    dense: Vector
    row: Index  # where a sparse map's rows begin in `column` and `weight`
    column: Index
    weight: Vector
    bias: Vector  # [N]
    slack: Vector  # [N]
    price: Vector  # [N]: |ν|·price covers all errors that ν causes in an adjoint sweep
    left: Vector  # [N]: σ's slope below 0
    twin: Index  # [N]: an earlier neuron with the same or the negated pre-activation, or −1
    mirrored: NDArray[np.int8]  # [N]: whether it is negated
    gamma: float  # relative error of any product's sum
    wide: float  # covers the rounding of sums of nonnegative numbers, and of some products
    lost: float  # covers underflow in an adjoint sweep
    clause: Index  # [C + 1]: clause c's rows in node n are clause[c] : clause[c + 1]


@dataclass(frozen=True, eq=False)
class Layer:
    """Node k: its kept neurons, the map over the kept columns of all nodes before it."""

    neuron: Index
    matrix: Csr
    bias: Vector
    slack: Vector
    price: Vector
    left: Vector
    twins: Twins


@dataclass(frozen=True, eq=False)
class Folded:
    """Node 0's varying inputs and the layers 1 … n, n being the rows to prove positive. Build it with `of`.

    Row r of clause c is `clause[c] + r`; `fixed` is a point of the box, for the inputs that do not vary."""

    inputs: Index
    fixed: Vector
    lower: Vector
    upper: Vector
    layers: tuple[Layer, ...]
    clause: Index
    lost: float  # by underflow in an adjoint sweep

    @classmethod
    def of(
        cls,
        sparse: SparseNetwork,
        problem: Problem,
        bounds: Bounds,
        clauses: Sequence[Sequence[int]],
    ) -> Self:
        """The problem between rigorous bounds; clause c consists of the objective's rows `clauses[c]`."""
        lower, upper = _corners(problem)
        rows = [row for clause in clauses for row in clause]
        columns = _Columns.of(sparse, (lower, upper), bounds, len(rows))
        layers = [_hidden(sparse, columns, k) for k in sparse.network.hidden]
        inputs = columns.kept(0)
        return cls(
            inputs,
            np.clip(lower / 2 + upper / 2, lower, upper),
            lower[inputs],
            upper[inputs],
            (*layers, _last(problem, columns, rows)),
            np.cumsum([0, *(len(clause) for clause in clauses)]),
            _lost(columns, bounds),
        )

    @property
    def hidden(self) -> tuple[Layer, ...]:
        return self.layers[:-1]

    @cached_property
    def first(self) -> Index:
        return np.cumsum([0, len(self.inputs), *(len(layer.bias) for layer in self.layers)])

    @cached_property
    def net(self) -> Net:
        """The arrays that the kernels read."""
        maps = _Maps()
        for k, layer in enumerate(self.layers, start=1):
            maps.add(layer.matrix, self.first[: k + 1])
        inputs = len(self.inputs)

        def join(name: str, fill: float = 0.0) -> Vector:
            own = [getattr(layer, name) for layer in self.layers]
            return np.concatenate([np.full(inputs, fill), *own])

        twins = [np.full(inputs, -1, np.int64)]
        for k, layer in enumerate(self.layers, start=1):
            twins.append(np.where(layer.twins.twin < 0, -1, layer.twins.twin + self.first[k]))
        mirrored = [np.zeros(inputs, np.int8), *(layer.twins.mirrored for layer in self.layers)]
        widest = max(int(np.diff(layer.matrix.indptr).max(initial=0)) for layer in self.layers)
        relative = gamma(2 * widest + 64, torch.float64)
        return Net(
            self.first,
            *maps.arrays(),
            join("bias"),
            join("slack"),
            join("price"),
            join("left", 1.0),
            np.concatenate(twins),
            np.concatenate(mirrored),
            relative,
            1.0 + relative + 2 * gamma(int(self.first[-1]) + 64, torch.float64),
            self.lost,
            self.clause,
        )


def supports(network: Network, domain: object) -> str:
    """Why input splitting cannot serve a problem, in one line; empty if it can."""
    if not isinstance(domain, Box) or domain.count != 1:
        return f"the input set is a {type(domain).__name__}; splitting the input needs one box"
    for k, activation in network.activations():
        if isinstance(activation, Bent):
            left = activation.left(torch.zeros(1, dtype=torch.float64))
            if bool((left.abs() > 1).any()):
                return f"layer {k} has a slope beyond ±1 left of the origin; input splitting needs -1 to 1"
        elif not isinstance(activation, Identity):
            name = type(activation).__name__
            return f"layer {k} is a {name}; input splitting needs activations with one bend at 0"
    return ""


@dataclass(frozen=True, eq=False)
class _Columns:
    """All neurons z of the nodes 0 … n−1: which vary, the constants' values, and how large any can be."""

    offsets: Sequence[int]
    varies: NDArray[np.bool_]
    middle: Vector
    radius: Vector
    size: Vector
    rows: int  # of the objective

    @classmethod
    def of(
        cls, sparse: SparseNetwork, corners: tuple[Vector, Vector], bounds: Bounds, rows: int
    ) -> Self:
        network, offsets = sparse.network, sparse.offsets
        first, last = corners
        lower, upper = [first], [last]
        varies = [last - first > _NEGLIGIBLE * np.maximum(abs(first), abs(last))]
        for k, activation in network.activations():
            l, u = (x.flat(k)[0, 0].double() for x in (bounds.lower, bounds.upper))
            low, high = (
                x.numpy() for x in activation.flattened(network.nodes[k].shape).range(l, u)
            )
            reads = (
                abs(sparse.node(k).matrix)
                .between(0, offsets[k])
                .times(np.concatenate(varies).astype(float))
                > 0
            )
            lower.append(low)
            upper.append(high)
            varies.append(reads & (low < high))
        low, high = np.concatenate(lower), np.concatenate(upper)
        middle = low / 2 + high / 2
        radius = np.maximum(high - middle, middle - low) * _SAFE
        size = np.maximum(abs(low), abs(high))
        return cls(offsets, np.concatenate(varies), middle, radius, size, rows)

    def kept(self, k: int) -> Index:
        """The varying neurons of node k."""
        return np.flatnonzero(self.varies[self.offsets[k] : self.offsets[k + 1]])


def _hidden(sparse: SparseNetwork, columns: _Columns, k: int) -> Layer:
    node, kept = sparse.node(k), columns.kept(k)
    width = columns.offsets[k]
    activation = sparse.network.nodes[k].activation
    left = _left(activation, sparse.network.nodes[k].shape)[kept]
    return _layer(
        columns,
        kept,
        (
            node.matrix.rows(kept).between(0, width),
            node.magnitude.rows(kept).between(0, width),
            node.bias[kept],
        ),
        (node.relative, node.absolute, np.full(len(kept), node.bias_error)),
        left,
    )


def _last(problem: Problem, columns: _Columns, rows: Sequence[int]) -> Layer:
    """The objective's rows as a map of everything before them."""
    objective = problem.objective.select(torch.tensor(rows))
    blocks, errors = [], []
    for j, own in enumerate(columns.offsets[1:]):
        size = own - columns.offsets[j]
        none = torch.zeros(1, len(rows), size, dtype=torch.float64)
        blocks.append(objective.coefficients.get(j, none).reshape(len(rows), size).numpy())
        errors.append(objective.errors.get(j, none).reshape(len(rows), size).numpy())
    matrix = Csr.dense(np.concatenate(blocks, axis=1))
    error = objective.constant_error[0].numpy() + np.concatenate(errors, axis=1) @ columns.size
    return _layer(
        columns,
        np.arange(len(rows)),
        (matrix, abs(matrix), objective.constant[0].numpy()),
        (0.0, 0.0, _SAFE * error),
        np.ones(len(rows)),
    )


def _corners(problem: Problem) -> tuple[Vector, Vector]:
    """The box, as float64 vectors."""
    first, last = problem.domain.box()
    return first.double().reshape(-1).numpy(), last.double().reshape(-1).numpy()


def _layer(
    columns: _Columns,
    neuron: Index,
    affine: tuple[Csr, Csr, Vector],
    errors: tuple[float, float, Vector],
    left: Vector,
) -> Layer:
    """Columns that are constant become part of the bias; what that and the stored numbers lose is the slack."""
    matrix, magnitude, bias = affine
    relative, absolute, bias_error = errors
    width = matrix.shape[1]
    varies, size = columns.varies[:width], columns.size[:width]
    constant = np.flatnonzero(~varies)
    fixed = matrix.only(~varies)
    weight = abs(fixed)
    middle, radius = columns.middle[constant], columns.radius[constant]
    shifted = bias + fixed.times(middle)
    # sums along rows here, along columns in an adjoint sweep
    rounding = gamma(2 * (len(columns.size) + columns.rows) + 64, torch.float64)
    slack = bias_error + rounding * (weight.times(abs(middle)) + abs(bias)) + weight.times(radius)
    slack = slack + relative * _SAFE * (magnitude.times(size)) + absolute * size.sum()
    slack = slack + _TINY * (1 + size.max(initial=0.0))
    kept = matrix.only(varies)
    reach = abs(kept).times(size[varies]) + abs(shifted)
    price = _SAFE * (slack * _SAFE + 2 * rounding * reach)
    return Layer(neuron, kept, shifted, _SAFE * slack, price, left, find_twins(kept, shifted, left))


def _lost(columns: _Columns, bounds: Bounds) -> float:
    """What underflow takes from the h_j and ν_j of an adjoint sweep, sums of as many products as there are neurons,
    times the largest z_j and ẑ_j: Σ_j 4·(N + 64)·2^-1022·(1 + max|z_j| + max|ẑ_j|)."""
    reach = bounds.lower.data.abs().maximum(bounds.upper.data.abs()).double()
    size = float(columns.size.sum()) + float(reach[:1].sum()) + len(columns.size) + columns.rows
    terms = len(columns.size) + columns.rows + 64
    return _SAFE * 4.0 * underflow(terms, torch.float64) * size


def _left(activation: Activation | None, shape: Sequence[int]) -> Vector:
    size = int(np.prod(shape))
    flat = None if activation is None else activation.flattened(tuple(shape))
    if not isinstance(flat, Bent):
        return np.ones(size)
    own = flat.left(torch.zeros(size, dtype=torch.float64))
    return np.broadcast_to(own.numpy(), (size,)).astype(np.float64)


class _Maps:
    """The packed maps, as they come."""

    def __init__(self) -> None:
        self._maps = [0, 0]
        self._source: list[int] = []
        self._start: list[int] = []
        self._stride: list[int] = []
        self._dense: list[Vector] = []
        self._row: list[Index] = []
        self._column: list[Index] = []
        self._weight: list[Vector] = []
        self._sizes = {"dense": 0, "row": 0, "column": 0}

    def add(self, matrix: Csr, first: Index) -> None:
        """A node's maps; `first` says where the columns of each node before it begin."""
        for j in range(len(first) - 1):
            part = matrix.between(first[j], first[j + 1])
            if part.nnz:
                self._source.append(j)
                dense = part.nnz > _DENSE * part.shape[0] * part.shape[1]
                (self._add_dense if dense else self._add_sparse)(part)
        self._maps.append(len(self._source))

    def _add_dense(self, part: Csr) -> None:
        rows, columns = part.shape
        stride = -(-rows // PAD) * PAD
        block = np.zeros((columns, stride))
        block[:, :rows] = part.toarray().T
        self._start.append(self._sizes["dense"])
        self._stride.append(stride)
        self._dense.append(block.reshape(-1))
        self._sizes["dense"] += block.size

    def _add_sparse(self, part: Csr) -> None:
        self._start.append(self._sizes["row"])
        self._stride.append(0)
        self._row.append(part.indptr.astype(np.int64) + self._sizes["column"])
        self._column.append(part.indices.astype(np.int64))
        self._weight.append(part.data)
        self._sizes["row"] += part.shape[0] + 1
        self._sizes["column"] += part.nnz

    def arrays(
        self,
    ) -> tuple[Index, Index, Index, Index, Vector, Index, Index, Vector]:
        def index(values: Sequence[int]) -> Index:
            return np.array(values, np.int64)

        def join(
            parts: Sequence[NDArray[np.generic]], dtype: type[np.generic]
        ) -> NDArray[np.generic]:
            return np.concatenate([*parts, np.zeros(PAD, dtype)])

        return (
            index(self._maps),
            index(self._source),
            index(self._start),
            index(self._stride),
            join(self._dense, np.float64),  # type: ignore[return-value]  # the dtype is the one given
            join(self._row, np.int64),
            join(self._column, np.int64),
            join(self._weight, np.float64),
        )
