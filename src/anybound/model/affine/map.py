"""The protocol of an affine map  z ↦ W z + b  between tensors of fixed shapes.

Shapes: `z` is `[..., *in_shape]`, `rho` is `[..., *out_shape]`; any number of leading axes.

    apply(z)      = W z + b          linear(z)    = W z         bias_dot(ρ)       = ρᵀ b
    transpose(ρ)  = Wᵀ ρ (exact)     abs_linear   = |W| z       abs_transpose(ρ)  = |W|ᵀ ρ

`W` is never formed outside `sparse`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING, Self

import torch
from torch import Tensor

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

Shape = tuple[int, ...]


@dataclass(frozen=True)
class WeightError:
    """How far stored weights may be from the exact ones that the model's file defines.

    Folding maps into each other rounds. With `W*`, `b*` exact, elementwise
    `|W − W*| ≤ relative·|W| + absolute` wherever the map's pattern allows a nonzero,
    and `|b − b*| ≤ bias`.
    """

    relative: float = 0.0
    absolute: float = 0.0
    bias: float = 0.0

    @property
    def is_exact(self) -> bool:
        return self.relative == self.absolute == self.bias == 0.0


EXACT = WeightError()


@dataclass(frozen=True, eq=False)
class AffineMap(ABC):
    """z ↦ W z + b. Sub-classes implement the underscored methods on one leading axis `[N, *shape]`."""

    in_shape: Shape
    out_shape: Shape
    bias: Tensor | None = field(default=None, kw_only=True)  # broadcasts to out_shape
    error: WeightError = field(default=EXACT, kw_only=True)

    @abstractmethod
    def _linear(self, z: Tensor) -> Tensor: ...

    @abstractmethod
    def _transpose(self, rho: Tensor) -> Tensor: ...

    @abstractmethod
    def abs(self) -> AffineMap:
        """The map z ↦ |W| z, without bias."""

    @abstractmethod
    def sparse(self) -> csr_matrix:
        """W as a float64 matrix `[prod(out_shape), prod(in_shape)]`."""

    @abstractmethod
    def to(self, dtype: torch.dtype, device: torch.device | None = None) -> Self: ...

    @property
    @abstractmethod
    def fan_in(self) -> int:
        """At most this many products are summed in an entry of W z."""

    @property
    @abstractmethod
    def fan_out(self) -> int:
        """At most this many products are summed in an entry of Wᵀ ρ."""

    @property
    def in_size(self) -> int:
        return prod(self.in_shape)

    @property
    def out_size(self) -> int:
        return prod(self.out_shape)

    def linear(self, z: Tensor) -> Tensor:
        lead = z.shape[: z.ndim - len(self.in_shape)]
        return self._linear(z.reshape(-1, *self.in_shape)).reshape(*lead, *self.out_shape)

    def apply(self, z: Tensor) -> Tensor:
        out = self.linear(z)
        return out if self.bias is None else out + self.bias

    def transpose(self, rho: Tensor) -> Tensor:
        lead = rho.shape[: rho.ndim - len(self.out_shape)]
        return self._transpose(rho.reshape(-1, *self.out_shape)).reshape(*lead, *self.in_shape)

    def abs_linear(self, z: Tensor) -> Tensor:
        return self.abs().linear(z)

    def abs_transpose(self, rho: Tensor) -> Tensor:
        return self.abs().transpose(rho)

    def bias_dot(self, rho: Tensor) -> Tensor:
        """ρᵀ b, `[...]`."""
        lead = rho.shape[: rho.ndim - len(self.out_shape)]
        if self.bias is None:
            return rho.new_zeros(lead)
        return (rho * self.bias).reshape(*lead, -1).sum(-1)

    def rows(self, index: Tensor) -> Tensor:
        """Rows of W, `[len(index), *in_shape]`, of the outputs with these flat indices."""
        unit = torch.zeros(len(index), self.out_size, dtype=self.dtype, device=index.device)
        unit[torch.arange(len(index), device=index.device), index] = 1.0
        return self.transpose(unit.reshape(-1, *self.out_shape))

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of the weights; maps without weights follow their input."""
        return torch.get_default_dtype() if self.bias is None else self.bias.dtype
