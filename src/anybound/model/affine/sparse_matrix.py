"""A matrix of few nonzeros:  (W z)[o] = Σ { weight[e] · z[column[e]] : row[e] = o }.

Shapes: in_shape `[i]`, out_shape `[o]`; weight, row and column `[nonzeros]`, in row-major order.
A product with it is merged where the result has no more nonzeros than both, as then intervals
through it are tighter, too:

    W_2 W_1, multiplied out, is off by at most  γ_n |W_2||W_1|,  n products per sum.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Self

import numpy as np
import torch
from torch import Tensor

from anybound.errors import InvalidModel
from anybound.model.affine.chain import composed_error
from anybound.model.affine.csr import Csr
from anybound.model.affine.dense import Dense
from anybound.model.affine.map import Weighted
from anybound.model.affine.rounding import largest
from anybound.model.affine.weight_error import EXACT, WeightError, plus, times
from anybound.rounding import gamma, underflow

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

_SPARSE = 1 / 16  # the share of nonzeros from which skipping zeros pays
_LARGE = 2**14  # entries; a smaller matrix is faster dense


@dataclass(frozen=True, eq=False)
class SparseMatrix(Weighted):
    """z ↦ W z + b for the entries listed; build it with `SparseMatrix.of` or `matrix`."""

    row: Tensor
    column: Tensor

    @classmethod
    def of(
        cls, weight: Tensor, bias: Tensor | None = None, *, error: WeightError = EXACT
    ) -> SparseMatrix:
        """The nonzeros of a matrix `[o, i]`. An entry that is 0 is taken to be exactly 0."""
        if weight.ndim != 2:
            raise InvalidModel(f"a matrix has 2 axes [out, in], not {tuple(weight.shape)}")
        row, column = weight.nonzero().unbind(1)
        shapes = (weight.shape[1],), (weight.shape[0],)
        return cls(*shapes, weight[row, column], row, column, bias=bias, error=error)

    @classmethod
    def from_scipy(cls, matrix: csr_matrix, *, error: WeightError = EXACT) -> SparseMatrix:
        """The entries of a scipy matrix."""
        matrix.sum_duplicates()  # and sorts
        entries = matrix.tocoo()
        row, column, weight = (
            torch.from_numpy(np.array(part, dtype=kind))
            for part, kind in (
                (entries.row, np.int64),
                (entries.col, np.int64),
                (entries.data, np.float64),
            )
        )
        shapes = (matrix.shape[1],), (matrix.shape[0],)
        return cls(*shapes, weight, row, column, error=error)

    def to(self, dtype: torch.dtype, device: torch.device | None = None) -> Self:
        moved = super().to(dtype, device)
        return replace(moved, row=self.row.to(device), column=self.column.to(device))

    def _linear(self, z: Tensor) -> Tensor:
        columns: Tensor = torch.sparse.mm(self._forward, z.T)
        return columns.T

    def _transpose(self, rho: Tensor) -> Tensor:
        columns: Tensor = torch.sparse.mm(self._backward, rho.T)
        return columns.T

    def sparse(self) -> Csr:
        weight, row, column = (
            t.cpu().numpy() for t in (self.weight.double(), self.row, self.column)
        )
        return Csr.of(row, column, weight, (self.out_size, self.in_size))

    @cached_property
    def fan_in(self) -> int:
        return _most(self.row)

    @cached_property
    def fan_out(self) -> int:
        return _most(self.column)

    @cached_property
    def _forward(self) -> Tensor:
        index = torch.stack([self.row, self.column])
        return _coalesced(index, self.weight, (self.out_size, self.in_size))

    @cached_property
    def _backward(self) -> Tensor:
        order = self.column.argsort(stable=True)
        index = torch.stack([self.column[order], self.row[order]])
        return _coalesced(index, self.weight[order], (self.in_size, self.out_size))


def matrix(weight: Tensor, *, error: WeightError = EXACT) -> Dense | SparseMatrix:
    """The map of a matrix `[o, i]` in the form that is cheaper."""
    if weight.numel() < _LARGE or error.absolute or _density(weight) > _SPARSE:
        return Dense.of(weight, error=error)
    return SparseMatrix.of(weight, error=error)


def merged_into_dense(second: SparseMatrix, first: Dense) -> Dense | None:
    """W_2 W_1 as a dense matrix, where that costs less; a dense entry is read twice as fast."""
    inputs = first.weight.shape[1]
    size = len(second.weight) + first.weight.numel()
    if first.in_shape != (inputs,) or second.out_size * inputs > 2 * size:
        return None
    product = second.linear(first.weight.T.contiguous()).T.contiguous()
    bound = second.abs().linear(first.weight.abs().T.contiguous())
    error = _error_of_product(second, first, largest(bound))
    return replace(first, out_shape=second.out_shape, weight=product, error=error)


def merged_sparse(second: SparseMatrix, first: SparseMatrix) -> SparseMatrix | None:
    """W_2 W_1 as a sparse matrix, if it has no more nonzeros than both together."""
    bound = (second.abs().sparse().scipy() @ first.abs().sparse().scipy()).tocsr()
    if bound.nnz > len(second.weight) + len(first.weight):
        return None
    error = _error_of_product(second, first, float(bound.max()) if bound.nnz else 0.0)
    # Sums that cancel stay as explicit zeros, so that the pattern covers every possible nonzero.
    product = (second.sparse().scipy() @ first.sparse().scipy()).tocsr()
    return SparseMatrix.from_scipy(product, error=error)


def _error_of_product(
    second: SparseMatrix, first: Dense | SparseMatrix, largest_bound: float
) -> WeightError:
    terms = min(second.fan_in, first.fan_out)
    exact = terms <= 1 and _is_signed_selection(second)
    bound = times(largest_bound, 1.0 + gamma(terms + 1, torch.float64))
    both = composed_error(second, first)
    rounding = 0.0 if exact else gamma(terms, torch.float64)
    lost = times(plus(both.relative, rounding), bound)
    tiny = 0.0 if exact else underflow(terms, torch.float64)
    return WeightError(absolute=plus(both.absolute, lost, tiny))


def _is_signed_selection(m: SparseMatrix) -> bool:
    """Whether all entries are ±1, so that products with them are exact."""
    return bool((m.weight.abs() == 1.0).all())


def _coalesced(index: Tensor, weight: Tensor, shape: tuple[int, int]) -> Tensor:
    with torch.inference_mode(False):  # what is cached must not refuse autograd later
        return torch.sparse_coo_tensor(
            index, weight, shape, is_coalesced=True, check_invariants=False
        )


def _density(weight: Tensor) -> float:
    return int(weight.count_nonzero()) / weight.numel()


def _most(index: Tensor) -> int:
    return int(index.bincount().max()) if index.numel() else 0
