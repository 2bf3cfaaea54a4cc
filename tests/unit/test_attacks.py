"""Attacks find what is there, stay inside the input set, and never yield a false witness.

Oracles: onnxruntime for outputs, autograd for gradients, exact rational arithmetic for membership.
"""

import csv
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import islice
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch
from torch import Tensor

import anybound
from anybound.budget import Budget
from anybound.errors import InvalidInput, UnsupportedModel
from anybound.io.onnx_reader import read_onnx
from anybound.io.replay import Replay
from anybound.io.vnnlib import read_vnnlib
from anybound.model.network import Network
from anybound.search.attack import Attack, Tried
from anybound.search.attacks.mi_fgsm import MIFGSM
from anybound.search.attacks.minimiser import Minimiser
from anybound.search.attacks.pgd import PGD
from anybound.search.attacks.sampling import Sampling
from anybound.search.margins import Margins
from anybound.search.portfolio import QUICK, THOROUGH
from anybound.search.witness import AttackResult, confirm, find_witness
from anybound.spec.build import all_of, any_of, linear, robust, unsafe
from anybound.spec.input_sets import BallSet, BoxSet
from anybound.spec.problems import problems
from anybound.spec.property import Property

DATA = Path(anybound.__file__).parent / "data"
RESIDUAL = DATA / "networks" / "digits_residual.onnx"
DENSE = DATA / "networks" / "digits_dense.onnx"
SMALL: tuple[Attack, ...] = (
    PGD(restarts=8, steps=5, rounds=2),
    MIFGSM(restarts=8, steps=5, rounds=2),
    Minimiser(steps=3),
    Sampling(points=16, rounds=2),
)


def bundled(expected: str) -> list[tuple[str, str]]:
    with (DATA / "expected.csv").open(encoding="utf-8") as file:
        rows = [r for r in csv.DictReader(file) if r["expected"] == expected]
    return [(row["onnx"], row["vnnlib"]) for row in rows]


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def network_of(path: Path) -> Network:
    return read_onnx(path).network


def attack(
    path: Path,
    prop: Property,
    replay: object = None,
    attacks: tuple[Attack, ...] = THOROUGH,
    seconds: float = 20.0,
    seed: int = 0,
) -> AttackResult:
    original = replay or Replay.of(path)
    generator = torch.Generator().manual_seed(seed)
    safety = list(problems(network_of(path), prop))
    return find_witness(prop, safety, original, attacks, Budget(seconds), generator)  # type: ignore[arg-type]


def ort(path: Path, x: np.ndarray) -> np.ndarray:
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    value = session.get_inputs()[0]
    point = x.reshape([n if isinstance(n, int) else 1 for n in value.shape]).astype(np.float32)
    assert np.array_equal(point.reshape(-1).astype(np.float64), x), "not a float32 point"
    (y,) = session.run(None, {value.name: point})
    return np.asarray(y, dtype=np.float64).reshape(-1)


def holds_exactly(matrix: np.ndarray, offset: np.ndarray, y: np.ndarray) -> bool:
    """A y <= b in rational arithmetic."""
    return all(
        sum(Fraction(float(a)) * Fraction(float(v)) for a, v in zip(row, y, strict=True))
        <= Fraction(float(b))
        for row, b in zip(matrix, offset, strict=True)
    )


def image(size: int, seed: int = 5) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.uniform(0, 1, size).astype(np.float32).astype(np.float64)


def l2_property(norm: str, epsilon: float, clip: tuple[float, float] | None = None) -> Property:
    x = image(64)
    label = int(ort(RESIDUAL, x).argmax())
    return robust((64, 10), x, label, epsilon, norm, clip)


@dataclass
class Recorder:
    """The original model, or one that answers otherwise, and the points it was asked about."""

    path: Path
    answer: np.ndarray | None = None
    points: list[np.ndarray] = field(default_factory=list)
    dtype = np.dtype(np.float32)

    def __call__(self, x: np.ndarray, /) -> np.ndarray:
        self.points.append(x.copy())
        return ort(self.path, x) if self.answer is None else self.answer


