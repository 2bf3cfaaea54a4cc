"""The parsed file: its graph, opset, weights, inputs and outputs, checked before they are used."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from math import prod
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError
from onnx import ModelProto, NodeProto, TensorProto, ValueInfoProto

from anybound.errors import InvalidModel, UnsupportedModel
from anybound.io.model_info import ModelInfo, TensorInfo
from anybound.io.onnx_ops.op import MAX_ELEMENTS
from anybound.io.onnx_ops.table import HANDLERS, OLDEST_OPSET
from anybound.io.onnx_ops.tensors import array_of, type_name
from anybound.io.onnx_ops.value import Constant
from anybound.model.affine.map import Shape

_DOMAINS = ("", "ai.onnx")
_REAL = (TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.BFLOAT16)
_KEEP_ORDER = ("Softmax", "LogSoftmax", "Hardmax", "ArgMax")


def open_model(content: bytes, path: Path) -> OnnxFile:
    """The file's content as a model; external data is looked for beside it."""
    try:
        proto = onnx.load_model_from_string(content)
    except DecodeError:
        raise InvalidModel(f"{path}: is not an ONNX model, or a damaged one") from None
    if not proto.graph.node or not proto.graph.output:
        raise InvalidModel(f"{path}: holds no graph; is it an ONNX model?")
    return OnnxFile(proto, path.parent)


@dataclass(frozen=True, eq=False)
class OnnxFile:
    """A model and the directory its external data may lie in."""

    proto: ModelProto
    directory: Path | None

    @cached_property
    def opset(self) -> int:
        versions = [entry.version for entry in self.proto.opset_import if entry.domain in _DOMAINS]
        if not versions:
            raise InvalidModel("the model names no opset of ONNX's own operators")
        newest = onnx.defs.onnx_opset_version()
        version = int(max(versions))
        if not OLDEST_OPSET <= version <= newest:
            raise UnsupportedModel(
                f"the model has opset {version}; opsets {OLDEST_OPSET} to {newest} are read "
                "(convert it with onnx.version_converter, or update onnx)"
            )
        return version

    @cached_property
    def nodes(self) -> tuple[NodeProto, ...]:
        """The nodes that the outputs depend on, in the file's order."""
        needed = {value.name for value in self.proto.graph.output}
        kept = []
        for node in reversed(self.proto.graph.node):
            if any(name and name in needed for name in node.output):
                kept.append(node)
                needed.update(node.input)
        return tuple(reversed(kept))

    @cached_property
    def input(self) -> ValueInfoProto:
        """The one input that is not a weight."""
        inputs = self._inputs()
        if len(inputs) != 1:
            names = ", ".join(f"'{value.name}'" for value in inputs) or "none"
            raise UnsupportedModel(
                f"the network must have one input, got {len(inputs)} ({names}); "
                "merge several into one and split it inside, or bind all but one"
            )
        if inputs[0].type.tensor_type.elem_type not in _REAL:
            raise UnsupportedModel(
                f"input '{inputs[0].name}' is of type {_element_type(inputs[0])}; "
                "expected real numbers"
            )
        return inputs[0]

    @cached_property
    def output(self) -> ValueInfoProto:
        outputs: list[ValueInfoProto] = list(self.proto.graph.output)
        if len(outputs) != 1:
            names = ", ".join(f"'{value.name}'" for value in outputs)
            raise UnsupportedModel(
                f"the network must have one output, got {len(outputs)} ({names}); "
                "extract one with onnx.utils.extract_model, or concatenate them"
            )
        return outputs[0]

    @property
    def input_shape(self) -> Shape:
        """The input's shape, with a free leading axis (the batch) as 1."""
        name, shape = self.input.name, _shape(self.input)
        if shape is None:
            raise UnsupportedModel(f"input '{name}' has no shape; export the model with one")
        for axis, extent in enumerate(shape):
            if extent is None and axis > 0:
                raise UnsupportedModel(
                    f"axis {axis} of input '{name}' is not fixed; only the leading (batch) axis "
                    "may be free, export the model with the others fixed"
                )
        fixed = tuple(1 if extent is None else extent for extent in shape)
        if prod(fixed) > MAX_ELEMENTS:
            raise InvalidModel(
                f"input '{name}' of shape {fixed} has more than {MAX_ELEMENTS} numbers"
            )
        return fixed

    def weights(self) -> Iterator[tuple[str, Constant]]:
        """The initialisers that a needed node reads."""
        if self.proto.graph.sparse_initializer:
            raise UnsupportedModel("the model has sparse initialisers; export it with dense ones")
        used = {name for node in self.nodes for name in node.input}
        used.update(value.name for value in self.proto.graph.output)
        for tensor in self.proto.graph.initializer:
            if tensor.name in used:
                label = f"initialiser '{tensor.name}'"
                yield tensor.name, Constant(array_of(tensor, label, self.directory))

    def info(self) -> ModelInfo:
        """Everything that is said in the file, without reading the weights."""
        graph = self.proto.graph
        weights: Counter[str] = Counter()
        for tensor in graph.initializer:
            weights[type_name(tensor.data_type)] += prod(tensor.dims)
        narrow = [name for name in weights if name in ("FLOAT16", "BFLOAT16", "DOUBLE")]
        inputs = self._inputs()
        return ModelInfo(
            opset=self.opset,
            ir_version=self.proto.ir_version,
            producer=f"{self.proto.producer_name} {self.proto.producer_version}".strip(),
            inputs=tuple(_tensor_info(value) for value in inputs),
            outputs=tuple(_tensor_info(value) for value in graph.output),
            operators=Counter(node.op_type for node in graph.node),
            weights=weights,
            notes=(
                *(f"{weights[name]} weights are {name}; they are read exactly" for name in narrow),
                *(f"the free batch axis of '{v.name}' is 1" for v in inputs if _is_free(v)),
            ),
        )

    def _inputs(self) -> list[ValueInfoProto]:
        # Until IR version 3, weights had to be listed as inputs too.
        weights = {tensor.name for tensor in self.proto.graph.initializer}
        return [value for value in self.proto.graph.input if value.name not in weights]


