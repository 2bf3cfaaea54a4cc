"""Branch and bound against the exact minimum of small networks: no verdict is wrong, no bound too high.

Properties are placed at a distance of 0.003 to 0.1 from the exact minimum of their margin, on either
side. Oracle: mixed-integer programs and interval branch and bound, in numpy and scipy (`oracle`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from oracle import Array, forward
from small_networks import Small, small

from anybound.bound.bounds import Bounds
from anybound.bound.compact.network import CompactNetwork, supports
from anybound.bound.compact.objective import CompactObjective
from anybound.bound.compact.sparse import SparseNetwork
from anybound.bound.intermediates.crown import BestOfIntervalAndCrown
from anybound.bound.method import Method
from anybound.bound.methods.proximal import Proximal
from anybound.bound.methods.supergradient import Supergradient
from anybound.bound.schedules import Linear
from anybound.budget import Budget
from anybound.model.domains.box import Box
from anybound.search.bounder import Bounder
from anybound.search.branchings.babsr import BaBSR
from anybound.search.branchings.filtered import Filtered
from anybound.search.branchings.random import Random
from anybound.search.branchings.strong import Strong
from anybound.search.cells import Cells
from anybound.search.engine import Ended, SearchPlan, SearchResult, search
from anybound.search.portable_bounder import (
    Effort,
    PortableBatch,
    PortableBounder,
    WeightAscent,
)
from anybound.search.portable_search import PortablePlan, paper_plans
from anybound.search.portfolio import QUICK
from anybound.search.relu_bounder import ReluBounder
from anybound.search.rule import BranchingRule
from anybound.search.tightening import Carry, Inherit, Retighten, Tightening
from anybound.search.witness import find_witness
from anybound.spec.problems import SafetyProblem, problems

BOUNDERS = ("portable", "compact")
RULES: tuple[BranchingRule, ...] = (BaBSR(), Filtered(), Strong(), Random())
FAST = SearchPlan(BaBSR(), batch=64, margin=1e-5, subproblems=2000)
Points = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Question:
    """A case with its property at a signed distance from what holds: positive holds, negative not."""

    case: Small
    gap: float

    @property
    def shift(self) -> float:
        exact = self.case.exact
        if self.gap > 0:
            return min(e.lower for e in exact) - self.gap
        return min(e.upper for e in exact) - self.gap

    @property
    def ceiling(self) -> Array:
        """`[C]`: what no lower bound of a clause's margin may exceed."""
        return np.array([e.upper for e in self.case.exact]) - self.shift

    @property
    def safety(self) -> SafetyProblem:
        (only,) = problems(self.case.network, self.case.shifted(self.shift))
        return only

    @property
    def clauses(self) -> int:
        return len(self.case.clauses)

    def root_bounds(self, safety: SafetyProblem) -> Bounds:
        return BestOfIntervalAndCrown().bounds(self.case.network, safety.problem.domain)

    def inspect(self, minimisers: NDArray[np.float32]) -> bool:
        """Whether one of them, moved into the region, violates."""
        points = [self.case.region.inside(x) for x in minimisers.astype(float)]
        return bool(self.case.margin(np.array(points), self.shift).min() <= 0)


def question(seed: int, activation: str | None = None, norm: float | None = None) -> Question:
    rng = np.random.default_rng(seed)
    gap = float(10 ** rng.uniform(-2.5, -1)) * (1 if seed % 2 else -1)
    return Question(small(seed, activation, norm), gap)


def bounder_of(
    kind: str, q: Question, budget: Budget, plan: PortablePlan | None = None
) -> Bounder | None:
    """None where the compact engine does not serve the problem."""
    safety = q.safety
    problem, bounds = safety.problem, q.root_bounds(safety)
    rows = [clause.rows for clause in safety.clauses]
    if kind == "portable":
        return (plan or PortablePlan()).bounder(problem, bounds, rows, budget)
    if supports(problem.network, problem.domain):
        return None
    assert isinstance(problem.domain, Box)
    network = CompactNetwork.of(SparseNetwork(problem.network), bounds, problem.domain)
    return ReluBounder(network, CompactObjective.of(problem.objective, network, rows))


def run(
    kind: str,
    q: Question,
    plan: SearchPlan = FAST,
    budget: Budget | None = None,
    portable: PortablePlan | None = None,
) -> SearchResult | None:
    budget = budget or Budget(seconds=20.0)
    bounder = bounder_of(kind, q, budget, portable)
    if bounder is None:
        return None
    result = search(bounder, np.arange(q.clauses), plan, budget, q.inspect, keep_leaves=True)
    check(q, result)
    return result


