"""Ways around the checker that were found by reading it: each is refused, or bounded as it is meant."""

import hashlib
import io
import json
import time
import tracemalloc
import zipfile
from contextlib import suppress
from pathlib import Path

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from anybound.io.vnnlib import read_vnnlib
from anybound_check import check
from anybound_check.__main__ import main
from anybound_check.archive import Record, read_archive
from anybound_check.arithmetic import Unreadable
from anybound_check.bounds import Region
from anybound_check.network import read_network
from anybound_check.proof import Checker
from anybound_check.vnnlib import Clause, read_property


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


def archive(entries: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in entries.items():
            file.writestr(name, content)
    return buffer.getvalue()


def array(values: NDArray) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, values)
    return buffer.getvalue()


def peak(content: bytes) -> int:
    """What reading an archive, or refusing it, takes at most; in bytes."""
    tracemalloc.start()
    try:
        with pytest.raises(Unreadable):
            read_archive(content, 2**20)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_an_entry_that_unpacks_to_more_than_it_says() -> None:
    """Its size is stated as 10 in both headers; deflated, 64 MB of zeros are 64 kB."""
    content = archive({"manifest.json": b"{}", "a0.npy": bytes(2**26)})
    small = content.replace((2**26).to_bytes(4, "little"), (10).to_bytes(4, "little"))
    assert small != content
    assert peak(small) < 2**22


