"""Operators that yield constants, or only ever work on constants: the arithmetic of shapes."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np
from numpy.typing import DTypeLike
from onnx import TensorProto

from anybound.io.onnx_ops.algebra import expanded
from anybound.io.onnx_ops.op import Op
from anybound.io.onnx_ops.tensors import array_of, normalised, type_name
from anybound.io.onnx_ops.value import Affine, Array, Constant, Value

_FLOATS: Mapping[int, DTypeLike] = MappingProxyType(
    {
        TensorProto.FLOAT: np.float32,
        TensorProto.DOUBLE: np.float64,
    }
)
_INTEGERS: Mapping[int, DTypeLike] = MappingProxyType(
    {
        TensorProto.INT8: np.int8,
        TensorProto.INT16: np.int16,
        TensorProto.INT32: np.int32,
        TensorProto.INT64: np.int64,
        TensorProto.UINT8: np.uint8,
        TensorProto.UINT16: np.uint16,
        TensorProto.UINT32: np.uint32,
    }
)


def constant(op: Op) -> Value:
    given = [name for name in op.attributes if name != "value_string"]
    match given:
        case ["value"]:
            tensor = op.tensor("value")
            if tensor is None:
                raise op.invalid("has no value")
            return Constant(array_of(tensor, op.label))
        case ["value_float"]:
            return Constant(np.array(op.real("value_float", 0.0)))
        case ["value_floats"]:
            return Constant(np.array(op.reals("value_floats"), dtype=np.float64))
        case ["value_int"]:
            return Constant(np.array(op.integer("value_int", 0), dtype=np.int64))
        case ["value_ints"]:
            return Constant(np.array(op.ints("value_ints", ()), dtype=np.int64))
    raise op.unsupported(
        f"has attributes {sorted(op.attributes)}; expected one dense numeric value"
    )


def constant_of_shape(op: Op) -> Value:
    shape = op.room(tuple(int(extent) for extent in op.integers(0, "the shape").reshape(-1)))
    tensor = op.tensor("value")
    fill = np.zeros(1) if tensor is None else array_of(tensor, op.label)
    if fill.size != 1:
        raise op.invalid(f"needs one value to fill with, got {fill.size}")
    return Constant(np.full(shape, fill.reshape(-1)[0]))


def shape_(op: Op) -> Value:
    value = op.value(0)
    rank = len(value.shape)
    start, end = op.integer("start", 0), op.integer("end", rank)
    return Constant(np.array(value.shape, dtype=np.int64)[start:end])


def size(op: Op) -> Value:
    return Constant(np.array(op.value(0).size, dtype=np.int64))


def range_(op: Op) -> Value:
    start, limit, delta = (op.constant(k, "an end of the range") for k in range(3))
    if any(v.size != 1 for v in (start, limit, delta)) or not delta.array.all():
        raise op.invalid("needs three numbers, the last of them not zero")
    ends = [v.array.reshape(-1)[0] for v in (start, limit, delta)]
    if any(v.is_float for v in (start, limit, delta)):
        raise op.unsupported("has real ends; only ranges of integers are read")
    first, last, step = (int(end) for end in ends)
    op.room((max(0, -(-(last - first) // step)),))
    return Constant(np.arange(first, last, step, dtype=np.int64))


def cast(op: Op) -> Value:
    value = op.value(0)
    to = op.integer("to", TensorProto.FLOAT)
    if isinstance(value, Affine):
        if to in _FLOATS:
            return value
        raise op.unsupported(
            f"casts a value that depends on the network's input to {type_name(to)}, which rounds; "
            "only casts to float and double are affine"
        )
    return Constant(_converted(op, value, to), value.error)


def _converted(op: Op, value: Constant, to: int) -> Array:
    if to == TensorProto.BOOL:
        return value.array.astype(np.bool_)
    kind = _FLOATS.get(to, _INTEGERS.get(to))
    if kind is None:
        raise op.unsupported(f"casts to {type_name(to)}; supported are floats, integers and bool")
    if to in _INTEGERS and value.is_float:
        if value.error or not (np.abs(value.array) < 2.0**31).all():
            raise op.unsupported("casts a number to an integer that does not determine it")
        return value.array.astype(np.int64)
    return normalised(value.array.astype(kind))


def equal(op: Op) -> Value:
    a, b = op.constant(0, "an operand"), op.constant(1, "an operand")
    op.broadcast(a.shape, b.shape)
    if a.error or b.error:
        raise op.unsupported("compares numbers that are rounded")
    return Constant(np.asarray(a.array == b.array))


def where(op: Op) -> Value:
    """The choice is constant; so is each entry's side."""
    condition = op.constant(0, "the condition").array
    a, b = op.value(1), op.value(2)
    shape = op.broadcast(condition.shape, a.shape, b.shape)
    if condition.dtype.kind != "b":
        raise op.invalid("the condition must be boolean")
    if condition.all():
        return expanded(a, shape)
    if not condition.any():
        return expanded(b, shape)
    if isinstance(a, Constant) and isinstance(b, Constant):
        return Constant(np.where(condition, a.array, b.array), max(a.error, b.error))
    raise op.unsupported("mixes entries of two values by a mask; multiply by the mask instead")


def floor(op: Op) -> Value:
    return Constant(np.floor(_rounded(op)))


def ceil(op: Op) -> Value:
    return Constant(np.ceil(_rounded(op)))


def _rounded(op: Op) -> Array:
    value = op.floats(0, "the argument")
    if value.error:
        raise op.unsupported("rounds a constant that is itself rounded")
    return value.array.astype(np.float64)
