"""`anybound.radius`, where the radius is known exactly, and in its own terms where it is not."""

import math
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from onnx_models import from_proto, model
from random_networks import pre_activations

import anybound
from anybound import Verdict, radius, verify
from anybound.bound.intermediates.auto import Auto as AutoIntermediate
from anybound.bound.intermediates.crown import BestOfIntervalAndCrown
from anybound.bound.intermediates.strategy import IntermediateStrategy
from anybound.errors import AnyboundError
from anybound.model.domains.domain import Domain
from anybound.robustness import Radius, _Known, _Reusing
from anybound.spec.build import robust
from anybound.spec.domains import from_input_set

DATA = Path(anybound.__file__).parent / "data" / "networks"
Array = np.ndarray


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def affine(weight: Array, bias: Array) -> onnx.ModelProto:
    node = onnx.helper.make_node("Gemm", ["x", "W", "b"], ["y"], transB=1)
    weights = {"W": weight.astype(np.float32), "b": bias.astype(np.float32)}
    return model([node], [1, weight.shape[1]], weights)


def exact_radius(weight: Array, bias: Array, x: Array, label: int, norm: str) -> float:
    """Of an affine network: margin / dual norm of its gradient, the smallest of all others'."""
    order = {"inf": 1, "2": 2, "1": math.inf}[norm]
    weight, bias = (a.astype(np.float32).astype(float) for a in (weight, bias))
    found = []
    for other in set(range(len(bias))) - {label}:
        gradient = weight[label] - weight[other]
        margin = gradient @ x + bias[label] - bias[other]
        found.append(margin / np.linalg.norm(gradient, ord=order))
    return float(min(found))


@pytest.mark.parametrize("norm", ["inf", "2", "1"])
def test_affine_networks(norm: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    for _ in range(6):
        weight, bias = rng.standard_normal((3, 4)), rng.standard_normal(3)
        x = rng.standard_normal(4).astype(np.float32).astype(float)
        onnx.save(affine(weight, bias), tmp_path / "net.onnx")
        label = int((weight @ x + bias).argmax())
        exact = exact_radius(weight, bias, x, label, norm)
        found = radius(tmp_path / "net.onnx", x, label, norm=norm, precision=0.01)  # type: ignore[arg-type]
        assert found.holds <= exact * (1 + 1e-12)
        assert found.violated_or_unknown >= exact * (1 - 1e-6)  # the model computes in float32
        assert found.violated_or_unknown - found.holds <= 0.011 * found.violated_or_unknown


def test_clipping_cuts_the_ball(tmp_path: Path) -> None:
    """y = (x_0 + x_1, 3.5) at (1, 1) of [0, 1]²: both inputs have to fall, but not below 0."""
    weight, bias = np.array([[-1.0, -1.0], [0.0, 0.0]]), np.array([3.5, 0.0])
    onnx.save(affine(weight, bias), tmp_path / "net.onnx")
    x = np.array([1.0, 1.0])
    free = radius(tmp_path / "net.onnx", x, 0)
    assert free.holds <= 0.75 <= free.violated_or_unknown
    assert free.violated_or_unknown < 0.77
    cut = radius(tmp_path / "net.onnx", x, 0, clip=(0, 1))
    assert cut.holds >= 1  # the whole range
    assert cut.violated_or_unknown == math.inf
    assert cut.witness is None


def test_a_center_that_is_wrong_already(tmp_path: Path) -> None:
    onnx.save(affine(np.eye(2), np.zeros(2)), tmp_path / "net.onnx")
    found = radius(tmp_path / "net.onnx", [1.0, 2.0], 0)
    assert (found.holds, found.violated_or_unknown, found.steps) == (0, 0, ())
    assert found.witness is not None
    assert found.witness.input.tolist() == [1, 2]
    tied = radius(tmp_path / "net.onnx", [2.0, 2.0], 0)
    assert tied.violated_or_unknown == 0


@pytest.mark.parametrize("name", ["dense", "sigmoid"])
def test_a_bracket_agrees_with_verify(name: str) -> None:
    network = DATA / f"digits_{name}.onnx"
    rng = np.random.default_rng(0)
    x = rng.uniform(0, 1, 64).astype(np.float32).astype(float)
    net = anybound.load(network)
    label = int(net.forward(torch.from_numpy(x).reshape(net.input_shape)).argmax())
    seen: list[Radius] = []
    found = radius(network, x, label, clip=(0, 1), precision=0.1, timeout=5, watch=seen.append)
    assert 0 < found.holds < found.violated_or_unknown < 1
    assert "holds at" in repr(found)
    below = robust(net, x, label, found.holds, clip=(0, 1))
    assert verify(network, below, timeout=20).verdict is Verdict.HOLDS
    if found.witness is not None:
        above = robust(net, x, label, found.violated_or_unknown, clip=(0, 1))
        assert above.in_precision(np.float32).violated_by(found.witness.input, found.witness.output)
    assert [r.holds for r in seen] == sorted(r.holds for r in seen)
    proved = [step.epsilon for step in found.steps if step.verdict is Verdict.HOLDS]
    broken = [step.epsilon for step in found.steps if step.verdict is Verdict.VIOLATED]
    assert max(proved) == found.holds
    assert all(p < b for p in proved for b in broken)


def test_the_time_is_kept_and_leaves_a_bracket() -> None:
    network = DATA / "digits_conv.onnx"
    x = np.full(64, 0.5)
    started = time.monotonic()
    found = radius(network, x, 4, clip=(0, 1), precision=1e-9, timeout=2)
    assert time.monotonic() - started < 2.5
    assert 0 < found.holds < found.violated_or_unknown


def test_networks_from_python() -> None:
    network = from_proto(affine(np.eye(2), np.zeros(2))).network
    found = radius(network, [2.0, 1.0], 0)
    assert found.holds <= 0.5 <= found.violated_or_unknown + 1e-9


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"label": 2}, "label: 2; expected 0 to 1"),
        ({"label": -1}, "label: -1"),
        ({"center": [1.0]}, "shape"),
        ({"center": [1.0, math.nan]}, "not finite"),
        ({"norm": "3"}, "norm: 3"),
        ({"precision": 0.0}, "precision is 0.0"),
        ({"timeout": -1.0}, "seconds is -1"),
        ({"threads": 0}, "threads is 0"),
        ({"clip": (3, 4)}, "outside the clipping range"),
        ({"method": "nope"}, "unknown method"),
    ],
)
def test_bad_arguments(options: dict[str, object], says: str) -> None:
    network = from_proto(affine(np.eye(2), np.zeros(2))).network
    given = {"center": [2.0, 1.0], "label": 0, **options}
    with pytest.raises(AnyboundError, match=says):
        radius(network, **given)  # type: ignore[arg-type]