# Witnesses


@pytest.mark.parametrize(("network", "prop"), bundled("sat"), ids=lambda p: Path(p).stem)
def test_violated_properties_have_witnesses_that_anybody_can_replay(
    network: str, prop: str
) -> None:
    unsafe_set = read_vnnlib(DATA / prop)
    result = attack(DATA / network, unsafe_set)
    assert result.witness is not None
    found = result.witness
    clause = unsafe_set.clauses[found.clause]
    assert np.array_equal(ort(DATA / network, found.input), found.output)
    assert holds_exactly(clause.matrix, clause.offset, found.output)
    assert isinstance(clause.input_set, BoxSet)
    assert (clause.input_set.inner_lower <= found.input).all()
    assert (found.input <= clause.input_set.inner_upper).all()
    assert result.upper[found.clause] < 1e-3
    assert result.tries > 0


@pytest.mark.parametrize(("network", "prop"), bundled("unsat")[::2], ids=lambda p: Path(p).stem)
def test_properties_that_hold_have_none(network: str, prop: str) -> None:
    result = attack(DATA / network, read_vnnlib(DATA / prop), attacks=QUICK)
    assert result.witness is None
    assert (result.upper > 0).all()
    assert np.isfinite(result.upper).all()


def test_a_model_that_disagrees_is_believed() -> None:
    """Only what the original model says counts: here it never violates."""
    prop = read_vnnlib(DATA / "properties" / "digits_residual_image5_eps0.06.vnnlib")
    label = next(int(row.argmax()) for row in prop.clauses[0].matrix)
    safe = np.zeros(10)
    safe[label] = 100.0
    replay = Recorder(RESIDUAL, safe)
    result = attack(RESIDUAL, prop, replay, attacks=QUICK)
    assert replay.points, "the normal form does violate"
    assert result.witness is None
    assert result.upper.min() < 0


@pytest.mark.parametrize("answer", [np.nan, np.inf, -np.inf])
def test_outputs_that_are_no_numbers_are_no_witness(answer: float) -> None:
    prop = read_vnnlib(DATA / "properties" / "digits_residual_image5_eps0.06.vnnlib")
    result = attack(RESIDUAL, prop, Recorder(RESIDUAL, np.full(10, answer)), attacks=QUICK)
    assert result.witness is None


def test_a_strict_border_is_no_witness_and_a_closed_one_is() -> None:
    box = BoxSet(np.zeros(64), np.ones(64))
    y = np.zeros(10)
    row = np.eye(10)[:1]
    point = image(64)
    for strict in (False, True):
        prop = unsafe(box, linear(row, [0.0], strict=strict))
        assert (confirm(prop, Recorder(DENSE, y), point) is None) == strict


@dataclass(frozen=True)
class Liar(Attack):
    """Far outside the set, and full of promises."""

    def run(self, margins: Margins, starts: Tensor, generator: torch.Generator) -> Iterator[Tried]:
        for value in (1e30, -5.0, torch.nan):
            x = torch.full((margins.clauses, 1, *margins.network.input_shape), value)
            margin = -1e9 if value == value else torch.nan
            yield Tried(x.nan_to_num(), torch.full((margins.clauses, 1), margin))


def test_a_lying_attack_cannot_make_a_witness() -> None:
    prop = read_vnnlib(DATA / "properties" / "digits_residual_image5_eps0.02.vnnlib")
    replay = Recorder(RESIDUAL)
    result = attack(RESIDUAL, prop, replay, attacks=(Liar(),))
    assert result.witness is None
    assert replay.points
    assert all(prop.clauses[0].input_set.contains(x) for x in replay.points)
    assert (result.upper > 0).all()


