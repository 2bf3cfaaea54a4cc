"""`anybound.verify`, against exact minima and onnxruntime, and in the face of faults."""

import csv
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from onnx import helper
from onnx_models import from_proto, model
from torch import Tensor

import anybound
from anybound import Verdict, decision, verify
from anybound.bound.bounds import Bounds
from anybound.bound.intermediates.crown import BestOfIntervalAndCrown
from anybound.bound.methods.crown import Crown
from anybound.budget import Budget
from anybound.decision import SearchReport, SearchTask
from anybound.errors import AnyboundError
from anybound.model.domains.domain import Domain
from anybound.model.network import Network
from anybound.outcome import Outcome
from anybound.search.attack import Attack, Tried
from anybound.search.margins import Margins
from anybound.spec.build import all_of, linear, unsafe
from anybound.spec.input_sets import BoxSet
from anybound.spec.property import Property

DATA = Path(anybound.__file__).parent / "data"
Array = np.ndarray


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def dense(*layers: tuple[Array, Array]) -> onnx.ModelProto:
    """Gemm, Relu, …, Gemm on a row of inputs."""
    nodes, weights, name = [], {}, "x"
    for i, (weight, bias) in enumerate(layers):
        weights |= {f"W{i}": weight.astype(np.float32), f"b{i}": bias.astype(np.float32)}
        target = "y" if i == len(layers) - 1 else f"h{i}"
        nodes.append(helper.make_node("Gemm", [name, f"W{i}", f"b{i}"], [target], transB=1))
        if target != "y":
            nodes.append(helper.make_node("Relu", [target], [f"r{i}"]))
        name = f"r{i}"
    return model(nodes, [1, layers[0][0].shape[1]], weights)


def saved(proto: onnx.ModelProto, folder: Path) -> Path:
    path = folder / "net.onnx"
    onnx.save(proto, path)
    return path


def box(low: float, high: float, size: int = 1) -> BoxSet:
    return BoxSet(np.full(size, low), np.full(size, high))


IDENTITY = dense((np.eye(1), np.zeros(1)))
HINGE = dense((np.array([[1.0], [-1.0]]), np.zeros(2)), (np.array([[1.0, 1.0]]), np.zeros(1)))


# Verdicts


def bundled() -> list[tuple[str, str, str]]:
    with (DATA / "expected.csv").open() as file:
        return [tuple(row.values()) for row in csv.DictReader(file)]  # type: ignore[misc]


@pytest.mark.parametrize(("net", "prop", "expected"), bundled(), ids=lambda text: Path(text).stem)
def test_bundled_properties(net: str, prop: str, expected: str) -> None:
    outcome = verify(DATA / net, DATA / prop, timeout=20)
    assert outcome.verdict is not (Verdict.VIOLATED if expected == "unsat" else Verdict.HOLDS)
    assert (outcome.witness is not None) == (outcome.verdict is Verdict.VIOLATED)
    if expected == "sat":
        assert outcome.verdict is Verdict.VIOLATED
    assert all(clause.lower <= clause.upper for clause in outcome.clauses)
    if outcome.witness is not None:
        session = onnxruntime.InferenceSession(DATA / net, providers=["CPUExecutionProvider"])
        x = outcome.witness.input.astype(np.float32)
        assert (x.astype(np.float64) == outcome.witness.input).all()
        (y,) = session.run(None, {"input": x.reshape(1, 1, 8, 8)})
        assert (y.ravel() == outcome.witness.output).all()
        assert anybound.read_vnnlib(DATA / prop).violated_by(x, y)


def test_verdicts_against_exact_minima(tmp_path: Path) -> None:
    """f(x) = v·relu(w x + b) is least at an end of the interval or where a neuron switches."""
    rng = np.random.default_rng(11)
    seen = set()
    for _ in range(60):
        w, b = rng.standard_normal((2, 3)).astype(np.float32).astype(float)
        v = rng.standard_normal(3).astype(np.float32).astype(float)
        low, high = np.sort(rng.uniform(-2, 2, 2).astype(np.float32).astype(float))
        kinks = np.clip(-b / w, low, high)
        values = np.maximum(np.outer([low, high, *kinks], w) + b, 0) @ v
        least = values.min()
        gap = float(rng.choice([-0.3, -1e-2, -1e-4, 1e-4, 1e-2, 0.3]))
        net = saved(dense((w[:, None], b), (v[None], np.zeros(1))), tmp_path)
        prop = unsafe(box(low, high), linear([[1.0]], [least + gap]))
        outcome = verify(net, prop, timeout=5)
        assert outcome.verdict is not (Verdict.VIOLATED if gap < 0 else Verdict.HOLDS)
        (clause,) = outcome.clauses
        assert clause.lower <= -gap + 1e-9
        assert clause.upper >= -gap - 1e-5  # float32 attacks, judged in float64
        seen.add((gap, outcome.verdict))
    assert {(gap, Verdict.VIOLATED) for gap in (1e-2, 0.3)} <= seen
    assert (-0.3, Verdict.HOLDS) in seen


