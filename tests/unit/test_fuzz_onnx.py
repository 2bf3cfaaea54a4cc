"""Damaged and hostile ONNX files: a network or the project's errors, in little time and memory."""

from __future__ import annotations

import random
import resource
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from onnx import (
    AttributeProto,
    ModelProto,
    TensorProto,
    helper,
    load_model_from_string,
    numpy_helper,
)
from onnx_models import model, runtime

from anybound.errors import AnyboundError, InvalidModel
from anybound.io.onnx_reader import from_proto, read_onnx

node = helper.make_node
rng = np.random.default_rng(11)
SEEDS = range(150)
SECONDS = 5.0  # per file; a healthy one takes milliseconds
BYTES = 2**31  # of growth over all files


def w(*shape: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    return rng.normal(size=shape).astype(np.float32)


def convolutional() -> ModelProto:
    nodes = [
        node("Conv", ["x", "k", "c"], ["a"], strides=[2, 2], pads=[1, 1, 1, 1]),
        node("BatchNormalization", ["a", "g", "g", "g", "v"], ["b"]),
        node("Relu", ["b"], ["d"]),
        node("MaxPool", ["d"], ["e"], kernel_shape=[2, 2], strides=[2, 2]),
        node("Pad", ["e", "p"], ["f"]),
        node("AveragePool", ["f"], ["h"], kernel_shape=[2, 2], pads=[0, 0, 1, 1]),
        node("ConvTranspose", ["h", "t"], ["i"], strides=[2, 2], output_padding=[1, 1]),
        node("Resize", ["i", "", "s"], ["j"], mode="nearest"),
        node("Flatten", ["j"], ["l"]),
        node("Gemm", ["l", "m"], ["y"], alpha=0.5),
    ]
    weights = {"k": w(2, 1, 3, 3), "c": w(2), "g": w(2), "v": abs(w(2)), "t": w(2, 2, 2, 2),
               "p": np.array([0, 0, 1, 0, 0, 0, 0, 1]), "s": np.float32([1, 1, 2, 1]),
               "m": w(2 * 14 * 7, 3)}  # fmt: skip
    return model(nodes, ("N", 1, 8, 8), weights)


def shapely() -> ModelProto:
    nodes = [
        node("Shape", ["x"], ["s"]),
        node("Gather", ["s", "zero"], ["b"]),
        node("Concat", ["b", "minus"], ["t"], axis=0),
        node("Reshape", ["x", "t"], ["r"]),
        node("Split", ["r"], ["u", "v"], axis=1),
        node("Max", ["u", "v"], ["m"]),
        node("Slice", ["r", "from", "to", "one"], ["c"]),
        node("Unsqueeze", ["m", "one"], ["d"]),
        node("Squeeze", ["d", "one"], ["e"]),
        node("Concat", ["e", "c", "u"], ["f"], axis=1),
        node("Transpose", ["f"], ["g"], perm=[1, 0]),
        node("ReduceMean", ["g"], ["h"], axes=[0]),
        node("Expand", ["h", "wide"], ["i"]),
        node("Tile", ["i", "wide"], ["j"]),
        node("Clip", ["j", "low", "high"], ["k"]),
        node("ConstantOfShape", ["wide"], ["o"]),
        node("Add", ["k", "o"], ["l"]),
        node("MatMul", ["l", "w"], ["n"]),
        node("Sigmoid", ["n"], ["y"]),
    ]
    weights = {"zero": np.array([0]), "minus": np.array([-1]), "from": np.array([1]),
               "to": np.array([4]), "one": np.array([1]), "wide": np.array([2, 3]),
               "low": np.float32(-1), "high": np.float32(2), "w": w(9, 4)}  # fmt: skip
    return model(nodes, (1, 2, 4), weights)


def dense() -> ModelProto:
    nodes = [
        node("Sub", ["x", "m"], ["a"]),
        node("MatMul", ["a", "w"], ["b"]),
        node("LeakyRelu", ["b"], ["c"]),
        node("PRelu", ["c", "p"], ["d"]),
        node("Div", ["d", "q"], ["e"]),
        node("Gemm", ["e", "v", "z"], ["f"], transB=1),
        node("Tanh", ["f"], ["y"]),
    ]
    weights = {"m": w(4), "w": w(4, 5), "p": w(5), "q": w(5), "v": w(3, 5), "z": w(3)}
    return model(nodes, (1, 4), weights)


MODELS = [convolutional(), shapely(), dense()]
Mutation = Callable[[bytes, random.Random], bytes]


def flipped(content: bytes, r: random.Random) -> bytes:
    damaged = bytearray(content)
    for _ in range(r.choice([1, 1, 2, 8])):
        damaged[r.randrange(len(damaged))] = r.randrange(256)
    return bytes(damaged)


def cut(content: bytes, r: random.Random) -> bytes:
    start = r.randrange(len(content))
    return content[:start] if r.random() < 0.7 else content[:start] + content[start + 9 :]


def reshaped(content: bytes, r: random.Random) -> bytes:
    """Attributes, dimensions and integer weights of any size."""
    proto = load_model_from_string(content)
    odd = [-(2**63), -(2**31), -7, -1, 0, 1, 2, 3, 5, 64, 1000, 2**20, 2**31, 2**40, 2**62]
    for _ in range(r.choice([1, 1, 2])):
        match r.randrange(4):
            case 0:
                attributes = [a for n in proto.graph.node for a in n.attribute]
                attribute = r.choice(attributes)
                if attribute.type == AttributeProto.INTS and attribute.ints:
                    attribute.ints[r.randrange(len(attribute.ints))] = r.choice(odd)
                elif attribute.type == AttributeProto.INT:
                    attribute.i = r.choice(odd)
                else:
                    attribute.type = r.randrange(12)
                    attribute.f = r.choice([np.nan, np.inf, 0.0, -1e30])
            case 1:
                tensor = r.choice(proto.graph.initializer)
                if tensor.dims:
                    tensor.dims[r.randrange(len(tensor.dims))] = r.choice(odd)
                else:
                    tensor.dims.append(r.choice(odd))
            case 2:
                dims = proto.graph.input[0].type.tensor_type.shape.dim
                dims[r.randrange(len(dims))].dim_value = r.choice(odd)
            case 3:
                integers = [t for t in proto.graph.initializer if t.data_type == TensorProto.INT64]
                change(r.choice(integers or list(proto.graph.initializer)), r.choice(odd), r)
    return proto.SerializeToString()


def change(tensor: TensorProto, number: float, r: random.Random) -> None:
    """Another number somewhere in a tensor, if its shape is still that of its data."""
    width = 8 if tensor.data_type == TensorProto.INT64 else 4
    if np.prod([float(d) for d in tensor.dims]) * width == len(tensor.raw_data):
        array = np.array(numpy_helper.to_array(tensor))
        array.reshape(-1)[r.randrange(array.size)] = number
        tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))


