"""Transposed convolution, the adjoint of a convolution (its *twin*) from out_shape to in_shape:

    (W z)[c, i] = Σ { weight[o, c, k] · z[o, t] : s·t + d·k = i + p }

Shapes: weight `[C_in, C_out/groups, *K]`, in_shape `[C_in, *T]`, out_shape `[C_out, *I]` with
I = s·(T − 1) + d·(K − 1) + 1 + output_padding − (padding before + after).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Tensor

from anybound.errors import InvalidModel
from anybound.model.affine.conv import Conv, check_kernel, per_axis, per_channel
from anybound.model.affine.csr import Csr
from anybound.model.affine.map import EXACT, AffineMap, Shape, WeightError


@dataclass(frozen=True, eq=False)
class ConvTranspose(AffineMap):
    """z ↦ twinᵀ z + b; build it with `ConvTranspose.of`. `error` is about the twin's weights."""

    twin: Conv

    @classmethod
    def of(  # noqa: PLR0913
        cls,
        in_shape: Shape,
        weight: Tensor,
        bias: Tensor | None = None,
        *,
        stride: int | Sequence[int] = 1,
        pads: int | Sequence[tuple[int, int]] = 0,
        output_padding: int | Sequence[int] = 0,
        dilation: int | Sequence[int] = 1,
        groups: int = 1,
        error: WeightError = EXACT,
    ) -> ConvTranspose:
        """Transposed convolution of a tensor `[C_in, *T]`; `bias` is `[C_out]` or broadcasts."""
        spatial = weight.ndim - 2
        check_kernel(weight, groups)
        if len(in_shape) != spatial + 1 or in_shape[0] != len(weight):
            raise InvalidModel(
                f"a transposed kernel of shape {tuple(weight.shape)} needs an input of "
                f"{len(weight)} channels and {spatial} more axes, not {in_shape}"
            )
        pairs = [(pads, pads)] * spatial if isinstance(pads, int) else list(pads)
        extra = [output_padding] * spatial if isinstance(output_padding, int) else output_padding
        # The twin must have exactly T windows: what `output_padding` adds is beyond its last one.
        ends = [(before, after - more) for (before, after), more in zip(pairs, extra, strict=True)]
        strides, dilations = per_axis(stride, spatial), per_axis(dilation, spatial)
        out = tuple(
            s * (t - 1) + d * (k - 1) + 1 - sum(pad)
            for s, t, d, k, pad in zip(
                strides, in_shape[1:], dilations, weight.shape[2:], ends, strict=True
            )
        )
        twin = Conv.of(
            (weight.shape[1] * groups, *out),
            weight,
            stride=strides,
            pads=ends,
            dilation=dilations,
            groups=groups,
        )
        bias = per_channel(bias, spatial)
        return cls(in_shape, twin.in_shape, twin, bias=bias, error=error)

    @property
    def dtype(self) -> torch.dtype:
        return self.twin.dtype

    def _linear(self, z: Tensor) -> Tensor:
        return self.twin.transpose(z)

    def _transpose(self, rho: Tensor) -> Tensor:
        return self.twin.linear(rho)

    def abs(self) -> Self:
        return replace(self, twin=self.twin.abs(), bias=None, error=EXACT)

    def to(self, dtype: torch.dtype, device: torch.device | None = None) -> Self:
        bias, error = self._bias_to(dtype, device)
        twin = replace(self.twin, error=replace(error, bias=0.0)).to(dtype, device)
        error = replace(twin.error, bias=error.bias)
        return replace(self, twin=replace(twin, error=EXACT), bias=bias, error=error)

    def sparse(self) -> Csr:
        return self.twin.sparse().transposed()

    @property
    def fan_in(self) -> int:
        return self.twin.fan_out

    @property
    def fan_out(self) -> int:
        return self.twin.fan_in
