"""ONNX's operators: (builder, attributes, *inputs) -> a value. Inputs are values that depend on the
network's input, constants, or None. What is not as expected raises, and the network is refused."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import prod
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto, numpy_helper

from anybound_check.arithmetic import HUGE, Array, Index, Unreadable
from anybound_check.linear import Conv, Linear, Matrix, Move, Scale

MAX_ELEMENTS = 2**24
Shape = tuple[int, ...]
Constant = NDArray[Any]
Attributes = dict[str, Any]


class Value(NamedTuple):
    """A tensor that depends on the input: which node holds it, and its shape."""

    node: int
    shape: Shape


class Builder(Protocol):
    """The network under construction."""

    def add(
        self, shape: Shape, *edges: tuple[Value, Linear], bias: Array | None = None
    ) -> Value: ...
    def activate(self, value: Value, kind: str) -> Value: ...
    def moved(self, value: Value, index: Index) -> Value: ...


def _activation(r: Builder, _: Attributes, x: Value, *, kind: str) -> Value:
    return r.activate(x, kind)


def _sum(r: Builder, _: Attributes, a: Any, b: Any, *, sign: float) -> Value:
    """a + sign b."""
    if isinstance(a, Value) and isinstance(b, Value):
        if a.shape != b.shape:
            raise ValueError(f"shapes {a.shape} and {b.shape} differ")
        return r.add(a.shape, (a, Move()), (b, _times(sign, b)))
    if isinstance(a, Value):
        return r.add(_broadcast(a, b), (a, Move()), bias=sign * real(b))
    return r.add(_broadcast(b, a), (b, _times(sign, b)), bias=real(a))


def _times(sign: float, value: Value) -> Linear:
    return Move() if sign == 1 else Scale(np.full((prod(value.shape), 1), sign))


def _product(r: Builder, _: Attributes, a: Any, b: Any) -> Value:
    value, factor = (a, b) if isinstance(a, Value) else (b, a)
    shape = _broadcast(value, factor)
    column = np.broadcast_to(real(factor), shape).reshape(-1, 1).copy()
    return r.add(shape, (value, Scale(column)))


def _quotient(r: Builder, _: Attributes, a: Value, b: Any) -> Value:
    return _product(r, _, a, 1.0 / real(b))


def _gemm(r: Builder, given: Attributes, a: Value, b: Any, c: Any = None) -> Value:
    weight = real(b) if given.get("transB", 0) else real(b).T
    if given.get("transA", 0) or a.shape != (1, weight.shape[1]):
        raise ValueError(f"transA, or an input of shape {a.shape}")
    op = Matrix(real(given.get("alpha", 1.0) * weight))
    bias = None if c is None else real(given.get("beta", 1.0) * real(c))
    return r.add((1, len(weight)), (a, op), bias=bias)


def _matmul(r: Builder, _: Attributes, a: Any, b: Any) -> Value:
    first = isinstance(a, Value)  # x W, else W x
    value, weight = (a, real(b).T) if first else (b, real(a))
    last = len(value.shape) - (1 if first or len(value.shape) == 1 else 2)
    lead, rest = value.shape[:last], value.shape[last + 1 :]
    if weight.ndim != 2 or weight.shape[1] != value.shape[last]:
        raise ValueError(f"a matrix {weight.shape} meets a tensor {value.shape}")
    op = Matrix(np.ascontiguousarray(weight), prod(lead))
    return r.add((*lead, len(weight), *rest), (value, op))


def _conv(r: Builder, given: Attributes, x: Value, w: Any, b: Any = None) -> Value:
    """A convolution with one or two spatial axes."""
    weight, shape, rank = real(w), x.shape, len(x.shape) - 2
    strides, dilations = (list(given.get(key, [1] * rank)) for key in ("strides", "dilations"))
    pads, groups = list(given.get("pads", [0] * (2 * rank))), given.get("group", 1)
    if given.get("auto_pad", b"NOTSET") not in (b"NOTSET", b"VALID") or rank not in (1, 2):
        raise ValueError("auto_pad, or neither 1 nor 2 spatial axes")
    if tuple(given.get("kernel_shape", weight.shape[2:])) != weight.shape[2:]:
        raise ValueError("kernel_shape differs from the weight's")
    if rank == 1:  # with a first axis of one pixel
        weight, shape = weight[:, :, None], (*shape[:2], 1, shape[2])
        strides, dilations, pads = [1, *strides], [1, *dilations], [0, pads[0], 0, pads[1]]
    (sy, sx), (dy, dx), (top, left, low, right) = strides, dilations, pads
    (batch, c, h, w), (filters, each, kh, kw) = shape, weight.shape
    if batch != 1 or groups * each != c or filters % groups or min(sy, sx, dy, dx) < 1:
        raise ValueError(f"input {x.shape}, weight {weight.shape}, {groups} groups, {strides}")
    conv = Conv(weight, (c, h, w), (sy, sx), (top, left, low, right), (dy, dx), groups)
    if (
        min(*conv.out, groups) < 1
        or min(pads) < 0
        or prod((c, kh, kw, *conv.out)) > 8 * MAX_ELEMENTS
    ):
        raise ValueError("the kernel does not fit, or is too large")
    bias = None if b is None else real(b).reshape(-1, *[1] * rank)
    return r.add((1, filters, *conv.out[2 - rank :]), (x, conv), bias=bias)


def _average(r: Builder, given: Attributes, x: Value) -> Value:
    kernel = tuple(given.get("kernel_shape", x.shape[2:]))
    others: Attributes = {
        key: given[key] for key in ("auto_pad", "strides", "pads") if key in given
    }
    if given.get("ceil_mode", 0) or (
        any(others.get("pads", ())) and not given.get("count_include_pad", 0)
    ):
        raise ValueError("ceil_mode, or padding that does not count, is not supported")
    channels, factor = x.shape[1], np.full((), 1.0 / prod(kernel))
    sums = _conv(r, {**others, "group": channels}, x, np.ones((channels, 1, *kernel)))
    return _product(r, {}, sums, factor)


def _normalise(r: Builder, given: Attributes, x: Value, *parameters: Any) -> Value:
    shape = (x.shape[1], *[1] * (len(x.shape) - 2))
    scale, shift, mean, variance = (real(part).reshape(shape) for part in parameters)
    epsilon = given.get("epsilon", float(np.float32(1e-5)))
    if given.get("training_mode", 0) or not (variance.min() >= 0 and epsilon >= 0):
        raise ValueError("training mode, or a negative variance")
    centred = r.add(x.shape, (x, Move()), bias=-mean)
    scaled = _product(r, {}, centred, scale / np.sqrt(variance + epsilon))
    return r.add(x.shape, (scaled, Move()), bias=shift)


def _constant(_: Builder, given: Attributes) -> Constant:
    [(name, value)] = given.items()
    return array_of(value) if name == "value" else np.array(value, _CONSTANTS[name])


def _same(_: Builder, given: Attributes, x: Any, ratio: Any = None, training: Any = False) -> Any:
    if bool(np.any(np.asarray(training))):
        raise ValueError(f"training mode is not supported {given} {ratio}")
    return x


def _arranged(r: Builder, given: Attributes, x: Any, *more: Any, change: Callable[..., Any]) -> Any:
    """For operators that only move elements: `change` does it to an array of their numbers."""
    if not isinstance(x, Value):
        return np.asarray(change(np.asarray(x), given, *more))
    return r.moved(x, change(np.arange(prod(x.shape)).reshape(x.shape), given, *more))


def _reshape(x: Constant, given: Attributes, shape: Any) -> Constant:
    if given.get("allowzero", 0):
        raise ValueError("allowzero is not supported")
    return x.reshape([x.shape[i] if n == 0 else n for i, n in enumerate(_integers(shape))])


def _flatten(x: Constant, given: Attributes) -> Constant:
    axis = given.get("axis", 1)
    return x.reshape(prod(x.shape[: axis + x.ndim if axis < 0 else axis]), -1)


def _squeeze(x: Constant, given: Attributes, axes: Any = None) -> Constant:
    chosen = given.get("axes") if axes is None else _integers(axes)
    return np.squeeze(x, None if chosen is None else tuple(chosen))


def _unsqueeze(x: Constant, given: Attributes, axes: Any = None) -> Constant:
    return np.expand_dims(x, tuple(given["axes"] if axes is None else _integers(axes)))


def _transpose(x: Constant, given: Attributes) -> Constant:
    return np.transpose(x, given.get("perm"))


def _pad(x: Constant, given: Attributes, pads: Any = None, value: Any = 0.0) -> Constant:
    widths = given["pads"] if pads is None else _integers(pads)
    if given.get("mode", b"constant") != b"constant" or np.any(value) or given.get("value", 0.0):
        raise ValueError("only padding by zeros is supported")
    if x.dtype != np.int64 or max(widths) * x.ndim > MAX_ELEMENTS**0.5:
        raise ValueError("a constant, or too large")
    pairs = zip(widths[: x.ndim], widths[x.ndim :], strict=True)
    return np.pad(x, list(pairs), constant_values=-1)


def _broadcast(value: Any, constant: Any) -> Shape:
    """The result's shape; the tensor itself must not be repeated."""
    if not isinstance(value, Value) or isinstance(constant, Value):
        raise ValueError("exactly one of the operands must be constant")
    shape = np.broadcast_shapes(value.shape, np.shape(constant))
    if prod(shape) != prod(value.shape):
        raise ValueError(f"a tensor {value.shape} would be repeated to {shape}")
    return shape


