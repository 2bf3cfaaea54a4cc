"""Every operator that is read, in its attributes and opsets, against onnxruntime."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal, localcontext
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import ModelProto, NodeProto, TensorProto, helper
from onnx_models import Array, assert_same, model, runtime

from anybound.errors import AnyboundError, InvalidModel, UnsupportedModel
from anybound.io.onnx_ops.activations import activated
from anybound.io.onnx_ops.algebra import concatenated
from anybound.io.onnx_ops.table import HANDLERS
from anybound.io.onnx_ops.value import Affine, Constant, Term
from anybound.io.onnx_reader import from_proto
from anybound.model.activations import Activation, Clip, LeakyReLU, ReLU, Sigmoid
from anybound.model.affine.chain import Chain
from anybound.model.affine.conv import Conv
from anybound.model.affine.structural import Identity, Pad, Reshape

node = helper.make_node
rng = np.random.default_rng(7)
IMAGE = (1, 3, 7, 6)


def w(*shape: int) -> Array:
    return rng.normal(size=shape).astype(np.float32)


def i(*numbers: int) -> Array:
    return np.array(numbers, dtype=np.int64)


@dataclass(frozen=True)
class Case:
    """One model: its nodes, the input's shape, its weights, and the opsets to try."""

    name: str
    nodes: Sequence[NodeProto]
    shape: tuple[int, ...]
    weights: dict[str, Array] = field(default_factory=dict)
    opsets: tuple[int, ...] = (13,)


def one(
    kind: str,
    shape: tuple[int, ...] = (1, 6),
    *weights: Array | None,
    opsets: tuple[int, ...] = (13,),
    first: bool = True,
    **attributes: Any,
) -> Case:
    """A single operator on x and weights; `first` tells whether x comes first."""
    named = {f"w{k}": weight for k, weight in enumerate(weights) if weight is not None}
    rest = [f"w{k}" if weight is not None else "" for k, weight in enumerate(weights)]
    inputs = ["x", *rest] if first else [*rest, "x"]
    shown = ",".join(f"{k}={v}" for k, v in attributes.items())
    sizes = "×".join(str(np.shape(weight)) for weight in weights if weight is not None)
    name = f"{kind}[{shown}]{sizes}{'' if first else '·x'}{shape}"
    return Case(name, [node(kind, inputs, ["y"], **attributes)], shape, named, opsets)


ELEMENTWISE = [
    one("Add", IMAGE, w(3, 1, 1), opsets=(7, 14)),
    one("Add", (1, 6), w(6), first=False),
    one("Add", (4, 1), w(1, 5)),
    one("Add", (1, 6), w(2, 3, 1, 6)),
    one("Sub", (1, 6), w(6), opsets=(7, 14)),
    one("Sub", (1, 6), w(6), first=False),
    one("Sub", (3, 1), w(4), first=False),
    one("Mul", IMAGE, w(1, 3, 1, 1), opsets=(7, 14)),
    one("Mul", (1, 6), w(), first=False),
    one("Mul", (3, 1), w(1, 4)),
    one("Div", (1, 6), w(6) + 3, opsets=(7, 14)),
    one("Div", (1, 6), np.float32(0.25)),
    one("Neg", (1, 6), opsets=(7, 13)),
    one("Identity", (2, 3)),
    one("Sum", (1, 6), w(6), w(1, 1)),
    one("Sum", (1, 6), w(1, 6), opsets=(7,)),
    Case("Sum of three", [node("Sum", ["x", "x", "w"], ["y"])], (1, 4), {"w": w(4)}),
    Case(
        "x + x − 2x + x",
        [
            node("Add", ["x", "x"], ["a"]),
            node("Mul", ["x", "w"], ["b"]),
            node("Sub", ["a", "b"], ["c"]),
            node("Add", ["c", "x"], ["y"]),
        ],
        (1, 4),
        {"w": np.float32([2.0])},
    ),
    Case(
        "two broadcasts of x",
        [
            node("Transpose", ["x"], ["t"], perm=[1, 0]),
            node("Sub", ["x", "t"], ["y"]),
        ],
        (1, 5),
    ),
]

NONLINEAR = [
    one("Relu", IMAGE, opsets=(7, 13, 14)),
    one("LeakyRelu", (1, 6), opsets=(7, 16)),
    one("LeakyRelu", (1, 6), alpha=0.3),
    one("PRelu", IMAGE, abs(w(3, 1, 1)), opsets=(7, 16)),
    one("PRelu", IMAGE, w(1)),
    one("PRelu", (1, 6), w(6)),
    one("Sigmoid", (1, 6), opsets=(7, 13)),
    one("Tanh", (1, 6), opsets=(7, 13)),
    one("HardSigmoid", (1, 6), opsets=(7, 22)),
    one("HardSigmoid", (1, 6), alpha=0.4, beta=0.1),
    one("Abs", (1, 6), opsets=(7, 13)),
    one("Clip", (1, 6), min=-0.5, max=1.25, opsets=(7, 10)),
    one("Clip", (1, 6), min=0.5, opsets=(7,)),
    one("Clip", (1, 6), opsets=(7, 13)),
    one("Clip", (1, 6), np.float32(-0.5), np.float32(1.0), opsets=(11, 13)),
    one("Clip", (1, 6), np.float32(-0.5)),
    one("Clip", (1, 6), None, np.float32(0.5)),
    one("Clip", (1, 6), np.float32(0.0), np.float32(np.inf)),
    one("Clip", (1, 6), np.float32(np.inf), np.float32(0.5)),
    one("Clip", (1, 6), np.float32(0.75), np.float32(0.5)),
    one("Max", (1, 6), w(6), opsets=(8, 13)),
    one("Max", (1, 6), w(6), w(1, 1)),
    one("Max", (1, 6), np.float32([0.0]), first=False),
    one("Max", (1, 6)),
    one("Min", (1, 6), w(6), opsets=(8, 13)),
    one("Min", (3, 1), w(4)),
    Case(
        "Max of two affine values",
        [
            node("MatMul", ["x", "a"], ["p"]),
            node("MatMul", ["x", "b"], ["q"]),
            node("Max", ["p", "q"], ["m"]),
            node("Min", ["m", "x"], ["y"]),
        ],
        (1, 5),
        {"a": w(5, 5), "b": w(5, 5)},
    ),
]

