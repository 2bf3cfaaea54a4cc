"""The checker's own reading of ONNX, on random graphs of all its operators, against onnxruntime."""

from __future__ import annotations

from collections import Counter

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from random_graphs import RandomGraph

from anybound_check.arithmetic import Invalid, Unreadable
from anybound_check.bounds import Region
from anybound_check.network import Network, read_network
from anybound_check.operators import OPERATORS

ort = pytest.importorskip("onnxruntime")

GRAPHS = 500
SEEN = Counter[str]()


def executed(content: bytes, x: NDArray[np.float32]) -> NDArray[np.float32] | None:
    """onnxruntime's output, without its own rewriting; None if it refuses the file."""
    options = ort.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        session = ort.InferenceSession(content, options, providers=["CPUExecutionProvider"])
        return np.asarray(session.run(None, {"x": x})[0])
    except Exception:  # noqa: BLE001  (its errors have no common type)
        return None


def random_graph(rng: np.random.Generator) -> tuple[bytes, NDArray[np.float32]] | None:
    """A file that onnxruntime runs, and an input; whether the checker reads it is another question."""
    graph = RandomGraph(rng)
    x = rng.normal(size=graph.input_shape).astype(np.float32)
    for _ in range(int(rng.integers(1, 5))):
        state = graph.state()
        graph.grow()
        y = executed(graph.content(), x)
        if y is None or not y.size or not y.ndim:
            graph.undo(state)
        else:
            graph.shape = y.shape
    return (graph.content(), x) if graph.nodes else None


def interval(network: Network, x: NDArray[np.float32], single: bool) -> NDArray[np.float64] | None:
    """Of the outputs at a point, [2, outputs]; None if the numbers are too large."""
    point = x.astype(np.float64).reshape(-1, 1)
    try:
        with np.errstate(all="ignore"):
            region = Region(network, point, point, single)
    except Invalid:
        return None
    return np.stack(region.out[network.output])[:, :, 0]


@pytest.mark.parametrize("first", range(0, GRAPHS, 100))
def test_outputs_lie_in_the_intervals(first: int) -> None:
    """Over the reals up to float32's errors; in float32 semantics exactly."""
    read = 0
    for seed in range(first, first + 100):
        found = random_graph(np.random.default_rng(seed))
        if found is None:
            continue
        content, x = found
        try:
            network = read_network(content)
        except Unreadable:
            continue
        y = executed(content, x)
        assert y is not None
        if not np.isfinite(y).all():
            continue
        values = y.reshape(-1).astype(np.float64)
        real = interval(network, x, single=False)
        assert real is not None
        assert real.shape[1] == values.size
        error = 1e-4 * (1 + np.abs(values).max())
        assert (real[0] - error <= values).all(), seed
        assert (values <= real[1] + error).all(), seed
        if not network.real_only and {node.activation for node in network.nodes} <= {"", "relu"}:
            single = interval(network, x, single=True)
            assert single is None or ((single[0] <= values) & (values <= single[1])).all()
        read += 1
        SEEN.update({node.op_type for node in onnx.load_model_from_string(content).graph.node})
    assert read >= 60


def test_every_operator_was_among_them() -> None:
    if not SEEN:
        pytest.skip("the graphs were not run")
    assert set(SEEN) == set(OPERATORS)
