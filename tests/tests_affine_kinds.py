"""Random affine maps of every kind, each with what PyTorch's own functions say it does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from anybound.model.affine import (
    AffineMap,
    Chain,
    Conv,
    ConvTranspose,
    Dense,
    Gather,
    Identity,
    Pad,
    Permute,
    Reshape,
    Scale,
    Sum,
    average_pool,
    compose,
)

Reference = Callable[[Tensor], Tensor]  # [N, *in_shape] to [N, *out_shape], bias included
CONV = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
CONV_TRANSPOSE = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}
POOL = {1: F.avg_pool1d, 2: F.avg_pool2d}


@dataclass(frozen=True)
class Case:
    """A map and its meaning."""

    map: AffineMap
    reference: Reference

    def matrix(self) -> tuple[Tensor, Tensor]:
        """W `[out, in]` column by column, and b `[out]`."""
        units = torch.eye(self.map.in_size, dtype=torch.float64)
        nothing = torch.zeros(1, *self.map.in_shape, dtype=torch.float64)
        bias = self.reference(nothing).reshape(-1)
        columns = self.reference(units.reshape(-1, *self.map.in_shape))
        return (columns.reshape(self.map.in_size, -1) - bias).T, bias


class Draw:
    """The random choices of one case."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def int(self, low: int, high: int) -> int:
        return int(self.rng.integers(low, high + 1))

    def ints(self, count: int, low: int, high: int) -> list[int]:
        return [self.int(low, high) for _ in range(count)]

    def coin(self) -> bool:
        return bool(self.rng.random() < 0.5)

    def numbers(self, *shape: int) -> Tensor:
        """Multiples of 1/64, so that the oracle subtracts a bias without rounding."""
        return torch.from_numpy(np.asarray(self.rng.integers(-255, 256, shape) / 64.0))

    def bias(self, *shape: int) -> Tensor | None:
        return self.numbers(*shape) if self.coin() else None

    def shape(self, low: int = 1, high: int = 3) -> tuple[int, ...]:
        return tuple(self.ints(self.int(low, high), 1, 4))


def plus(x: Tensor, bias: Tensor | None) -> Tensor:
    return x if bias is None else x + bias


def dense(draw: Draw) -> Case:
    lead = tuple(draw.ints(draw.int(0, 2), 1, 3))
    weight = draw.numbers(draw.int(1, 5), draw.int(1, 5))
    bias = draw.bias(len(weight))
    made = Dense.of(weight, bias, lead=lead)
    return Case(made, lambda z: plus(torch.einsum("oi,...i->...o", weight, z), bias))


@dataclass(frozen=True)
class Geometry:
    """A convolution's geometry; sizes are such that at least one window fits."""

    sizes: tuple[int, ...]
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    pads: tuple[tuple[int, int], ...]
    groups: int


def geometry(draw: Draw, *, lowest_pad: int = -1, axes: int | None = None) -> Geometry:
    axes = axes or draw.int(1, 3)
    kernel, stride = draw.ints(axes, 1, 4 if axes < 3 else 2), draw.ints(axes, 1, 3)
    dilation = draw.ints(axes, 1, 2)
    pads = [(draw.int(lowest_pad, 2), draw.int(lowest_pad, 2)) for _ in range(axes)]
    if draw.coin():
        pads = [(max(0, a), max(0, a)) for a, _ in pads]
    sizes = [
        max(1 - min(0, a) - min(0, b), d * (k - 1) + 1 - a - b) + draw.int(0, 4 if axes < 3 else 2)
        for k, d, (a, b) in zip(kernel, dilation, pads, strict=True)
    ]
    return Geometry(
        tuple(sizes), tuple(kernel), tuple(stride), tuple(dilation), tuple(pads), draw.int(1, 2)
    )


def flat(pads: tuple[tuple[int, int], ...]) -> list[int]:
    return [side for pair in reversed(pads) for side in pair]


def conv(draw: Draw, **choices: int) -> Case:
    g = geometry(draw, **choices)
    outputs, channels = g.groups * draw.int(1, 2), draw.int(1, 2)
    weight = draw.numbers(outputs, channels, *g.kernel)
    bias = draw.bias(outputs)
    made = Conv.of(
        (g.groups * channels, *g.sizes),
        weight,
        bias,
        stride=g.stride,
        pads=g.pads,
        dilation=g.dilation,
        groups=g.groups,
    )

    def reference(z: Tensor) -> Tensor:
        run = CONV[len(g.sizes)]
        return run(F.pad(z, flat(g.pads)), weight, bias, g.stride, 0, g.dilation, g.groups)

    return Case(made, reference)