def test_a_network_that_yields_one_number_without_axes(tmp_path: Path) -> None:
    """relu(x_0) + relu(−x_1) is in [0, 2] on [−1, 1]², a scalar as `squeeze` leaves it."""
    weights = {"a": np.float32([[1, 0], [0, -1]]), "b": np.float32([1, 1])}
    nodes = [
        helper.make_node("MatMul", ["x", "a"], ["p"]),
        helper.make_node("Relu", ["p"], ["q"]),
        helper.make_node("MatMul", ["q", "b"], ["y"]),
    ]
    net = saved(model(nodes, [2], weights), tmp_path)
    ball = anybound.ball([0.0, 0.0], 1.0)
    found = anybound.bounds(anybound.load(net), ball)
    assert abs(float(found.lower)) < 1e-9
    assert abs(float(found.upper) - 2) < 1e-9
    for threshold, verdict in [(1.25, Verdict.VIOLATED), (2.25, Verdict.HOLDS)]:
        prop = unsafe(ball, linear([[-1.0]], [-threshold]))  # f(x) >= threshold
        assert verify(net, prop, timeout=20).verdict is verdict


def test_a_set_that_is_only_touched_is_not_proved(tmp_path: Path) -> None:
    """|x| on [-1, 1] reaches 0 exactly: with `<=` there is a witness, with `<` there is none."""
    net = saved(HINGE, tmp_path)
    closed = verify(net, unsafe(box(-1, 1), linear([[1.0]], [0.0])), timeout=5)
    assert closed.verdict is Verdict.VIOLATED
    assert closed.witness is not None
    assert closed.witness.output == 0
    strict = verify(net, unsafe(box(-1, 1), linear([[1.0]], [0.0], strict=True)), search=None)
    assert strict.verdict is Verdict.UNKNOWN
    assert strict.clauses[0].lower <= 0


def test_a_decimal_between_two_floats(tmp_path: Path) -> None:
    """x = 0.1 holds no float32: proof and witness are about the float32 next to it, too."""
    net = saved(IDENTITY, tmp_path)
    text = "(declare-const X_0 Real)(declare-const Y_0 Real)"
    text += "(assert (<= X_0 0.1))(assert (>= X_0 0.1))(assert (>= Y_0 {}))"
    path = tmp_path / "p.vnnlib"
    path.write_text(text.format("0.100000001"))  # float32(0.1) is 0.10000000149
    assert verify(net, path).verdict is Verdict.VIOLATED
    path.write_text(text.format("0.100000002"))
    assert verify(net, path).verdict is Verdict.HOLDS


def test_clauses_of_several_rows_and_several_input_sets(tmp_path: Path) -> None:
    both = dense((np.array([[1.0], [-1.0]]), np.zeros(2)))
    net = saved(both, tmp_path)
    far = unsafe(box(1, 2), all_of(linear([[1, 0]], [0.5]), linear([[0, 1]], [0.5])))
    assert verify(net, far).verdict is Verdict.HOLDS  # by the first row alone
    # y_0 <= -0.5 and y_1 <= -0.5 never meet, but each is met somewhere
    turns = unsafe(box(-1, 1), all_of(linear([[1, 0]], [-0.5]), linear([[0, 1]], [-0.5])))
    outcome = verify(net, far | turns, search=None)
    assert outcome.verdict is Verdict.UNKNOWN
    assert [clause.lower > 0 for clause in outcome.clauses] == [True, False]
    assert outcome.clauses[1].upper == pytest.approx(0.5, abs=0.05)
    hit = unsafe(box(3, 4), all_of(linear([[1, 0]], [3.5]), linear([[0, 1]], [-3.25])))
    outcome = verify(net, far | turns | hit, timeout=5)
    assert outcome.witness is not None
    assert outcome.witness.clause == 2
    assert 3.25 <= outcome.witness.input[0] <= 3.5


def test_networks_and_properties_from_python() -> None:
    network = from_proto(HINGE).network
    assert verify(network, unsafe(box(-1, 1), linear([[1.0]], [-0.25]))).verdict is Verdict.HOLDS
    outcome = verify(network, unsafe(box(-1, 1), linear([[-1.0]], [-0.9])))
    assert outcome.verdict is Verdict.VIOLATED
    assert "violated" in repr(outcome)


