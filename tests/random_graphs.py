"""Random ONNX graphs of every operator that the certificate checker knows, with odd shapes and attributes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import NodeProto, TensorProto, helper, numpy_helper

SHAPES = (
    (1, 3), (3,), (1, 2, 3), (1, 2, 4), (1, 1, 3, 3), (1, 2, 3, 4), (1, 4, 2, 2), (2, 3), (1, 2, 2, 3, 2)
)  # fmt: skip
OPSETS = (8, 9, 10, 11, 12, 13, 14, 15, 17, 18, 19, 21)
ELEMENTWISE = ("Relu", "Sigmoid", "Tanh", "Identity", "Dropout")


class RandomGraph:
    """Grows by a node at a time; `shape` is that of the last tensor, which the caller keeps right."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.input_shape = self.shape = self.one_of(SHAPES)
        self.opset = self.one_of(OPSETS)
        self.nodes: list[NodeProto] = []
        self.weights: dict[str, NDArray[Any]] = {}
        self.last = "x"

    def one_of(self, options: Sequence[Any]) -> Any:
        return options[self.rng.integers(len(options))]

    def chance(self, p: float) -> bool:
        return bool(self.rng.random() < p)

    def content(self) -> bytes:
        """The file of what there is."""
        graph = helper.make_graph(
            self.nodes,
            "random",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, list(self.input_shape))],
            [helper.make_tensor_value_info(self.last, TensorProto.FLOAT, None)],
            [numpy_helper.from_array(value, name) for name, value in self.weights.items()],
        )
        opset = [helper.make_opsetid("", self.opset)]
        content: bytes = helper.make_model(
            graph, opset_imports=opset, ir_version=8
        ).SerializeToString()
        return content

    def grow(self) -> str:
        """Add a node of any operator, not always a valid one; its operator."""
        grower: Callable[[], None] = self.one_of(
            [self._elementwise, self._binary, self._binary, self._gemm, self._matmul, self._conv,
             self._pool, self._average, self._normalise, self._flatten, self._reshape,
             self._transpose, self._pad, self._axes, self._constant]
        )  # fmt: skip
        grower()
        return str(self.nodes[-1].op_type)

    def undo(self, state: tuple[Any, ...]) -> None:
        self.nodes, self.weights, self.last = state

    def state(self) -> tuple[Any, ...]:
        return self.nodes[:], dict(self.weights), self.last

    def _weight(self, values: Any, dtype: Any = np.float32) -> str:
        name = f"w{len(self.weights)}"
        self.weights[name] = np.array(values, dtype)
        return name

    def _random(self, *shape: int) -> str:
        return self._weight(self.rng.normal(size=shape))

    def _add(self, kind: str, *inputs: str, **attributes: Any) -> None:
        name = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], **attributes))
        self.last = name

    def _elementwise(self) -> None:
        kind = self.one_of(ELEMENTWISE)
        ratio = {"ratio": 0.3} if kind == "Dropout" and self.opset < 12 else {}
        self._add(kind, self.last, **ratio)

    def _binary(self) -> None:
        shape, rank = self.shape, len(self.shape)
        channel = (shape[1], *[1] * (rank - 2)) if rank > 1 else shape
        wider = tuple(int(self.one_of([1, 2, d])) for d in shape)
        shapes = [shape, shape[-1:], (1,), (), channel, (1, *shape), wider]
        other = self._random(*self.one_of(shapes))
        if self.chance(0.25):
            other = self.one_of(["x", *(node.output[0] for node in self.nodes)])
        inputs = (self.last, other) if self.chance(0.6) else (other, self.last)
        self._add(self.one_of(["Add", "Sub", "Mul", "Div"]), *inputs)

    def _gemm(self) -> None:
        k, m, given = (
            self.shape[-1],
            int(self.rng.integers(1, 4)),
            {"transB": int(self.chance(0.5))},
        )
        inputs = [self.last, self._random(*((m, k) if given["transB"] else (k, m)))]
        if self.chance(0.7):
            inputs.append(self._random(*self.one_of([(m,), (1, m), (1,), (1, 1), ()])))
        given |= {key: float(self.rng.normal()) for key in ("alpha", "beta") if self.chance(0.3)}
        given |= {"transA": 1} if self.chance(0.1) else {}
        self._add("Gemm", *inputs, **given)

    def _matmul(self) -> None:
        m = int(self.rng.integers(1, 4))
        if self.chance(0.6):
            self._add("MatMul", self.last, self._random(self.shape[-1], m))
        else:
            k = self.shape[-2] if len(self.shape) > 1 else self.shape[-1]
            self._add("MatMul", self._random(m, k), self.last)

    def _windows(self, rank: int, dilations: bool = True) -> dict[str, Any]:
        given: dict[str, Any] = {}
        if self.chance(0.5):
            given["strides"] = self.rng.integers(1, 3, rank).tolist()
        if dilations and self.chance(0.3):
            given["dilations"] = self.rng.integers(1, 3, rank).tolist()
        if self.chance(0.5):
            given["pads"] = self.rng.integers(0, 3, 2 * rank).tolist()
        elif self.chance(0.4):
            given["auto_pad"] = self.one_of(["VALID", "NOTSET", "SAME_UPPER", "SAME_LOWER"])
        return given

    def _conv(self) -> None:
        rank, channels = max(len(self.shape) - 2, 1), self.shape[1] if len(self.shape) > 1 else 1
        groups = int(self.one_of([1, 1, channels, 2]))
        filters = groups * int(self.rng.integers(1, 3))
        kernel = self.rng.integers(1, 4, rank).tolist()
        inputs = [self.last, self._random(filters, max(1, channels // groups), *kernel)]
        inputs += [self._random(filters)] if self.chance(0.6) else []
        given = self._windows(rank) | ({"group": groups} if groups != 1 else {})
        given |= {"kernel_shape": kernel} if self.chance(0.5) else {}
        self._add("Conv", *inputs, **given)

    def _pool(self) -> None:
        rank = max(len(self.shape) - 2, 1)
        given = self._windows(rank, self.opset > 9)
        given |= {"ceil_mode": 1} if self.chance(0.1) and self.opset > 9 else {}
        self._add(
            "MaxPool", self.last, kernel_shape=self.rng.integers(1, 4, rank).tolist(), **given
        )

    def _average(self) -> None:
        if self.chance(0.3):
            self._add("GlobalAveragePool", self.last)
            return
        rank = max(len(self.shape) - 2, 1)
        given = self._windows(rank, dilations=False)
        given |= {"count_include_pad": int(self.chance(0.7))} if self.chance(0.7) else {}
        kernel = self.rng.integers(1, 4, rank).tolist()
        self._add("AveragePool", self.last, kernel_shape=kernel, **given)

    def _normalise(self) -> None:
        channels = self.shape[1] if len(self.shape) > 1 else 1
        parameters = [self._random(channels) for _ in range(3)]
        parameters.append(self._weight(np.abs(self.rng.normal(size=channels))))
        given = {"epsilon": float(self.rng.random())} if self.chance(0.4) else {}
        self._add("BatchNormalization", self.last, *parameters, **given)

    def _flatten(self) -> None:
        rank = len(self.shape)
        axis = {"axis": int(self.rng.integers(-rank, rank + 1))} if self.chance(0.7) else {}
        self._add("Flatten", self.last, **axis)

    def _reshape(self) -> None:
        size, rank = int(np.prod(self.shape)), len(self.shape)
        targets = [[-1], [1, -1], [0, -1], [-1, size], [size], [1, 1, size], self.shape[::-1],
                   [0] * rank, [0, 0, -1], [2, -1], [-1, 2], [1, 2, -1], [-1, self.shape[-1]]]  # fmt: skip
        self._add("Reshape", self.last, self._weight(self.one_of(targets), np.int64))

    def _transpose(self) -> None:
        given = {"perm": self.rng.permutation(len(self.shape)).tolist()} if self.chance(0.8) else {}
        self._add("Transpose", self.last, **given)

    def _pad(self) -> None:
        count = 2 * len(self.shape)
        pads = (self.rng.integers(0, 3, count) * (self.rng.random(count) < 0.4)).tolist()
        mode = {"mode": self.one_of(["constant", "edge"])} if self.chance(0.3) else {}
        if self.opset < 11:
            self._add("Pad", self.last, pads=pads, **mode)
            return
        inputs = [self.last, self._weight(pads, np.int64)]
        inputs += [self._weight(self.one_of([0.0, 1.0, -0.0]))] if self.chance(0.4) else []
        self._add("Pad", *inputs, **mode)

    def _axes(self) -> None:
        kind, rank = self.one_of(["Squeeze", "Unsqueeze"]), len(self.shape)
        axes = np.unique(self.rng.integers(-rank - 1, rank + 1, self.rng.integers(1, 3))).tolist()
        if kind == "Squeeze" and self.chance(0.7):
            axes = [i for i, d in enumerate(self.shape) if d == 1][: self.rng.integers(0, 3)]
        if self.opset < 13:
            self._add(kind, self.last, **({"axes": axes} if axes else {}))
        else:
            self._add(kind, self.last, *([self._weight(axes, np.int64)] if axes else []))

    def _constant(self) -> None:
        name, shape = f"t{len(self.nodes)}", self.shape
        key = self.one_of(["value", "value_float", "value_floats"])
        value = {
            "value": numpy_helper.from_array(self.rng.normal(size=shape).astype(np.float32)),
            "value_float": float(self.rng.normal()),
            "value_floats": self.rng.normal(size=shape[-1]).tolist(),
        }[key]
        self.nodes.append(helper.make_node("Constant", [], [name], **{key: value}))
        self._add(self.one_of(["Add", "Sub", "Mul", "Div"]), self.last, name)
