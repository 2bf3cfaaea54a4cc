"""The compact network: the live rows of a network between some bounds, with its affine maps packed
for them.

With h_j the coefficient of z_j and ν_j = −ρ_j that of ẑ_j, one backward sweep computes

    h_j = a_j + Σ_k W_kjᵀ ν_k,     q = const + Σ_j (ν_jᵀ b_j + relaxation's share) + min over C of
    h_0ᵀ z_0

where ν_j comes from h_j by the relaxation of the row:

    affine         ν = fixed·h ambiguous      ν = α·h⁺ + chord·h⁻     share offset·h⁻;  left <= α <=
    1, the slope of a line below σ split, x >= 0  ν = h − β               β >= 0, the multiplier of
    the split's inequality split, x <= 0  ν = left·h + β

Nothing here knows sub-problems: slopes, splits and multipliers are arguments of the kernels. Behind
the rows stands an absent one, to which blocks of fewer than four rows write.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray

from anybound.bound.bounds import Bounds
from anybound.bound.compact.cuts import cut, transposed
from anybound.bound.compact.native import Fixed
from anybound.bound.compact.packing import Blocks, empty_blocks, pack
from anybound.bound.compact.rows import Index, Rows, Vector, live_rows
from anybound.bound.compact.sparse import SparseNetwork
from anybound.model.activations.bent import Bent
from anybound.model.activations.identity import Identity
from anybound.model.affine.csr import Csr
from anybound.model.domains.box import Box
from anybound.model.domains.domain import Domain
from anybound.model.network import Network
from anybound.rounding import gamma, unit_roundoff

Single = NDArray[np.float32]
_U = unit_roundoff(torch.float64)
_TINY = float(np.finfo(np.float64).tiny)


class Sweep(NamedTuple):
    """What the float32 kernels read: rows `[rows + 1]`, ambiguous rows `[A]`, inputs `[inputs]`."""

    forward: Blocks
    adjoint: Blocks
    first: Index  # [nodes + 1]: node j's rows are first[j] : first[j + 1]
    ambiguous: Index  # a row's number among the ambiguous ones, or −1
    bias: Single
    fixed: Single
    left: Single
    chord: Single
    offset: Single
    center: Single
    radius: Single
    nodes: int  # the input included, targets as well
    layers: int  # whose forward maps are packed
    inputs: int


class ExactSweep(NamedTuple):
    """What the float64 kernel reads, `[rows + 1]` each.

    |ν|·price + (|c| + |h|)·reach covers every rounding error that a row causes, `lost` underflow in
    all of them."""

    adjoint: Blocks
    first: Index
    ambiguous: Index
    bias: Vector
    left: Vector
    chord: Vector
    lower: Vector
    upper: Vector
    at_lower: Vector  # σ(lower)
    at_upper: Vector
    price: Vector
    reach: Vector
    nodes: int
    inputs: int
    lost: float


def supports(network: Network, domain: Domain) -> str:
    """Why the compact engine cannot serve a problem, in one line; empty if it can."""
    if not isinstance(domain, Box) or domain.count != 1:
        return f"the input set is a {type(domain).__name__}; the compact engine needs one box"
    for k, activation in network.activations():
        if isinstance(activation, Bent):
            if bool((activation.left(torch.zeros(1, dtype=torch.float64)) > 1).any()):
                return f"layer {k} has a slope above 1 left of the origin"
        elif not isinstance(activation, Identity):
            return f"layer {k} is a {type(activation).__name__}; the compact engine needs one bend"
    return ""


@dataclass(frozen=True, eq=False)
class CompactNetwork:
    """Rows by node (0 is the input), and their maps. Build it with `of` or `between`."""

    sparse: SparseNetwork
    nodes: tuple[Rows, ...]
    hidden: int  # how many of the nodes are hidden layers; one more would be targets

    @classmethod
    def of(cls, sparse: SparseNetwork, bounds: Bounds, box: Box) -> Self:
        """The network between the bounds of one sub-problem."""
        network = sparse.network
        l, u = bounds.lower, bounds.upper
        lower = {k: l[k][0, 0].double() for k in network.hidden}
        upper = {k: u[k][0, 0].double() for k in network.hidden}
        return cls.between(sparse, lower, upper, box)

    @classmethod
    def between(
        cls,
        sparse: SparseNetwork,
        lower: Mapping[int, torch.Tensor],
        upper: Mapping[int, torch.Tensor],
        box: Box,
        keep: Mapping[int, NDArray[np.bool_]] | None = None,
    ) -> Self:
        """The layers 1 … k that have float64 bounds; neurons of `keep` stay ambiguous."""
        corners = box.lower[0, 0].double(), box.upper[0, 0].double()
        rows = live_rows(sparse.network, lower, upper, corners, keep)
        return cls(sparse, tuple(rows[k] for k in sorted(rows)), len(rows) - 1)

    def aiming(self, neuron: Index) -> CompactNetwork:
        """With one more node: the pre-activations of the next layer's neurons, as targets of
        bounds."""
        return CompactNetwork(self.sparse, (*self.nodes, Rows.targets(neuron)), self.hidden)

    @cached_property
    def rows(self) -> Rows:
        return Rows.join(list(self.nodes))

    @cached_property
    def first(self) -> Index:
        return np.cumsum([0, *(len(rows) for rows in self.nodes)])

    @property
    def count(self) -> int:
        """The number of rows."""
        return int(self.first[-1])

    @property
    def inputs(self) -> int:
        return int(self.first[1])

    @cached_property
    def ambiguous(self) -> Index:
        """The ambiguous rows, `[A]`."""
        return np.flatnonzero(self.rows.bends)

    @cached_property
    def neuron(self) -> Index:
        """`[A]`: their places in the flat order of all hidden neurons."""
        starts = np.repeat(np.array(self.sparse.offsets[: len(self.nodes)]), np.diff(self.first))
        return (starts + self.rows.neuron)[self.ambiguous] - self.sparse.offsets[1]

    @cached_property
    def matrix(self) -> Csr:
        """All maps between rows, `[rows, rows]`: strictly lower block triangular, indices sorted."""
        return transposed(self._turned)

    @cached_property
    def _turned(self) -> Csr:
        """Wᵀ, indices sorted: so does transposing, which `_parts` needs."""
        return transposed(self._parts())

    def _parts(self) -> Csr:
        """W as it is cut, indices unsorted: places are not in the order of neurons, as ambiguous ones come first."""
        place = np.full(self.sparse.offsets[-1], -1)
        for j, rows in enumerate(self.nodes[: len(self.sparse.offsets) - 1]):
            place[self.sparse.offsets[j] + rows.neuron] = self.first[j] + np.arange(len(rows))
        nothing = np.zeros(0, np.int64)
        none = np.zeros(self.inputs + 1, np.int64)
        parts = [Csr(none, nothing, np.zeros(0), (self.inputs, self.count))]
        for k, rows in enumerate(self.nodes[1:], start=1):
            parts.append(cut(self.sparse.node(k).matrix, rows.neuron, place, self.count))
        return Csr.below(parts)

    @cached_property
    def forward(self) -> Blocks:
        """ẑ from z: the rows of the layers."""
        return pack(self.matrix, self.first[1 : self.hidden + 2], self._main(self.matrix))

    @cached_property
    def adjoint(self) -> Blocks:
        """h from ν: the rows of the inputs and of the layers."""
        return pack(self._turned, self.first, self._main(self._turned))

    def _main(self, matrix: Csr) -> NDArray[np.bool_] | None:
        """The entries that join each node to the node it shares most entries with; None if that is
        all of them."""
        size = len(self.nodes)
        node = np.repeat(np.arange(size), np.diff(self.first))
        row, column = np.repeat(node, np.diff(matrix.indptr)), node[matrix.indices]
        shared = np.bincount(row * size + column, minlength=size * size).reshape(size, size)
        if int((shared > 0).sum(1).max(initial=0)) <= 1:
            return None
        main: NDArray[np.bool_] = column == shared.argmax(1)[row]
        return main

    @cached_property
    def bias(self) -> Vector:
        """b of every row, 0 for inputs."""
        parts = [
            self.sparse.node(k).bias[rows.neuron] for k, rows in enumerate(self.nodes[1:], start=1)
        ]
        return np.concatenate([np.zeros(self.inputs), *parts])

    @cached_property
    def sweep(self) -> Sweep:
        """For the float32 kernels."""
        rows, bends = self.rows, self.rows.bends
        lower, upper = rows.lower[: self.inputs], rows.upper[: self.inputs]
        return Sweep(
            self.forward.single(),
            self.adjoint.single(),
            self.first,
            self.numbers,
            _single(_padded(self.bias)),
            _single(_padded(rows.left)),
            _single(rows.left[bends]),
            _single(rows.chord[bends]),
            _single(rows.offset[bends]),
            _single(lower / 2 + upper / 2),
            _single(upper / 2 - lower / 2),
            len(self.nodes),
            len(self.forward.layer) - 1,
            self.inputs,
        )

    @cached_property
    def fixed_sweep(self) -> Fixed[Sweep]:
        """The same for the kernels' calls."""
        return Fixed(self.sweep)

    @cached_property
    def fixed_exact(self) -> Fixed[ExactSweep]:
        """`exact` for the kernel's calls."""
        return Fixed(self.exact)

    @cached_property
    @np.errstate(over="ignore", invalid="ignore")  # of what overflows nothing is proved
    def exact(self) -> ExactSweep:
        """For the float64 kernel."""
        rows = self.rows
        terms = 2 * self.count + 64  # of the sum over all rows, and of the few roundings in each
        steep = np.maximum(1.0, np.abs(rows.left))
        size = np.maximum(np.abs(rows.lower), np.abs(rows.upper))
        share = steep * (gamma(terms, torch.float64) + 32 * _U) + rows.sigma_error
        reach = 1.001 * size * share + 4 * _TINY
        return ExactSweep(
            self.adjoint,
            self.first,
            self.numbers,
            _padded(self.bias),
            _padded(rows.left),
            _padded(rows.chord),
            _padded(rows.lower),
            _padded(rows.upper),
            _padded(np.maximum(rows.lower, 0.0) + rows.left * np.minimum(rows.lower, 0.0)),
            _padded(np.maximum(rows.upper, 0.0) + rows.left * np.minimum(rows.upper, 0.0)),
            _padded(self._price(terms)),
            _padded(reach),
            len(self.nodes),
            self.inputs,
            float(_TINY * 4 * ((self.terms + 16) * (1 + size)).sum()),
        )

    @cached_property
    def terms(self) -> int:
        """At most this many products are summed to an h_j: W_kj's, the objective's and an injected
        one."""
        entries = np.bincount(self.matrix.indices, minlength=self.count)
        return int(entries.max(initial=0)) + 4

    def _price(self, terms: int) -> Vector:
        """What one unit of |ν_k| may cost: E_k = γ Σ_j |W_kj| max|z_j|, the weights' own errors,
        and b's product.

        The computed h_j is within γ_m (|a_j| + Σ_k |W_kj|ᵀ|ν_k|) of the exact one, and that moves
        the minimum over z_j by at most as much times max|z_j|; summed over j it is Σ_k |ν_k|ᵀ E_k.
        Padding by zeros adds no error."""
        nodes = self.nodes[: len(self.sparse.offsets) - 1]
        total = float(np.concatenate([rows.size for rows in nodes]).sum())
        live = abs(self.matrix).times(self.rows.size)
        parts = [np.zeros(self.inputs)]
        for k, rows in enumerate(self.nodes[1:], start=1):
            node = self.sparse.node(k)
            products = live[self.first[k] : self.first[k + 1]]
            if node.uncancelled is not None:
                products = node.magnitude.times(self._reached)[rows.neuron]
            price = (gamma(self.terms, torch.float64) + node.relative) * products
            price = price + 2 * node.lost + 4 * _TINY
            parts.append(price + node.absolute * total + node.bias_error)
        return 1.001 * (np.concatenate(parts) + gamma(terms, torch.float64) * np.abs(self.bias))

    @cached_property
    def _reached(self) -> Vector:
        """max|z_j| of all neurons of the network, 0 of those without a row."""
        reached = np.zeros(self.sparse.offsets[-1])
        for j, rows in enumerate(self.nodes[: len(self.sparse.offsets) - 1]):
            reached[self.sparse.offsets[j] + rows.neuron] = rows.size
        return reached

    @cached_property
    def numbers(self) -> Index:
        """Of every row and the absent one: its place among the ambiguous rows, or −1."""
        numbers = np.full(self.count + 1, -1)
        numbers[self.ambiguous] = np.arange(len(self.ambiguous))
        return numbers


def _padded(values: Vector) -> Vector:
    """With a 0 for the absent row."""
    return np.append(values, 0.0)


def _single(values: Vector) -> Single:
    return values.astype(np.float32)


def example_sweep() -> Sweep:
    """An example of the kernels' argument."""
    blocks, index, x = empty_blocks().single(), np.zeros(1, np.int64), np.zeros(1, np.float32)
    return Sweep(blocks, blocks, index, index, x, x, x, x, x, x, x, 1, 1, 1)


def example_exact() -> ExactSweep:
    """An example of the exact kernel's argument."""
    index, x = np.zeros(1, np.int64), np.zeros(1)
    return ExactSweep(empty_blocks(), index, index, x, x, x, x, x, x, x, x, x, 1, 1, 0.0)