LINEAR = [
    one("MatMul", (1, 6), w(6, 4), opsets=(7, 13)),
    one("MatMul", (6,), w(6, 4)),
    one("MatMul", (6,), w(6)),
    one("MatMul", (2, 6), w(6)),
    one("MatMul", (6, 2), w(4, 6), first=False),
    one("MatMul", (6,), w(4, 6), first=False),
    one("MatMul", (6,), w(2, 4, 6), first=False),
    one("MatMul", (1, 5, 6), w(6, 4)),
    one("MatMul", (1, 2, 5, 6), w(2, 6, 4)),
    one("MatMul", (5, 6), w(3, 6, 4)),
    one("MatMul", (1, 2, 6, 5), w(3, 2, 4, 6), first=False),
    one("MatMul", (1, 6, 5), w(1, 4, 6), first=False),
    one("Gemm", (1, 6), w(6, 4), w(4), opsets=(7, 9, 11, 13)),
    one("Gemm", (1, 6), w(4, 6), w(1, 4), transB=1, alpha=0.5, beta=2.0),
    one("Gemm", (6, 2), w(6, 4), w(2, 1), transA=1, alpha=-1.5),
    one("Gemm", (1, 6), w(6, 4)),
    one("Gemm", (6, 2), w(4, 6), transA=1, transB=1),
    one("Gemm", (6, 2), w(3, 6), first=False),
    Case(
        "Gemm whose C depends on x",
        [
            node("Gemm", ["x", "a", "x"], ["y"], beta=0.5),
        ],
        (1, 4),
        {"a": w(4, 4)},
    ),
    Case(
        "matrices without activations between",
        [
            node("MatMul", ["x", "a"], ["p"]),
            node("Add", ["p", "c"], ["q"]),
            node("MatMul", ["q", "b"], ["r"]),
            node("Relu", ["r"], ["y"]),
        ],
        (1, 6),
        {"a": w(6, 3), "b": w(3, 7), "c": w(3)},
    ),
    one("BatchNormalization", IMAGE, w(3), w(3), w(3), abs(w(3)), opsets=(7, 9, 14, 15)),
    one("BatchNormalization", (1, 4), w(4), w(4), w(4), abs(w(4)), epsilon=0.1),
    one("BatchNormalization", (1, 4, 5), w(4), w(4), w(4), abs(w(4))),
    Case(
        "Conv, then BatchNormalization",
        [
            node("Conv", ["x", "k", "c"], ["p"]),
            node("BatchNormalization", ["p", "g", "b", "m", "v"], ["q"]),
            node("Relu", ["q"], ["y"]),
        ],
        IMAGE,
        {"k": w(4, 3, 3, 3), "c": w(4), "g": w(4), "b": w(4), "m": w(4), "v": abs(w(4))},
    ),
]

CONVOLUTIONS = [
    one("Conv", IMAGE, w(4, 3, 3, 2), w(4), opsets=(7, 11, 22)),
    one("Conv", IMAGE, w(4, 3, 3, 3), pads=[1, 0, 2, 1], strides=[2, 3]),
    one("Conv", IMAGE, w(6, 1, 3, 3), w(6), group=3, dilations=[2, 1]),
    one("Conv", IMAGE, w(4, 3, 3, 3), auto_pad="SAME_UPPER", strides=[2, 2]),
    one("Conv", IMAGE, w(4, 3, 4, 2), auto_pad="SAME_LOWER"),
    one("Conv", IMAGE, w(4, 3, 4, 2), auto_pad="VALID", kernel_shape=[4, 2]),
    one("Conv", (1, 2, 9), w(3, 2, 4), w(3), strides=[2], pads=[1, 2]),
    one(
        "Conv", (1, 2, 4, 5, 6), w(3, 2, 2, 3, 2), w(3), strides=[1, 2, 2], pads=[0, 1, 0, 1, 0, 1]
    ),
    one("ConvTranspose", IMAGE, w(3, 4, 3, 3), w(4), opsets=(7, 11, 22)),
    one(
        "ConvTranspose",
        IMAGE,
        w(3, 4, 3, 2),
        strides=[2, 3],
        pads=[1, 0, 0, 1],
        output_padding=[1, 2],
    ),
    one("ConvTranspose", IMAGE, w(3, 2, 3, 3), w(6), group=3, dilations=[2, 1], strides=[2, 1]),
    one("ConvTranspose", IMAGE, w(3, 4, 3, 3), auto_pad="SAME_UPPER", strides=[2, 2]),
    one("ConvTranspose", IMAGE, w(3, 4, 4, 3), auto_pad="SAME_LOWER", strides=[2, 1]),
    one("ConvTranspose", IMAGE, w(3, 4, 3, 3), strides=[2, 2], output_shape=[14, 12]),
    one("ConvTranspose", (1, 2, 5), w(2, 3, 4), w(3), strides=[3], pads=[1, 2]),
    one("ConvTranspose", (1, 2, 3, 2, 3), w(2, 2, 2, 2, 3), strides=[2, 1, 2]),
]