@dataclass(frozen=True)
class Overflowing(Attack):
    """Nothing but NaN, then the middle of the set."""

    def run(self, margins: Margins, starts: Tensor, generator: torch.Generator) -> Iterator[Tried]:
        x = margins.center().expand(margins.clauses, 1, *margins.network.input_shape)
        yield Tried(x, torch.full((margins.clauses, 1), torch.nan))
        yield Tried(x, margins.values(x))


def test_nan_is_neither_a_witness_nor_in_the_way_of_one() -> None:
    prop = read_vnnlib(DATA / "properties" / "digits_residual_image5_eps0.02.vnnlib")
    replay = Recorder(RESIDUAL)
    result = attack(RESIDUAL, prop, replay, attacks=(Overflowing(),))
    assert not replay.points
    assert (result.upper > 0).all()
    assert np.isfinite(result.upper).all()


# Points stay in the set


def sets() -> dict[str, BoxSet | BallSet]:
    x = image(64)
    border = np.round(x)
    clip = BoxSet(np.zeros(64), np.ones(64))
    narrow = BoxSet(np.full(64, 0.1), np.full(64, 0.9))
    inner = np.clip(x, 0.1, 0.9)
    third = np.full(64, 1 / 3)  # no float32 number
    return {
        "box": BoxSet(x - 0.1, x + 0.1),
        "box without float32": BoxSet(third, third),
        "l2": BallSet(x, 0.7, 2),
        "l1": BallSet(x, 0.7, 1),
        "clipped l2": BallSet(border, 0.7, 2, clip),
        "clipped l1": BallSet(inner, 0.7, 1, narrow),
    }


@pytest.mark.parametrize("name", sets())
def test_whatever_is_replayed_lies_in_the_set_exactly(name: str) -> None:
    input_set = sets()[name]
    prop = unsafe(input_set, any_of(linear(np.eye(10)[:1], [100.0]), linear(np.eye(10)[1:2], [9])))
    replay = Recorder(DENSE, np.full(10, 1e6))
    result = attack(DENSE, prop, replay, SMALL)
    assert result.witness is None
    assert replay.points
    allowed = input_set.in_precision(np.float32)
    for point in replay.points:
        assert np.array_equal(point, point.astype(np.float32))
        assert inside(allowed, point)


def inside(input_set: BoxSet | BallSet, x: np.ndarray) -> bool:
    """Membership, computed here in rational arithmetic."""
    if isinstance(input_set, BoxSet):
        return bool(((input_set.inner_lower <= x) & (x <= input_set.inner_upper)).all())
    steps = [Fraction(a) - Fraction(b) for a, b in zip(x.tolist(), input_set.center, strict=True)]
    radius = Fraction(input_set.radius)
    size = sum(map(abs, steps)) if input_set.norm == 1 else sum(s * s for s in steps)
    limit = radius if input_set.norm == 1 else radius * radius
    return size <= limit and (input_set.clip is None or inside(input_set.clip, x))


@pytest.mark.parametrize("kind", SMALL, ids=repr)
@pytest.mark.parametrize("name", sets())
def test_attacks_try_points_of_the_domain_only(kind: Attack, name: str) -> None:
    prop = unsafe(sets()[name], any_of(linear(np.eye(10)[:2], [0.0, 1.0]), linear([[1] * 10], [0])))
    (safety,) = problems(network_of(RESIDUAL), prop)
    margins = Margins.of(prop, safety).to(torch.float32)
    starts = margins.sample(3, torch.Generator().manual_seed(1)) + 0.5
    stream = kind.run(margins, starts, torch.Generator().manual_seed(0))
    for points, values in islice(stream, 40):
        flat = points.reshape(1, -1, *margins.network.input_shape)
        assert bool(margins.domain.contains(flat).all())
        assert torch.equal(values, margins.values(points))


@pytest.mark.parametrize("norm", ["2", "1"])
def test_balls_have_witnesses(norm: str) -> None:
    prop = l2_property(norm, 2.0 if norm == "2" else 8.0)
    result = attack(RESIDUAL, prop)
    assert result.witness is not None
    assert inside(prop.clauses[0].input_set, result.witness.input)
    clause = prop.clauses[result.witness.clause]
    assert holds_exactly(clause.matrix, clause.offset, ort(RESIDUAL, result.witness.input))