# The search is a plug


def open_property() -> Property:
    """|x| >= -0.25 follows from no single relaxation of wk with zero slopes; it is left open."""
    return unsafe(box(-1, 1), linear([[1.0]], [-0.25]))


class Halving:
    """Branch and bound on the input, as simple as can be: the exact minimum of |x| over pieces."""

    def __init__(self, offered: float) -> None:
        self.offered = offered
        self.tasks: list[SearchTask] = []

    def __call__(self, task: SearchTask) -> SearchReport:
        self.tasks.append(task)
        task.advance({0: -0.125}, 2)
        return SearchReport({0: self.offered}, 4, reason="tried")


@pytest.mark.parametrize(
    ("offered", "verdict", "lower"),
    [
        (0.25, Verdict.HOLDS, 0.25),
        (-0.5, Verdict.UNKNOWN, -0.125),
        (np.nan, Verdict.UNKNOWN, -0.125),
    ],
)
def test_a_search_decides_what_is_open(
    offered: float, verdict: Verdict, lower: float, tmp_path: Path
) -> None:
    search, seen = Halving(offered), list[Outcome]()
    loose = {"method": "interval", "attacks": ()}
    shifted = dense((np.array([[1.0], [-1.0]]), np.ones(2)), (np.array([[1.0, 1.0]]), np.zeros(1)))
    prop = unsafe(box(-1, 1), linear([[1.0]], [0.25]))
    net = saved(shifted, tmp_path)
    outcome = verify(net, prop, search=search, watch=seen.append, timeout=5, **loose)  # type: ignore[arg-type]
    (task,) = search.tasks
    assert [member.clause for member in task.open] == [0]
    assert outcome.verdict is verdict
    assert outcome.clauses[0].lower == lower
    assert outcome.subproblems == 4
    assert outcome.reason == ("" if verdict is Verdict.HOLDS else "tried")
    assert seen[-1].subproblems == 4
    assert [o.clauses[0].lower for o in seen] == sorted(o.clauses[0].lower for o in seen)
    assert list(outcome.phases) == ["start", "read", "intermediate", "root", "attack", "search"]