POOLINGS = [
    one("AveragePool", IMAGE, kernel_shape=[2, 3], opsets=(7, 11, 22)),
    one("AveragePool", IMAGE, kernel_shape=[3, 3], pads=[1, 1, 1, 0], strides=[2, 2]),
    one(
        "AveragePool",
        IMAGE,
        kernel_shape=[3, 3],
        pads=[1, 1, 1, 0],
        strides=[2, 2],
        count_include_pad=1,
    ),
    one("AveragePool", IMAGE, kernel_shape=[3, 2], strides=[3, 4], ceil_mode=1, opsets=(19, 22)),
    one(
        "AveragePool",
        IMAGE,
        kernel_shape=[2, 2],
        strides=[2, 4],
        pads=[0, 1, 0, 1],
        ceil_mode=1,
        count_include_pad=1,
        opsets=(19,),
    ),
    one("AveragePool", IMAGE, kernel_shape=[3, 3], auto_pad="SAME_UPPER", strides=[2, 2]),
    one("AveragePool", IMAGE, kernel_shape=[2, 2], auto_pad="SAME_LOWER"),
    one("AveragePool", IMAGE, kernel_shape=[2, 2], auto_pad="VALID", strides=[3, 3]),
    one("AveragePool", IMAGE, kernel_shape=[2, 2], dilations=[2, 3], opsets=(19,)),
    one("AveragePool", (1, 2, 9), kernel_shape=[4], strides=[2]),
    one("AveragePool", (1, 2, 4, 5, 6), kernel_shape=[2, 2, 3]),
    one("GlobalAveragePool", IMAGE, opsets=(7, 22)),
    one("MaxPool", IMAGE, kernel_shape=[2, 2], strides=[2, 2], opsets=(7, 8, 12, 22)),
    one("MaxPool", IMAGE, kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[2, 2]),
    one("MaxPool", IMAGE, kernel_shape=[3, 2], dilations=[2, 3]),
    one("MaxPool", IMAGE, kernel_shape=[3, 4], strides=[3, 4], ceil_mode=1, opsets=(12,)),
    one("MaxPool", IMAGE, kernel_shape=[3, 3], auto_pad="SAME_UPPER", strides=[2, 2]),
    one("MaxPool", IMAGE, kernel_shape=[2, 2], auto_pad="SAME_LOWER"),
    one("MaxPool", (1, 2, 9), kernel_shape=[4], strides=[2], pads=[1, 2]),
    one("MaxPool", (1, 1, 4, 5, 6), kernel_shape=[2, 3, 2], strides=[2, 1, 2]),
    one("GlobalMaxPool", (1, 2, 3, 3)),
    Case(
        "Conv, MaxPool, Relu, Conv",
        [
            node("Conv", ["x", "k"], ["p"]),
            node("MaxPool", ["p"], ["q"], kernel_shape=[2, 2]),
            node("Relu", ["q"], ["r"]),
            node("Conv", ["r", "l"], ["y"]),
        ],
        IMAGE,
        {"k": w(2, 3, 3, 3), "l": w(2, 2, 2, 2)},
    ),
]

