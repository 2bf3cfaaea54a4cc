"""A network that is not the file's is found out; one that differs by rounding is not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from onnx import ModelProto, TensorProto, helper
from onnx_models import model

import anybound
from anybound.deciding import check_reading
from anybound.errors import UnsupportedModel
from anybound.io.onnx_reader import from_proto, load
from anybound.io.replay import Replay
from anybound.io.trust import compare, within
from anybound.model.affine.map import Weighted
from anybound.model.network import Edge, Network

node = helper.make_node


def deep(
    layers: int = 6, width: int = 40, element: int = TensorProto.FLOAT, dtype: type = np.float32
) -> ModelProto:
    rng = np.random.default_rng(5)
    nodes, weights, name = [], {}, "x"
    for k in range(layers):
        weights[f"w{k}"] = (rng.normal(size=(width, width)) / np.sqrt(width)).astype(dtype)
        nodes += [node("MatMul", [name, f"w{k}"], [f"a{k}"]), node("Relu", [f"a{k}"], [f"b{k}"])]
        name = f"b{k}"
    nodes.append(node("Identity", [name], ["y"]))
    return model(nodes, ("N", width), weights, element=element)


@pytest.mark.parametrize(
    ("element", "dtype"),
    [
        (TensorProto.FLOAT, np.float32),
        (TensorProto.DOUBLE, np.float64),
        (TensorProto.FLOAT16, np.float16),
    ],
)
def test_rounding_passes(element: int, dtype: type) -> None:
    proto = deep(element=element, dtype=dtype)
    compare(proto.SerializeToString(), from_proto(proto).network)


def test_rounding_of_very_deep_and_steep_networks_passes() -> None:
    proto = deep(layers=40, width=60)
    for tensor in proto.graph.initializer:
        tensor.raw_data = (3.0 * np.frombuffer(tensor.raw_data, np.float32)).tobytes()
    compare(proto.SerializeToString(), from_proto(proto).network)


def perturbed(network: Network, k: int, change: float) -> Network:
    """A block of the weights of node k changed by a share of the largest."""
    (edge,) = network.nodes[k].edges
    map_ = edge.map if isinstance(edge.map, Weighted) else edge.map.maps[-1]  # type: ignore[attr-defined]
    weight = map_.weight.clone()
    weight[:8, :8] += change * weight.abs().max()
    nodes = list(network.nodes)
    nodes[k] = replace(nodes[k], edges=(Edge(edge.source, replace(map_, weight=weight)),))
    return Network(tuple(nodes))


@pytest.mark.parametrize("k", [2, 4, 6])
def test_wrong_weights_are_found(k: int) -> None:
    proto = deep()
    wrong = perturbed(from_proto(proto).network, k, 0.05)
    with pytest.raises(UnsupportedModel, match="where onnxruntime yields"):
        compare(proto.SerializeToString(), wrong)


def test_what_differs_in_the_input_set_alone_is_found(tmp_path: Path) -> None:
    """relu(x − 1000) is 0 at usual inputs: only points of the property's input set tell."""
    nodes = [node("Add", ["x", "b"], ["a"]), node("Relu", ["a"], ["y"])]
    proto = model(nodes, (1, 2), {"b": np.full(2, -1000.0, np.float32)})
    wrong = from_proto(
        model([node("Mul", ["x", "zero"], ["y"])], (1, 2), {"zero": np.zeros(2, np.float32)})
    )
    compare(proto.SerializeToString(), wrong.network)
    prop = anybound.unsafe(
        anybound.BoxSet([2000, 2000], [3000, 3000]), anybound.linear([[1, 0]], [0])
    )
    with pytest.raises(UnsupportedModel, match="where onnxruntime yields"):
        check_reading(Replay(proto.SerializeToString()), wrong.network, prop)


def test_input_sets_too_large_for_float32_are_not_compared() -> None:
    proto = model([node("Relu", ["x"], ["y"])], (1, 1))
    network = from_proto(proto).network
    prop = anybound.unsafe(anybound.BoxSet([-1e300], [1e300]), anybound.linear([[1]], [0]))
    assert within(network, prop) == []
    check_reading(Replay(proto.SerializeToString()), network, prop)


def test_other_shape_is_found() -> None:
    proto = deep()
    other = from_proto(model([node("Flatten", ["x"], ["y"], axis=0)], (4, 10))).network
    with pytest.raises(UnsupportedModel, match="onnxruntime"):
        compare(proto.SerializeToString(), other)


def test_what_onnxruntime_refuses_can_be_loaded_unchecked(tmp_path: Path) -> None:
    """ONNX does not allow two element types in one sum."""
    proto = model([node("Add", ["x", "w"], ["y"])], (1, 3), {"w": np.ones(3, dtype=np.float64)})
    path = tmp_path / "mixed.onnx"
    path.write_bytes(proto.SerializeToString())
    with pytest.raises(UnsupportedModel, match="onnxruntime cannot run the model"):
        load(path)
    network = load(path, check=False)
    x = torch.zeros(1, 3, dtype=torch.float64)
    assert torch.equal(network.forward(x), torch.ones(1, 3, dtype=torch.float64))