def rewired(content: bytes, r: random.Random) -> bytes:
    """Nodes and weights dropped, exchanged or renamed; NaN; other types and opsets."""
    proto = load_model_from_string(content)
    graph = proto.graph
    for _ in range(r.choice([1, 1, 2])):
        match r.randrange(8):
            case 0 if len(graph.node) > 1:
                del graph.node[r.randrange(len(graph.node))]
            case 1 if len(graph.initializer) > 1:
                del graph.initializer[r.randrange(len(graph.initializer))]
            case 2:
                reals = [t for t in graph.initializer if t.data_type == TensorProto.FLOAT]
                if reals:
                    change(r.choice(reals), r.choice([np.nan, np.inf, -np.inf, 1e38]), r)
            case 3:
                picked = r.choice(graph.node)
                names = [name for n in graph.node for name in (*n.input, *n.output)]
                picked.input[r.randrange(len(picked.input))] = r.choice(names)
            case 4:
                r.choice(graph.node).op_type = r.choice([n.op_type for n in graph.node])
            case 5:
                r.choice(graph.initializer).data_type = r.randrange(26)
            case 6:
                proto.opset_import[0].version = r.choice([0, 7, 9, 10, 12, 18, 28, 2**40])
            case _:
                graph.output[0].name = r.choice([n.output[0] for n in graph.node])
    return proto.SerializeToString()


MUTATIONS: list[Mutation] = [flipped, cut, reshaped, rewired]


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda m: m.__name__)
def test_damaged_files_yield_a_network_or_an_error(mutation: Mutation, tmp_path: Path) -> None:
    contents = [proto.SerializeToString() for proto in MODELS]
    path = tmp_path / "model.onnx"
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    outcomes = []
    for seed in SEEDS:
        r = random.Random(seed)
        path.write_bytes(mutation(r.choice(contents), r))
        start = time.process_time()
        outcomes.append(outcome(path))
        assert time.process_time() - start < SECONDS, f"seed {seed}"
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
    assert grown < BYTES
    assert any(outcomes)
    assert all("\n" not in message for message in outcomes)