def conv_transpose(draw: Draw) -> Case:
    g = geometry(draw, lowest_pad=0)
    inputs, channels = g.groups * draw.int(1, 2), draw.int(1, 2)
    weight = draw.numbers(inputs, channels, *g.kernel)
    extra = [draw.int(0, max(s, d) - 1) for s, d in zip(g.stride, g.dilation, strict=True)]
    reach = [d * (k - 1) + 1 for d, k in zip(g.dilation, g.kernel, strict=True)]
    pads = tuple(
        (min(a, (r - 1) // 2), min(b, (r - 1) // 2))
        for (a, b), r in zip(g.pads, reach, strict=True)
    )
    bias = draw.bias(g.groups * channels)
    made = ConvTranspose.of(
        (inputs, *g.sizes),
        weight,
        bias,
        stride=g.stride,
        pads=pads,
        output_padding=extra,
        dilation=g.dilation,
        groups=g.groups,
    )

    def reference(z: Tensor) -> Tensor:
        run = CONV_TRANSPOSE[len(g.sizes)]
        whole = run(z, weight, bias, g.stride, 0, extra, g.groups, g.dilation)
        return F.pad(whole, [-side for side in flat(pads)])

    return Case(made, reference)


def pool(draw: Draw) -> Case:
    axes = draw.int(1, 2)
    kernel, stride = draw.ints(axes, 1, 4), draw.ints(axes, 1, 3)
    pads = [draw.int(0, k // 2) for k in kernel]
    sizes = [k + draw.int(0, 4) for k in kernel]
    ceil, counted = draw.coin(), draw.coin()
    made = average_pool(
        (2, *sizes),
        kernel,
        stride=stride,
        pads=[(p, p) for p in pads],
        ceil_mode=ceil,
        count_include_pad=counted,
    )
    return Case(made, lambda z: POOL[axes](z, kernel, stride, pads, ceil, counted))


def identity(draw: Draw) -> Case:
    shape = draw.shape()
    bias = draw.bias(*shape)
    return Case(Identity.of(shape, bias), lambda z: plus(z, bias))


def reshape(draw: Draw) -> Case:
    a, b, c = draw.ints(3, 1, 4)
    return Case(
        Reshape((a, b, c), (b * a, c)), lambda z: torch.stack([x.view(b * a, c) for x in z])
    )


def permute(draw: Draw) -> Case:
    shape = draw.shape()
    axes = [int(axis) for axis in draw.rng.permutation(len(shape))]
    return Case(Permute.of(shape, axes), lambda z: torch.stack([torch.permute(x, axes) for x in z]))


def gather(draw: Draw) -> Case:
    shape, taken = draw.shape(), draw.shape()
    index = torch.from_numpy(draw.rng.integers(0, prod(shape), taken))
    return Case(Gather.of(shape, index), lambda z: torch.stack([torch.take(x, index) for x in z]))


def gather_along(draw: Draw) -> Case:
    shape = draw.shape()
    axis = draw.int(0, len(shape) - 1)
    index = draw.ints(draw.int(1, 5), 0, shape[axis] - 1)
    picked = torch.tensor(index)
    return Case(Gather.along(shape, axis, index), lambda z: z.index_select(axis + 1, picked))


def pad(draw: Draw) -> Case:
    shape = tuple(size + 2 for size in draw.shape())
    pads = tuple((draw.int(-1, 2), draw.int(-1, 2)) for _ in shape)
    value = draw.int(-1, 1) / 2.0
    return Case(Pad.of(shape, pads, value), lambda z: F.pad(z, flat(pads), value=value))


def embed(draw: Draw) -> Case:
    shape = draw.shape()
    axis, before, after = draw.int(0, len(shape) - 1), draw.int(0, 2), draw.int(0, 2)

    def reference(z: Tensor) -> Tensor:
        sizes = list(z.shape)
        sides = [z.new_zeros([*sizes[: axis + 1], n, *sizes[axis + 2 :]]) for n in (before, after)]
        return torch.cat([sides[0], z, sides[1]], axis + 1)

    return Case(Pad.embed(shape, axis, before, before + shape[axis] + after), reference)


def scale(draw: Draw) -> Case:
    shape = draw.shape()
    factor = draw.numbers(
        *(size if draw.coin() else 1 for size in shape[draw.int(0, len(shape)) :])
    )
    bias = draw.bias(*shape)
    return Case(Scale.of(shape, factor, bias), lambda z: plus(factor * z, bias))


def total(draw: Draw) -> Case:
    shape = draw.shape()
    axes = [k for k in range(len(shape)) if draw.coin()] or [len(shape) - 1]
    keep = draw.coin()
    made = Sum.of(shape, axes, keepdim=keep)
    return Case(made, lambda z: z.sum([axis + 1 for axis in axes], keepdim=keep))


def chain(draw: Draw) -> Case:
    first = conv(draw, axes=2)
    shape = first.map.out_shape
    turned = tuple(shape[axis] for axis in (1, 2, 0))
    factor, weight = draw.numbers(*turned), draw.numbers(3, prod(shape))
    bias = draw.bias(3)
    made = Chain.of(
        first.map,
        Permute.of(shape, (1, 2, 0)),
        Scale.of(turned, factor),
        Reshape(turned, (prod(turned),)),
        Dense.of(weight, bias),
    )

    def reference(z: Tensor) -> Tensor:
        moved = first.reference(z).permute(0, 2, 3, 1) * factor
        return F.linear(moved.reshape(len(z), -1), weight, bias)

    return Case(made, reference)


def composed(draw: Draw) -> Case:
    first = conv(draw, axes=2)
    shape = first.map.out_shape
    factor, shift = draw.numbers(shape[0], 1, 1), draw.numbers(*shape)
    made = compose(Scale.of(shape, factor, shift), first.map)
    return Case(made, lambda z: first.reference(z) * factor + shift)


KINDS: dict[str, Callable[[Draw], Case]] = {
    "dense": dense,
    "conv": conv,
    "conv_transpose": conv_transpose,
    "average_pool": pool,
    "identity": identity,
    "reshape": reshape,
    "permute": permute,
    "gather": gather,
    "gather_along": gather_along,
    "pad": pad,
    "embed": embed,
    "scale": scale,
    "sum": total,
    "chain": chain,
    "composed": composed,
}