def check(q: Question, result: SearchResult) -> None:
    """No verdict is wrong and no bound too high."""
    assert (result.lower <= q.ceiling + 1e-9).all(), (result.lower, q.ceiling)
    if q.gap > 0:
        assert result.ended is not Ended.WITNESS
    else:
        assert result.ended is not Ended.PROVED


class Replayed:
    """The oracle's network, as the original model of witnesses."""

    dtype = np.dtype(np.float64)

    def __init__(self, q: Question) -> None:
        self.layers = q.case.layers

    def __call__(self, x: Points, /) -> Points:
        return forward(self.layers, x)


def decided(q: Question, result: SearchResult) -> bool:
    """A proof, or a witness from the minimisers or from an attack."""
    if result.ended in (Ended.PROVED, Ended.WITNESS):
        return True
    if q.gap > 0:
        return False
    prop, generator = q.case.shifted(q.shift), torch.Generator().manual_seed(0)
    found = find_witness(prop, [q.safety], Replayed(q), QUICK, Budget(seconds=2.0), generator)
    if found.witness is not None:
        assert q.case.margin(found.witness.input, q.shift) <= 1e-12
    return found.witness is not None


def share_decided(kind: str, seeds: Sequence[int]) -> float:
    answers = []
    for seed in seeds:
        q = question(seed)
        result = run(kind, q)
        if result is not None:
            answers.append(decided(q, result))
    assert answers
    return sum(answers) / len(answers)


@pytest.mark.parametrize("part", range(2))
@pytest.mark.parametrize("kind", BOUNDERS)
def test_verdicts_are_right(kind: str, part: int) -> None:
    """40 networks of every kind; `test_close_calls` judges whole decisions."""
    assert share_decided(kind, range(20 * part, 20 * part + 20)) >= 0.9


@pytest.mark.slow
@pytest.mark.parametrize("part", range(40))
@pytest.mark.parametrize("kind", BOUNDERS)
def test_verdicts_are_right_on_many_networks(kind: str, part: int) -> None:
    """2,000 more."""
    assert share_decided(kind, range(1000 + 50 * part, 1050 + 50 * part)) >= 0.9


@pytest.mark.parametrize("seed", range(300, 306))
@pytest.mark.parametrize("kind", BOUNDERS)
def test_rules_and_orders_agree(kind: str, seed: int) -> None:
    q = question(seed, "relu", np.inf)
    plans = [replace(FAST, rule=rule) for rule in RULES]
    plans += [replace(FAST, worst_first=True), replace(FAST, batch=1), replace(FAST, batch=7)]
    ends = [result.ended for result in (run(kind, q, plan) for plan in plans) if result]
    proved = {ended is Ended.PROVED for ended in ends}
    assert proved == {q.gap > 0}, ends


@pytest.mark.parametrize("seed", [301, 309])
@pytest.mark.parametrize("name", ["sigmoid", "tanh", "relu"])
def test_methods_and_tightenings_agree(name: str, seed: int) -> None:
    q = question(seed, name)
    short: list[Method[Any]] = [
        Supergradient(60, Linear(1e-2, 1e-3)),
        Proximal(40, momentum=0.0, eta=Linear(1e2, 1e2)),
    ]
    plans = [replace(PortablePlan(), child=Effort(m, WeightAscent(2, m))) for m in short]
    plans += [PortablePlan(tightening=t) for t in (Carry(), Retighten(), Retighten(wk=False))]
    for plan in plans:
        result = run("portable", q, portable=plan)
        assert result is not None
        assert result.ended is Ended.PROVED, plan


@pytest.mark.parametrize("name", ["supergradient", "proximal", "dsg", "lp"])
def test_the_papers_plans_decide(name: str) -> None:
    if name == "lp":
        pytest.importorskip("highspy")
    plan = paper_plans(batch=20)[name]
    q = question(301, "relu", np.inf)
    result = run("portable", q, replace(plan.search, margin=1e-5), portable=plan)
    assert result is not None
    assert result.ended is Ended.PROVED


@pytest.mark.parametrize("kind", BOUNDERS)
@pytest.mark.parametrize(
    ("plan", "seconds", "ended"),
    [
        (replace(FAST, subproblems=2), None, Ended.COUNT),
        (replace(FAST, memory=1), None, Ended.MEMORY),
        (FAST, 0.0, Ended.BUDGET),
    ],
)
def test_a_stop_leaves_valid_bounds(
    kind: str, plan: SearchPlan, seconds: float | None, ended: Ended
) -> None:
    q = Question(small(31, "relu", np.inf), 0.01)
    result = run(kind, q, replace(plan, batch=1), Budget(seconds=seconds))
    assert result is not None
    assert result.ended is ended
    assert np.isfinite(result.lower).all()
    assert not (result.lower > 0).all()


