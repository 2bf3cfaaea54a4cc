"""Elementwise multiplication:  W z = weight ∘ z, with `weight` broadcasting to the shape of z."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from torch import Tensor

from anybound.errors import InvalidModel
from anybound.model.affine.csr import Csr
from anybound.model.affine.map import EXACT, Shape, Weighted, WeightError, broadcasts


@dataclass(frozen=True, eq=False)
class Scale(Weighted):
    """z ↦ weight ∘ z + b; build it with `Scale.of`."""

    @classmethod
    def of(
        cls, shape: Shape, weight: Tensor, bias: Tensor | None = None, *, error: WeightError = EXACT
    ) -> Scale:
        if not broadcasts(weight.shape, shape):
            raise InvalidModel(
                f"a factor of shape {tuple(weight.shape)} does not broadcast to {shape}; "
                "where it enlarges the shape, expand the input first"
            )
        return cls(shape, shape, weight, bias=bias, error=error)

    def _linear(self, z: Tensor) -> Tensor:
        return z * self.weight

    def _transpose(self, rho: Tensor) -> Tensor:
        return rho * self.weight

    def sparse(self) -> Csr:
        weight = self.weight.double().cpu().expand(self.in_shape).numpy().ravel()
        size = np.arange(len(weight) + 1)
        return Csr(size, size[:-1], weight, (len(weight), len(weight)))

    @property
    def fan_in(self) -> int:
        return 1

    @property
    def fan_out(self) -> int:
        return 1