def test_what_a_search_tells_is_seen_while_it_is_at_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two input sets: counts go on from one search to the next, and the running phase is the last."""
    monkeypatch.setattr(decision, "_TELL_EVERY", 0.0)
    seen = list[Outcome]()

    def search(task: SearchTask) -> SearchReport:
        (number,) = (member.clause for member in task.open)
        for count in (1, 2, 5):
            task.advance({number: -1.0 / count}, count)
        return SearchReport({}, 5)

    shifted = dense((np.array([[1.0], [-1.0]]), np.ones(2)), (np.array([[1.0, 1.0]]), np.zeros(1)))
    network = from_proto(shifted).network
    unsafe_outputs = linear([[1.0]], [0.25])
    prop = unsafe(box(-1, 1), unsafe_outputs) | unsafe(box(-1, 0.99), unsafe_outputs)
    loose = {"method": "interval", "attacks": ()}
    outcome = verify(network, prop, search=search, watch=seen.append, **loose)  # type: ignore[arg-type]
    at_work = [o for o in seen if list(o.phases)[-1] == "search"]
    counts = [o.subproblems for o in at_work if o.subproblems]
    assert counts == sorted(counts)
    assert set(counts) == {1, 2, 5, 6, 7, 10}
    lowest = [o.clauses[0].lower for o in at_work if o.subproblems]
    assert lowest[:3] == pytest.approx([-0.25, -0.25, -0.2])
    assert all(o.phases["search"] > 0 for o in at_work)
    assert outcome.subproblems == 10
    assert sum(outcome.phases.values()) <= outcome.seconds


def test_a_search_cannot_confirm_what_is_no_witness(tmp_path: Path) -> None:
    found = []

    def search(task: SearchTask) -> SearchReport:
        found.append(task.confirm(np.array([[0.5], [0.75]])))
        found.append(task.confirm(np.array([[0.5], [0.125], [7.0]])))
        return SearchReport({}, 1, found[-1])

    prop = unsafe(box(-1, 1), linear([[1.0]], [0.25]))
    outcome = verify(saved(HINGE, tmp_path), prop, search=search, attacks=())
    assert found[0] is None
    assert outcome.verdict is Verdict.VIOLATED
    assert outcome.witness is found[1]
    assert outcome.witness is not None
    assert outcome.witness.input[0] == 0.125


# Faults


class Broken(BestOfIntervalAndCrown):
    """Fails in the middle of the work."""

    def __init__(self, error: BaseException) -> None:
        object.__setattr__(self, "error", error)

    def bounds(self, network: Network, domain: Domain, budget: Budget | None = None) -> Bounds:
        raise self.error  # type: ignore[attr-defined]  # set in __init__


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (KeyboardInterrupt(), "interrupted"),
        (MemoryError(), "out of memory"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory"), "out of memory"),
    ],
)
def test_what_is_known_survives_a_fault(error: BaseException, reason: str, tmp_path: Path) -> None:
    prop = unsafe(box(-1, 1), linear([[1.0]], [-0.25]))
    outcome = verify(saved(HINGE, tmp_path), prop, intermediate=Broken(error))
    assert outcome.verdict is Verdict.UNKNOWN
    assert outcome.reason.startswith(reason)
    assert outcome.clauses[0].upper == pytest.approx(0.25, abs=1e-3)
    assert outcome.clauses[0].lower == -np.inf


def test_a_defect_is_not_swallowed(tmp_path: Path) -> None:
    broken = Broken(ZeroDivisionError("by zero"))
    with pytest.raises(ZeroDivisionError):
        verify(saved(HINGE, tmp_path), open_property(), intermediate=broken)


class NaNs(Crown):
    """Proposes a ρ that is not a number."""

    def rho(self, dual: object) -> object:  # type: ignore[override]  # NaN in the right shape
        rho = super().rho(dual)  # type: ignore[arg-type]
        return rho.like(torch.full_like(rho.data, torch.nan))


def test_nan_proves_nothing(tmp_path: Path) -> None:
    prop = unsafe(box(-1, 1), linear([[1.0]], [0.5], strict=True))
    outcome = verify(saved(HINGE, tmp_path), prop, method=NaNs(), attacks=(), search=None)
    assert outcome.verdict is Verdict.UNKNOWN
    assert not outcome.clauses[0].lower > 0


class Endless(Attack):
    """Never finds anything, and never stops."""

    def run(self, margins: Margins, starts: Tensor, generator: torch.Generator) -> Iterator[Tried]:
        while True:
            x = margins.center().expand(margins.clauses, 1, *margins.network.input_shape)
            yield Tried(x, margins.values(x))


def test_the_timeout_is_kept(tmp_path: Path) -> None:
    net = DATA / "networks" / "digits_residual.onnx"
    prop = DATA / "properties" / "digits_residual_image5_eps0.06.vnnlib"
    started = time.monotonic()
    endless = "supergradient(iterations=1000000)"
    outcome = verify(net, prop, timeout=1.5, method=endless, attacks=(Endless(),), search=None)
    assert time.monotonic() - started < 2.0
    assert outcome.verdict is Verdict.TIMEOUT
    assert outcome.reason == "the time is spent"
    assert outcome.phases["attack"] > 0.1
    assert all(np.isfinite([c.lower, c.upper]).all() for c in outcome.clauses)


def test_a_timeout_that_is_over_already(tmp_path: Path) -> None:
    outcome = verify(saved(HINGE, tmp_path), open_property(), timeout=1e-9)
    assert outcome.verdict is Verdict.TIMEOUT
    late = verify(
        saved(HINGE, tmp_path), open_property(), timeout=60, started=time.monotonic() - 61
    )
    assert late.verdict is Verdict.TIMEOUT
    assert late.seconds > 61


def test_threads_are_restored(tmp_path: Path) -> None:
    torch.set_num_threads(2)
    seen: list[int] = []
    watch: Mapping[str, object] = {"watch": lambda outcome: seen.append(torch.get_num_threads())}
    verify(saved(HINGE, tmp_path), open_property(), threads=1, **watch)  # type: ignore[arg-type]
    assert set(seen) == {1}
    assert torch.get_num_threads() == 2


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"timeout": -1}, "seconds is -1"),
        ({"timeout": float("nan")}, "seconds is nan"),
        ({"threads": 0}, "threads is 0"),
        ({"memory": -5}, "memory is -5"),
        ({"method": "slops"}, "did you mean 'slopes'"),
        ({"intermediate": "x"}, "unknown intermediate strategy 'x'"),
        ({"prop": unsafe(box(0, 1, 2), linear([[1.0]], [0.0]))}, "2 inputs and 1 outputs"),
        ({"prop": "missing.vnnlib"}, "no such file"),
        ({"network": "missing.onnx"}, "no such file"),
    ],
)
def test_bad_arguments(options: dict[str, object], says: str, tmp_path: Path) -> None:
    given = {"network": saved(HINGE, tmp_path), "prop": open_property(), **options}
    with pytest.raises(AnyboundError, match=says):
        verify(**given)  # type: ignore[arg-type]
