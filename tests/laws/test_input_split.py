"""Laws of splitting the input box: no bound is above the exact minimum, no verdict is wrong.

Oracles: the exact minimum along segments of a box, in fractions (`input_questions`; with one input that is the minimum
over the box), and mixed-integer programs (`oracle`).
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from input_questions import (
    TOO_WILD,
    WILD,
    Array,
    Question,
    random_boxes,
    random_question,
    run,
)
from random_networks import Draw, case
from small_networks import Small, small

from anybound.budget import Budget
from anybound.errors import InvalidInput
from anybound.model.activations import LeakyReLU, Sigmoid
from anybound.model.affine import Dense
from anybound.model.domains.box import Box
from anybound.model.network import Edge, Network, Node
from anybound.search.engine import Ended
from anybound.search.input_split.engine import BoxPlan, search
from anybound.search.input_split.folded import supports
from anybound.search.input_split.splitter import InputSplitter
from anybound.spec.problems import problems

seeds = st.integers(0, 2**32 - 1)


def cases(count: int) -> settings:
    return settings(max_examples=count, deadline=None, derandomize=True, database=None)


def check_boxes(question: Question, splitter: InputSplitter, draw: Draw, count: int = 6) -> int:
    """Along segments of every box no clause is below its bound; returns how many bounds were nearly attained."""
    boxes = random_boxes(splitter, draw, count)
    found = splitter.bound(boxes)
    tight = 0
    for b in range(count):
        corners = [boxes.lower[b], boxes.upper[b], found.point[b]]
        corners.append(boxes.lower[b] + boxes.upper[b] - found.point[b])
        corners.append(np.where(draw.rng.random(len(boxes.lower[b])) < 0.5, *corners[:2]))
        points = splitter.whole(np.clip(corners, boxes.lower[b], boxes.upper[b]))
        for c in range(len(question.clauses)):
            bound = found.bound[b, c]
            assert not np.isnan(bound) or not bound > 0
            for p, q in ((points[2], points[3]), (points[0], points[4]), (points[1], points[2])):
                least = question.minimum(c, p, q)
                assert not bound > least, (b, c, bound, least)
                tight += bool(bound >= least - 1e-9 * (1 + abs(least)))
    return tight


@cases(60)
@given(seeds)
def test_bounds_are_below_the_exact_minimum(seed: int) -> None:
    question = random_question(seed)
    check_boxes(question, question.splitter(), Draw(seed + 1))


@cases(60)
@given(seeds)
def test_bounds_stay_below_at_any_scale(seed: int) -> None:
    question = random_question(seed, WILD)
    check_boxes(question, question.splitter(), Draw(seed + 1))


@cases(20)
@given(seeds)
def test_nothing_is_proved_of_numbers_that_overflow(seed: int) -> None:
    question = random_question(seed, TOO_WILD)
    try:
        splitter = question.splitter()
    except InvalidInput:  # no finite bounds of the hidden layers: nobody would get here
        return
    check_boxes(question, splitter, Draw(seed + 1), count=3)


@cases(40)
@given(seeds)
def test_with_few_symbols_bounds_stay_below(seed: int) -> None:
    question = random_question(seed, float(Draw(seed).int(0, 3)))
    check_boxes(question, question.splitter(symbols=Draw(seed).int(0, 3)), Draw(seed + 1))


@cases(40)
@given(seeds)
def test_graphs_of_any_kind(seed: int) -> None:
    """Convolutions, parallel edges, residual connections; bounds of hidden layers cut by branching would not hold."""
    kinds = ("relu", "relu", "leaky", "abs", "identity")
    one = case(seed, activations=kinds, domains=["box"], rows=3, subproblems=1, cuts=False).pick(0)
    assert isinstance(one.domain, Box)
    low, high = (x.reshape(-1).numpy() for x in (one.domain.lower, one.domain.upper))
    rows = one.rows.flatten(1).numpy()
    question = Question(one.network, low, high, rows, np.zeros(3), ((0,), (1, 2)))
    check_boxes(question, question.splitter(), Draw(seed + 1), count=4)


def test_in_small_boxes_bounds_are_attained() -> None:
    """So that the laws above would notice a rounding error that was left out."""
    tight = 0
    for seed in range(20):
        question = random_question(seed)
        tight += check_boxes(question, question.splitter(), Draw(seed + 1))
    assert tight > 100


# --- the search ---


def test_with_one_input_every_property_is_decided_rightly() -> None:
    """The property is 1e-6 of the range away from the exact minimum, on either side."""
    proved = 0
    for seed in range(120):
        question = random_question(seed, float(seed % 3), inputs=1)
        exact = min(
            question.minimum(c, question.lower, question.upper)
            for c in range(len(question.clauses))
        )
        reach = max(1.0, abs(exact), float(abs(question.offset).max()))
        gap = (1e-6 if seed % 2 else -1e-6) * reach
        moved = Question(
            question.network,
            question.lower,
            question.upper,
            question.rows,
            question.offset - exact + gap,
            question.clauses,
        )
        result = run(moved)
        assert result.ended in ((Ended.PROVED,) if gap > 0 else (Ended.WITNESS, Ended.STUCK)), seed
        proved += result.ended is Ended.PROVED
        for c in range(len(moved.clauses)):
            assert result.lower[c] <= moved.minimum(c, moved.lower, moved.upper), seed
    assert proved == 60


def from_small(small_: Small, gap: float) -> tuple[Question, Array]:
    """A case with its property at a signed distance from the exact minimum, and the ceilings of its clauses."""
    exact = small_.exact
    shift = (min(e.lower for e in exact) if gap > 0 else min(e.upper for e in exact)) - gap
    (only,) = problems(small_.network, small_.shifted(shift))
    clauses = tuple(tuple(range(m.rows.start, m.rows.stop)) for m in only.clauses)
    rows = np.concatenate([A for A, _ in small_.clauses])
    offset = -np.concatenate([b + shift for _, b in small_.clauses])
    region = small_.region
    question = Question(small_.network, region.lower, region.upper, rows, offset, clauses)
    return question, np.array([e.upper for e in exact]) - shift


@pytest.mark.parametrize("part", range(10))
@pytest.mark.parametrize("clips", [False, True])
def test_verdicts_are_right(part: int, *, clips: bool) -> None:
    """200 networks, dense, convolutional and residual, properties 0.0003 to 0.1 from the minimum on either side."""
    undecided = 0
    for seed in range(20 * part, 20 * part + 20):
        gap = float(10 ** np.random.default_rng(seed).uniform(-3.5, -1)) * (1 if seed % 2 else -1)
        question, ceiling = from_small(small(seed, "relu", np.inf), gap)
        result = run(question, BoxPlan(subproblems=20_000), clips=clips)
        assert (result.lower <= ceiling + 1e-9).all(), seed
        assert result.ended is not (Ended.WITNESS if gap > 0 else Ended.PROVED), seed
        undecided += result.ended not in (Ended.PROVED, Ended.WITNESS)
    assert undecided <= 2


@pytest.mark.parametrize(
    ("plan", "seconds", "ended"),
    [
        (BoxPlan(subproblems=9, batch=4), None, Ended.COUNT),
        (BoxPlan(memory=1), None, Ended.MEMORY),
        (BoxPlan(), 0.0, Ended.BUDGET),
    ],
)
def test_a_stop_leaves_valid_bounds(plan: BoxPlan, seconds: float | None, ended: Ended) -> None:
    question, ceiling = from_small(small(31, "relu", np.inf), 1e-4)
    result = search(question.splitter(), plan, Budget(seconds=seconds))
    assert result.ended is ended
    assert not np.isnan(result.lower).any()
    assert (result.lower <= ceiling).all()
    assert not (result.lower > 0).all()
    assert np.isfinite(result.lower).all() == (ended is Ended.COUNT)


@pytest.mark.parametrize("seed", [1, 3, 31, 33])
def test_the_leaves_cover_the_root(seed: int) -> None:
    question, _ = from_small(small(seed, "relu", np.inf), 1e-3)
    splitter = question.splitter()
    tree = search(splitter, BoxPlan(), Budget(seconds=20.0)).tree
    root = splitter.root
    leaves = np.setdiff1d(np.arange(len(tree)), tree.parent)
    boxes = [tree.box(int(leaf), root.lower[0], root.upper[0]) for leaf in leaves]
    low, high = (np.array(side) for side in zip(*boxes, strict=True))
    assert (low < high).all()
    volume = ((high - low) / (root.upper[0] - root.lower[0])).prod(1)
    assert volume.sum() == pytest.approx(1.0, abs=1e-12)
    points = np.random.default_rng(0).uniform(root.lower[0], root.upper[0], (200, low.shape[1]))
    inside = ((low <= points[:, None]) & (points[:, None] <= high)).all(2).sum(1)
    assert (inside == 1).all()


def test_two_threads_give_the_same_as_one() -> None:
    question, _ = from_small(small(31, "relu", np.inf), 1e-4)
    one, two = (run(question, BoxPlan(subproblems=500), threads=n) for n in (1, 2))
    assert np.array_equal(one.tree.cut, two.tree.cut)
    assert np.array_equal(one.lower, two.lower)
    boxes = random_boxes(question.splitter(), Draw(0), 100)
    single, double = (question.splitter(threads=n).bound(boxes) for n in (1, 2))
    assert np.array_equal(single.bound, double.bound)
    assert np.array_equal(single.choice, double.choice)


def test_a_box_that_is_a_point_is_decided_without_splitting() -> None:
    question = random_question(7)
    middle = (question.lower + question.upper) / 2
    point = Question(
        question.network, middle, middle, question.rows, question.offset, question.clauses
    )
    result = run(point)
    exact = [point.minimum(c, middle, middle) for c in range(len(point.clauses))]
    assert result.subproblems == 1
    assert result.ended is (Ended.PROVED if min(exact) > 0 else Ended.WITNESS)
    assert (result.lower <= exact).all()
    assert result.lower == pytest.approx(exact, abs=1e-9)


def test_rows_that_take_turns_close_together() -> None:
    """x and 1e-3 − x are never both at most 0: no single row is positive over the box, their sum is."""
    network = Network((Node((1,)), Node((2,), (_line(),))))
    question = Question(
        network, np.array([-1.0]), np.array([1.0]), np.eye(2), np.array([0.0, 1e-3]), ((0, 1),)
    )
    result = run(question)
    assert result.ended is Ended.PROVED
    assert 0 < result.lower[0] <= 5e-4
    assert result.subproblems == 1


def _line() -> Edge:
    return Edge(0, Dense.of(torch.tensor([[1.0], [-1.0]], dtype=torch.float64)))


def test_what_it_cannot_serve_is_said() -> None:
    network = Network((Node((1,)), Node((2,), (_line(),), Sigmoid()), Node((2,), (_square(),))))
    box = Box(torch.zeros(1, 1, 1), torch.ones(1, 1, 1))
    assert "Sigmoid" in supports(network, box)
    steep = Network((Node((1,)), Node((2,), (_line(),), LeakyReLU(1.5)), Node((2,), (_square(),))))
    assert "slope" in supports(steep, box)
    assert supports(Network((Node((1,)), Node((2,), (_line(),)))), box) == ""


def _square() -> Edge:
    return Edge(1, Dense.of(torch.eye(2, dtype=torch.float64)))
