"""Add, Sub, Mul, Div, Neg, Sqrt, Max, Min with ONNX's broadcasting, and what passes a value on
unchanged.

max(a, b) = b + relu(a − b)        min(a, b) = b − relu(b − a)
"""

from __future__ import annotations

import numpy as np

from anybound.io.onnx_ops.algebra import (
    added,
    expanded,
    negated,
    scaled,
    shifted,
)
from anybound.io.onnx_ops.folding import (
    exact_quotient,
    product_of_constants,
    quotient_of_constants,
    root_of_constant,
    sum_of_constants,
)
from anybound.io.onnx_ops.op import Op
from anybound.io.onnx_ops.value import Affine, Constant, Value
from anybound.model.activations.relu import ReLU
from anybound.model.affine.weight_error import UNIT


def add(op: Op) -> Value:
    return sum_of(op, op.value(0), op.value(1))


def subtract(op: Op) -> Value:
    return sum_of(op, op.value(0), negated(op.value(1)))


def total(op: Op) -> Value:
    """Sum of any number of inputs."""
    result = op.value(0)
    for position in range(1, len(op.inputs)):
        result = sum_of(op, result, op.value(position))
    return result


def multiply(op: Op) -> Value:
    a, b = op.value(0), op.value(1)
    if isinstance(a, Constant) and isinstance(b, Constant):
        op.broadcast(a.shape, b.shape)
        return product_of_constants(a, b)
    if isinstance(a, Affine) and isinstance(b, Constant):
        return by_constant(op, a, b)
    if isinstance(a, Constant) and isinstance(b, Affine):
        return by_constant(op, b, a)
    raise op.unsupported(
        "multiplies two values that depend on the network's input; the normal form has "
        "products with constants only"
    )


def divide(op: Op) -> Value:
    a, b = op.value(0), op.constant(1, "the divisor")
    if isinstance(a, Constant):
        op.broadcast(a.shape, b.shape)
        return quotient_of_constants(op, a, b)
    one = Constant(np.ones(()))
    inverse = quotient_of_constants(op, one, op.finite(b, "the divisor"))
    if b.error == 0.0 and not exact_quotient(one.array, b.array.astype(np.float64)):
        # Each reciprocal rounds by itself: a relative error says more than an absolute one.
        return by_constant(op, a, Constant(inverse.array), UNIT)
    return by_constant(op, a, inverse)


def negate(op: Op) -> Value:
    return negated(op.value(0))


def root(op: Op) -> Value:
    return root_of_constant(op, op.floats(0, "the argument"))


def same(op: Op) -> Value:
    """Identity; Dropout when it is not training."""
    return op.value(0)


def dropout(op: Op) -> tuple[Value, ...]:
    value = op.value(0)
    training = op.optional(2)
    if isinstance(training, Affine) or (training is not None and bool(training.array.any())):
        raise op.unsupported("is in training mode; export the model in evaluation mode")
    mask = Constant(np.broadcast_to(np.True_, value.shape))
    return (value, mask)[: len(op.outputs)]


def maximum(op: Op) -> Value:
    result = op.value(0)
    for position in range(1, len(op.inputs)):
        result = larger(op, result, op.value(position))
    return result


def minimum(op: Op) -> Value:
    result = negated(op.value(0))
    for position in range(1, len(op.inputs)):
        result = larger(op, result, negated(op.value(position)))
    return negated(result)


def larger(op: Op, a: Value, b: Value) -> Value:
    """max(a, b) = b + relu(a − b)."""
    shape = op.broadcast(a.shape, b.shape)
    if isinstance(a, Constant) and isinstance(b, Constant):
        return Constant(np.maximum(a.array, b.array), max(a.error, b.error))
    if isinstance(a, Constant):
        return larger(op, b, a)
    if isinstance(b, Affine):
        b = op.builder.settled(b, op.title)
    difference = affine_sum(op, expanded(a, shape), negated(b))
    return sum_of(op, b, op.builder.activate(difference, ReLU(), op.title))


def sum_of(op: Op, a: Value, b: Value) -> Value:
    """a + b with broadcasting."""
    shape = op.broadcast(a.shape, b.shape)
    if isinstance(a, Affine):
        return affine_sum(op, expanded(a, shape), b)
    if isinstance(b, Affine):
        return affine_sum(op, expanded(b, shape), a)
    return sum_of_constants(a, b)


def affine_sum(op: Op, a: Affine, b: Value) -> Affine:
    """a + b where b broadcasts to the shape of a."""
    if isinstance(b, Constant):
        return shifted(a, op.finite(b, "an operand"))
    return added(a, expanded(b, a.shape))


def by_constant(op: Op, value: Affine, factor: Constant, relative: float = 0.0) -> Affine:
    """value ∘ factor with broadcasting; `relative` bounds a further error of every factor."""
    shape = op.broadcast(value.shape, factor.shape)
    return scaled(expanded(value, shape), op.finite(factor, "a factor"), relative)
