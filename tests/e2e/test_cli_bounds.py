"""`anybound bounds` and `methods`, against onnxruntime and interval arithmetic in numpy."""

import json
import os
import pickle
import signal
from itertools import pairwise
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import numpy_helper

from anybound.bound.decomposition import Decomposition
from anybound.bound.methods.slopes import Slopes, SlopesState
from anybound.cli import main as module
from anybound.cli.main import main

NETWORKS = Path(module.__file__).parents[1] / "data" / "networks"
DENSE = NETWORKS / "digits_dense.onnx"

Capture = pytest.CaptureFixture[str]
Array = np.ndarray


def run(capsys: Capture, *arguments: object) -> tuple[int, str, str]:
    code = main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def found(capsys: Capture, *arguments: object) -> dict[str, list[float]]:
    """The record of a run that must succeed."""
    code, out, err = run(capsys, "bounds", *arguments, "--json")
    assert (code, err) == (0, "")
    return json.loads(out)  # type: ignore[no-any-return]  # JSON


def saved(path: Path, array: object) -> Path:
    np.save(path, np.asarray(array))
    return path


@pytest.fixture
def center(tmp_path: Path) -> Path:
    """A point with coordinates at and near the ends of the valid range."""
    values = np.random.default_rng(3).uniform(-0.1, 1.1, (1, 8, 8)).clip(0, 1)
    return saved(tmp_path / "center.npy", values)


def outputs(network: Path, points: Array) -> Array:
    session = onnxruntime.InferenceSession(network, providers=["CPUExecutionProvider"])
    batch = points.astype(np.float32).reshape(-1, 1, 1, 8, 8)
    return np.concatenate([session.run(None, {"input": point})[0] for point in batch])


def in_ball(center: Array, epsilon: float, norm: str, count: int = 200) -> Array:
    """Points on and in a ball, some of them vertices of a box or of an l1 ball."""
    rng = np.random.default_rng(0)
    if norm == "inf":
        return center + epsilon * np.sign(rng.standard_normal((count, 64)))
    if norm == "2":
        direction = rng.standard_normal((count, 64))
        return center + epsilon * direction / np.linalg.norm(direction, axis=1, keepdims=True)
    return center + epsilon * np.concatenate([np.eye(64), -np.eye(64)])


@pytest.mark.parametrize("network", sorted(NETWORKS.glob("*.onnx")), ids=lambda p: p.stem)
@pytest.mark.parametrize(("norm", "epsilon"), [("inf", 0.04), ("2", 0.15), ("1", 0.6)])
def test_no_input_of_the_set_leaves_the_bounds(
    network: Path, norm: str, epsilon: float, center: Path, capsys: Capture
) -> None:
    options = ("--center", center, "--epsilon", epsilon, "--norm", norm, "--clip", 0, 1)
    record = found(capsys, network, *options, "--method", "crown", "--intermediate", "crown")
    points = in_ball(np.load(center).ravel(), epsilon, norm).clip(0, 1)
    values = outputs(network, points)
    lower, upper = np.array(record["lower"]), np.array(record["upper"])
    assert lower.shape == upper.shape == (10,)
    assert (lower - 1e-4 <= values.min(axis=0)).all()
    assert (values.max(axis=0) <= upper + 1e-4).all()
    assert (upper - lower).max() < 60  # not just anything


def affine_layers(network: Path) -> list[tuple[Array, Array]]:
    """W and b of a file that is Gemm, Relu, …, Gemm."""
    graph = onnx.load(network).graph
    stored = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    layers = []
    for node in [node for node in graph.node if node.op_type == "Gemm"]:
        weight = stored[node.input[1]].astype(float)
        transposed = any(a.name == "transB" and a.i for a in node.attribute)
        layers.append((weight if transposed else weight.T, stored[node.input[2]].astype(float)))
    return layers


def interval(layers: list[tuple[Array, Array]], lower: Array, upper: Array) -> list[Array]:
    """The pre-activation intervals `[2, neurons]` of every layer."""
    intervals = []
    for weight, bias in layers:
        middle, radius = weight @ (lower + upper) / 2 + bias, abs(weight) @ (upper - lower) / 2
        intervals.append(np.array([middle - radius, middle + radius]))
        lower, upper = intervals[-1].clip(0)
    return intervals