@pytest.mark.parametrize("unit", [b"{},", b"[],", b'{"":0},'])
def test_a_manifest_of_nothing_but_brackets(unit: bytes) -> None:
    text = b'{"groups":[' + unit * (250_000 // len(unit)) + b"0"
    assert peak(archive({"manifest.json": text})) < 2**24


@pytest.mark.parametrize("twin", ["a0", "a0.bin"])
def test_an_array_has_one_name(twin: str) -> None:
    values = array(np.zeros(1, np.uint8))
    with pytest.raises(Unreadable):
        read_archive(archive({"manifest.json": b"{}", "a0.npy": values, twin: values}), 2**20)


def test_the_header_ends_where_it_says() -> None:
    values = bytearray(array(np.arange(64, dtype=np.uint8)))
    values[8] -= 16
    with pytest.raises(Unreadable, match="damaged"):
        read_archive(archive({"manifest.json": b"{}", "a0.npy": bytes(values)}), 2**20)


def test_integers_do_not_wrap_around() -> None:
    values = array(np.array([2**64 - 1], np.uint64))
    record = read_archive(archive({"manifest.json": b'{"split":"a0"}', "a0.npy": values}), 2**20)
    with pytest.raises(Unreadable, match="outside"):
        record.indices("split", 10, least=-1)


def test_reasons_can_be_printed(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("net.onnx", "prop.vnnlib", "proof.abc")]
    network = model(helper.make_node("Relu", ["x"], ["y"]), shape=(1, 1))
    text = (
        b"(declare-const X_0 Real)(declare-const Y_0 Real)"
        b"(assert (>= X_0 0))(assert (<= X_0 1))(assert (<= Y_0 -1))"
    )
    manifest = {
        "format": "anybound certificate",
        "version": 2,
        "semantics": "real",
        "network": hashlib.sha256(network).hexdigest(),
        "property": hashlib.sha256(text).hexdigest(),
        "groups": [{"proofs": [{"clause": "\ud800"}]}],
    }
    content = archive({"manifest.json": json.dumps(manifest).encode()})
    for path, data in zip(paths, (network, text, content), strict=True):
        path.write_bytes(data)
    written = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.stdout", written)
        assert main([str(path) for path in paths]) == 2
    written.flush()


LINES = "(declare-const X_0 Real)(declare-const Y_0 Real)(assert (>= X_0 0))(assert (<= X_0 1))"


@pytest.mark.parametrize("end", ["\r", "\n", "\r\n"])
def test_a_comment_ends_with_its_line(end: str, tmp_path: Path) -> None:
    """SMT-LIB 2.6, section 3.1: a line breaking character is 10 or 13."""
    text = f"{LINES}(assert (or (<= Y_0 0) ; one{end} (>= Y_0 5)\n))"
    assert len(read_property(text.encode(), 1, 1)) == 2
    path = tmp_path / "prop.vnnlib"
    path.write_bytes(text.encode())
    assert len(read_vnnlib(path).clauses) == 2


@pytest.mark.parametrize("blank", ["\u00a0", "\u2028", "\x85", "\x0b", "\x1c"])
def test_blanks_are_those_of_ascii(blank: str) -> None:
    with pytest.raises(Unreadable):
        read_property(f"{LINES}(assert (<= Y_0{blank}0))".encode(), 1, 1)
    read_property(f"; {blank} in a comment\n{LINES}(assert (<= Y_0 0))".encode(), 1, 1)


def test_constants_are_not_padded_by_minus_one() -> None:
    """ONNX pads integers with 0: axes (0, 1), not (0, -1)."""
    nodes = [
        helper.make_node("Pad", ["axis", "pads"], ["axes"]),
        helper.make_node("Unsqueeze", ["x", "axes"], ["u"]),
        helper.make_node("Relu", ["u"], ["y"]),
    ]
    weights = {"axis": np.array([0]), "pads": np.array([0, 1])}
    with pytest.raises(Unreadable, match="Pad"):
        read_network(model(*nodes, **weights))


@pytest.mark.parametrize("shape", [(3, 2, 5), (2,), ()])
def test_a_gemm_has_a_matrix(shape: tuple[int, ...]) -> None:
    node = helper.make_node("Gemm", ["x", "w"], ["y"], transB=1)
    with pytest.raises(Unreadable, match="Gemm"):
        read_network(model(node, w=np.ones(shape, np.float32)))


def test_an_attribute_is_given_once() -> None:
    node = helper.make_node("Gemm", ["x", "w"], ["y"], transB=1)
    node.attribute.append(helper.make_attribute("transB", 0))
    with pytest.raises(Unreadable, match="Gemm"):
        read_network(model(node, w=np.ones((2, 2), np.float32)))


def region(network: bytes, low: list[float], high: list[float]) -> Region:
    """In float32 semantics."""
    checker = Checker(read_network(network), [], single=True)
    box = (np.array(side, np.float64)[:, None] for side in (low, high))
    return Region(checker.network, *box, single=True)


def test_a_gemms_factor_may_lift_what_has_vanished() -> None:
    """In float32, 1e-25 x underflows for x = 1e-24; times 1e30 the output is 0 instead of 1e-19."""
    node = helper.make_node("Gemm", ["x", "w"], ["y"], alpha=1e30)
    content = model(node, shape=(1, 1), w=np.full((1, 1), 1e-25, np.float32))
    try:
        lower = region(content, [1e-24], [1e-24]).lower[-1]
    except Unreadable:
        return
    assert lower <= 0


def test_a_bias_may_be_where_a_sum_starts() -> None:
    """MatMul and Add run as one: ones are lost one by one when added to a large bias."""
    n, bias = 512, np.float32(2**24)
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["p"]),
        helper.make_node("Add", ["p", "b"], ["y"]),
    ]
    content = model(*nodes, shape=(1, n), w=np.ones((n, 1), np.float32), b=np.full(1, bias))
    total = bias
    for _ in range(n):
        total = np.float32(total + np.float32(1))
    box = region(content, [1.0] * n, [1.0] * n)
    assert box.lower[-1] <= float(total) <= box.upper[-1]
    assert float(total) != float(bias) + n


def test_layers_are_renewed_once() -> None:
    network = read_network(model(helper.make_node("Relu", ["x"], ["y"])))
    text = (
        "(declare-const X_0 Real)(declare-const X_1 Real)(declare-const Y_0 Real)"
        "(declare-const Y_1 Real)(assert (>= X_0 -1))(assert (<= X_0 1))(assert (>= X_1 -1))"
        "(assert (<= X_1 1))(assert (<= Y_0 -1))"
    )
    checker = Checker(network, read_property(text.encode(), 2, 2))
    values = array(np.zeros(2, np.uint8))
    record = read_archive(archive({"manifest.json": b'{"renew":"a0"}', "a0.npy": values}), 2**20)
    with pytest.raises(Unreadable, match="renew"):
        list(checker.leaves(checker.region(0), checker.clauses[0], record))


