"""Laws of clipping: what is cut off a box violates no clause, and formulas are decided by it.

Oracles: exact values in fractions (`input_questions`), and all assignments of a formula.
"""

from __future__ import annotations

import numpy as np
import torch
from formulas import Formula
from hypothesis import given, settings
from hypothesis import strategies as st
from input_questions import (
    CALM,
    WILD,
    Array,
    Question,
    bend,
    random_boxes,
    random_question,
    run,
    scale,
)
from random_networks import Draw

from anybound.model.activations import ReLU
from anybound.model.affine import Dense
from anybound.model.network import Edge, Network, Node
from anybound.search.engine import Ended
from anybound.search.input_split.engine import BoxPlan, BoxSearch
from anybound.search.input_split.narrow import POSITIVE
from anybound.search.input_split.splitter import Boxes

seeds = st.integers(0, 2**32 - 1)


def cases(count: int) -> settings:
    return settings(max_examples=count, deadline=None, derandomize=True, database=None)


def sparse_question(seed: int, spread: float = CALM, inputs: int = 12) -> Question:
    """One hidden layer that reads few inputs each, so that its rows clip; rows close to their minimum."""
    draw = Draw(seed)
    hidden, outputs = draw.int(2, 12), draw.int(1, 3)
    reads = draw.rng.random((hidden, inputs)) < 0.2
    size = scale(draw, hidden, spread)
    first = draw.normal(hidden, inputs).numpy() * reads * size[:, None]
    bias = torch.tensor(draw.normal(hidden).numpy() * size)
    last = Dense.of(draw.normal(outputs, hidden), draw.normal(outputs))
    nodes = (
        Node((inputs,)),
        Node((hidden,), (Edge(0, Dense.of(torch.tensor(first), bias)),), bend(draw, hidden)),
        Node((outputs,), (Edge(1, last),)),
    )
    center, radius = draw.normal(inputs).numpy(), np.abs(draw.normal(inputs).numpy())
    network = Network(nodes)
    points = torch.tensor(center + radius * draw.rng.uniform(-1, 1, (200, inputs)))
    rows = np.eye(outputs) * np.where(draw.rng.random(outputs) < 0.5, -1.0, 1.0)
    values = network.forward(points[None])[0].double().numpy() @ rows.T
    offset = -values.min(0)
    clauses = (tuple(range(outputs)),)
    return Question(network, center - radius, center + radius, rows, offset, clauses)


def check_clipping(question: Question, seed: int) -> int:
    """Whatever was clipped away violates no clause; returns how many points were looked at."""
    draw, splitter = Draw(seed), question.splitter(clips=True)
    boxes = random_boxes(splitter, draw, 8)
    left = splitter.bound(boxes)
    seen = 0
    for b in range(len(boxes.lower)):
        low, high = boxes.lower[b], boxes.upper[b]
        assert (left.lower[b] >= low).all()
        assert (left.upper[b] <= high).all()
        lost = (low < left.lower[b]) | (left.upper[b] < high)
        # beside each end that moved: just beyond it, and anywhere beyond it
        for i in np.flatnonzero(lost):
            for near in (True, False):
                x = low + draw.rng.random(len(low)) * (high - low)
                below = low[i] < left.lower[b, i]
                end = left.lower[b, i] if below else left.upper[b, i]
                other = low[i] if below else high[i]
                x[i] = np.nextafter(end, other) if near else end + draw.rng.random() * (other - end)
                corner = np.where(left.point[b] > (low + high) / 2, high, low)
                for point in (x, np.where(np.arange(len(x)) == i, x, corner)):
                    whole = splitter.whole(point[None])[0]
                    for c in range(len(question.clauses)):
                        assert question.minimum(c, whole, whole) > 0, (b, i, point[i])
                    seen += 1
        if not (left.bound[b] > 0).all():
            continue
        x = splitter.whole(low + draw.rng.random((4, len(low))) * (high - low))
        for c in range(len(question.clauses)):
            assert min(question.minimum(c, p, p) for p in x) > 0
    return seen


@cases(40)
@given(seeds)
def test_what_is_clipped_away_is_safe(seed: int) -> None:
    check_clipping(random_question(seed), seed + 1)


@cases(40)
@given(seeds)
def test_what_is_clipped_away_is_safe_at_any_scale(seed: int) -> None:
    check_clipping(random_question(seed, WILD), seed + 1)


@cases(60)
@given(seeds)
def test_what_rows_of_a_sparse_layer_clip_away_is_safe(seed: int) -> None:
    check_clipping(sparse_question(seed, float(seed % 3)), seed + 1)


def test_much_is_clipped_away() -> None:
    """So that the laws above look at something."""
    assert sum(check_clipping(sparse_question(seed), seed) for seed in range(40)) > 250