def test_intervals_are_those_of_the_files_matrices(tmp_path: Path, capsys: Capture) -> None:
    rng = np.random.default_rng(1)
    lower = rng.uniform(0, 0.5, 64)
    upper = lower + rng.uniform(0, 0.1, 64)
    box = ("--box", saved(tmp_path / "l.npy", lower), saved(tmp_path / "u.npy", upper))
    rows = rng.standard_normal((3, 10))
    layers = affine_layers(DENSE)
    (weight, bias), *_ = layers[::-1]
    expected = interval([*layers[:-1], (rows @ weight, rows @ bias)], lower, upper)
    chosen = ("--rows", saved(tmp_path / "rows.npy", rows))
    loose = found(
        capsys, DENSE, *box, *chosen, "--method", "interval", "--intermediate", "interval"
    )
    np.testing.assert_allclose([loose["lower"], loose["upper"]], expected[-1], rtol=1e-9)
    assert loose["ambiguous"] == [int(((i[0] < 0) & (i[1] > 0)).sum()) for i in expected[:-1]]
    first = found(capsys, DENSE, *box, "--layer", 1)
    np.testing.assert_allclose([first["lower"], first["upper"]], expected[0], rtol=1e-9)
    tight = found(capsys, DENSE, *box, *chosen)
    assert (np.array(tight["lower"]) > np.array(loose["lower"]) + 0.1).all()
    assert (np.array(tight["upper"]) < np.array(loose["upper"]) - 0.1).all()


def test_trace_and_text(tmp_path: Path, center: Path, capsys: Capture) -> None:
    trace = tmp_path / "trace.jsonl"
    ball = ("--center", center, "--epsilon", 0.05)
    method = ("--method", "supergradient(iterations=12)")
    record = found(capsys, DENSE, *ball, *method, "--trace", trace)
    points = [json.loads(line) for line in trace.read_text().splitlines()]
    assert [point["iteration"] for point in points] == list(range(13))
    assert record["iterations"] == 12
    for before, after in pairwise(points):
        assert before["seconds"] <= after["seconds"]
        assert (np.array(before["lower"]) <= np.array(after["lower"])).all()
    np.testing.assert_allclose(points[-1]["lower"], record["lower"], rtol=1e-3, atol=1e-3)
    code, out, err = run(capsys, "bounds", DENSE, *ball, *method)
    assert (code, err) == (0, "")
    for low, high in zip(record["lower"], record["upper"], strict=True):
        assert f"{low:.6g}" in out
        assert f"{high:.6g}" in out


def test_a_spent_budget_leaves_valid_bounds(center: Path, capsys: Capture) -> None:
    ball = ("--center", center, "--epsilon", 0.05)
    hurried = found(capsys, DENSE, *ball, "--method", "proximal", "--timeout", "0.000001")
    points = outputs(DENSE, in_ball(np.load(center).ravel(), 0.05, "inf"))
    assert hurried["stopped"] == "budget"
    assert (np.array(hurried["lower"]) - 1e-4 <= points.min(axis=0)).all()
    assert (points.max(axis=0) <= np.array(hurried["upper"]) + 1e-4).all()


# Bad input


