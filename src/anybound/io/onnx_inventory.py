"""What an ONNX file holds, told without building the network: for files outside the normal form.

Shapes of intermediate tensors are those that `onnx.shape_inference` finds, if it finds any.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass

import onnx
from onnx import ModelProto, NodeProto, ValueInfoProto

from anybound.io.onnx_file import advice, is_supported

__all__ = ["GraphNode", "GraphTensor", "Inventory", "take_inventory"]

Extent = int | str | None  # a number, a name such as 'batch', or unknown


@dataclass(frozen=True)
class GraphTensor:
    """A named tensor; its shape is None where the file does not say it."""

    name: str
    dtype: str
    shape: tuple[Extent, ...] | None


@dataclass(frozen=True)
class GraphNode:
    """An ONNX node, named after its first output where it has no name, and its outputs."""

    name: str
    operator: str
    outputs: tuple[GraphTensor, ...]
    label: str  # as errors call it
    supported: bool  # whether there is a handler for its operator
    advice: str  # what to do about it if there is none


@dataclass(frozen=True)
class Inventory:
    """The parts of an ONNX model."""

    producer: str
    opset: int
    inputs: tuple[GraphTensor, ...]
    outputs: tuple[GraphTensor, ...]
    nodes: tuple[GraphNode, ...]
    operators: Mapping[str, int]  # how often each occurs, most frequent first
    parameters: int  # floating-point numbers stored as initializers
    dtype: str  # of most of them


def take_inventory(model: ModelProto) -> Inventory:
    """The parts of `model`."""
    graph = model.graph
    stored = {tensor.name for tensor in graph.initializer}
    known = {value.name: value for value in _inferred(model)}
    nodes = tuple(_node(node, known) for node in graph.node)
    sizes = _parameters(model)
    return Inventory(
        producer=f"{_text(model.producer_name)} {_text(model.producer_version)}".strip(),
        opset=max(
            (o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), default=0
        ),
        inputs=tuple(_tensor(value) for value in graph.input if value.name not in stored),
        outputs=tuple(_tensor(known.get(value.name, value)) for value in graph.output),
        nodes=nodes,
        operators=dict(Counter(node.operator for node in nodes).most_common()),
        parameters=sizes.total(),
        dtype=next((dtype for dtype, _ in sizes.most_common(1)), ""),
    )


def _inferred(model: ModelProto) -> Iterable[ValueInfoProto]:
    """All tensors whose shapes are known; those of the file alone where inference gives up."""
    graph = model.graph
    with suppress(onnx.shape_inference.InferenceError, RuntimeError, ValueError):
        graph = onnx.shape_inference.infer_shapes(model).graph
    return [*graph.input, *graph.value_info, *graph.output]


def _node(node: NodeProto, known: Mapping[str, ValueInfoProto]) -> GraphNode:
    outputs = tuple(
        _tensor(known[name]) if name in known else GraphTensor(_text(name), "", None)
        for name in node.output
        if name
    )
    name, first = _text(node.name), _text(next(iter(node.output), ""))
    label = f"node '{name}'" if name else f"node with output '{first}'"
    operator, domain = _text(node.op_type), _text(node.domain)
    operator = operator if domain in ("", "ai.onnx") else f"{domain}.{operator}"
    return GraphNode(
        name or first, operator, outputs, f"{operator} {label}", is_supported(node), advice(node)
    )


def _tensor(value: ValueInfoProto) -> GraphTensor:
    kind = value.type.tensor_type
    shape = tuple(_extent(dim) for dim in kind.shape.dim) if kind.HasField("shape") else None
    return GraphTensor(_text(value.name), _dtype(kind.elem_type), shape)


def _text(text: str | bytes) -> str:
    """protobuf hands over strings that are not UTF-8 as bytes."""
    return text.decode("utf-8", "backslashreplace") if isinstance(text, bytes) else text


def _extent(dim: onnx.TensorShapeProto.Dimension) -> Extent:
    return int(dim.dim_value) if dim.HasField("dim_value") else _text(dim.dim_param) or None


def _dtype(elem_type: int) -> str:
    """ONNX's name of an element type, in lower case: float is float32."""
    try:
        name = str(onnx.TensorProto.DataType.Name(elem_type)).lower()
    except ValueError:
        return f"type {elem_type}"
    return {"undefined": "", "float": "float32", "double": "float64"}.get(name, name)


def _parameters(model: ModelProto) -> Counter[str]:
    """How many floating-point numbers of each type are stored."""
    sizes: Counter[str] = Counter()
    constants = (
        attribute.t
        for node in model.graph.node
        if node.op_type == "Constant"
        for attribute in node.attribute
        if attribute.name == "value"
    )
    for tensor in (*model.graph.initializer, *constants):
        dtype = _dtype(tensor.data_type)
        if "float" in dtype:
            size = 1
            for extent in tensor.dims:
                size *= extent
            sizes[dtype] += size
    return sizes