@pytest.mark.parametrize("kind", BOUNDERS)
def test_a_seed_gives_one_search(kind: str) -> None:
    q = Question(small(31, "relu", np.inf), 0.01)
    first, second, other = (
        run(kind, q, replace(FAST, rule=Random(), seed=seed)) for seed in (1, 1, 2)
    )
    assert first is not None
    assert second is not None
    assert other is not None
    assert np.array_equal(first.tree.split, second.tree.split)
    assert np.array_equal(first.lower, second.lower)
    assert not np.array_equal(first.tree.split, other.tree.split)


@pytest.mark.parametrize("seed", [31, 301, 303, 305])
@pytest.mark.parametrize("kind", BOUNDERS)
def test_trees_split_nodes_in_two(kind: str, seed: int) -> None:
    q = Question(small(seed, "relu", np.inf), 0.01)
    result = run(kind, q)
    assert result is not None
    parent, split = result.tree.parent, result.tree.split
    assert (parent < np.arange(len(parent))).all()
    for node in np.unique(parent[parent >= 0]):
        codes = split[parent == node]
        assert sorted(np.sign(codes)) == [-1, 1]
        assert len(np.unique(np.abs(codes))) == 1
    inner = np.isin(np.arange(len(parent)), parent)
    closed = np.concatenate([leaf.node for leaf in result.leaves])
    assert np.array_equal(np.sort(closed), np.flatnonzero(~inner))  # proved: every leaf is closed


# --- the portable engine's sub-problems ---


def explored(seed: int, name: str | None = None) -> tuple[Question, PortableBounder, PortableBatch]:
    """A question, and the sub-problems that are there after some rounds."""
    q = Question(small(seed, name), 0.003)
    bounder = bounder_of("portable", q, Budget())
    assert isinstance(bounder, PortableBounder)
    expansion = bounder.roots(np.arange(q.clauses), np.arange(q.clauses))
    generator = np.random.default_rng(0)
    for _ in range(3):
        view = bounder.open_problems(expansion, 10.0)
        neuron = Random().choose(None, view, generator)
        open_ = np.flatnonzero(neuron >= 0)
        if len(open_) == 0:
            break
        batch = expansion.batch.take(open_)
        expansion = bounder.children(batch, neuron[open_], 10.0, inputs=True)
    return q, bounder, expansion.batch


def points_of(q: Question, count: int = 3000) -> tuple[Points, Points]:
    """Points of the region, and their pre-activations `[S, total]`."""
    region, rng = q.case.region, np.random.default_rng(0)
    x = region.center + region.radius * rng.uniform(-1, 1, (count, len(region.center)))
    x = np.array([region.inside(point) for point in x])
    trace = q.case.network.trace(torch.tensor(x).reshape(1, count, *q.case.network.input_shape))
    hidden = torch.cat([zhat.flatten(2) for zhat in trace[1:-1]], -1)[0]
    return x, hidden.numpy()


def inside(
    bounder: PortableBounder, lower: Points, upper: Points, hidden: Points
) -> NDArray[np.bool_]:
    """`[N, S]`: which points lie in which cells."""
    own = hidden[:, bounder.duals.root.index.numpy()]
    slack = 1e-12
    return np.stack(
        [
            ((own >= l - slack) & (own <= u + slack)).all(1)
            for l, u in zip(lower, upper, strict=True)
        ]
    )


def clause_margins(q: Question, x: Points) -> Points:
    """`[C, S]`."""
    y = forward(q.case.layers, x)
    return np.stack([(y @ A.T - b - q.shift).max(1) for A, b in q.case.clauses])


SUBPROBLEMS = range(400, 412)


@pytest.mark.parametrize("seed", SUBPROBLEMS)
def test_children_cover_their_parents(seed: int) -> None:
    q, bounder, batch = explored(seed)
    _, hidden = points_of(q)
    covered = inside(bounder, batch.lower, batch.upper, hidden)
    # 2^depth cells of one clause cover all points if no sub-problem of it ran out of neurons
    view = bounder.duals.root
    for row in np.unique(batch.row):
        mine = batch.row == row
        if mine.sum() == 8:
            assert covered[mine].any(0).all()
    assert view.index.numel() == batch.lower.shape[1]


@pytest.mark.parametrize("seed", SUBPROBLEMS)
def test_bounds_hold_at_points_of_the_sub_problem(seed: int) -> None:
    q, bounder, batch = explored(seed)
    x, hidden = points_of(q)
    margins, member = clause_margins(q, x), inside(bounder, batch.lower, batch.upper, hidden)
    least = np.where(member, margins[batch.row], np.inf).min(1)
    assert (bounder.certify(batch) <= least + 1e-9).all()
    assert (batch.bound <= least + 1e-4).all()
    polished = bounder.polish(batch, np.inf).batch
    assert (bounder.certify(polished) <= least + 1e-9).all()
    assert (polished.bound >= batch.bound).all()