def is_supported(node: NodeProto) -> bool:
    return node.domain in _DOMAINS and node.op_type in HANDLERS


def unsupported_line(node: NodeProto, opset: int) -> str:
    """One line about an operator outside the normal form."""
    name = (
        f"node '{node.name}'" if node.name else f"node with output '{next(iter(node.output), '')}'"
    )
    operator = f"{node.domain}.{node.op_type}" if node.domain not in _DOMAINS else node.op_type
    return (
        f"{operator} {name} (opset {opset}): the operator is outside the normal form of affine "
        f"maps and elementwise activations; {advice(node)}"
    )


def advice(node: NodeProto) -> str:
    """What to do about an operator outside the normal form, with the tensor that it reads."""
    at = f", at '{node.input[0]}'," if node.input else ""
    text = f"replace it, or cut the model before it{at} with onnx.utils.extract_model"
    if node.op_type in _KEEP_ORDER:
        return (
            f"{text} (at the end of a classifier it can go: the largest output stays the largest)"
        )
    return text


def _shape(value: ValueInfoProto) -> tuple[int | None, ...] | None:
    """The extents, None where the file leaves one open; None altogether if it gives no shape."""
    tensor = value.type.tensor_type
    if not tensor.HasField("shape"):
        return None
    return tuple(dim.dim_value if dim.dim_value > 0 else None for dim in tensor.shape.dim)


def _is_free(value: ValueInfoProto) -> bool:
    shape = _shape(value)
    return bool(shape) and shape is not None and shape[0] is None


def _element_type(value: ValueInfoProto) -> str:
    return type_name(value.type.tensor_type.elem_type)


def _tensor_info(value: ValueInfoProto) -> TensorInfo:
    return TensorInfo(value.name, _element_type(value), _shape(value) or ())
