"""Elementwise multiplication:  W z = weight ∘ z, with `weight` broadcasting to the shape of z."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from torch import Tensor

from anybound.errors import InvalidModel
from anybound.model.affine.map import EXACT, Shape, Weighted, WeightError, broadcasts

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix


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

    def sparse(self) -> csr_matrix:
        from scipy.sparse import csr_matrix, diags

        return csr_matrix(diags(self.weight.double().cpu().expand(self.in_shape).numpy().ravel()))

    @property
    def fan_in(self) -> int:
        return 1

    @property
    def fan_out(self) -> int:
        return 1
