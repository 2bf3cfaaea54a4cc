"""Random networks of a few neurons as ONNX files, and properties of them as VNN-LIB files."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from onnx import NodeProto, TensorProto, helper, numpy_helper

KINDS = ("gemm", "matmul", "residual", "conv", "pool")
Rows = Sequence[tuple[str, str]]  # left <= right


class Graph:
    """Nodes that follow each other; random weights, biases of size `bias`."""

    def __init__(self, rng: np.random.Generator, bias: float = 0.3) -> None:
        self.rng, self.bias = rng, bias
        self.nodes: list[NodeProto] = []
        self.weights: dict[str, NDArray[np.generic]] = {}

    def weight(self, *shape: int, scale: float = 1.0) -> str:
        name = f"w{len(self.weights)}"
        self.weights[name] = (self.rng.normal(size=shape) * scale).astype(np.float32)
        return name

    def op(self, kind: str, *inputs: str, **attributes: object) -> str:
        name = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], **attributes))
        return name

    def dense(self, x: str, inputs: int, outputs: int, gemm: bool = True) -> str:
        scale = np.sqrt(2 / inputs)
        if gemm:
            w, b = self.weight(outputs, inputs, scale=scale), self.weight(outputs, scale=self.bias)
            return self.op("Gemm", x, w, b, transB=1)
        y = self.op("MatMul", x, self.weight(inputs, outputs, scale=scale))
        return self.op("Add", y, self.weight(outputs, scale=self.bias))

    def content(self, last: str, shape: Sequence[int]) -> bytes:
        assert self.nodes[-1].output[0] == last
        self.nodes[-1].output[0] = "y"
        graph = helper.make_graph(
            self.nodes,
            "tiny",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, list(shape))],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
            [numpy_helper.from_array(w, name) for name, w in self.weights.items()],
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
        content: bytes = model.SerializeToString()
        return content


def network(
    rng: np.random.Generator,
    kind: str,
    outputs: int = 2,
    activation: str = "Relu",
    widest: int = 5,
    bias: float = 0.3,
) -> tuple[bytes, int]:
    """An ONNX file, and the number of its inputs: 2, for convolutions 4."""
    graph = Graph(rng, bias)
    if kind in ("conv", "pool"):
        return _convolutional(graph, kind == "pool", outputs, activation), 4
    width = int(rng.integers(3, widest + 1))
    x = graph.op(activation, graph.dense("x", 2, width, kind != "matmul"))
    y = graph.dense(x, width, width, kind != "matmul")
    y = graph.op("Add", x, y) if kind == "residual" else y
    y = graph.dense(graph.op(activation, y), width, outputs, kind != "matmul")
    return graph.content(y, (1, 2)), 2


def _convolutional(graph: Graph, pool: bool, outputs: int, activation: str) -> bytes:
    w, b = graph.weight(2, 1, 2, 2, scale=0.7), graph.weight(2, scale=graph.bias)
    y = graph.op("Conv", "x", w, b, pads=[1, 1, 0, 0] if pool else [1, 0, 0, 0])
    y = graph.op("MaxPool", y, kernel_shape=[2, 2], strides=[2, 2]) if pool else y
    y = graph.op("Flatten", graph.op(activation, y))
    size = 2 if pool else 4
    return graph.content(graph.dense(y, size, outputs), (1, 1, 2, 2))


def text(boxes: Sequence[tuple[float, float]], outputs: int, clauses: Sequence[Rows]) -> bytes:
    """A property over a box: unsafe is any of the clauses, conjunctions of left <= right."""
    lines = [f"(declare-const X_{i} Real)" for i in range(len(boxes))]
    lines += [f"(declare-const Y_{i} Real)" for i in range(outputs)]
    for i, (low, high) in enumerate(boxes):
        lines.append(f"(assert (>= X_{i} {low:.6f}))\n(assert (<= X_{i} {high:.6f}))")
    options = [
        "(and " + " ".join(f"(<= {left} {right})" for left, right in rows) + ")" for rows in clauses
    ]
    lines.append(
        f"(assert (or {' '.join(options)}))" if len(options) > 1 else f"(assert {options[0]})"
    )
    return "\n".join(lines).encode() + b"\n"
