"""A matrix applied to the last axis:  (W z)[…, o] = Σ_i weight[o, i] · z[…, i].

Shapes: weight `[o, i]`, in_shape `[*lead, i]`, out_shape `[*lead, o]`.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np
import torch
from torch import Tensor

from anybound.errors import InvalidModel
from anybound.model.affine.csr import Csr
from anybound.model.affine.map import EXACT, Shape, Weighted, WeightError


@dataclass(frozen=True, eq=False)
class Dense(Weighted):
    """z ↦ weight · z + b on the last axis; build it with `Dense.of`."""

    @classmethod
    def of(
        cls,
        weight: Tensor,
        bias: Tensor | None = None,
        *,
        lead: Shape = (),
        error: WeightError = EXACT,
    ) -> Dense:
        """The map of a matrix `[o, i]` between shapes `[*lead, i]` and `[*lead, o]`."""
        if weight.ndim != 2:
            raise InvalidModel(f"a dense weight has 2 axes [out, in], not {tuple(weight.shape)}")
        out_features, in_features = weight.shape
        return cls((*lead, in_features), (*lead, out_features), weight, bias=bias, error=error)

    def _linear(self, z: Tensor) -> Tensor:
        return torch.nn.functional.linear(z, self.weight)

    def _transpose(self, rho: Tensor) -> Tensor:
        return rho @ self.weight

    def rows(self, index: Tensor) -> Tensor:
        lead = prod(self.in_shape[:-1])
        chosen = self.weight.index_select(0, index % len(self.weight))
        if lead == 1:
            return chosen.reshape(-1, *self.in_shape)
        rows = chosen.new_zeros(len(index), lead, self.weight.shape[1])
        rows[torch.arange(len(index), device=index.device), index // len(self.weight)] = chosen
        return rows.reshape(-1, *self.in_shape)

    def sparse(self) -> Csr:
        weight = self.weight.double().cpu().numpy()
        times, (rows, columns) = np.arange(prod(self.in_shape[:-1]))[:, None], weight.shape
        row, column = np.nonzero(weight)
        data = np.tile(weight[row, column], len(times))
        row, column = (row + rows * times).ravel(), (column + columns * times).ravel()
        return Csr.of(row, column, data, (self.out_size, self.in_size))

    @property
    def fan_in(self) -> int:
        return self.weight.shape[1]

    @property
    def fan_out(self) -> int:
        return self.weight.shape[0]
