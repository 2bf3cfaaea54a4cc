"""The protocol of an affine map  z ↦ W z + b  between tensors of fixed shapes.

Shapes: `z` is `[..., *in_shape]`, `rho` is `[..., *out_shape]`; any number of leading axes.

    apply(z)      = W z + b          linear(z)    = W z         bias_dot(ρ)       = ρᵀ b
    transpose(ρ)  = Wᵀ ρ (exact)     abs_linear   = |W| z       abs_transpose(ρ)  = |W|ᵀ ρ

`W` is never formed outside `sparse`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod
from typing import Self

import torch
from torch import Tensor

from anybound.errors import InvalidModel
from anybound.layers import Shape
from anybound.model.affine.csr import Csr
from anybound.model.affine.rounding import largest, narrowed
from anybound.model.affine.weight_error import EXACT, WeightError, combined, plus, times
from anybound.rounding import underflow

__all__ = [
    "EXACT",
    "AffineMap",
    "Shape",
    "WeightError",
    "Weighted",
    "Weightless",
    "broadcasts",
]


@dataclass(frozen=True, eq=False)
class AffineMap(ABC):
    """z ↦ W z + b. Kinds implement the underscored methods on one leading axis `[N, *shape]`."""

    in_shape: Shape
    out_shape: Shape
    bias: Tensor | None = field(default=None, kw_only=True)  # broadcasts to out_shape
    error: WeightError = field(default=EXACT, kw_only=True)

    def __post_init__(self) -> None:
        if self.bias is not None and not broadcasts(self.bias.shape, self.out_shape):
            raise InvalidModel(
                f"a bias of shape {tuple(self.bias.shape)} does not broadcast to the output shape "
                f"{self.out_shape}; give one entry per output or per channel"
            )

    @abstractmethod
    def _linear(self, z: Tensor) -> Tensor: ...

    @abstractmethod
    def _transpose(self, rho: Tensor) -> Tensor: ...

    @abstractmethod
    def abs(self) -> AffineMap:
        """The map z ↦ |W| z, without bias; for a chain, the product of its maps' |W|."""

    @abstractmethod
    def sparse(self) -> Csr:
        """W as a float64 matrix `[prod(out_shape), prod(in_shape)]`."""

    @abstractmethod
    def to(self, dtype: torch.dtype, device: torch.device | None = None) -> Self:
        """The map in another dtype; what rounding loses is added to `error`."""

    @property
    @abstractmethod
    def fan_in(self) -> int:
        """At least the nonzeros in a row of W, and the roundings behind an entry of W z."""

    @property
    @abstractmethod
    def fan_out(self) -> int:
        """At least the nonzeros in a column of W, and the roundings behind an entry of Wᵀ ρ."""

    def lost(self, dtype: torch.dtype) -> float:
        """At least what underflow takes from an entry of W z, of |W| z and of W itself."""
        return underflow(self.fan_in, dtype)

    def lost_back(self, dtype: torch.dtype) -> float:
        """At least what underflow takes from an entry of Wᵀ ρ and of |W|ᵀ ρ."""
        return underflow(self.fan_out, dtype)

    @property
    def has_weights(self) -> bool:
        """Whether W has a dtype."""
        return True

    @property
    def selects(self) -> bool:
        """Whether every row of W has at most one nonzero, and that is a 1."""
        return False

    @property
    def in_size(self) -> int:
        return prod(self.in_shape)

    @property
    def out_size(self) -> int:
        return prod(self.out_shape)

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of the weights; maps without weights follow their input."""
        return torch.get_default_dtype() if self.bias is None else self.bias.dtype

    def linear(self, z: Tensor) -> Tensor:
        lead = z.shape[: z.ndim - len(self.in_shape)]
        return self._linear(z.reshape(-1, *self.in_shape)).reshape((*lead, *self.out_shape))

    def apply(self, z: Tensor) -> Tensor:
        out = self.linear(z)
        return out if self.bias is None else out + self.bias

    def transpose(self, rho: Tensor) -> Tensor:
        lead = rho.shape[: rho.ndim - len(self.out_shape)]
        return self._transpose(rho.reshape(-1, *self.out_shape)).reshape((*lead, *self.in_shape))

    def abs_linear(self, z: Tensor) -> Tensor:
        return self._absolute.linear(z)

    def abs_transpose(self, rho: Tensor) -> Tensor:
        return self._absolute.transpose(rho)

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

    def rows_and_error(self, index: Tensor) -> tuple[Tensor, Tensor]:
        """`rows(index)`, and at least their distance to the exact rows, entry by entry."""
        rows = self.rows(index)
        return rows, rows.abs() * (1.001 * self.error.relative) + self.error.absolute

    def without_bias(self) -> Self:
        """z ↦ W z."""
        if self.bias is None and self.error.bias == 0.0:
            return self
        return self.with_bias(None, 0.0)

    def with_bias(self, bias: Tensor | None, error: float) -> Self:
        """The same W with another b, known up to `error`."""
        return replace(self, bias=bias, error=replace(self.error, bias=error))

    @cached_property
    def _absolute(self) -> AffineMap:
        with torch.inference_mode(False):  # what is cached must not refuse autograd later
            return self.abs()

    def _bias_to(
        self, dtype: torch.dtype, device: torch.device | None
    ) -> tuple[Tensor | None, WeightError]:
        """b in another dtype, and the map's error with what that loses."""
        if self.bias is None:
            return None, self.error
        bias, _, _ = narrowed(self.bias, dtype)
        lost = largest(self.bias.double() - bias.double())  # a difference to a rounding is exact
        return bias.to(device), replace(self.error, bias=plus(self.error.bias, lost))


@dataclass(frozen=True, eq=False)
class Weighted(AffineMap):
    """A map whose W is made of one tensor: each entry of W is one of its entries, or 0."""

    weight: Tensor

    @property
    def dtype(self) -> torch.dtype:
        return self.weight.dtype

    def abs(self) -> Self:
        return replace(self, weight=self.weight.abs(), bias=None, error=EXACT)

    def to(self, dtype: torch.dtype, device: torch.device | None = None) -> Self:
        bias, error = self._bias_to(dtype, device)
        weight, relative, absolute = narrowed(self.weight, dtype)
        # |W* − W'| ≤ r|W| + a + |W − W'|  and  |W| ≤ |W'| + |W − W'|
        error = WeightError(
            combined(error.relative, relative),
            plus(error.absolute, absolute, times(error.relative, absolute)),
            error.bias,
        )
        return replace(self, weight=weight.to(device), bias=bias, error=error)


@dataclass(frozen=True, eq=False)
class Weightless(AffineMap):
    """A map whose W has no entries but 0 and 1, which needs no arithmetic beyond sums."""

    @property
    def has_weights(self) -> bool:
        return False

    def abs(self) -> Self:
        return replace(self, bias=None, error=EXACT)

    def to(self, dtype: torch.dtype, device: torch.device | None = None) -> Self:
        bias, error = self._bias_to(dtype, device)
        return replace(self, bias=bias, error=error)


def broadcasts(shape: Shape, target: Shape) -> bool:
    """Whether a tensor of `shape` broadcasts to `target` without enlarging it."""
    if len(shape) > len(target):
        return False
    aligned = target[len(target) - len(shape) :]
    return all(given in (1, wanted) for given, wanted in zip(shape, aligned, strict=True))