MOVES = [
    one("Flatten", IMAGE, opsets=(7, 13)),
    one("Flatten", IMAGE, axis=0),
    one("Flatten", IMAGE, axis=4),
    one("Flatten", IMAGE, axis=-2),
    one("Flatten", (5,), axis=0),
    one("Reshape", IMAGE, i(0, -1), opsets=(7, 14)),
    one("Reshape", IMAGE, i(6, 21)),
    one("Reshape", IMAGE, i(1, 3, -1, 2)),
    one("Reshape", (1, 4), i(2, 2), allowzero=1, opsets=(14,)),
    one("Transpose", IMAGE, opsets=(7, 13)),
    one("Transpose", IMAGE, perm=[0, 2, 3, 1]),
    one("Squeeze", (1, 3, 1, 2), axes=[0, 2], opsets=(7, 11)),
    one("Squeeze", (1, 3, 1, 2), axes=[-2], opsets=(11,)),
    one("Squeeze", (1, 3, 1, 2), i(2), opsets=(13, 21)),
    one("Squeeze", (1, 3, 1, 2)),
    one("Unsqueeze", (1, 3), axes=[0, 3], opsets=(7, 11)),
    one("Unsqueeze", (1, 3), i(-1, 1), opsets=(13, 21)),
    one("Slice", IMAGE, starts=[1, 0], ends=[3, 100], axes=[1, 3], opsets=(7, 9)),
    one("Slice", IMAGE, starts=[0, -2], ends=[1, -1], opsets=(7,)),
    one("Slice", IMAGE, i(1, -3), i(6, 1000), i(2, -1), opsets=(10, 13)),
    one("Slice", IMAGE, i(-1, 4), i(-1000, 0), i(2, 3), i(-1, -2), opsets=(10, 13)),
    one("Slice", IMAGE, i(0), i(7), i(2), i(3)),
    one("Expand", (1, 3, 1), i(2, 1, 4), opsets=(8, 13)),
    one("Expand", (3, 1), i(2, 1, 1, 5)),
    one("Tile", (1, 2, 3), i(2, 1, 3)),
    one("Gather", IMAGE, i(0, -1, 1, 1), axis=1, opsets=(7, 11, 13)),
    one("Gather", IMAGE, np.int64(2), axis=3),
    one("Gather", (4, 3), np.array([[0, 2], [-1, 0]]), axis=0),
    one("Pad", IMAGE, pads=[0, 0, 1, 2, 0, 1, 0, 3], opsets=(7, 10)),
    one("Pad", IMAGE, pads=[0, 0, 1, 2, 0, 1, 0, 3], value=1.5, opsets=(7,)),
    one("Pad", IMAGE, i(0, 0, -1, 2, 0, 0, 1, -2), opsets=(11, 13)),
    one("Pad", IMAGE, i(0, 0, 1, 2, 0, 0, 1, -1), np.float32(-2.0), opsets=(11, 13)),
    one("Pad", IMAGE, i(1, 2, 1, -1), None, i(3, -2), opsets=(18, 21)),
    one("Pad", IMAGE, i(0, 0, 1, 2, 0, 0, 3, 1), mode="reflect"),
    one("Pad", IMAGE, i(0, 0, 1, 2, 0, 0, 3, 1), mode="edge"),
    one("Concat", (1, 3), w(1, 2), axis=1, opsets=(7, 13)),
    one("Concat", (1, 3), w(2, 3), axis=-2, first=False),
    Case(
        "Concat of x, its double and a constant",
        [
            node("Mul", ["x", "two"], ["d"]),
            node("Concat", ["x", "c", "d", "x"], ["y"], axis=2),
        ],
        (1, 2, 3),
        {"two": np.float32([2.0]), "c": w(1, 2, 1)},
    ),
    Case(
        "Split evenly, joined otherwise",
        [
            node("Split", ["x"], ["a", "b", "c"], axis=1),
            node("Sub", ["a", "b"], ["d"]),
            node("Concat", ["c", "d"], ["y"], axis=1),
        ],
        (1, 6, 2),
        opsets=(7, 13),
    ),
    Case(
        "Split with sizes as attribute",
        [
            node("Split", ["x"], ["a", "b"], axis=-1, split=[1, 5]),
            node("Add", ["a", "b"], ["y"]),
        ],
        (1, 6),
        opsets=(7, 11),
    ),
    Case(
        "Split with sizes as input",
        [
            node("Split", ["x", "s"], ["a", "b"], axis=1),
            node("Add", ["a", "b"], ["y"]),
        ],
        (1, 6),
        {"s": i(1, 5)},
        opsets=(13, 21),
    ),
    Case(
        "Split unevenly",
        [
            node("Split", ["x"], ["a", "b", "c"], axis=1, num_outputs=3),
            node("Concat", ["c", "b", "a"], ["y"], axis=1),
        ],
        (1, 7),
        opsets=(18, 21),
    ),
    Case("Dropout", [node("Dropout", ["x"], ["y"])], (1, 4), opsets=(7, 10, 13, 22)),
    Case(
        "Cast",
        [
            node("Cast", ["x"], ["d"], to=TensorProto.DOUBLE),
            node("Cast", ["d"], ["y"], to=TensorProto.FLOAT),
        ],
        (1, 4),
        opsets=(7, 13, 21),
    ),
]

REDUCTIONS = [
    one("ReduceMean", IMAGE, axes=[2, 3], opsets=(7, 13)),
    one("ReduceMean", IMAGE, axes=[-1], keepdims=0),
    one("ReduceMean", IMAGE),
    one("ReduceMean", IMAGE, i(1, 3), keepdims=0, opsets=(18,)),
    one("ReduceMean", (1, 6), noop_with_empty_axes=1, opsets=(18,)),
    one("ReduceSum", IMAGE, axes=[1], opsets=(7, 11)),
    one("ReduceSum", IMAGE, i(1, -1), opsets=(13,), keepdims=0),
    one("ReduceSum", (3, 2), keepdims=0),
]

RESIZES = [
    one("Upsample", IMAGE, scales=[1.0, 1.0, 2.0, 3.0], mode="nearest", opsets=(7,)),
    one("Upsample", IMAGE, np.float32([1, 1, 2, 1]), mode="nearest", opsets=(9,)),
    one("Upsample", IMAGE, np.float32([1, 1, 1, 1.1]), mode="nearest", opsets=(9,)),
    one("Resize", IMAGE, np.float32([1, 1, 2, 0.5]), mode="nearest", opsets=(10,)),
    one("Resize", IMAGE, np.float32([1, 1, 2.5, 0.6]), mode="nearest", opsets=(10,)),
    one("Resize", IMAGE, w(0), np.float32([1, 1, 1.1, 1.1]), mode="nearest", opsets=(11, 19)),
    one(
        "Resize",
        IMAGE,
        None,
        np.float32([1, 1, 2, 2]),
        mode="nearest",
        opsets=(13, 19),
        coordinate_transformation_mode="asymmetric",
        nearest_mode="floor",
    ),
    one("Resize", IMAGE, w(0), np.float32([1, 1, 1.7, 0.6]), mode="nearest", opsets=(11, 13)),
    one("Resize", IMAGE, None, None, i(1, 3, 5, 13), mode="nearest", opsets=(13, 19)),
    one(
        "Resize",
        IMAGE,
        None,
        None,
        i(1, 3, 5, 13),
        mode="nearest",
        coordinate_transformation_mode="align_corners",
        nearest_mode="round_prefer_ceil",
    ),
    one(
        "Resize",
        IMAGE,
        None,
        None,
        i(1, 3, 1, 4),
        mode="nearest",
        coordinate_transformation_mode="pytorch_half_pixel",
        nearest_mode="ceil",
    ),
    one("Resize", IMAGE, None, np.float32([2, 3]), mode="nearest", axes=[2, 3], opsets=(18,)),
]


