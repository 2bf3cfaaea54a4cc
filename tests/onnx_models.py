"""Small ONNX models for tests, and onnxruntime as the oracle that says what they compute."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnxruntime as ort
import torch
from numpy.typing import NDArray
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from anybound.io.onnx_reader import from_proto
from anybound.model.network import Network

Array = NDArray[Any]
Extent = int | str | None


def model(
    nodes: Sequence[NodeProto],
    shape: Sequence[Extent],
    weights: Mapping[str, Array] | None = None,
    *,
    opset: int = 13,
    ir_version: int = 8,
    element: int = TensorProto.FLOAT,
    outputs: Sequence[str] = ("y",),
) -> ModelProto:
    """A graph from the input 'x' to the outputs."""
    graph = helper.make_graph(
        list(nodes),
        "test",
        [helper.make_tensor_value_info("x", element, list(shape))],
        [helper.make_tensor_value_info(name, element, None) for name in outputs],
        [numpy_helper.from_array(np.asarray(w), name) for name, w in (weights or {}).items()],
    )
    opsets = [helper.make_opsetid("", opset)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=ir_version)


def runtime(proto: ModelProto, x: Array) -> Array:
    """What onnxruntime computes, without its own rewriting of the graph."""
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    session = ort.InferenceSession(
        proto.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    (output,) = session.run(None, {"x": x})
    return np.asarray(output)


def assert_same(
    proto: ModelProto, shape: Sequence[int], *, points: int = 3, seed: int = 0, scale: float = 2.0
) -> Network:
    """The network that is read computes what onnxruntime does, in ONNX's own shapes."""
    network = from_proto(proto).network
    assert network.input_shape == (tuple(shape) or (1,))  # one number is a vector of one
    rng = np.random.default_rng(seed)
    for _ in range(points):
        x = np.asarray(rng.normal(scale=scale, size=tuple(shape)), dtype=np.float32)
        theirs = np.atleast_1d(runtime(proto, x))
        point = torch.from_numpy(x).double().reshape(network.input_shape)
        ours = network.forward(point).numpy()
        assert ours.shape == theirs.shape == network.output_shape
        np.testing.assert_allclose(ours, theirs, rtol=2e-5, atol=2e-5)
    return network