def domain_of(x: Array, epsilon: float, norm: str, shape: tuple[int, ...]) -> Domain:
    prop = robust((64, 10), x, 0, epsilon, norm, clip=(0, 1)).in_precision(np.float32)  # type: ignore[arg-type]
    return from_input_set(prop.clauses[0].input_set, shape)


@pytest.mark.parametrize("strategy", [AutoIntermediate(), BestOfIntervalAndCrown()])
@pytest.mark.parametrize("norm", ["inf", "2", "1"])
def test_bounds_of_a_ball_are_reused_in_smaller_ones_alone(
    norm: str, strategy: IntermediateStrategy
) -> None:
    """Clipped balls of different radii lie in the same box: the box does not say which is smaller."""
    net = anybound.load(DATA / "digits_dense.onnx")
    x, known, size = np.full(64, 0.5), list[_Known](), {"inf": 1, "2": 8, "1": 32}[norm]
    found = []
    for epsilon in (0.7 * size, 0.8 * size, 0.02 * size, 0.01 * size):
        domain = domain_of(x, epsilon, norm, net.input_shape)
        found.append(_Reusing(strategy, epsilon, known).bounds(net, domain))
        alone = strategy.bounds(net, domain)
        samples = domain.sample(300, torch.Generator().manual_seed(0))
        inner = pre_activations(net, samples)[0]
        assert (found[-1].lower.data[0] <= inner + 1e-9).all()
        assert (inner <= found[-1].upper.data[0] + 1e-9).all()
        if epsilon > 0.75 * size:  # nothing larger is known
            assert torch.equal(found[-1].lower.data, alone.lower.data)
    for outer, inner_ball in pairwise(found[1:]):
        assert (outer.lower.data <= inner_ball.lower.data).all()
        assert (inner_ball.upper.data <= outer.upper.data).all()
    assert [k.epsilon for k in known if k.contains(0.75 * size, domain)] == [0.8 * size]