def constant(name: str, **value: Any) -> NodeProto:
    return node("Constant", [], [name], **value)


SHAPES = [
    Case(
        "flattening by computed shape",
        [
            node("Shape", ["x"], ["s"]),
            constant("zero", value=helper.make_tensor("t", TensorProto.INT64, [], [0])),
            node("Gather", ["s", "zero"], ["b"], axis=0),
            node("Unsqueeze", ["b"], ["u"], axes=[0]),
            constant("rest", value=helper.make_tensor("t", TensorProto.INT64, [1], [-1])),
            node("Concat", ["u", "rest"], ["t"], axis=0),
            node("Reshape", ["x", "t"], ["y"]),
        ],
        IMAGE,
        opsets=(7, 11),
    ),
    Case(
        "integer arithmetic of shapes",
        [
            node("Shape", ["x"], ["s"], start=1, end=3),
            constant("two", value_ints=[2, 3]),
            node("Mul", ["s", "two"], ["a"]),
            node("Div", ["a", "two"], ["b"]),
            node("Sub", ["b", "two"], ["c"]),
            node("Add", ["c", "two"], ["d"]),
            node("Cast", ["d"], ["e"], to=TensorProto.INT32),
            node("Cast", ["e"], ["f"], to=TensorProto.INT64),
            constant("last", value_int=-1),
            node("Unsqueeze", ["last", "k"], ["l"]),
            node("Concat", ["f", "l"], ["t"], axis=0),
            node("Reshape", ["x", "t"], ["y"]),
        ],
        IMAGE,
        {"k": i(0)},
        opsets=(15, 21),
    ),
    Case(
        "ones of a shape",
        [
            node("Shape", ["x"], ["s"]),
            node(
                "ConstantOfShape",
                ["s"],
                ["o"],
                value=helper.make_tensor("t", TensorProto.FLOAT, [1], [1.5]),
            ),
            node("Add", ["x", "o"], ["y"]),
        ],
        (2, 3),
        opsets=(9, 13),
    ),
    Case(
        "zeros, a range, a size",
        [
            node("Size", ["x"], ["n"]),
            node("Range", ["a", "n", "b"], ["r"]),
            node("Cast", ["r"], ["f"], to=TensorProto.FLOAT),
            node("Shape", ["x"], ["s"]),
            node("ConstantOfShape", ["s"], ["o"]),
            node("Sub", ["o", "f"], ["g"]),
            node("Add", ["x", "g"], ["y"]),
        ],
        (1, 6),
        {"a": np.int64(0), "b": np.int64(1)},
    ),
    Case(
        "Expand as PyTorch exports it",
        [
            node(
                "ConstantOfShape",
                ["two"],
                ["o"],
                value=helper.make_tensor("t", TensorProto.INT64, [1], [1]),
            ),
            node("Mul", ["o", "minus"], ["m"]),
            node("Equal", ["want", "m"], ["e"]),
            node("Where", ["e", "o", "want"], ["t"]),
            node("Expand", ["x", "t"], ["y"]),
        ],
        (3, 1),
        {"two": i(2), "minus": np.int64(-1), "want": i(-1, 4)},
    ),
    Case(
        "real constants",
        [
            constant("a", value_float=0.5),
            constant("b", value_floats=[1.0, 2.0, 3.0]),
            node("Sqrt", ["b"], ["c"]),
            node("Div", ["a", "c"], ["d"]),
            node("Mul", ["d", "b"], ["e"]),
            node("Max", ["e", "a"], ["f"]),
            node("Neg", ["f"], ["g"]),
            node("Sigmoid", ["g"], ["h"]),
            node("Floor", ["b"], ["i"]),
            node("Ceil", ["i"], ["j"]),
            node("Add", ["h", "j"], ["k"]),
            node("Mul", ["x", "k"], ["y"]),
        ],
        (1, 3),
    ),
    Case(
        "Where that is all one side",
        [
            node("Where", ["m", "w", "x"], ["y"]),
        ],
        (1, 3),
        {"m": np.zeros((1, 3), dtype=np.bool_), "w": w(3)},
    ),
    Case(
        "constants through linear operators",
        [
            node("Conv", ["c", "k"], ["p"]),
            node("GlobalAveragePool", ["p"], ["q"]),
            node("Flatten", ["q"], ["r"]),
            node("Gemm", ["r", "g"], ["s"]),
            node("LeakyRelu", ["s"], ["t"]),
            node("Add", ["x", "t"], ["y"]),
        ],
        (1, 5),
        {"c": w(1, 2, 4, 4), "k": w(3, 2, 3, 3), "g": w(3, 5)},
    ),
    Case(
        "an output that does not depend on x",
        [
            node("Mul", ["w", "w"], ["y"]),
        ],
        (1, 5),
        {"w": w(2, 3)},
    ),
    Case("an output that is x", [node("Identity", ["x"], ["y"])], (2, 2)),
]

