"""BatchNormalization in inference mode:  y = s·x + (β − s·μ)  with s = γ / √(v + ε)."""

from __future__ import annotations

import numpy as np

from anybound.io.onnx_ops.elementwise import affine_sum, by_constant, sum_of
from anybound.io.onnx_ops.folding import (
    product_of_constants,
    quotient_of_constants,
    root_of_constant,
    sum_of_constants,
)
from anybound.io.onnx_ops.op import Op
from anybound.io.onnx_ops.value import Constant, Value


def batch_normalization(op: Op) -> Value:
    value = op.value(0)
    if op.integer("training_mode", 0) or len(op.outputs) > 1:
        raise op.unsupported("is in training mode; export the model in evaluation mode")
    if not op.integer("spatial", 1):
        raise op.unsupported(
            "normalises every entry by itself (spatial=0); re-export with opset 9 or newer"
        )
    if len(value.shape) < 2:
        raise op.invalid(f"needs an input [batch, channels, ...], got shape {value.shape}")
    gamma, beta, mean, variance = (_per_channel(op, position, value) for position in range(1, 5))
    epsilon = Constant(np.array(op.real("epsilon", 1e-5)))
    deviation = root_of_constant(op, sum_of_constants(variance, epsilon))
    scale = quotient_of_constants(op, gamma, deviation)
    offset = sum_of_constants(beta, _negated_product(scale, mean))
    if isinstance(value, Constant):
        return sum_of(op, product_of_constants(value, scale), offset)
    return affine_sum(op, by_constant(op, value, scale), offset)


def _negated_product(a: Constant, b: Constant) -> Constant:
    product = product_of_constants(a, b)
    return Constant(-product.array, product.error)


def _per_channel(op: Op, position: int, value: Value) -> Constant:
    """An input of one number per channel, in a shape that broadcasts against the value."""
    given = op.floats(position, "a parameter")
    if given.shape != (value.shape[1],):
        raise op.invalid(
            f"a parameter of shape {given.shape} does not fit {value.shape[1]} channels"
        )
    array = given.array.reshape(-1, *(1,) * (len(value.shape) - 2))
    return Constant(array, given.error)