def test_a_witness_states_an_input_once(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("net.onnx", "prop.vnnlib", "witness.txt")]
    text = f"{LINES}(assert (>= Y_0 0.5))".encode()
    contents = (
        model(helper.make_node("Relu", ["x"], ["y"]), shape=(1, 1)),
        text,
        b"sat\n((X_0 0.1)\n(X_0 0.75))\n",
    )
    for path, data in zip(paths, contents, strict=True):
        path.write_bytes(data)
    assert check(*paths).unreadable


def test_many_half_spaces_are_summed_with_their_errors() -> None:
    """y = 3 is unsafe: y <= 3 holds as often as one likes. But w.1 and w.3 are rounded differently."""
    count = 300_000
    point = np.full((1, 1), 3.0)
    clause = Clause(point, point, np.ones((count, 1)), np.full(count, 3.0))
    checker = Checker(
        read_network(model(helper.make_node("Relu", ["x"], ["y"]), shape=(1, 1))), [clause]
    )
    for weight in (0.05, 0.275, 0.3):
        record = Record({"weights": "w"}, {"w": np.full((1, count), weight / 3)})
        (lower,) = checker.leaves(checker.region(0), clause, record)
        assert not lower > 0


@pytest.mark.parametrize("name", ["strides", "pads", "dilations"])
def test_sizes_of_windows_are_integers(name: str) -> None:
    weight = np.ones((1, 1, 2, 2), np.float32)
    values = [1.0] * (4 if name == "pads" else 2)
    node = helper.make_node("Conv", ["x", "w"], ["y"], **{name: values})
    with pytest.raises(Unreadable, match="Conv"):
        read_network(model(node, shape=(1, 1, 4, 4), w=weight))


def test_a_node_has_one_output() -> None:
    """Until opset 13, a batch normalisation with five is one of training: by the batch's own mean."""
    names = ["scale", "shift", "mean", "variance"]
    node = helper.make_node("BatchNormalization", ["x", *names], ["y", "m", "v", "sm", "sv"])
    weights = {name: np.ones(2, np.float32) for name in names}
    with pytest.raises(Unreadable, match="BatchNormalization"):
        read_network(model(node, **weights))


BOUNDS = "(<= X_0 1) " * 6_000
OPTIONS = "".join(f"(<= Y_0 -{i}) " for i in range(1, 3_000))
HALVES = f"(assert (or (<= Y_0 -1) (and (<= Y_0 -2) {BOUNDS})))"


@pytest.mark.parametrize(
    "assertions",
    [
        f"(assert (and (or {OPTIONS}) {BOUNDS}))",
        f"(assert (and {BOUNDS}))(assert (or {OPTIONS}))",
        HALVES * 12,
        f"(assert (and {BOUNDS}))(assert (or {''.join(f'(<= X_0 0.{i}) ' for i in range(3_000))}))",
    ],
)
def test_clauses_are_not_multiplied_without_end(assertions: str) -> None:
    """Each of a few thousand clauses would repeat all of the bounds."""
    text = (LINES + assertions).encode()
    tracemalloc.start()
    try:
        begun = time.process_time()
        with suppress(Unreadable):
            read_property(text, 1, 1)
        assert time.process_time() - begun < 10
        assert tracemalloc.get_traced_memory()[1] < 400 * len(text)
    finally:
        tracemalloc.stop()


def test_the_intervals_of_all_nodes_together_are_limited(tmp_path: Path) -> None:
    """Many layers, a wide one, and a tree of many boxes, each with intervals of its own."""
    network = read_network(
        model(
            *(
                helper.make_node("Relu", [f"r{i}" if i else "x"], [f"r{i + 1}" if i < 499 else "y"])
                for i in range(500)
            ),
            shape=(1, 2000),
        )
    )
    assert Checker(network, []).batch * sum(node.size for node in network.nodes) <= 2**24