SCALARS = [
    one("MatMul", (6,), w(6)),
    one("Relu", ()),
    one("Tanh", ()),
    one("Clip", (), np.float32(-0.5), np.float32(0.5)),
    one("Max", (), w()),
    one("Sub", (), w(2, 3), first=False),
    one("Expand", (), i(2, 3)),
    one("Unsqueeze", (), i(0, 1)),
    one("Flatten", (), axis=0),
    one("Reshape", (), i(-1)),
    one("Gather", (3,), np.int64(-2), axis=0),
    one("Squeeze", (1, 1)),
    Case(
        "one number in the middle",
        [
            node("MatMul", ["x", "a"], ["p"]),
            node("Relu", ["p"], ["q"]),
            node("Mul", ["q", "b"], ["r"]),
            node("Sigmoid", ["r"], ["s"]),
            node("MatMul", ["s", "a"], ["y"]),
        ],
        (4,),
        {"a": w(4), "b": w(4)},
    ),
    Case(
        "one number split, joined and padded",
        [
            node("Unsqueeze", ["x", "zero"], ["p"]),
            node("Abs", ["x"], ["a"]),
            node("Unsqueeze", ["a", "zero"], ["q"]),
            node("Concat", ["p", "q"], ["y"], axis=0),
        ],
        (),
        {"zero": i(0)},
    ),
]

CASES = [
    (case, opset)
    for group in (
        ELEMENTWISE,
        NONLINEAR,
        LINEAR,
        CONVOLUTIONS,
        POOLINGS,
        MOVES,
        REDUCTIONS,
        RESIZES,
        SHAPES,
        SCALARS,
    )
    for case in group
    for opset in case.opsets
]


@pytest.mark.parametrize(("case", "opset"), CASES, ids=[f"{c.name}@{o}" for c, o in CASES])
def test_operator_agrees_with_onnxruntime(case: Case, opset: int) -> None:
    assert_same(model(case.nodes, case.shape, case.weights, opset=opset), case.shape)


def test_every_operator_is_tested() -> None:
    tested = {n.op_type for case, _ in CASES for n in case.nodes}
    assert tested == set(HANDLERS)


NEWEST = onnx.defs.onnx_opset_version()
# onnxruntime has no kernel for these versions yet.
NOT_RUN = {("Cast", 28), ("Range", 27)}


def version(kind: str, opset: int) -> int | None:
    """The opset in which an operator came to mean what it does in this one."""
    if not onnx.defs.has(kind, opset, ""):
        return None
    schema = onnx.defs.get_schema(kind, opset, "")
    return None if schema.deprecated else int(schema.since_version)


def test_operators_agree_in_every_version_from_the_oldest_to_the_newest() -> None:
    """Every case in every opset in which its operators differ, as far as onnxruntime accepts it."""
    seen = set[tuple[str, int]]()
    for case in {id(case): case for case, _ in CASES}.values():
        kinds, tried = [n.op_type for n in case.nodes], set[tuple[int | None, ...]]()
        for opset in range(7, NEWEST + 1):
            versions = tuple(version(kind, opset) for kind in kinds)
            proto = model(case.nodes, case.shape, case.weights, opset=opset)
            if versions in tried or None in versions or not runs(proto, case.shape):
                continue
            tried.add(versions)
            seen.update((kind, since) for kind, since in zip(kinds, versions, strict=True) if since)
            try:
                assert_same(proto, case.shape, points=1)
            except (AssertionError, AnyboundError) as error:
                pytest.fail(f"{case.name} in opset {opset}: {error}")
    every = {(kind, version(kind, opset)) for kind in HANDLERS for opset in range(7, NEWEST + 1)}
    missing = {pair for pair in every if pair[1] is not None} - seen - NOT_RUN
    assert not missing


def runs(proto: ModelProto, shape: tuple[int, ...]) -> bool:
    """Whether onnxruntime accepts the model, which in other opsets may be malformed."""
    try:
        runtime(proto, np.zeros(shape, np.float32))
    except Exception:  # noqa: BLE001  its exceptions have no common base
        return False
    return True


