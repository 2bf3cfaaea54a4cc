"""Convolution in one, two or three dimensions, with groups:

    (W z)[o, t] = Σ_{c, k} weight[o, c, k] · z[c, s·t + d·k − p]        (z is 0 outside its shape)

Shapes: weight `[O, C/groups, *K]`, in_shape `[C, *I]`, out_shape `[O, *T]`; stride s, dilation d
and the padding before, p, per spatial axis. Padding may be asymmetric, and negative where it crops.
The adjoint is exact for every size: entries of z that no window reaches get 0. It has several
forms, see `forms`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import gcd, prod

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from anybound.errors import InvalidModel
from anybound.model.affine.csr import Csr
from anybound.model.affine.forms import adjoint_forms
from anybound.model.affine.map import EXACT, Shape, Weighted, WeightError
from anybound.model.affine.race import Race

Pads = tuple[tuple[int, int], ...]
_CONV = {1: functional.conv1d, 2: functional.conv2d, 3: functional.conv3d}


@dataclass(frozen=True, eq=False)
class Conv(Weighted):
    """z ↦ weight ⋆ z + b; build it with `Conv.of`."""

    stride: tuple[int, ...]
    pads: Pads
    dilation: tuple[int, ...]
    groups: int

    @classmethod
    def of(  # noqa: PLR0913
        cls,
        in_shape: Shape,
        weight: Tensor,
        bias: Tensor | None = None,
        *,
        stride: int | Sequence[int] = 1,
        pads: int | Sequence[tuple[int, int]] = 0,
        dilation: int | Sequence[int] = 1,
        groups: int = 1,
        error: WeightError = EXACT,
    ) -> Conv:
        """The convolution of a tensor `[C, *I]`; `bias` is `[O]` or broadcasts to the result."""
        spatial = weight.ndim - 2
        check_kernel(weight, groups)
        if len(in_shape) != spatial + 1 or in_shape[0] != weight.shape[1] * groups:
            raise InvalidModel(
                f"a kernel of shape {tuple(weight.shape)} in {groups} groups needs an input of "
                f"{weight.shape[1] * groups} channels and {spatial} more axes, not {in_shape}"
            )
        stride, dilation = per_axis(stride, spatial), per_axis(dilation, spatial)
        pads = ((pads, pads),) * spatial if isinstance(pads, int) else tuple(map(tuple2, pads))
        reach = [d * (k - 1) for d, k in zip(dilation, weight.shape[2:], strict=True)]
        out = tuple(
            (size + sum(pad) - span - 1) // s + 1
            for size, pad, span, s in zip(in_shape[1:], pads, reach, stride, strict=True)
        )
        if min(*in_shape, *out) < 1:
            raise InvalidModel(
                f"a kernel of {tuple(weight.shape[2:])} with dilation {dilation} and pads {pads} "
                f"does not fit into its input {in_shape}"
            )
        bias = per_channel(bias, spatial)
        geometry = (stride, pads, dilation, groups)
        return cls(in_shape, (len(weight), *out), weight, *geometry, bias=bias, error=error)

    @property
    def kernel(self) -> Shape:
        return tuple(self.weight.shape[2:])

    def _linear(self, z: Tensor) -> Tensor:
        padding = [before for before, _ in self.pads]
        if any(before != after or before < 0 for before, after in self.pads):
            z = functional.pad(z, [side for pair in reversed(self.pads) for side in pair])
            padding = [0] * len(self.pads)
        conv = _CONV[len(self.pads)]
        return conv(z, self.weight, None, self.stride, padding, self.dilation, self.groups)

    def _transpose(self, rho: Tensor) -> Tensor:
        return self.adjoint(rho)

    @cached_property
    def adjoint(self) -> Race:
        """Wᵀ on `[N, *out_shape]`, in the form that proves to be the fastest."""
        with torch.inference_mode(False):  # what is kept must not refuse autograd later
            return Race(adjoint_forms(self))

    def rows(self, index: Tensor) -> Tensor:
        row, column, value = self._entries(index)
        rows = self.weight.new_zeros(len(index) * self.in_size)
        rows[row * self.in_size + column] = value
        return rows.reshape(-1, *self.in_shape)

    def sparse(self) -> Csr:
        row, column, value = self._entries(torch.arange(self.out_size, device=self.weight.device))
        starts = np.zeros(self.out_size + 1, dtype=np.int64)
        starts[1:] = row.bincount(minlength=self.out_size).cumsum(0).cpu().numpy()
        entries = starts, column.cpu().numpy(), value.double().cpu().numpy()
        return Csr(*entries, (self.out_size, self.in_size))

    @property
    def fan_in(self) -> int:
        return prod(self.weight.shape[1:])

    @property
    def fan_out(self) -> int:
        # s·t + d·k = i + p: the k that reach one i are congruent modulo s / gcd(s, d)
        taps = (
            -(-k * gcd(s, d) // s)
            for k, s, d in zip(self.kernel, self.stride, self.dilation, strict=True)
        )
        return len(self.weight) // self.groups * prod(taps)

    def _entries(self, index: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """What is in the rows with these flat indices: row (ascending from 0), column, weight."""
        device, axes = index.device, len(self.out_shape)
        o, *position = _unravelled(index, self.out_shape)
        channel = torch.arange(self.weight.shape[1], device=device)
        group = o // (len(self.weight) // self.groups)
        column = _on_axis(group[:, None] * len(channel) + channel, 0, axes)
        inside = torch.ones_like(column, dtype=torch.bool)
        for axis, t in enumerate(position):
            k = torch.arange(self.kernel[axis], device=device)
            first = self.stride[axis] * t - self.pads[axis][0]
            i = _on_axis(first[:, None] + self.dilation[axis] * k, axis + 1, axes)
            size = self.in_shape[axis + 1]
            column, inside = column * size + i, inside & (i >= 0) & (i < size)
        hit = inside.expand_as(column).reshape(-1).nonzero().squeeze(1)
        value = self.weight.index_select(0, o).reshape(-1).index_select(0, hit)
        return hit // self.fan_in, column.reshape(-1).index_select(0, hit), value


def _unravelled(index: Tensor, shape: Shape) -> list[Tensor]:
    """The position of each flat index, one tensor per axis (torch.unravel_index imports SymPy)."""
    position = []
    for size in reversed(shape):
        position.append(index % size)
        index = index // size
    return position[::-1]


def per_axis(value: int | Sequence[int], count: int) -> tuple[int, ...]:
    """One number per spatial axis."""
    values = (value,) * count if isinstance(value, int) else tuple(int(v) for v in value)
    if len(values) != count or min(values) < 1:
        raise InvalidModel(f"strides and dilations are {count} positive numbers here, not {value}")
    return values


def per_channel(bias: Tensor | None, spatial: int) -> Tensor | None:
    """A bias of one entry per channel, shaped to broadcast."""
    return bias.reshape(-1, *(1,) * spatial) if bias is not None and bias.ndim == 1 else bias


def check_kernel(weight: Tensor, groups: int) -> None:
    """Refuses kernels that no convolution has."""
    if weight.ndim - 2 not in _CONV:
        raise InvalidModel(
            f"a convolution has 1, 2 or 3 spatial axes, not a kernel of {tuple(weight.shape)}"
        )
    if groups < 1 or len(weight) % groups:
        raise InvalidModel(f"{len(weight)} channels do not divide into {groups} groups")


def tuple2(pair: Sequence[int]) -> tuple[int, int]:
    """(before, after)."""
    before, after = pair
    return int(before), int(after)


def _on_axis(coordinate: Tensor, axis: int, axes: int) -> Tensor:
    """`[m, size]` as `[m, 1, …, size, …, 1]`, `size` on that one of the axes after the first."""
    shape = [1] * axes
    shape[axis] = coordinate.shape[1]
    return coordinate.reshape(len(coordinate), *shape)
