"""Average pooling as a convolution of each channel with itself, with ONNX's rules of counting.

    (W z)[c, t] = Σ_k z[c, s·t + d·k − p] / count(t)

`count(t)` is the number of positions of the window inside the input, or inside the padded input
where padding counts; what `ceil_mode` adds beyond the padding never counts. A window that would
start beyond the input and the padding before it is dropped.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import torch
from torch import Tensor

from anybound.model.affine.conv import Conv, per_axis
from anybound.model.affine.fuse import compose
from anybound.model.affine.map import AffineMap, Shape, WeightError
from anybound.model.affine.scale import Scale
from anybound.model.affine.weight_error import UNIT


def average_pool(
    in_shape: Shape,
    kernel: Sequence[int],
    *,
    stride: int | Sequence[int] = 1,
    pads: int | Sequence[tuple[int, int]] = 0,
    dilation: int | Sequence[int] = 1,
    ceil_mode: bool = False,
    count_include_pad: bool = False,
) -> AffineMap:
    """The pooling of a tensor `[C, *I]`, in float64."""
    strides, dilations = per_axis(stride, len(kernel)), per_axis(dilation, len(kernel))
    pairs = [(pads, pads)] * len(kernel) if isinstance(pads, int) else [(a, b) for a, b in pads]
    reach = [d * (k - 1) + 1 for d, k in zip(dilations, kernel, strict=True)]
    ends = pairs
    if ceil_mode:
        ends = [
            (before, after + _excess(size, before, after, r, s))
            for size, (before, after), r, s in zip(in_shape[1:], pairs, reach, strides, strict=True)
        ]
    ones = torch.ones(in_shape[0], 1, *kernel, dtype=torch.float64)
    sums = Conv.of(
        in_shape, ones, stride=strides, pads=ends, dilation=dilations, groups=in_shape[0]
    )
    counted = pairs if count_include_pad else [(0, 0)] * len(kernel)
    count = _counts(sums, counted)
    return compose(Scale.of(sums.out_shape, 1.0 / count, error=_error_of_inverse(count)), sums)


def _excess(size: int, before: int, after: int, reach: int, stride: int) -> int:
    """The padding of one more, incomplete window; 0 where it would start beyond the input."""
    missing = -(size + before + after - reach) % stride
    start = size + before + after + missing - reach
    return missing if start < size + before else 0


def _counts(sums: Conv, counted: Sequence[tuple[int, int]]) -> Tensor:
    """`[1, *T]`: how much of each window is in the input and `counted`; one number if all is."""
    pads = [
        (before - more, after - less)
        for (before, after), (more, less) in zip(sums.pads, counted, strict=True)
    ]
    size = [n + sum(more) for n, more in zip(sums.in_shape[1:], counted, strict=True)]
    one_channel = Conv.of(
        (1, *size), sums.weight[:1], stride=sums.stride, pads=pads, dilation=sums.dilation
    )
    count = one_channel.linear(torch.ones(one_channel.in_shape, dtype=torch.float64))
    same = bool((count == prod(sums.kernel)).all())
    return count.reshape(-1)[0] if same else count


def _error_of_inverse(count: Tensor) -> WeightError:
    mantissa, _ = torch.frexp(count)
    return WeightError() if bool((mantissa == 0.5).all()) else WeightError(relative=UNIT)