def array_of(tensor: TensorProto) -> Constant:
    """The numbers stored in a file."""
    if tensor.data_location == TensorProto.EXTERNAL or prod(tensor.dims) > 16 * MAX_ELEMENTS:
        raise Unreadable(f"weights '{tensor.name}' lie outside the file or are too large")
    try:
        return np.asarray(numpy_helper.to_array(tensor))
    except (ValueError, TypeError, KeyError) as error:
        raise Unreadable(f"weights '{tensor.name}' are damaged") from error


def real(x: Any) -> Array:
    """Floats, exactly, as float64."""
    if not isinstance(x, np.ndarray | np.generic) or x.dtype not in (
        np.float16,
        np.float32,
        np.float64,
    ):
        raise ValueError("expected a constant of floats")
    array = np.asarray(x, dtype=np.float64)
    if not (np.abs(array) <= HUGE).all():
        raise ValueError("weights are NaN, infinite or too large")
    return array


def _integers(x: Any) -> list[int]:
    if not isinstance(x, np.ndarray) or x.dtype.kind != "i":
        raise ValueError("expected constant integers")
    return [int(i) for i in x.reshape(-1)]


_CONSTANTS = {"value_float": "f4", "value_floats": "f4", "value_int": "i8", "value_ints": "i8"}
# With the attributes that are understood; a node with any other is refused.
OPERATORS: dict[str, tuple[Callable[..., Any], str]] = {
    "Add": (partial(_sum, sign=1.0), ""),
    "AveragePool": (_average, "auto_pad kernel_shape pads strides ceil_mode count_include_pad"),
    "BatchNormalization": (_normalise, "epsilon momentum training_mode"),
    "Constant": (_constant, " ".join(["value", *_CONSTANTS])),
    "Conv": (_conv, "auto_pad dilations group kernel_shape pads strides"),
    "Div": (_quotient, ""),
    "Dropout": (_same, "ratio seed"),
    "Flatten": (partial(_arranged, change=_flatten), "axis"),
    "Gemm": (_gemm, "alpha beta transA transB"),
    "GlobalAveragePool": (_average, ""),
    "Identity": (_same, ""),
    "MatMul": (_matmul, ""),
    "Mul": (_product, ""),
    "Pad": (partial(_arranged, change=_pad), "mode pads value"),
    "Relu": (partial(_activation, kind="relu"), ""),
    "Reshape": (partial(_arranged, change=_reshape), "allowzero"),
    "Sigmoid": (partial(_activation, kind="sigmoid"), ""),
    "Squeeze": (partial(_arranged, change=_squeeze), "axes"),
    "Sub": (partial(_sum, sign=-1.0), ""),
    "Tanh": (partial(_activation, kind="tanh"), ""),
    "Transpose": (partial(_arranged, change=_transpose), "perm"),
    "Unsqueeze": (partial(_arranged, change=_unsqueeze), "axes"),
}
