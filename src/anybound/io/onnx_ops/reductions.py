"""ReduceSum and ReduceMean over constant axes."""

from __future__ import annotations

from math import prod

import numpy as np

from anybound.io.onnx_ops.algebra import applied, reshaped
from anybound.io.onnx_ops.elementwise import by_constant
from anybound.io.onnx_ops.folding import exact_quotient, product_of_constants
from anybound.io.onnx_ops.op import Op
from anybound.io.onnx_ops.value import Constant, Value
from anybound.model.affine.structural import Sum
from anybound.model.affine.weight_error import UNIT


def reduce_sum(op: Op) -> Value:
    return _reduced(op, mean=False)


def reduce_mean(op: Op) -> Value:
    return _reduced(op, mean=True)


def _reduced(op: Op, *, mean: bool) -> Value:
    value = op.value(0)
    rank = len(value.shape)
    axes = op.integer_list(1, "axes") or ()
    if not axes:
        if op.integer("noop_with_empty_axes", 0):
            return value
        axes = tuple(range(rank))
    axes = op.axes(axes, rank)
    kept = tuple(1 if axis in axes else extent for axis, extent in enumerate(value.shape))
    shape = (
        kept
        if op.integer("keepdims", 1)
        else tuple(extent for axis, extent in enumerate(value.shape) if axis not in axes)
    )
    if isinstance(value, Constant) and not value.is_float and not mean:
        return Constant(value.array.sum(axis=axes, keepdims=kept == shape).reshape(shape))
    count = prod(value.shape[axis] for axis in axes)
    if mean and count == 0:
        raise op.invalid(f"takes the mean of nothing: axes {axes} of shape {value.shape}")
    total = applied(Sum.of(value.shape, axes, keepdim=True), value, kept) if axes else value
    return reshaped(_share(op, total, count) if mean else total, shape)


def _share(op: Op, value: Value, count: int) -> Value:
    """value / count."""
    inverse = np.array(1.0 / count)
    relative = 0.0 if exact_quotient(np.ones(()), np.array(float(count))) else UNIT
    if isinstance(value, Constant):
        return product_of_constants(value, Constant(inverse, relative * float(inverse)))
    return by_constant(op, value, Constant(inverse), relative)
