"""Tensors of the file as arrays: float64 for every float, int64 for every integer, or bool.

All of them are exact: float16, bfloat16, float32 and float64 numbers are float64 numbers. Sizes are
checked against the bytes that are there before anything is allocated.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from pathlib import Path
from types import MappingProxyType

import numpy as np
from onnx import TensorProto, numpy_helper

from anybound.errors import InvalidModel, UnsupportedModel
from anybound.io.onnx_ops.value import Array

# Bytes per element in `raw_data`; the field that holds the numbers otherwise.
_LAYOUT: Mapping[int, tuple[int, str]] = MappingProxyType(
    {
        TensorProto.FLOAT: (4, "float_data"),
        TensorProto.DOUBLE: (8, "double_data"),
        TensorProto.FLOAT16: (2, "int32_data"),
        TensorProto.BFLOAT16: (2, "int32_data"),
        TensorProto.INT8: (1, "int32_data"),
        TensorProto.INT16: (2, "int32_data"),
        TensorProto.INT32: (4, "int32_data"),
        TensorProto.INT64: (8, "int64_data"),
        TensorProto.UINT8: (1, "int32_data"),
        TensorProto.UINT16: (2, "int32_data"),
        TensorProto.UINT32: (4, "uint64_data"),
        TensorProto.BOOL: (1, "int32_data"),
    }
)


def array_of(tensor: TensorProto, label: str, directory: Path | None = None) -> Array:
    """The numbers of a tensor; external data is looked for in `directory` and nowhere else."""
    if tensor.data_type not in _LAYOUT:
        raise UnsupportedModel(
            f"{label}: tensors of {type_name(tensor.data_type)} are not supported; "
            "export with floats, integers or booleans"
        )
    width, field = _LAYOUT[tensor.data_type]
    dims = tuple(tensor.dims)
    if tensor.data_location == TensorProto.EXTERNAL:
        held = TensorProto()
        held.CopyFrom(tensor)
        held.data_location = TensorProto.DEFAULT
        del held.external_data[:]
        held.raw_data = _external(tensor, label, directory)
        tensor = held
    if tensor.HasField("raw_data"):
        count, rest = divmod(len(tensor.raw_data), width)
    else:
        count, rest = len(getattr(tensor, field)), 0
    if min(dims, default=0) < 0 or rest or count != prod(dims):
        raise InvalidModel(f"{label}: {count} numbers do not fill a tensor of shape {dims}")
    return normalised(numpy_helper.to_array(tensor))


def normalised(array: Array) -> Array:
    """The same numbers as float64, int64 or bool."""
    if array.dtype.kind in "iu":
        return array.astype(np.int64)
    with np.errstate(
        invalid="ignore"
    ):  # a signalling NaN becomes a quiet one, refused where it is used
        return array if array.dtype.kind == "b" else array.astype(np.float64)


def type_name(data_type: int) -> str:
    names = TensorProto.DataType
    return names.Name(data_type) if data_type in names.values() else f"element type {data_type}"


def _external(tensor: TensorProto, label: str, directory: Path | None) -> bytes:
    """The bytes that a tensor keeps in another file, which must lie beside the model."""
    entries = {entry.key: entry.value for entry in tensor.external_data}
    location = entries.get("location", "")
    if directory is None or not location:
        raise InvalidModel(
            f"{label}: its data is in another file, which is not named or not allowed"
        )
    root = directory.resolve()
    path = (root / location).resolve()
    if not path.is_relative_to(root):
        raise InvalidModel(f"{label}: external data '{location}' is outside the model's directory")
    if not path.is_file():
        raise InvalidModel(
            f"{label}: external data '{location}' is missing; put it beside the model"
        )
    offset, length = entries.get("offset", "0"), entries.get("length", "")
    if not (offset.isdecimal() and (length.isdecimal() or not length)):
        raise InvalidModel(f"{label}: external data '{location}' has no valid offset and length")
    available = path.stat().st_size - int(offset)
    wanted = int(length) if length else available
    if not 0 <= wanted <= available:
        raise InvalidModel(f"{label}: external data '{location}' is shorter than the tensor needs")
    with path.open("rb") as file:
        file.seek(int(offset))
        content: bytes = file.read(wanted)
    return content