def outcome(path: Path) -> str:
    """The error's message, empty for a network, which is then run."""
    try:
        network = read_onnx(path).network
    except AnyboundError as error:
        return str(error)
    assert all(size > 0 for n in network.nodes for size in n.shape)
    if network.layout.total < 10**6:
        y = network.forward(torch.zeros(network.input_shape, dtype=torch.float64))
        assert y.shape == network.output_shape
    return ""


@pytest.mark.parametrize("mutation", [reshaped, rewired], ids=lambda m: m.__name__)
def test_damaged_files_that_are_read_mean_what_onnxruntime_says(mutation: Mutation) -> None:
    contents = [proto.SerializeToString() for proto in MODELS]
    compared = 0
    for seed in SEEDS:
        r = random.Random(seed)
        proto = load_model_from_string(mutation(r.choice(contents), r))
        try:
            network = from_proto(proto).network
        except AnyboundError:
            continue
        if network.layout.total > 10**5:
            continue
        x = np.random.default_rng(seed).normal(size=network.input_shape).astype(np.float32)
        try:
            theirs = runtime(proto, x)
        except Exception:  # noqa: BLE001  onnxruntime checks types of constants, which matter not
            continue
        if np.isfinite(theirs).all():
            compared += 1
            ours = network.forward(torch.from_numpy(x).double()).numpy()
            assert ours.shape == theirs.shape, f"seed {seed}"
            np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4, err_msg=f"seed {seed}")
    assert compared > 10


@pytest.mark.parametrize("content", [b"", b"\x00" * 100, b"not a model", bytes(range(256)) * 8])
def test_other_files_are_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(content)
    with pytest.raises(InvalidModel, match=r"model\.onnx: "):
        read_onnx(path)


def external(location: str, **entries: str) -> bytes:
    """A model whose matrix is in another file."""
    proto = model([node("MatMul", ["x", "w"], ["y"])], (1, 4), {"w": w(4, 2)})
    tensor = proto.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in {"location": location, **entries}.items():
        entry = tensor.external_data.add()
        entry.key, entry.value = key, value
    return proto.SerializeToString()


def test_external_data_beside_the_model_is_read(tmp_path: Path) -> None:
    weight = w(4, 2)
    (tmp_path / "weights.bin").write_bytes(b"\0" * 16 + weight.tobytes())
    (tmp_path / "model.onnx").write_bytes(external("weights.bin", offset="16", length="32"))
    network = read_onnx(tmp_path / "model.onnx").network
    y = network.forward(torch.eye(4, dtype=torch.float64).reshape(4, 1, 4))
    np.testing.assert_array_equal(y[:, 0], weight.astype(np.float64))


@pytest.mark.parametrize(
    ("location", "entries", "message"),
    [
        ("absent.bin", {}, "is missing"),
        ("../weights.bin", {}, "outside the model's directory"),
        ("/etc/hostname", {}, "outside the model's directory"),
        ("short.bin", {}, "do not fill"),
        ("short.bin", {"length": "32"}, "shorter than"),
        ("short.bin", {"offset": "-4"}, "no valid offset"),
        ("", {}, "not named"),
        (".", {}, "is missing"),
    ],
)
def test_external_data_elsewhere_is_refused(
    location: str, entries: dict[str, str], message: str, tmp_path: Path
) -> None:
    folder = tmp_path / "inner"
    folder.mkdir()
    (tmp_path / "weights.bin").write_bytes(w(4, 2).tobytes())
    (folder / "short.bin").write_bytes(b"\0" * 20)
    (folder / "model.onnx").write_bytes(external(location, **entries))
    with pytest.raises(InvalidModel, match=message):
        read_onnx(folder / "model.onnx")


def test_symbolic_link_out_of_the_directory_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "inner"
    folder.mkdir()
    (tmp_path / "weights.bin").write_bytes(w(4, 2).tobytes())
    (folder / "link.bin").symlink_to(tmp_path / "weights.bin")
    (folder / "model.onnx").write_bytes(external("link.bin"))
    with pytest.raises(InvalidModel, match="outside"):
        read_onnx(folder / "model.onnx")
