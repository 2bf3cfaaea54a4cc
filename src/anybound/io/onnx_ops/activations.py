"""Nonlinear elementwise operators: each becomes a node of the normal form."""

from __future__ import annotations

from math import inf, isfinite

import numpy as np
import torch

from anybound.io.onnx_ops.algebra import negated, tensor
from anybound.io.onnx_ops.elementwise import affine_sum, by_constant, sum_of
from anybound.io.onnx_ops.folding import product_of_constants, sum_of_constants
from anybound.io.onnx_ops.op import Op
from anybound.io.onnx_ops.value import Constant, Value
from anybound.model.activations.abs import Abs
from anybound.model.activations.activation import Activation
from anybound.model.activations.clip import Clip
from anybound.model.activations.leaky_relu import LeakyReLU, PReLU
from anybound.model.activations.relu import ReLU
from anybound.model.activations.sigmoid import Sigmoid
from anybound.model.activations.tanh import Tanh
from anybound.model.affine.weight_error import plus, times

_NO_END = 3.4e38  # the default ends of Clip are the largest float32 numbers


def activated(op: Op, value: Value, activation: Activation) -> Value:
    """σ(value); a constant's error is that of evaluating σ, and its own times σ's steepest slope."""
    if not isinstance(value, Constant):
        return op.builder.activate(value, activation, op.title)
    x = tensor(op.finite(value, "the argument").array)
    y = activation.value(x)
    low, high = activation.range(x, x)
    width = float(torch.maximum(high - y, y - low).max()) if x.numel() else 0.0
    evaluated = float(np.nextafter(width, np.inf)) if width else 0.0
    return Constant(y.numpy(), plus(evaluated, times(activation.lipschitz, value.error)))


def relu(op: Op) -> Value:
    return activated(op, op.value(0), ReLU())


def absolute(op: Op) -> Value:
    return activated(op, op.value(0), Abs())


def sigmoid(op: Op) -> Value:
    return activated(op, op.value(0), Sigmoid())


def tanh(op: Op) -> Value:
    return activated(op, op.value(0), Tanh())


def leaky_relu(op: Op) -> Value:
    return activated(op, op.value(0), LeakyReLU(op.real("alpha", 0.01)))


def prelu(op: Op) -> Value:
    value, slope = op.value(0), op.floats(1, "the slope")
    if slope.error:
        raise op.unsupported("has a slope that is computed with rounding; export it as a constant")
    if op.broadcast(value.shape, slope.shape) != value.shape:
        raise op.invalid(f"a slope of shape {slope.shape} does not broadcast to {value.shape}")
    if slope.size and (slope.array == slope.array.reshape(-1)[0]).all():
        return activated(op, value, LeakyReLU(float(slope.array.reshape(-1)[0])))
    layout = value.shape if isinstance(value, Constant) else value.layout
    per_neuron = np.broadcast_to(slope.array, value.shape).reshape(layout)
    return activated(op, value, PReLU(tensor(per_neuron)))


def clip(op: Op) -> Value:
    """min(max(x, low), high); with one end only, a shifted ReLU."""
    return clipped(op, op.value(0), _end(op, 1, "min", -inf), _end(op, 2, "max", inf))


def hard_sigmoid(op: Op) -> Value:
    """min(max(αx + β, 0), 1)."""
    slope, offset = (
        Constant(np.array(op.real("alpha", 0.2))),
        Constant(np.array(op.real("beta", 0.5))),
    )
    value = op.value(0)
    if isinstance(value, Constant):
        line: Value = sum_of_constants(product_of_constants(value, slope), offset)
    else:
        line = affine_sum(op, by_constant(op, value, slope), offset)
    return clipped(op, line, 0.0, 1.0)


def clipped(op: Op, value: Value, low: float, high: float) -> Value:
    low = min(low, high)  # where the ends are crossed, ONNX lets the upper one win
    if low == inf or high == -inf:
        raise op.invalid(f"clips everything to {high}")
    match isfinite(low), isfinite(high):
        case True, True:
            return activated(op, value, Clip(low, high))
        case True, False:  # low + relu(x − low)
            above = activated(op, sum_of(op, value, Constant(np.array(-low))), ReLU())
            return sum_of(op, above, Constant(np.array(low)))
        case False, True:  # high − relu(high − x)
            below = sum_of(op, negated(value), Constant(np.array(high)))
            return sum_of(op, negated(activated(op, below, ReLU())), Constant(np.array(high)))
    return value


def _end(op: Op, position: int, name: str, default: float) -> float:
    """One end, an attribute until opset 10; what exporters write for "no end" is infinite."""
    given = op.optional(position)
    end = (
        op.number(name, default)
        if given is None
        else _scalar(op, op.constant(position, f"'{name}'"))
    )
    if end != end:
        raise op.invalid(f"'{name}' is NaN")
    return end if abs(end) < _NO_END else (inf if end > 0 else -inf)


def _scalar(op: Op, constant: Constant) -> float:
    if constant.size != 1 or constant.error:
        raise op.unsupported(f"needs one exact number per end, got shape {constant.shape}")
    return float(constant.array.reshape(-1)[0].item())