# Margins and gradients


@pytest.mark.parametrize("name", ["conv", "dense", "residual", "sigmoid"])
def test_gradients_are_those_of_autograd(name: str) -> None:
    rng = np.random.default_rng(3)
    clauses = [linear(rng.normal(size=(m, 10)), rng.normal(size=m)) for m in (1, 3, 2)]
    prop = unsafe(BoxSet(np.zeros(64), np.ones(64)), any_of(*clauses))
    (safety,) = problems(network_of(DATA / "networks" / f"digits_{name}.onnx"), prop)
    margins = Margins.of(prop, safety)
    x = margins.sample(5, torch.Generator().manual_seed(0)).requires_grad_()
    y = margins.network.forward(x).flatten(2)
    expected = torch.stack(
        [
            (y[c] @ torch.tensor(clause.matrix).T - torch.tensor(clause.offset)).amax(-1)
            for c, clause in enumerate(prop.clauses)
        ]
    )
    (gradient,) = torch.autograd.grad(expected.sum(), x)
    slope = margins.slope(x.detach())
    torch.testing.assert_close(slope.margin, expected.detach())
    torch.testing.assert_close(margins.values(x.detach()), expected.detach())
    torch.testing.assert_close(slope.gradient, gradient)
    assert float(gradient.abs().max()) > 0


@pytest.mark.parametrize("name", ["box", "l2", "l1"])
def test_downhill_is_the_steepest_way_to_the_border(name: str) -> None:
    input_set = sets()[name]
    (safety,) = problems(
        network_of(DENSE), prop := unsafe(input_set, linear(np.eye(10)[:1], [0.0]))
    )
    margins = Margins.of(prop, safety)
    g = torch.randn(1, 4, *margins.network.input_shape, generator=torch.Generator().manual_seed(2))
    g = g.double()
    flat = margins.downhill(g).flatten(2)
    along = (flat * g.flatten(2)).sum(-1)
    size = {
        "box": -0.1 * g.flatten(2).abs().sum(-1),
        "l2": -0.7 * g.flatten(2).norm(dim=-1),
        "l1": -0.7 * g.flatten(2).abs().amax(-1),
    }[name]
    torch.testing.assert_close(along, size)
    assert not margins.downhill(torch.zeros_like(g)).any()


def test_upper_bounds_are_margins_of_real_points() -> None:
    """In a set of one point they are what onnxruntime says."""
    x = image(64)
    y = ort(RESIDUAL, x)
    point = BoxSet(x, x)
    prop = unsafe(point, any_of(linear(np.eye(10), np.zeros(10)), linear(-np.eye(10)[:1], [-99.0])))
    result = attack(RESIDUAL, prop, attacks=SMALL)
    np.testing.assert_allclose(result.upper, [y.max(), 99.0 - y[0]], rtol=1e-4)


def test_every_input_set_gets_its_turn() -> None:
    """Two sets, of which only the second is unsafe."""
    x = image(64)
    y = ort(RESIDUAL, x)
    near = unsafe(BoxSet(x - 1e-6, x + 1e-6), linear(np.eye(10)[:1], [y[0] - 1.0]))
    wide = unsafe(BoxSet(x - 0.1, x + 0.1), linear(np.eye(10)[:1], [y[0] - 0.1]))
    result = attack(RESIDUAL, near | wide)
    assert result.witness is not None
    assert result.witness.clause == 1
    assert np.isfinite(result.upper).all()
    assert result.upper[0] > 0.9


def test_conjunctions_need_all_rows() -> None:
    x = image(64)
    y = ort(RESIDUAL, x)
    rows = np.eye(10)[:2]
    box = BoxSet(x - 0.05, x + 0.05)
    easy = unsafe(box, all_of(linear(rows[:1], [y[0] + 1.0]), linear(rows[1:], [y[1] + 1.0])))
    impossible = unsafe(box, all_of(linear(rows[:1], [y[0]]), linear(-rows[:1], [-y[0] - 1.0])))
    assert attack(RESIDUAL, easy).witness is not None
    assert attack(RESIDUAL, impossible, attacks=SMALL).witness is None


