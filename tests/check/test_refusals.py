"""What the checker refuses to read, or to go on with: damaged archives, ambiguous files, idle work."""

import io
import json
import struct
import tracemalloc
import zipfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from anybound.certificate import Certificate, ClauseProof, Group, Step
from anybound_check import Report, check
from anybound_check.archive import read_archive
from anybound_check.arithmetic import Unreadable
from anybound_check.bounds import NONE, Region, Splits
from anybound_check.network import read_network
from anybound_check.vnnlib import read_property

PROPERTY = """
(declare-const X_0 Real) (declare-const X_1 Real) (declare-const Y_0 Real)
(assert (>= X_0 -1)) (assert (<= X_0 1)) (assert (>= X_1 -1)) (assert (<= X_1 1))
(assert (<= Y_0 -0.5))
"""


def model(*nodes: onnx.NodeProto, shape: tuple[int, ...] = (1, 2), **weights: NDArray) -> bytes:
    """An ONNX file from "x" to "y"."""
    graph = helper.make_graph(
        list(nodes),
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    opset = [helper.make_opsetid("", 13)]
    content: bytes = helper.make_model(graph, opset_imports=opset).SerializeToString()
    return content


def relu_sum() -> bytes:
    """y = relu(x_0) + relu(x_1), at least 0."""
    return model(
        helper.make_node("Relu", ["x"], ["r"]),
        helper.make_node("MatMul", ["r", "w"], ["y"]),
        w=np.ones((2, 1), np.float32),
    )


def judged(folder: Path, certificate: bytes, network: bytes | None = None) -> Report:
    """What the checker says of a certificate of the property."""
    paths = [folder / name for name in ("net.onnx", "prop.vnnlib", "proof.abc")]
    contents = (network or relu_sum(), PROPERTY.encode(), certificate)
    for path, content in zip(paths, contents, strict=True):
        path.write_bytes(content)
    return check(*paths)


def certificate(*proofs: ClauseProof, steps: tuple[Step, ...] = ()) -> bytes:
    return Certificate(relu_sum(), PROPERTY.encode(), [Group(steps, proofs)]).to_bytes()


def archive(entries: Mapping[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in entries.items():
            file.writestr(name, content)
    return buffer.getvalue()


def array(header: str, data: bytes = b"") -> bytes:
    text = header.encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + data


def test_the_plain_certificate_is_accepted(tmp_path: Path) -> None:
    report = judged(tmp_path, certificate(ClauseProof(0)))
    assert (report.valid, report.reason) == (True, "")


@pytest.mark.parametrize(
    "entry",
    [
        b"",
        array("(((("),
        array("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }\n", bytes(8)),
        array("{'descr': '<f8', 'fortran_order': True, 'shape': (1,), }\n", bytes(8)),
        array("{'descr': '<f8', 'fortran_order': False, 'shape': (2,), }\n", bytes(8)),
        array("{'descr': '<f8', 'fortran_order': False, 'shape': (1,), }\n", bytes(9)),
        array("{'descr': '<f8', 'fortran_order': False, 'shape': (-1,), }\n", bytes(8)),
        array("{'descr': '<f8', 'fortran_order': False, 'shape': (1, 1, 1), }\n", bytes(8)),
    ],
)
def test_an_array_has_the_one_form_there_is(entry: bytes) -> None:
    with pytest.raises(Unreadable, match="damaged"):
        read_archive(archive({"manifest.json": b"{}", "a0.npy": entry}), 10**6)


@pytest.mark.parametrize("descr", ["'<f8'", "'(100000000,)<f8'", "[('a', '<f8')]"])
def test_memory_is_not_taken_on_a_headers_word(descr: str) -> None:
    header = f"{{'descr': {descr}, 'fortran_order': False, 'shape': (100000000,), }}\n"
    content = archive({"manifest.json": b"{}", "a0.npy": array(header, bytes(80))})
    tracemalloc.start()
    try:
        with pytest.raises(Unreadable):
            read_archive(content, 10**6)
        assert tracemalloc.get_traced_memory()[1] < 10**6
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("values", [[], [3], [0, 7, 255]])
def test_arrays_come_back(values: list[int]) -> None:
    buffer = io.BytesIO()
    np.save(buffer, np.array(values, np.uint8))
    text = json.dumps({"of": "a0"}).encode()
    record = read_archive(archive({"manifest.json": text, "a0.npy": buffer.getvalue()}), 10**6)
    assert record.indices("of", 256).tolist() == values


def test_a_certificate_is_not_unpacked_twice(tmp_path: Path) -> None:
    import gzip

    report = judged(tmp_path, gzip.compress(certificate(ClauseProof(0))))
    assert report.unreadable


@pytest.mark.parametrize("version", [True, 2.0, "2", 1, 3, None])
def test_the_version_is_the_number_two(version: object, tmp_path: Path) -> None:
    with zipfile.ZipFile(io.BytesIO(certificate(ClauseProof(0)))) as file:
        entries = {name: file.read(name) for name in file.namelist()}
    manifest = json.loads(entries["manifest.json"]) | {"version": version}
    entries["manifest.json"] = json.dumps(manifest).encode()
    assert judged(tmp_path, archive(entries)).unreadable


def test_a_neuron_is_bounded_once_in_a_step(tmp_path: Path) -> None:
    step = Step(0, np.array([0, 1, 0]), np.array([1]))
    report = judged(tmp_path, certificate(ClauseProof(0), steps=(step,)))
    assert "twice in a step" in report.reason


def test_a_clause_is_proved_once(tmp_path: Path) -> None:
    report = judged(tmp_path, certificate(ClauseProof(0), ClauseProof(0)))
    assert "proved twice" in report.reason


def test_an_empty_leaf_may_have_its_bounds_renewed(tmp_path: Path) -> None:
    """x_0 >= 2 leaves nothing, which a bound by infinity must not spoil."""
    proof = ClauseProof(
        0, split=np.array([2, -1, -1]), at=np.array([2.0, 0, 0]), renew=(0,), beta=np.zeros(2)
    )
    report = judged(tmp_path, certificate(proof))
    assert (report.valid, report.reason) == (True, "")


def test_a_bound_by_infinity_improves_nothing() -> None:
    network = read_network(relu_sum())
    region = Region(network, -np.ones((2, 1)), np.ones((2, 1)), False)
    region.improve(1, np.array([0]), np.ones(1), np.array([0]), np.array([np.inf]))
    region.propagate(1)
    assert not region.empty[0]
    assert Splits().neuron is NONE


@pytest.mark.parametrize("word", ['X_0","X_1', "X\\u005f0", '"'])
def test_words_without_quotes_and_backslashes(word: str) -> None:
    text = PROPERTY + f"(assert (<= {word} 1))"
    with pytest.raises(Unreadable, match="a quote, a bar or a backslash"):
        read_property(text.encode(), 2, 1)


def test_half_spaces_are_limited() -> None:
    names = "".join(f"(declare-const Y_{i} Real)" for i in range(1000))
    rows = " ".join(["(<= Y_0 Y_1)"] * 20_000)
    text = (
        f"(declare-const X_0 Real){names}(assert (>= X_0 0))(assert (<= X_0 1))(assert (or {rows}))"
    )
    with pytest.raises(Unreadable, match="too many half-spaces"):
        read_property(text.encode(), 1, 1000)


def convolution(**attributes: object) -> bytes:
    node = helper.make_node("Conv", ["x", "w"], ["y"], **attributes)
    return model(node, shape=(1, 1, 4, 4), w=np.ones((1, 1, 2, 2), np.float32))


def test_valid_padding_has_no_pads() -> None:
    assert read_network(convolution(auto_pad="VALID")).nodes[-1].size == 9
    with pytest.raises(Unreadable, match="auto_pad"):
        read_network(convolution(auto_pad="VALID", pads=[1, 1, 1, 1]))


def transposed(count: int) -> list[onnx.NodeProto]:
    names = ["x", *(f"t{i}" for i in range(count - 1)), "y"]
    return [helper.make_node("Transpose", [names[i]], [names[i + 1]]) for i in range(count)]


def test_all_tensors_together_are_limited() -> None:
    shape = (2, 2**21)
    assert len(read_network(model(*transposed(1), shape=shape)).nodes) == 2
    with pytest.raises(Unreadable, match="too many"):
        read_network(model(*transposed(5), shape=shape))


def test_a_witness_says_that_it_is_one(tmp_path: Path) -> None:
    network = model(helper.make_node("MatMul", ["x", "w"], ["y"]), w=np.ones((2, 1), np.float32))
    report = judged(tmp_path, b"sat\n((X_0 -1)\n(X_1 -1)\n(Y_0 -2))\n", network)
    assert report.valid
    assert report.semantics.startswith("witness: real")
