"""ONNX's operators: (builder, attributes, *inputs) -> a value. Inputs are values that depend on the
network's input, constants, or None. What is not as expected raises, and the network is refused."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto, numpy_helper

from anybound_check.arithmetic import HUGE, Array, Unreadable
from anybound_check.linear import Matrix, Move, linear

MAX_ELEMENTS = 2**24
Shape = tuple[int, ...]
Constant = NDArray[Any]
Given = dict[str, Any]  # the attributes
Builder = Any  # `network.Builder`, which imports this module; so operators return Any


class Value(NamedTuple):
    """A tensor that depends on the input: which node holds it, and its shape."""

    node: int
    shape: Shape


def _activation(r: Builder, _: Given, x: Value, *, kind: str) -> Any:
    return r.add(x.shape, (x, Move()), activation=kind)


def _sum(r: Builder, _: Given, a: Any, b: Any, *, sign: float) -> Any:
    """a + sign b."""
    if isinstance(b, Value) and sign != 1:
        b = _product(r, {}, b, np.full((), float(sign)))
    if not isinstance(b, Value):
        return r.add(_broadcast(a, b), (a, Move()), bias=sign * real(b))
    if not isinstance(a, Value):
        return r.add(_broadcast(b, a), (b, Move()), bias=real(a))
    if a.shape != b.shape:
        raise ValueError(f"shapes {a.shape} and {b.shape} differ")
    return r.add(a.shape, (a, Move()), (b, Move()))


def _product(r: Builder, _: Given, a: Any, b: Any, *, divide: bool = False) -> Any:
    value, constant = (a, b) if divide or isinstance(a, Value) else (b, a)
    shape, factor = _broadcast(value, constant), real(constant)
    factor = np.broadcast_to(1.0 / factor if divide else factor, shape).reshape(-1, 1, 1)
    return r.add(shape, (value, Matrix(real(factor.copy()), len(factor), roundings=6)))


def _gemm(r: Builder, given: Given, a: Value, b: Any, c: Any = None) -> Any:
    weight = real(b) if given.get("transB", 0) else real(b).T
    if weight.ndim != 2 or given.get("transA", 0) or a.shape != (1, weight.shape[1]):
        raise ValueError(f"transA, or an input {a.shape} for weights {weight.shape}")
    # A factor may lift what has underflowed, or lower what has overflowed.
    r.real_only |= not given.get("alpha", 1.0) == given.get("beta", 1.0) == 1.0
    op = linear(real(given.get("alpha", 1.0) * weight))
    bias = None if c is None else real(given.get("beta", 1.0) * real(c))
    return r.add((1, len(weight)), (a, op), bias=bias)


def _matmul(r: Builder, _: Given, a: Any, b: Any) -> Any:
    first = isinstance(a, Value)  # x W, else W x
    value, weight = (a, real(b).T) if first else (b, real(a))
    last = len(value.shape) - (1 if first or len(value.shape) == 1 else 2)
    lead, rest = value.shape[:last], value.shape[last + 1 :]
    if weight.ndim != 2 or weight.shape[1] != value.shape[last]:
        raise ValueError(f"a matrix {weight.shape} meets a tensor {value.shape}")
    weight, count = np.ascontiguousarray(weight), prod(lead)
    op = Matrix(weight[None], count) if rest or count > 1 else linear(weight)
    return r.add((*lead, len(weight), *rest), (value, op))


def _windows(given: Given, shape: Shape, kernel: Shape) -> list[NDArray[np.int64]]:
    """For each spatial axis, [taps, places]: which entry each tap sees; -1 outside."""
    rank, result = len(shape), []
    strides, dilations = (given.get(key, [1] * rank) for key in ("strides", "dilations"))
    pads = given.get("pads", [0] * 2 * rank)
    understood = {b"NOTSET"} if any(pads) else {b"NOTSET", b"VALID"}  # VALID has no pads
    if not {type(n) for numbers in (strides, dilations, pads) for n in numbers} <= {int}:
        raise ValueError("strides, dilations or pads are no integers")
    if given.get("auto_pad", b"NOTSET") not in understood or given.get("ceil_mode", 0):
        raise ValueError("auto_pad or ceil_mode")
    if not rank == len(kernel) == len(strides) == len(dilations) == len(pads) / 2 or min(pads) < 0:
        raise ValueError(f"kernel {kernel}, strides {strides}, dilations {dilations}, pads {pads}")
    for i, (size, k, s, d) in enumerate(zip(shape, kernel, strides, dilations, strict=True)):
        places = (size + pads[i] + pads[rank + i] - d * (k - 1) - 1) // s + 1
        padding = max(pads[i], pads[rank + i])
        if min(k, s, d, places) < 1 or padding > size + k or k * places > MAX_ELEMENTS:
            raise ValueError("the kernel does not fit, or is too large")
        entry = np.arange(k)[:, None] * d + np.arange(places) * s - pads[i]
        result.append(np.where((entry >= 0) & (entry < size), entry, -1))
    return result


def _conv(r: Builder, given: Given, x: Value, w: Any, b: Any = None) -> Any:
    weight, (batch, channels, *spatial) = real(w), x.shape
    groups, (filters, each, *kernel) = given.get("group", 1), weight.shape
    if tuple(given.get("kernel_shape", kernel)) != tuple(kernel):
        raise ValueError("kernel_shape differs from the weight's")
    if batch != 1 or groups < 1 or groups * each != channels or filters % groups:
        raise ValueError(f"input {x.shape}, weight {weight.shape}, {groups} groups")
    windows = _windows(given, tuple(spatial), tuple(kernel))
    if channels * prod(window.size for window in windows) > 4 * MAX_ELEMENTS:
        raise ValueError("the convolution is too large")
    taps = np.arange(channels)[:, None, None]
    for size, window in zip(spatial, windows, strict=True):  # the number of the entry seen, or -1
        outer, inner = taps[:, :, None, :, None], window[:, None, :]
        taps = np.where((outer < 0) | (inner < 0), -1, outer * size + inner)
        taps = taps.reshape(channels, taps.shape[1] * taps.shape[2], -1)
    op = Matrix(weight.reshape(groups, filters // groups, -1), groups, taps, prod(x.shape))
    bias = None if b is None else real(b).reshape(-1, *[1] * len(spatial))
    return r.add((1, filters, *(window.shape[1] for window in windows)), (x, op), bias=bias)


def _average(r: Builder, given: Given, x: Value) -> Any:
    kernel = tuple(given.get("kernel_shape", x.shape[2:]))
    if any(given.get("pads", ())) and not given.get("count_include_pad", 0):
        raise ValueError("padding that does not count is not supported")
    if not all(1 <= k <= size for k, size in zip(kernel, x.shape[2:], strict=True)):
        raise ValueError(f"a window {kernel} of an input {x.shape}")
    sums = _conv(r, {**given, "group": x.shape[1]}, x, np.ones((x.shape[1], 1, *kernel)))
    return _product(r, {}, sums, np.full((), float(prod(kernel))), divide=True)


def _maximum(r: Builder, given: Given, x: Value) -> Any:
    """Axis by axis, by pairs: max(a, b) = b + relu(a - b). An entry outside a window counts as its
    first inside; equal taps count once, and they are taken in ascending order."""
    for axis, window in enumerate(_windows(given, x.shape[2:], tuple(given["kernel_shape"])), 2):
        inside = np.take_along_axis(window, (window >= 0).argmax(0)[None], 0)
        taps = np.unique(np.where(window >= 0, window, inside), axis=0)
        if taps.min() < 0:
            raise ValueError("a window lies in the padding altogether")
        numbers = np.arange(prod(x.shape)).reshape(x.shape)
        level = [r.moved(x, np.take(numbers, tap, axis)) for tap in taps]
        while len(level) > 1:
            pairs = list(zip(level[::2], level[1::2], strict=False))
            over = [_sum(r, {}, a, b, sign=-1) for a, b in pairs]
            bent = [_activation(r, {}, difference, kind="relu") for difference in over]
            joined = [_sum(r, {}, c, b, sign=1) for c, (_, b) in zip(bent, pairs, strict=True)]
            level = joined + level[2 * len(pairs) :]
        x = level[0]
    return x


def _normalise(r: Builder, given: Given, x: Value, *parameters: Any) -> Any:
    shape = (x.shape[1], *[1] * (len(x.shape) - 2))
    scale, shift, mean, variance = (real(part).reshape(shape) for part in parameters)
    epsilon = given.get("epsilon", float(np.float32(1e-5)))
    if given.get("training_mode", 0) or not (variance.min() >= 0 and epsilon >= 0):
        raise ValueError("training mode, or a negative variance")
    r.real_only = True  # it is computed in many ways
    centred = r.add(x.shape, (x, Move()), bias=-mean)
    scaled = _product(r, {}, centred, scale / np.sqrt(variance + epsilon))
    return r.add(x.shape, (scaled, Move()), bias=shift)


def _constant(_: Builder, given: Given) -> Constant:
    [(name, value)] = given.items()
    return array_of(value) if name == "value" else np.array(value, _CONSTANTS[name])


def _arranged(r: Builder, given: Given, x: Any, *more: Any, change: Callable[..., Any]) -> Any:
    """For operators that only move elements: `change` does it to an array of their numbers."""
    if not isinstance(x, Value):
        return np.asarray(change(np.asarray(x), given, *more))
    return r.moved(x, change(np.arange(prod(x.shape)).reshape(x.shape), given, *more))


def _same(x: Constant, _: Given, _ratio: Any = None, training: Any = False) -> Constant:
    if np.any(np.asarray(training)):
        raise ValueError("training mode is not supported")
    return x


def _reshape(x: Constant, given: Given, shape: Any) -> Constant:
    if given.get("allowzero", 0):
        raise ValueError("allowzero is not supported")
    return x.reshape([x.shape[i] if n == 0 else n for i, n in enumerate(_integers(shape))])


def _flatten(x: Constant, given: Given) -> Constant:
    axis = given.get("axis", 1)
    return x.reshape(prod(x.shape[: axis + x.ndim if axis < 0 else axis]), -1)


def _axes(x: Constant, given: Given, axes: Any = None, *, change: Callable[..., Any]) -> Constant:
    chosen = given.get("axes") if axes is None else _integers(axes)
    return np.asarray(change(x, None if chosen is None else tuple(chosen)))


def _transpose(x: Constant, given: Given) -> Constant:
    return np.transpose(x, given.get("perm"))


def _pad(r: Builder, given: Given, x: Value, pads: Any = None, value: Any = 0.0) -> Any:
    """Of values only: their elements' numbers are padded by -1."""
    widths, rank = given["pads"] if pads is None else _integers(pads), len(x.shape)
    if given.get("mode", b"constant") != b"constant" or np.any(value) or given.get("value", 0.0):
        raise ValueError("only padding by zeros is supported")
    if max(widths) * rank > MAX_ELEMENTS**0.5:
        raise ValueError("too large")
    pairs = list(zip(widths[:rank], widths[rank:], strict=True))
    numbers = np.arange(prod(x.shape)).reshape(x.shape)
    return r.moved(x, np.pad(numbers, pairs, constant_values=-1))


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
    if not isinstance(x, np.ndarray | np.generic) or x.dtype not in ("f2", "f4", "f8"):
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
_POOL = "auto_pad ceil_mode kernel_shape pads strides"
# With the attributes that are understood; a node with any other is refused.
OPERATORS: dict[str, tuple[Callable[..., Any], str]] = {
    "Add": (partial(_sum, sign=1.0), ""),
    "AveragePool": (_average, f"{_POOL} count_include_pad"),
    "BatchNormalization": (_normalise, "epsilon momentum training_mode"),
    "Constant": (_constant, " ".join(["value", *_CONSTANTS])),
    "Conv": (_conv, "auto_pad dilations group kernel_shape pads strides"),
    "Div": (partial(_product, divide=True), ""),
    "Dropout": (partial(_arranged, change=_same), "ratio seed"),
    "Flatten": (partial(_arranged, change=_flatten), "axis"),
    "Gemm": (_gemm, "alpha beta transA transB"),
    "GlobalAveragePool": (_average, ""),
    "Identity": (partial(_arranged, change=_same), ""),
    "MatMul": (_matmul, ""),
    "MaxPool": (_maximum, f"{_POOL} dilations storage_order"),
    "Mul": (_product, ""),
    "Pad": (_pad, "mode pads value"),
    "Relu": (partial(_activation, kind="relu"), ""),
    "Reshape": (partial(_arranged, change=_reshape), "allowzero"),
    "Sigmoid": (partial(_activation, kind="sigmoid"), ""),
    "Squeeze": (partial(_arranged, change=partial(_axes, change=np.squeeze)), "axes"),
    "Sub": (partial(_sum, sign=-1.0), ""),
    "Tanh": (partial(_activation, kind="tanh"), ""),
    "Transpose": (partial(_arranged, change=_transpose), "perm"),
    "Unsqueeze": (partial(_arranged, change=partial(_axes, change=np.expand_dims)), "axes"),
}
