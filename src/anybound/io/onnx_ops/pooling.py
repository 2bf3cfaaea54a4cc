"""Poolings. Averages are affine; a maximum is taken one axis at a time, as a tree of pairwise
maxima:

    max over k×k entries  =  max over k rows of (max over k columns),    max(a, b) = b + relu(a − b)

which takes fewer neurons than a tree over all k² entries, as overlapping windows share their rows'
maxima.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from anybound.io.onnx_ops.algebra import applied, rearranged
from anybound.io.onnx_ops.elementwise import larger
from anybound.io.onnx_ops.op import Op
from anybound.io.onnx_ops.value import Affine, Value
from anybound.io.onnx_ops.windows import batch_of_one, windows
from anybound.model.affine.map import Shape
from anybound.model.affine.pool import average_pool


def average(op: Op) -> Value:
    value = op.value(0)
    inner = batch_of_one(op, value)
    kernel, ceil_mode = _kernel(op, inner), bool(op.integer("ceil_mode", 0))
    place = windows(op, inner[1:], kernel, ceil_mode=ceil_mode)
    op.room((inner[0], *place.counts))
    map_ = average_pool(
        inner,
        kernel,
        stride=place.strides,
        pads=place.pads,
        dilation=place.dilations,
        ceil_mode=ceil_mode,
        count_include_pad=bool(op.integer("count_include_pad", 0)),
    )
    return applied(map_, value, (1, *map_.out_shape))


def global_average(op: Op) -> Value:
    value = op.value(0)
    inner = batch_of_one(op, value)
    map_ = average_pool(inner, inner[1:])
    return applied(map_, value, (1, *map_.out_shape))


def maximum(op: Op) -> Value:
    if len(op.outputs) > 1:
        raise op.unsupported(
            "also yields the positions of its maxima, which are not piecewise linear"
        )
    value = op.value(0)
    inner = batch_of_one(op, value)
    kernel = _kernel(op, inner)
    place = windows(op, inner[1:], kernel, ceil_mode=bool(op.integer("ceil_mode", 0)))
    for k, size in enumerate(inner[1:]):
        taps = _taps(
            op,
            size,
            kernel[k],
            place.counts[k],
            place.strides[k],
            place.dilations[k],
            place.pads[k][0],
        )
        value = _over_axis(op, value, k + 2, taps)
    return value


def global_maximum(op: Op) -> Value:
    value = op.value(0)
    inner = batch_of_one(op, value)
    for k, size in enumerate(inner[1:]):
        value = _over_axis(op, value, k + 2, np.arange(size, dtype=np.int64)[:, None])
    return value


def _kernel(op: Op, inner: Shape) -> Shape:
    kernel = op.ints("kernel_shape")
    if kernel is None or len(kernel) != len(inner) - 1 or min(kernel) < 1:
        raise op.invalid(f"kernel_shape {kernel} does not fit an input of shape {(1, *inner)}")
    return kernel


def _taps(
    op: Op, size: int, kernel: int, count: int, stride: int, dilation: int, before: int
) -> NDArray[np.int64]:
    """`[kernel, count]`: the entries of every window; one outside repeats another of its window."""
    op.room((kernel, count))
    taps = np.arange(count)[None, :] * stride + np.arange(kernel)[:, None] * dilation - before
    inside = (taps >= 0) & (taps < size)
    if not inside.any(axis=0).all():
        raise op.invalid("has a window that lies in the padding altogether, whose maximum is −∞")
    first = np.take_along_axis(taps, inside.argmax(axis=0)[None, :], axis=0)
    return np.where(inside, taps, first)


def _over_axis(op: Op, value: Value, axis: int, taps: NDArray[np.int64]) -> Value:
    """The maximum over the rows of `taps` of what they pick along an axis."""
    used = np.unique(taps, axis=0)
    if isinstance(value, Affine) and len(used) > 1:
        value = op.builder.settled(value, op.title)
    level = [
        rearranged(value, lambda array, row=row: np.take(array, row, axis=axis))  # type: ignore[misc]
        for row in used
    ]
    while len(level) > 1:
        pairs = [larger(op, a, b) for a, b in zip(level[::2], level[1::2], strict=False)]
        level = pairs + level[len(pairs) * 2 :]
    return level[0]
