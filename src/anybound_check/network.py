"""An ONNX file as a graph of nodes; whatever is not known here is refused.

    node v:   x_v = sum over its edges of W t_source + b,   t_v = sigma(x_v), or x_v itself

Nodes are in topological order and node 0 is the input. Those with an activation are numbered in the
file's order, and so are their neurons, each activation's in C order: `first[k] + i` is neuron i of
activation k, which belongs to the node `acts[k]`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np
import onnx
from google.protobuf.message import DecodeError
from onnx import TensorProto, helper

from anybound_check.arithmetic import Array, Index, Unreadable, gamma
from anybound_check.linear import Linear, Move
from anybound_check.operators import MAX_ELEMENTS, OPERATORS, Constant, Shape, Value, array_of

_REFUSED = (ValueError, LookupError, TypeError, AttributeError, ArithmeticError)


@dataclass(eq=False)
class Node:
    """A tensor of `size` elements."""

    size: int
    edges: list[tuple[int, Linear]] = field(default_factory=list)
    bias: Array | None = None  # [size, 1], within one rounding of the exact one
    activation: str = ""  # "relu", "sigmoid" or "tanh"

    @property
    def exact(self) -> bool:
        """Whether the elements of x_v are copies of others."""
        return self.bias is None and len(self.edges) == 1 and self.edges[0][1].exact

    @property
    def fan(self) -> int:
        """The number of terms in an element of x_v."""
        return sum(op.fan + 1 for _, op in self.edges) + 1


@dataclass(eq=False)
class Network:
    """The graph; `output` is the node that the property speaks of."""

    nodes: list[Node]
    output: int
    shape: Shape  # of the input
    dtype: str  # of the input, "f4" or "f8"
    real_only: bool  # whether the network is not one of float32 sums and products alone

    def __post_init__(self) -> None:
        self.acts = [v for v, node in enumerate(self.nodes) if node.activation]
        self.first = np.cumsum([0, *(self.nodes[v].size for v in self.acts)])
        # More than the terms of any sum in `bounds`: over a map's products, a node's readers, or
        # all elements of all nodes; and a few roundings for each.
        terms = sum(node.size + node.fan + 2 for node in self.nodes)
        self.gamma = gamma(8 * terms + 64)
        # `merged[v]`: the terms of a sum for x_v, those of the summands' own sums included.
        self.merged = [0] * len(self.nodes)
        for v, node in enumerate(self.nodes[1:], 1):
            summands = [s for s, op in node.edges if self.is_summand(s, op)]
            self.merged[v] = node.fan + sum(self.merged[s] for s in summands)

    def is_summand(self, source: int, op: Linear) -> bool:
        """Whether the sum for a node's x may go on from the one for this source of its."""
        return op.exact and source > 0 and not self.nodes[source].activation


def read_network(content: bytes) -> Network:
    """The network of an ONNX file's bytes."""
    try:
        model = onnx.load_model_from_string(content)
    except DecodeError as error:
        raise Unreadable("the network is not an ONNX file") from error
    graph = model.graph
    opsets = {entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")}
    if len(opsets) != 1 or not opsets <= set(range(7, 25)) or len(model.functions):
        raise Unreadable(f"opsets {opsets} or functions; expected one of 7 to 24, and none")
    if len(graph.sparse_initializer) or len(graph.output) != 1:
        raise Unreadable("the network has sparse weights, or not exactly one output")
    builder = Builder(graph)
    for node in graph.node:
        try:
            builder.read(node)
        except _REFUSED as error:
            raise Unreadable(f"{node.op_type} '{node.name}': {str(error)[:200]}") from error
    output = builder.values.get(graph.output[0].name)
    if not isinstance(output, Value):
        raise Unreadable("the output does not depend on the input")
    return Network(builder.nodes, output.node, builder.shape, builder.dtype, builder.real_only)


class Builder:
    """Values by name; `nodes` grows."""

    def __init__(self, graph: onnx.GraphProto) -> None:
        self.values: dict[str, Value | Constant] = {}
        self.real_only, self.elements = False, 0  # of all nodes
        for weight in graph.initializer:
            self._bind(weight.name, array_of(weight))
        inputs = [entry for entry in graph.input if entry.name not in self.values]
        if len(inputs) != 1:
            raise Unreadable(f"the network has {len(inputs)} inputs; expected one")
        tensor = inputs[0].type.tensor_type
        dims = [d.dim_value if d.HasField("dim_value") else 0 for d in tensor.shape.dim]
        self.shape = tuple(1 if axis == 0 and d <= 0 else d for axis, d in enumerate(dims))
        if tensor.elem_type not in (TensorProto.FLOAT, TensorProto.DOUBLE):
            raise Unreadable("the network's input is not a tensor of floats")
        if min(self.shape, default=1) < 1 or prod(self.shape) > MAX_ELEMENTS:
            raise Unreadable(f"the network's input has shape {dims}")
        self.dtype = "f8" if tensor.elem_type == TensorProto.DOUBLE else "f4"
        self.real_only |= self.dtype == "f8"
        self.nodes = [Node(prod(self.shape))]
        self._bind(inputs[0].name, Value(0, self.shape))

    def _bind(self, name: str, value: Value | Constant) -> None:
        if not name or name in self.values:
            raise Unreadable(f"the tensor '{name}' is defined twice, or has no name")
        self.real_only |= isinstance(value, np.ndarray) and value.dtype == np.float64
        self.values[name] = value

    def read(self, node: onnx.NodeProto) -> None:
        operator, allowed = OPERATORS.get(node.op_type, (None, ""))
        attributes = {entry.name: helper.get_attribute_value(entry) for entry in node.attribute}
        unknown = attributes.keys() - set(allowed.split())
        if operator is None or node.domain not in ("", "ai.onnx") or unknown:
            raise ValueError(f"not supported {sorted(unknown) or ''}")
        if len(attributes) < len(node.attribute):
            raise ValueError("an attribute is given twice")
        if any(name and name not in self.values for name in node.input):
            raise ValueError("reads what nothing before it computes")
        inputs: list[Any] = [self.values[name] if name else None for name in node.input]
        (output,) = node.output  # several change what some operators mean
        self._bind(output, operator(self, attributes, *inputs))

    # what operators may do

    def add(
        self, shape: Shape, *edges: tuple[Value, Linear], bias: Any = None, activation: str = ""
    ) -> Value:
        """A new node."""
        size = prod(shape)
        self.elements += size
        if not 1 <= size <= self.elements <= MAX_ELEMENTS:
            raise ValueError(f"a tensor of shape {shape}, or too many of them")
        column = None if bias is None else np.broadcast_to(bias, shape).reshape(size, 1).copy()
        maps = [(value.node, op) for value, op in edges]
        self.nodes.append(Node(size, maps, column, activation))
        return Value(len(self.nodes) - 1, shape)

    def moved(self, value: Value, index: Index) -> Value:
        """The elements with these numbers, in this shape; -1 stands for a zero."""
        flat, size = index.reshape(-1), prod(value.shape)
        if flat.size == size and np.array_equal(flat, np.arange(size)):
            return Value(value.node, index.shape)
        if np.bincount(flat[flat >= 0], minlength=1).max() > 1:
            raise ValueError("copying elements is not supported")
        return self.add(index.shape, (value, Move(flat, size)))