@pytest.mark.parametrize("seed", SUBPROBLEMS)
def test_any_multipliers_and_weights_are_valid(seed: int) -> None:
    q, bounder, batch = explored(seed)
    rng = np.random.default_rng(seed)
    x, hidden = points_of(q)
    margins, member = clause_margins(q, x), inside(bounder, batch.lower, batch.upper, hidden)
    least = np.where(member, margins[batch.row], np.inf).min(1)
    used = bounder.duals.clauses.used[torch.from_numpy(batch.row)].numpy()
    for size in (0.01, 0.3, 10.0):
        beta = (rng.normal(size=batch.beta.shape) * size).astype(np.float16)
        weight = rng.uniform(0, size, used.shape).astype(np.float32) * used
        wild = batch._replace(beta=beta, weight=weight)
        assert (bounder.certify(wild) <= least + 1e-9).all()


@pytest.mark.parametrize("seed", SUBPROBLEMS)
@pytest.mark.parametrize("tightening", [Inherit(), Carry(), Retighten(), Retighten(wk=False)])
def test_tightening_loses_no_point(tightening: Tightening, seed: int) -> None:
    q, bounder, batch = explored(seed)
    _, hidden = points_of(q)
    member = inside(bounder, batch.lower, batch.upper, hidden)
    root, problem = bounder.duals.root, bounder.duals.problem
    cells = Cells(torch.from_numpy(batch.lower), torch.from_numpy(batch.upper))
    within = root.between(cells, torch.float64)
    tight = tightening.tighten(problem.network, problem.domain, within)
    low, high = tight.lower.data[:, 0].numpy(), tight.upper.data[:, 0].numpy()
    for cell, l, u in zip(member, low, high, strict=True):
        assert ((hidden[cell] >= l - 1e-12) & (hidden[cell] <= u + 1e-12)).all()
    assert (tight.lower.data >= within.lower.data).all()
    assert (tight.upper.data <= within.upper.data).all()


@pytest.mark.parametrize("seed", SUBPROBLEMS)
def test_probes_bound_the_children(seed: int) -> None:
    q, bounder, batch = explored(seed)
    x, hidden = points_of(q)
    margins = clause_margins(q, x)
    coefficient = np.zeros(batch.lower.shape, np.float32)
    view = bounder.open_problems(_expansion(batch, coefficient), 10.0)
    splittable = view.intercepts() >= 0
    problem, neuron = np.nonzero(splittable)
    problem, neuron = np.repeat(problem, 2), np.repeat(neuron, 2)
    sign = np.tile(np.array([1, -1], np.int8), len(problem) // 2)
    bound = view.probe(problem, neuron, sign)
    root = bounder.duals.root
    cells = Cells(torch.from_numpy(batch.lower[problem]), torch.from_numpy(batch.upper[problem]))
    if len(problem) == 0:
        return  # every neuron is split
    cut = root.cut(cells, torch.from_numpy(neuron), torch.from_numpy(sign > 0))
    member = inside(bounder, cut.lower.numpy(), cut.upper.numpy(), hidden)
    least = np.where(member, margins[batch.row[problem]], np.inf).min(1, initial=np.inf)
    assert (bound <= least + 1e-4).all()


@pytest.mark.parametrize("seed", range(420, 426))
def test_intercepts_of_a_relu_are_babsrs(seed: int) -> None:
    """−min(g, 0)·(−l u / (u − l)) where the neuron is ambiguous."""
    _, bounder, batch = explored(seed, "relu")
    g = np.random.default_rng(0).normal(size=batch.lower.shape).astype(np.float32)
    score = bounder.open_problems(_expansion(batch, g), 10.0).intercepts()
    l, u = batch.lower.astype(float), batch.upper.astype(float)
    bends = (l < 0) & (u > 0)
    offset = np.where(bends, -l * u / np.where(bends, u - l, 1.0), 0.0)
    np.testing.assert_allclose(score[bends], (-np.minimum(g, 0) * offset)[bends], atol=1e-6)
    assert (score[~bends] < 0).all()


def test_memory_changes_nothing_but_the_pieces() -> None:
    q = question(301)
    wide, narrow = (
        run("portable", q, budget=Budget(seconds=60.0, memory=memory)) for memory in (None, 1)
    )
    assert wide is not None
    assert narrow is not None
    assert wide.ended is narrow.ended is Ended.PROVED
    assert wide.subproblems == narrow.subproblems


def _expansion(batch: PortableBatch, coefficient: NDArray[np.float32]) -> Any:
    """Any: an expansion's batch is of any kind."""
    from anybound.search.bounder import Expansion

    return Expansion(batch, coefficient, np.zeros((0, 1), np.float32))
