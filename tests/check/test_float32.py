"""Certificates of float32 semantics: no execution in float32, in whatever order, crosses a certified bound."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from float32_execution import Execution
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from tiny_networks import KINDS, network

from anybound.budget import Budget
from anybound.certificate import Certificate, ClauseProof, Group
from anybound.certifying import Certifier
from anybound_check.arithmetic import Invalid
from anybound_check.bounds import Problems, Region
from anybound_check.check import _prove
from anybound_check.network import Network, read_network

Numbers = NDArray[np.float64]


def bounded(read: Network, box: tuple[Numbers, Numbers], single: bool) -> tuple[Numbers, Numbers]:
    """Of y_0, y_1, y_0 - y_1 from below and from above, by default slopes."""
    region = Region(read, box[0][:, None], box[1][:, None], single)
    goal = np.array([[1.0, 0], [0, 1.0], [1.0, -1.0]])
    goal = np.concatenate([goal, -goal]).T
    zeros = np.zeros(6)
    value = region.bound(Problems(np.zeros(6, int), zeros, zeros, goal))
    return value[:3], -value[3:]


@pytest.mark.parametrize("first", range(0, 240, 60))
def test_no_execution_crosses_a_bound(first: int) -> None:
    """On points and small boxes, where rounding is all there is; over the reals some do."""
    crossed = 0
    for seed in range(first, first + 60):
        rng = np.random.default_rng(seed)
        bias = float(10 ** rng.uniform(-2, 3))
        content, inputs = network(rng, KINDS[seed % len(KINDS)], widest=40, bias=bias)
        center = rng.normal(size=inputs).astype(np.float32)
        radius = np.float32(rng.choice([0, 0, 1e-6, 1e-4]) * bias)
        box = (center - radius).astype(float), (center + radius).astype(float)
        read = read_network(content)
        low, high = bounded(read, box, single=True)
        real_low, real_high = bounded(read, box, single=False)
        assert (low <= real_low).all()
        for _ in range(8):
            x = rng.uniform(*box).astype(np.float32).clip(*box).astype(np.float32)
            y = Execution(content, rng).run(x.reshape(read.shape)).astype(float)
            values = np.array([y[0], y[1], y[0] - y[1]])
            assert (low <= values).all()
            assert (values <= high).all()
            crossed += bool(((values < real_low) | (real_high < values)).any())
    assert crossed >= 30


def chain(rng: np.random.Generator) -> bytes:
    """y = (2 x, 3 x) + b_1 + b_2 + ..., by one addition after the other; the first two cancel."""
    count = int(rng.integers(1, 60))
    large = 2.0 ** rng.uniform(10, 28)
    biases = [large, -large, *rng.uniform(0.5, 2, count)]
    names = ["p", *(f"s{i}" for i in range(len(biases)))]
    nodes = [
        helper.make_node("Add", [names[i], f"b{i}"], [names[i + 1]]) for i in range(len(biases))
    ]
    weights = {f"b{i}": np.full((1, 2), bias, np.float32) for i, bias in enumerate(biases)}
    weights["w"] = np.array([[2, 3]], np.float32)
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["p"]), *nodes],
        "chain",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 1])],
        [helper.make_tensor_value_info(names[-1], TensorProto.FLOAT, [1, 2])],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    content: bytes = model.SerializeToString()
    return content


def test_additions_in_a_row_may_be_one_sum() -> None:
    """All small summands may be added to the large one, before that is taken away again."""
    for seed in range(40):
        rng = np.random.default_rng(seed)
        content = chain(rng)
        low, high = bounded(read_network(content), (np.ones(1), np.ones(1)), single=True)
        for _ in range(30):
            y = Execution(content, rng).run(np.ones((1, 1), np.float32)).astype(float)
            values = np.array([y[0], y[1], y[0] - y[1]])
            assert (low <= values).all()
            assert (values <= high).all()


def cancelling(rng: np.random.Generator) -> tuple[bytes, bytes, int]:
    """y = s (1 + ... + 1) + (2^k s - 2^k s) for count inputs of 1: as long as a large term is in the
    sum, the small ones are lost. Unsafe is a sum of at most half of what it should be."""
    count, k = int(rng.integers(4, 12)), int(rng.integers(25, 30))
    scale = np.float32(rng.uniform(0.5, 2))
    weight = rng.permutation(np.array([2.0**k, -(2.0**k), *[1.0] * count]) * float(scale))
    layers = [helper.make_node("MatMul", ["x", "w"], ["p"]), helper.make_node("Relu", ["p"], ["y"])]
    n = len(weight)
    graph = helper.make_graph(
        layers,
        "cancelling",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, n])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 1])],
        [numpy_helper.from_array(weight.astype(np.float32)[:, None], "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    lines = [
        f"(declare-const X_{i} Real)(assert (>= X_{i} 1))(assert (<= X_{i} 1))" for i in range(n)
    ]
    half = count * float(scale) / 2
    spec = "\n".join([*lines, f"(declare-const Y_0 Real)(assert (<= Y_0 {half:.6f}))"])
    content: bytes = model.SerializeToString()
    return content, spec.encode(), n


def proved(model: bytes, spec: bytes, semantics: str) -> bool:
    """Whether the plainest certificate is accepted."""
    content = Certificate(model, spec, [Group((), [ClauseProof(0)])], semantics).to_bytes()
    try:
        _prove(model, spec, content)
    except Invalid:
        return False
    return True


def test_decisions_that_the_order_flips_are_not_certified() -> None:
    flipped = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        model, spec, n = cancelling(rng)
        half = float(spec.rsplit(b" ", 1)[1].split(b")")[0])
        values = [Execution(model, rng).run(np.ones((1, n), np.float32))[0] for _ in range(20)]
        flipped += min(values) <= half < max(values)
        assert proved(model, spec, "real")
        assert not proved(model, spec, "float32")
    assert flipped >= 55


def test_nor_does_a_search_find_a_way(tmp_path: Path) -> None:
    paths = tmp_path / "net.onnx", tmp_path / "prop.vnnlib"
    for seed in range(2):
        model, spec, _ = cancelling(np.random.default_rng(seed))
        for path, content in zip(paths, (model, spec), strict=True):
            path.write_bytes(content)
        assert Certifier(*paths).certificate(Budget(5)) is not None
        assert Certifier(*paths, semantics="float32").certificate(Budget(0.5)) is None


def test_merged_sums_are_executed() -> None:
    """The executions differ, and none is far from onnxruntime's."""
    ort = pytest.importorskip("onnxruntime")
    for seed, kind in enumerate(KINDS):
        rng = np.random.default_rng(seed)
        content, inputs = network(rng, kind, widest=40)
        x = rng.normal(size=read_network(content).shape).astype(np.float32)
        assert x.size == inputs
        (y,) = ort.InferenceSession(content).run(None, {"x": x})
        found = np.array([Execution(content, rng).run(x) for _ in range(30)])
        np.testing.assert_allclose(found, np.broadcast_to(y, found.shape), rtol=1e-4, atol=1e-4)
        assert kind == "pool" or len(np.unique(found, axis=0)) > 1
