"""From the nodes of a graph to those of a network: one value per tensor, in the file's order."""

from __future__ import annotations

from collections import Counter

import torch
from onnx import NodeProto

from anybound.errors import AnyboundError, InvalidModel, UnsupportedModel
from anybound.io.onnx_file import OnnxFile, is_supported, unsupported_line
from anybound.io.onnx_ops.algebra import regrouped, tensor
from anybound.io.onnx_ops.op import Op
from anybound.io.onnx_ops.table import HANDLERS
from anybound.io.onnx_ops.value import Affine, Constant, Term, Value
from anybound.model.activations.activation import Activation
from anybound.model.activations.identity import Identity as IdentityActivation
from anybound.model.affine.chain import Chain
from anybound.model.affine.conv_transpose import ConvTranspose
from anybound.model.affine.fuse import compose
from anybound.model.affine.map import AffineMap, Shape, Weighted
from anybound.model.affine.scale import Scale
from anybound.model.affine.structural import Gather, Identity
from anybound.model.network import Edge, Network, Node

_SCALAR = (1,)  # the shape of a node for one number without axes: every node is a vector at least
_MAX_TERMS = 16  # of a value; beyond it, a node of its own keeps the graph small
_SHAPE_ONLY = ("Shape", "Size")  # operators that do not look at the numbers


class GraphReader:
    """One pass over a graph; the network grows in `nodes`."""

    def __init__(self, file: OnnxFile) -> None:
        self.file = file
        shape = file.input_shape
        first = shape or _SCALAR
        self.nodes: list[Node] = [Node(first, name=file.input.name)]
        self.values: dict[str, Value] = {}
        self.readers = Counter(
            name for node in file.nodes if node.op_type not in _SHAPE_ONLY for name in node.input
        )
        self.readers[file.output.name] += 1
        self.values.update(file.weights())
        self.values[file.input.name] = Affine((Term(0, Identity.of(first)),), shape)

    def network(self) -> Network:
        for node in self.file.nodes:
            self._read(node)
        name = self.file.output.name
        if name not in self.values:
            raise InvalidModel(f"output '{name}' is computed by no node")
        return Network((*self.nodes, self._output(self.values[name], name)))

    # what handlers may do

    def activate(self, value: Affine, activation: Activation, name: str) -> Affine:
        shape = value.layout or _SCALAR
        self.nodes.append(self._node(value, shape, activation, name))
        return Affine((Term(len(self.nodes) - 1, Identity.of(shape)),), value.shape)

    def settled(self, value: Affine, name: str) -> Affine:
        return value if _is_cheap(value) else self.activate(value, IdentityActivation(), name)

    # one node

    def _read(self, node: NodeProto) -> None:
        op = self._op(node)
        try:
            made = HANDLERS[node.op_type](op)
        except AnyboundError as error:
            raise op.named(error) from None
        # Handlers check what they can foresee. What numpy or torch refuses beyond it (a shape that
        # does not fit, an index out of range) is the file's fault as well, and this node's.
        except (ValueError, IndexError, RuntimeError, OverflowError) as error:
            raise op.invalid(str(error).partition("\n")[0]) from None
        results = made if isinstance(made, tuple) else (made,)
        for name, value in zip(node.output, results, strict=False):
            if name:
                self._bind(op, name, value)

    def _op(self, node: NodeProto) -> Op:
        if not is_supported(node):
            raise UnsupportedModel(unsupported_line(node, self.file.opset))
        if not node.output:
            raise InvalidModel(f"{node.op_type} node '{node.name}' has no output")
        for name in node.input:
            if name and name not in self.values:
                raise InvalidModel(
                    f"{node.op_type} node '{node.name or node.output[0]}' reads '{name}', "
                    "which nothing before it computes"
                )
        return Op(
            kind=node.op_type,
            name=node.name,
            opset=self.file.opset,
            inputs=tuple(self.values[name] if name else None for name in node.input),
            outputs=tuple(node.output),
            attributes={attribute.name: attribute for attribute in node.attribute},
            builder=self,
        )

    def _bind(self, op: Op, name: str, value: Value) -> None:
        if name in self.values:
            raise op.invalid(f"computes '{name}', which exists already")
        if isinstance(value, Affine):
            if value.size == 0:
                raise op.invalid(f"computes an empty tensor of shape {value.shape}")
            if self.readers[name] > 1:
                value = self.settled(value, name)
            elif len(value.terms) > _MAX_TERMS:
                value = self.activate(value, IdentityActivation(), name)
        self.values[name] = value

    # nodes of the network

    def _output(self, value: Value, name: str) -> Node:
        if isinstance(value, Constant):
            value = _constant_output(value, self.nodes[0].shape)
        return self._node(value, value.shape or _SCALAR, None, name)

    def _node(self, value: Affine, shape: Shape, activation: Activation | None, name: str) -> Node:
        edges = tuple(Edge(term.source, regrouped(term.map, shape)) for term in value.terms)
        for edge in edges:
            if not _is_finite(edge.map):
                raise InvalidModel(f"'{name}': its weights are, or become, NaN or infinite")
        return Node(shape, edges, activation, name)


def _is_cheap(value: Affine) -> bool:
    """Whether copying the value costs no more than reading a tensor."""
    return len(value.terms) <= 2 and all(term.map.fan_in <= 1 for term in value.terms)


def _is_finite(map_: AffineMap) -> bool:
    if map_.bias is not None and not bool(torch.isfinite(map_.bias).all()):
        return False
    match map_:
        case Chain():
            return all(_is_finite(part) for part in map_.maps)
        case ConvTranspose():
            return _is_finite(map_.twin)
        case Weighted():
            return bool(torch.isfinite(map_.weight).all())
    return True


def _constant_output(value: Constant, in_shape: Shape) -> Affine:
    """b as 0·z_0 + b: the normal form has no node without an edge."""
    index = torch.zeros(value.shape, dtype=torch.int64)
    nothing = Scale.of(value.shape, torch.zeros((), dtype=torch.float64))
    zero = compose(nothing, Gather.of(in_shape, index))
    return Affine((Term(0, zero.with_bias(tensor(value.array), value.error)),), value.shape)
