"""Which handler reads which operator: `HANDLERS[op_type](op)` yields a node's output or outputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from anybound.io.onnx_ops import (
    activations,
    constants,
    convolution,
    elementwise,
    linear,
    normalization,
    pooling,
    reductions,
    resize,
    shapes,
)
from anybound.io.onnx_ops.op import Op
from anybound.io.onnx_ops.value import Value

Handler = Callable[[Op], Value | tuple[Value, ...]]

OLDEST_OPSET = 7  # before it, broadcasting was an attribute

HANDLERS: Mapping[str, Handler] = MappingProxyType(
    {
        "Abs": activations.absolute,
        "Add": elementwise.add,
        "AveragePool": pooling.average,
        "BatchNormalization": normalization.batch_normalization,
        "Cast": constants.cast,
        "Ceil": constants.ceil,
        "Clip": activations.clip,
        "Concat": shapes.concat,
        "Constant": constants.constant,
        "ConstantOfShape": constants.constant_of_shape,
        "Conv": convolution.conv,
        "ConvTranspose": convolution.conv_transpose,
        "Div": elementwise.divide,
        "Dropout": elementwise.dropout,
        "Equal": constants.equal,
        "Expand": shapes.expand,
        "Flatten": shapes.flatten,
        "Floor": constants.floor,
        "Gather": shapes.gather,
        "Gemm": linear.gemm,
        "GlobalAveragePool": pooling.global_average,
        "GlobalMaxPool": pooling.global_maximum,
        "HardSigmoid": activations.hard_sigmoid,
        "Identity": elementwise.same,
        "LeakyRelu": activations.leaky_relu,
        "MatMul": linear.matmul,
        "Max": elementwise.maximum,
        "MaxPool": pooling.maximum,
        "Min": elementwise.minimum,
        "Mul": elementwise.multiply,
        "Neg": elementwise.negate,
        "PRelu": activations.prelu,
        "Pad": shapes.pad,
        "Range": constants.range_,
        "ReduceMean": reductions.reduce_mean,
        "ReduceSum": reductions.reduce_sum,
        "Relu": activations.relu,
        "Reshape": shapes.reshape,
        "Resize": resize.resize,
        "Shape": constants.shape_,
        "Sigmoid": activations.sigmoid,
        "Size": constants.size,
        "Slice": shapes.slice_,
        "Split": shapes.split,
        "Sqrt": elementwise.root,
        "Squeeze": shapes.squeeze,
        "Sub": elementwise.subtract,
        "Sum": elementwise.total,
        "Tanh": activations.tanh,
        "Tile": shapes.tile,
        "Transpose": shapes.transpose,
        "Unsqueeze": shapes.unsqueeze,
        "Upsample": resize.upsample,
        "Where": constants.where,
    }
)