def question(formula: Formula) -> Question:
    """The formula as a network over [0, 1]ⁿ."""
    parts = (torch.tensor(part) for part in (formula.weight, formula.bias))
    first, last = Dense.of(*parts), Dense.of(torch.tensor(formula.last))
    nodes = (
        Node((formula.variables,)),
        Node((len(formula.bias),), (Edge(0, first),), ReLU()),
        Node((2,), (Edge(1, last),)),
    )
    ends = np.zeros(formula.variables), np.ones(formula.variables)
    return Question(Network(nodes), *ends, np.eye(2), np.zeros(2), ((0, 1),))


def test_formulas_are_decided_by_narrowing() -> None:
    """Satisfiable or not, within as many boxes as propagating units leaves."""
    kinds = [0, 0]
    for seed in range(40):
        formula = Formula.random(seed)
        result = run(question(formula), BoxPlan(subproblems=400), clips=True)
        assert result.ended is (Ended.WITNESS if formula.is_satisfiable else Ended.PROVED), seed
        kinds[formula.is_satisfiable] += 1
    assert min(kinds) >= 8


def linear(weight: Array, lower: Array, upper: Array, offset: Array, *skip: Array) -> Question:
    """Rows of linear functions, `weight` x + `offset`; those of `skip` are read by a hidden layer of ReLUs that they
    make no use of."""
    rows, inputs = weight.shape
    nodes, edges = [Node((inputs,))], [Edge(0, Dense.of(torch.tensor(weight)))]
    for hidden in skip:
        nodes.append(Node((len(hidden),), (Edge(0, Dense.of(torch.tensor(hidden))),), ReLU()))
        edges.append(Edge(1, Dense.of(torch.zeros(rows, len(hidden), dtype=torch.float64))))
    nodes.append(Node((rows,), tuple(edges)))
    clauses = (tuple(range(rows)),)
    return Question(Network(tuple(nodes)), lower, upper, np.eye(rows), offset, clauses)


def test_tiny_numbers_cut_nothing_by_underflow() -> None:
    """Both ends of the first input violate: its own coefficient is too small to matter."""
    end = np.array([1e-200, 1e-150])
    tiny = linear(np.array([[1e-100, 1.0]]), -end, end, np.zeros(1))
    splitter = tiny.splitter(clips=True)
    left = splitter.bound(splitter.root)
    assert tiny.minimum(0, end * [1, -1], end * [1, -1]) < 0
    assert (left.lower[0, 0], left.upper[0, 0]) == (-end[0], end[0])


def test_constant_rows_cut_nothing() -> None:
    """Rows that read no input have room for the coefficients of all, of which other rows would be read."""
    inputs, rng = 20, np.random.default_rng(0)
    ones = np.ones(inputs)
    for offset in (0.0, -1e-9, -1.0):
        constant = linear(
            np.zeros((3, inputs)), -ones, ones, np.full(3, offset), rng.normal(size=(4, inputs))
        )
        splitter = constant.splitter(clips=True)
        left = splitter.bound(splitter.root)
        assert (left.bound <= 0).all()
        assert (left.lower == -1).all()
        assert (left.upper == 1).all()


def test_points_to_try_are_in_their_boxes() -> None:
    """Also where inputs are too large for integers."""
    count = 8
    first = Dense.of(torch.eye(count, dtype=torch.float64), torch.full((count,), -1.5e19))
    last = Dense.of(torch.ones(1, count, dtype=torch.float64))
    nodes = (
        Node((count,)),
        Node((count,), (Edge(0, first),), ReLU()),
        Node((1,), (Edge(1, last),)),
    )
    ends = np.full(count, 1e19), np.full(count, 2e19)
    large = Question(Network(nodes), *ends, np.eye(1), np.array([-1e18]), ((0,),))
    splitter = large.splitter(clips=True)
    left = splitter.bound(splitter.root)
    assert left.choice[0] >= 0
    assert (left.point >= left.lower).all()
    assert (left.point <= left.upper).all()


def test_what_a_hair_of_was_clipped_is_not_bounded_by_the_rest() -> None:
    """A share of the width that rounding swallows counts as well."""
    splitter = linear(np.ones((1, 1)), -np.ones(1), np.ones(1), np.zeros(1)).splitter(clips=True)
    search = BoxSearch(splitter, BoxPlan())
    boxes = Boxes(np.array([[-1.0]]), np.array([[1e-20]]), np.array([[True]]))
    bounded = splitter.bound(boxes)._replace(lower=boxes.lower, upper=np.array([[1e-21]]))
    search._clipped(boxes, bounded, np.ones(1))
    assert search.floor[0] == POSITIVE