class Payload:
    """Unpickling it would leave a file behind."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return (Path.touch, (self.path,))


BAD = [
    ("no set", [], "give --box LOWER.npy UPPER.npy, or --center X.npy and --epsilon E"),
    ("no epsilon", ["--center", "x"], "give --box LOWER.npy UPPER.npy, or --center"),
    ("both", ["--box", "x", "x", "--epsilon", "1"], "--box and --epsilon exclude each other"),
    ("negative", ["--center", "x", "--epsilon", "-1"], "epsilon: -1.0; expected a finite number"),
    ("word", ["--center", "x", "--epsilon", "lots"], "'lots' is not a finite number"),
    ("infinite", ["--center", "x", "--epsilon", "inf"], "'inf' is not a finite number"),
    ("norm", ["--center", "x", "--epsilon", "1", "--norm", "3"], "unknown --norm '3'"),
    ("clip", ["--center", "x", "--epsilon", "1", "--clip", "1", "0"], "the range is empty"),
    ("size", ["--center", "short", "--epsilon", "1"], "has 63 values; expected 64"),
    ("box size", ["--box", "short", "x"], "has 63 values; the network has 64 inputs"),
    ("crossed", ["--box", "high", "x"], "lower above upper at input 0"),
    ("NaN", ["--center", "nan", "--epsilon", "1"], "1 of 64 numbers are NaN or infinite"),
    ("complex", ["--center", "complex", "--epsilon", "1"], "holds complex128; expected float64"),
    ("text", ["--center", "text", "--epsilon", "1"], "holds <U1; expected float64"),
    ("pickled", ["--center", "pickled", "--epsilon", "1"], "holds pickled objects"),
    ("no npy", ["--center", "noise", "--epsilon", "1"], "not a .npy file"),
    ("truncated", ["--center", "truncated", "--epsilon", "1"], "not a .npy file"),
    ("missing", ["--center", "missing", "--epsilon", "1"], "missing.npy: no such file"),
    ("rows", ["@", "--rows", "x"], "rows have shape (64,); expected [R, 10]"),
    ("NaN rows", ["@", "--rows", "nan"], "numbers are NaN or infinite"),
    ("no rows", ["@", "--rows", "none"], "rows have shape (0, 10); expected [R, 10]"),
    ("layer", ["@", "--layer", "7"], "layer 7 does not exist; the network's layers are 1 to 3"),
    ("layer 0", ["@", "--layer", "0"], "layer 0 does not exist"),
    ("method", ["@", "--method", "slope"], "did you mean 'slopes'?"),
    ("parameter", ["@", "--method", "slopes(steps=3)"], "slopes has no parameter 'steps'"),
    ("iterations", ["@", "--method", "slopes(iterations=0)"], "iterations is 0; expected at least"),
    ("code", ["@", "--method", "__import__('os')"], "unknown method '__import__'"),
    ("intermediate", ["@", "--intermediate", "crow"], "did you mean 'crown'?"),
    ("timeout", ["@", "--timeout", "0"], "'0' is not a number of seconds above 0"),
    ("trace", ["@", "--trace", "/nowhere/trace"], "/nowhere/trace: No such file"),
    ("l2 lp", ["@", "--norm", "2", "--method", "lp"], "box"),
]


@pytest.mark.parametrize(("arguments", "says"), [b[1:] for b in BAD], ids=[b[0] for b in BAD])
def test_bad_input_is_one_line(
    arguments: list[str], says: str, tmp_path: Path, capsys: Capture
) -> None:
    x = np.full(64, 0.5)
    holed = x.copy()
    holed[5] = np.nan
    arrays = {"x": x, "short": x[1:], "high": x + 1, "nan": holed, "complex": x + 1j}
    arrays |= {"text": np.array(["a"]), "none": np.zeros((0, 10))}
    for name, array in arrays.items():
        saved(tmp_path / f"{name}.npy", array)
    bomb = np.array([Payload(tmp_path / "exploded")], dtype=object)
    np.save(tmp_path / "pickled.npy", bomb, allow_pickle=True)
    (tmp_path / "noise.npy").write_bytes(np.random.default_rng(0).bytes(200))
    (tmp_path / "truncated.npy").write_bytes((tmp_path / "x.npy").read_bytes()[:300])
    names = {*arrays, "pickled", "noise", "truncated", "missing"}
    ball = ["--center", str(tmp_path / "x.npy"), "--epsilon", "0.01"]
    given = [str(tmp_path / f"{a}.npy") if a in names else a for a in arguments]
    given = [*ball, *given[1:]] if given[:1] == ["@"] else given
    code, out, err = run(capsys, "bounds", DENSE, *given)
    assert code == 2
    assert not out
    assert err.startswith("anybound: error: ")
    assert err.count("\n") == 1
    assert says in err
    assert "bug" not in err
    assert not (tmp_path / "exploded").exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_leaves_the_best_bounds(
    capsys: Capture, center: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def interrupted(self: Slopes, dual: Decomposition, state: SlopesState) -> SlopesState:
        if state.t == 3:
            os.kill(os.getpid(), number)
        return step(self, dual, state)

    step = Slopes.step
    monkeypatch.setattr(Slopes, "step", interrupted)
    ball, endless = ["--center", center, "--epsilon", "0.05"], "slopes(iterations=100000000)"
    code, out, _ = run(capsys, "bounds", DENSE, *ball, "--method", endless, "--json")
    assert code == 130
    record = json.loads(out)
    assert record["stopped"] == "interrupted"
    assert all(low < high for low, high in zip(record["lower"], record["upper"], strict=True))


def test_the_payload_of_the_test_above_would_work(tmp_path: Path) -> None:
    pickle.loads(pickle.dumps(Payload(tmp_path / "exploded")))  # noqa: S301
    assert (tmp_path / "exploded").exists()


# methods


def test_methods_lists_what_can_be_named(capsys: Capture) -> None:
    code, out, _ = run(capsys, "methods", "--json")
    assert code == 0
    record = json.loads(out)
    files = (NETWORKS.parents[1] / "bound" / "methods").glob("[!_]*.py")
    assert [entry["name"] for entry in record["method"]] == sorted(path.stem for path in files)
    proximal = next(entry for entry in record["method"] if entry["name"] == "proximal")
    defaults = {p["name"]: p["default"] for p in proximal["parameters"]}
    assert defaults["iterations"] == "400"
    assert all(entry["summary"].endswith(".") for entry in record["method"])
    code, out, _ = run(capsys, "methods", "wk")
    assert code == 0
    assert "wk(stable_too=True)" in out
    code, _, err = run(capsys, "methods", "proximl")
    assert code == 2
    assert "did you mean 'proximal'?" in err