REFUSED = [
    (
        Case("Softmax", [node("Softmax", ["x"], ["y"], name="s")], (1, 3)),
        UnsupportedModel,
        "Softmax node 's' (opset 13): the operator is outside the normal form",
    ),
    (
        Case("where to cut", [node("Gelu", ["x"], ["y"])], (1, 3)),
        UnsupportedModel,
        "cut the model before it, at 'x', with onnx.utils.extract_model",
    ),
    (
        Case("product of two values", [node("Mul", ["x", "x"], ["y"])], (1, 3)),
        UnsupportedModel,
        "Mul node with output 'y' (opset 13): multiplies two values",
    ),
    (
        Case("attention", [node("MatMul", ["x", "x"], ["y"], name="a")], (3, 3)),
        UnsupportedModel,
        "MatMul node 'a' (opset 13): multiplies two values",
    ),
    (
        Case("quotient of two values", [node("Div", ["w", "x"], ["y"])], (3,), {"w": w(3)}),
        UnsupportedModel,
        "the divisor depends on the network's input",
    ),
    (
        Case("division by zero", [node("Div", ["x", "w"], ["y"])], (2,), {"w": w(2) * 0}),
        InvalidModel,
        "divides by zero",
    ),
    (
        Case("shapes that do not fit", [node("MatMul", ["x", "w"], ["y"])], (1, 3), {"w": w(4, 2)}),
        InvalidModel,
        "cannot multiply shapes (1, 3) and (4, 2)",
    ),
    (
        Case("broadcast that does not fit", [node("Add", ["x", "w"], ["y"])], (1, 3), {"w": w(4)}),
        InvalidModel,
        "shapes (1, 3) and (4,) do not broadcast",
    ),
    (
        Case("NaN weights", [node("MatMul", ["x", "w"], ["y"])], (3,), {"w": w(3, 3) * np.nan}),
        InvalidModel,
        "the matrix holds NaN or infinite numbers",
    ),
    (
        Case("batch two", [node("Conv", ["x", "w"], ["y"])], (2, 1, 3, 3), {"w": w(1, 1, 2, 2)}),
        UnsupportedModel,
        "has a batch of 2; re-export with batch size 1",
    ),
    (
        Case("a cast to integers", [node("Cast", ["x"], ["y"], to=TensorProto.INT64)], (3,)),
        UnsupportedModel,
        "casts a value that depends on the network's input to INT64",
    ),
    (
        Case("half precision", [node("Cast", ["x"], ["y"], to=TensorProto.FLOAT16)], (3,)),
        UnsupportedModel,
        "casts a value that depends on the network's input to FLOAT16",
    ),
    (
        Case("interpolation", [
            node("Resize", ["x", "", "w"], ["y"], mode="linear")
        ], (1, 3), {"w": np.float32([1, 2])}),
        UnsupportedModel,
        "only mode 'nearest'",
    ),
    (
        Case("pads that are ambiguous", [node(
            "MaxPool", ["x"], ["y"], kernel_shape=[2], dilations=[2], auto_pad="SAME_UPPER"
        )], (1, 1, 6)),
        UnsupportedModel,
        "auto_pad SAME_UPPER with dilations, which onnxruntime pads otherwise than ONNX says",
    ),
    (
        Case("an infinite lower end", [node("Clip", ["x", "w"], ["y"])], (3,), {"w": w() + np.inf}),
        InvalidModel,
        "clips everything to inf",
    ),
    (
        Case("an infinite upper end", [
            node("Clip", ["x", "", "w"], ["y"])
        ], (3,), {"w": w() - np.inf}),
        InvalidModel,
        "clips everything to -inf",
    ),
    (
        Case("positions of maxima", [
            node("MaxPool", ["x"], ["y", "p"], kernel_shape=[2]),
        ], (1, 1, 4)),
        UnsupportedModel,
        "also yields the positions of its maxima",
    ),
    (
        Case("a huge tensor", [node("Expand", ["x", "w"], ["y"])], (1, 1), {"w": i(2**20, 2**20)}),
        InvalidModel,
        "the limit is",
    ),
    (
        Case("a tensor from nowhere", [node("Add", ["x", "ghost"], ["y"])], (1, 3)),
        InvalidModel,
        "reads 'ghost', which nothing before it computes",
    ),
    (
        Case("an output from nowhere", [node("Relu", ["x"], ["z"])], (1, 3)),
        InvalidModel,
        "output 'y' is computed by no node",
    ),
    (
        Case("a tensor computed twice", [
            node("Relu", ["x"], ["y"]), node("Abs", ["x"], ["y"])
        ], (1, 3)),
        InvalidModel,
        "computes 'y', which exists already",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("case", "kind", "message"), REFUSED, ids=[c.name for c, _, _ in REFUSED])
def test_refusal_is_one_line_that_says_why(case: Case, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind) as caught:
        from_proto(model(case.nodes, case.shape, case.weights))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("batch", ["N", None, -1, 0, 1])
def test_free_batch_axis_is_one(batch: int | str | None) -> None:
    proto = model([node("Gemm", ["x", "w"], ["y"])], (1, 4), {"w": w(4, 2)})
    dim = proto.graph.input[0].type.tensor_type.shape.dim[0]
    dim.Clear()
    if isinstance(batch, str):
        dim.dim_param = batch
    elif batch is not None:
        dim.dim_value = batch
    assert from_proto(proto).network.input_shape == (1, 4)


def test_axes_other_than_the_batch_must_be_fixed() -> None:
    proto = model([node("Relu", ["x"], ["y"])], (1, "width"))
    with pytest.raises(UnsupportedModel, match="axis 1 of input 'x' is not fixed"):
        from_proto(proto)


@pytest.mark.parametrize("opset", [1, 6, 10_000])
def test_opsets_outside_the_range_are_refused(opset: int) -> None:
    with pytest.raises(UnsupportedModel, match=f"opset {opset}; opsets 7 to"):
        from_proto(model([node("Relu", ["x"], ["y"])], (1, 2), opset=opset))


@pytest.mark.parametrize("dtype", [np.float16, np.float64])
def test_weights_of_other_precisions_are_read_exactly_and_said(dtype: type[np.floating]) -> None:
    weight = rng.normal(size=(4, 2)).astype(dtype)
    element = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    read = from_proto(
        model([node("MatMul", ["x", "w"], ["y"])], (4,), {"w": weight}, element=element)
    )
    unit = torch.eye(4, dtype=torch.float64)
    np.testing.assert_array_equal(read.network.forward(unit).numpy(), weight.astype(np.float64))
    assert any("8 weights are" in note for note in read.info.notes)


def test_values_used_twice_do_not_multiply_the_maps() -> None:
    """A pre-activation residual network: the maps must not be copied along every path."""
    nodes, weights = [node("Conv", ["x", "k"], ["v0"], pads=[1, 1, 1, 1])], {"k": w(2, 2, 3, 3)}
    for block in range(12):
        nodes += [
            node("Relu", [f"v{block}"], [f"r{block}"]),
            node("Conv", [f"r{block}", "k"], [f"c{block}"], pads=[1, 1, 1, 1]),
            node("Add", [f"c{block}", f"v{block}"], [f"v{block + 1}"]),
        ]
    nodes.append(node("Flatten", ["v12"], ["y"]))
    network = assert_same(
        model(nodes, (1, 2, 4, 4), {"k": weights["k"] * np.float32(0.1)}), (1, 2, 4, 4)
    )
    assert sum(len(n.edges) for n in network.nodes) <= 3 * 12 + 4


def test_doubling_a_value_again_and_again_stays_small() -> None:
    nodes = [node("Relu", ["x"], ["v0"])]
    nodes += [node("Add", [f"v{k}", f"v{k}"], [f"v{k + 1}"]) for k in range(20)]
    nodes.append(node("Identity", ["v20"], ["y"]))
    network = assert_same(model(nodes, (1, 3)), (1, 3), scale=1e-3)
    assert len(network.nodes) <= 3


def test_maxpool_takes_few_neurons() -> None:
    """2×2 windows that tile: 3 per output; the minimum for exact pairwise maxima."""
    proto = model(
        [node("MaxPool", ["x"], ["y"], kernel_shape=[2, 2], strides=[2, 2])], (1, 1, 8, 8)
    )
    assert from_proto(proto).network.layout.total == 3 * 16


def test_dead_branches_leave_no_nodes() -> None:
    nodes = [
        node("Relu", ["x"], ["y"]),
        node("Softmax", ["x"], ["unused"]),
        node("Relu", ["unused"], ["also_unused"]),
    ]
    assert len(from_proto(model(nodes, (1, 3))).network.nodes) == 3


def test_rounding_of_folded_weights_is_bounded() -> None:
    """Batch normalisation folded into a matrix, against exact rational arithmetic."""
    gain, beta, mean, matrix = w(3), w(3), w(3), w(2, 3)
    variance = (w(3) ** 2).astype(np.float32)
    nodes = [
        node("MatMul", ["x", "m"], ["p"]),
        node("BatchNormalization", ["p", "g", "b", "u", "v"], ["y"], epsilon=0.1),
    ]
    weights = {"m": matrix, "g": gain, "b": beta, "u": mean, "v": variance}
    (edge,) = from_proto(model(nodes, (1, 2), weights)).network.nodes[-1].edges
    zero = torch.zeros(1, 2, dtype=torch.float64)
    bias = edge.map.apply(zero)[0]
    columns = edge.map.linear(torch.eye(2, dtype=torch.float64).reshape(2, 1, 2))[:, 0]
    with localcontext() as context:
        context.prec = 60
        for j in range(3):
            scale = (
                Decimal(float(gain[j]))
                / (Decimal(float(variance[j])) + Decimal(float(np.float32(0.1)))).sqrt()
            )
            exact = Decimal(float(beta[j])) - scale * Decimal(float(mean[j]))
            assert abs(Decimal(float(bias[j])) - exact) <= Decimal(edge.map.error.bias)
            for k in range(2):
                stored, wanted = Decimal(float(columns[k, j])), scale * Decimal(float(matrix[k, j]))
                allowed = edge.map.error.relative * abs(float(stored)) + edge.map.error.absolute
                assert abs(stored - wanted) <= Decimal(allowed)
                assert allowed < 1e-13


def test_normalised_convolutions_are_convolutions() -> None:
    """Scale, shift and padding around a convolution leave one map, without reshapes between."""
    nodes = [
        node("Relu", ["x"], ["r"]),
        node("Pad", ["r", "p"], ["q"]),
        node("Mul", ["q", "s"], ["t"]),
        node("Conv", ["t", "k"], ["u"]),
        node("BatchNormalization", ["u", "g", "g", "g", "v"], ["a"]),
        node("Relu", ["a"], ["b"]),
        node("Conv", ["b", "l"], ["y"]),
    ]
    weights = {"p": i(0, 0, 1, 1, 0, 0, 1, 1), "s": w(1, 3, 1, 1), "k": w(4, 3, 3, 3), "g": w(4)}
    weights |= {"v": abs(w(4)), "l": w(2, 4, 2, 2)}
    network = assert_same(model(nodes, IMAGE, weights), IMAGE)
    assert network.nodes[2].shape == (4, 7, 6)
    (edge,) = network.nodes[2].edges
    maps = edge.map.maps if isinstance(edge.map, Chain) else (edge.map,)
    assert [type(m) for m in maps if not isinstance(m, Reshape)] in ([Conv], [Pad, Conv])


@dataclass(frozen=True)
class _Node:
    """As much of a node as folding a constant asks for."""

    def finite(self, constant: Constant, meaning: str) -> Constant:
        return constant


@pytest.mark.parametrize("activation", [ReLU(), LeakyReLU(-3.0), Clip(0.0, 6.0), Sigmoid()])
def test_an_activation_passes_on_errors_smaller_than_a_rounding(activation: Activation) -> None:
    """1 ± 1e-20 is no wider than 1 in float64, but its image is not exact."""
    error, steepness = 1e-20, float(activation.slope(torch.ones((), dtype=torch.float64)))
    op: Any = _Node()
    folded = activated(op, Constant(np.array([1.0]), error), activation)
    assert isinstance(folded, Constant)
    assert folded.error >= abs(steepness) * error


def test_concatenating_a_zero_keeps_its_error() -> None:
    """A folded constant that came out as 0 need not be 0."""
    value = Affine((Term(0, Identity.of((1, 2))),), (1, 2))
    joined = concatenated([value, Constant(np.zeros((1, 1)), 1e-3)], 1)
    assert isinstance(joined, Affine)
    assert sum(term.map.error.bias for term in joined.terms) >= 1e-3