# Time and chance


def test_the_seed_decides() -> None:
    violated = read_vnnlib(DATA / "properties" / "digits_residual_image5_eps0.06.vnnlib")
    first, second = (attack(RESIDUAL, violated, seed=1) for _ in range(2))
    assert first.witness is not None
    assert second.witness is not None
    assert np.array_equal(first.witness.input, second.witness.input)
    assert first.tries == second.tries
    holds = read_vnnlib(DATA / "properties" / "digits_residual_image5_eps0.02.vnnlib")
    uppers = [attack(RESIDUAL, holds, attacks=SMALL, seed=seed).upper for seed in (1, 1, 2)]
    assert np.array_equal(uppers[0], uppers[1])
    assert not np.array_equal(uppers[0], uppers[2])


def test_a_spent_budget_ends_it_at_once() -> None:
    prop = read_vnnlib(DATA / "properties" / "digits_residual_image5_eps0.06.vnnlib")
    result = attack(RESIDUAL, prop, seconds=0.0)
    assert result.witness is None
    assert result.tries == 0
    assert np.isinf(result.upper).all()


def test_starts_are_taken_up() -> None:
    """A start that violates is found by the minimiser, which without starts does nothing."""
    prop = read_vnnlib(DATA / "properties" / "digits_residual_image5_eps0.06.vnnlib")
    found = attack(RESIDUAL, prop).witness
    assert found is not None
    network, generator = network_of(RESIDUAL), torch.Generator()
    safety = list(problems(network, prop))
    start = torch.tensor(found.input).reshape(1, 1, *network.input_shape)
    only = (Minimiser(),)
    budget, replay = Budget(20), Replay.of(RESIDUAL)
    assert find_witness(prop, safety, replay, only, budget, generator).tries == 0
    result = find_witness(prop, safety, replay, only, budget, generator, [start])
    assert result.witness is not None
    assert result.tries == len(prop.clauses)
    again = confirm(prop, replay, found.input)
    assert again is not None
    assert np.array_equal(again.input, found.input)


# Replay


def test_replay_is_onnxruntime() -> None:
    points = [image(64, seed) for seed in range(3)]
    replay = Replay.of(DENSE)
    assert replay.dtype == np.float32
    for x, y in zip(points, replay.batch(points), strict=True):
        assert y.dtype == np.float64
        assert np.array_equal(y, ort(DENSE, x))


def test_replay_refuses_what_it_cannot_run() -> None:
    with pytest.raises(InvalidInput, match="the point has 3 numbers"):
        Replay.of(DENSE)(np.zeros(3))
    with pytest.raises(UnsupportedModel, match="cannot run"):
        Replay(b"nonsense")(np.zeros(3))
    with pytest.raises(InvalidInput, match="no such file"):
        Replay.of("nowhere.onnx")


@dataclass(frozen=True)
class _HalfLost(Attack):
    """Points of the first clause alone; those of the others are no numbers, as after an overflow."""

    def run(self, margins: Margins, starts: Tensor, generator: torch.Generator) -> Iterator[Tried]:
        points = margins.sample(4, generator)
        points[1:] = torch.nan
        yield Tried(points, margins.values(points))


def test_points_that_are_no_numbers_are_points_not_tried() -> None:
    low = any_of(linear([[1.0] + [0.0] * 9], [-1e6]), linear([[0.0, 1.0] + [0.0] * 8], [-1e6]))
    prop = unsafe(BoxSet(np.zeros(64), np.ones(64)), low)
    found = attack(DENSE, prop, attacks=(_HalfLost(),))
    assert found.witness is None
    assert np.isfinite(found.upper[0])
    assert found.upper[1] == np.inf
