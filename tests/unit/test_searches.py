"""Searches by name: each decides, or says honestly that it does not; and plug-ins of one's own."""

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
import torch

import anybound
from anybound import Outcome, Verdict, verify
from anybound.bound.decomposition import Decomposition
from anybound.bound.interval import interval
from anybound.bound.method import OneShot
from anybound.bound.methods.crown import Crown
from anybound.bound.methods.proximal import Proximal
from anybound.bound.methods.slopes import Slopes
from anybound.budget import Budget
from anybound.deciding import chosen_search
from anybound.decision import Search, SearchTask
from anybound.errors import InvalidConfig
from anybound.layers import Layers
from anybound.memory import resident
from anybound.model.activations import ReLU
from anybound.model.affine import Dense
from anybound.model.domains.box import Box
from anybound.model.network import Edge, Network, Node
from anybound.registry import RULES, SEARCHES
from anybound.search.branchings.babsr import BaBSR
from anybound.search.portable_search import paper_plans
from anybound.search.rule import BranchingRule, Index, OpenProblems, best
from anybound.search.tightening import Retighten
from anybound.searches.auto import Auto
from anybound.searches.compact import Compact
from anybound.searches.errand import Errand
from anybound.searches.paper import Row
from anybound.searches.portable import Portable
from anybound.searches.turns import Turns
from anybound.spec.build import any_of, linear, unsafe
from anybound.spec.input_sets import BoxSet
from anybound.spec.problem import Objective, Problem
from anybound.spec.problems import ClauseRows, SafetyProblem

DATA = Path(anybound.__file__).parent / "data"
NEEDS_SEARCH = "digits_dense_image2_5_eps0.08"  # holds, though no bounds of the root from WK say so


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def decide(search: str | Search, name: str = NEEDS_SEARCH) -> Outcome:
    network = DATA / "networks" / f"{name.partition('_image')[0]}.onnx"
    prop = DATA / "properties" / f"{name}.vnnlib"
    return verify(network, prop, search=search, intermediate="wk", attacks=(), timeout=60)


@pytest.mark.parametrize(
    "text",
    [
        "auto",
        "auto(method=supergradient(iterations=50))",
        "compact(rule=babsr, batch=16)",
        "turns",
        "turns(inputs=inputs(symbols=64), neurons_begin=True)",
        "portable",
        "portable(method=proximal(iterations=30), rule=babsr, worst_first=True)",
        "portable(tightening=retighten(wk=False), rule=strong)",
        "paper(supergradient)",
        "paper(proximal, retighten=False)",
        "paper(dsg, batch=50)",
        "paper(lp)",
    ],
)
def test_a_named_search_decides(text: str) -> None:
    if "lp" in text:
        pytest.importorskip("highspy")
    outcome = decide(text)
    assert outcome.verdict is Verdict.HOLDS
    assert outcome.subproblems > 0
    assert (
        outcome.plan["search"]
        .lower()
        .startswith(
            "turns" if text == "auto" else text.partition("(")[0].replace("auto", "portable")
        )
    )


@pytest.mark.parametrize("text", ["auto", "portable(rule=babsr)"])
def test_minimisers_of_a_search_are_tried_as_witnesses(text: str) -> None:
    outcome = decide(text, "digits_sigmoid_image2_eps0.1")
    assert outcome.verdict is Verdict.VIOLATED


def test_a_solver_s_word_decides_nothing() -> None:
    pytest.importorskip("highspy")
    outcome = decide("mip")
    assert outcome.verdict is Verdict.UNKNOWN
    assert outcome.plan["solver"] == "holds"
    assert float(outcome.plan["solver bound"]) > 0
    assert "no proof" in outcome.reason


def test_a_solver_s_point_is_a_witness_if_replayed() -> None:
    pytest.importorskip("highspy")
    outcome = decide("mip", "digits_dense_image4_eps0.1")
    assert outcome.verdict is Verdict.VIOLATED
    assert outcome.witness is not None


def test_a_search_that_does_not_apply_says_so() -> None:
    outcome = decide("compact", "digits_sigmoid_image8_eps0.055")
    assert outcome.verdict is Verdict.UNKNOWN
    assert "does not apply" in outcome.reason


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("papr", "did you mean 'paper'"),
        ("paper(gurobi)", "'gurobi' is not one of supergradient, proximal, dsg, lp"),
        ("portable(rule=babs)", "unknown branching rule 'babs': did you mean 'babsr'"),
        ("portable(method=slops)", "unknown method 'slops'"),
        ("portable(tightening=babsr)", "'babsr' is not a value of type Tightening"),
        ("compact(batches=3)", "compact has no parameter 'batches'"),
    ],
)
def test_a_wrong_text_is_refused(text: str, message: str) -> None:
    with pytest.raises(InvalidConfig, match=message.replace("(", r"\(")):
        decide(text)


def test_every_name_is_a_record() -> None:
    for name in SEARCHES.names():
        assert SEARCHES.parse(name) == SEARCHES.get(name)()
    assert {"auto", "compact", "inputs", "mip", "paper", "portable", "turns"} <= set(
        SEARCHES.names()
    )
    assert RULES.names() == ["babsr", "filtered", "random", "strong"]


def test_a_method_that_iterates_drives_the_planned_search() -> None:
    method = Proximal(20)
    assert chosen_search("auto", method) == Auto(method)
    for given in (None, Crown(), Slopes()):
        assert chosen_search("auto", given) == Auto()
    assert chosen_search("compact", method) == Compact()
    assert chosen_search(None, method) is None


ONE = Network(
    (
        Node((1,)),
        Node((2,), (Edge(0, Dense.of(torch.tensor([[1.0], [-1.0]]))),), ReLU()),
        Node((1,), (Edge(1, Dense.of(torch.tensor([[1.0, 1.0]]), torch.tensor([-0.5]))),)),
    )
)  # |x| − 1/2


@pytest.mark.parametrize("search", ["auto", "inputs", "turns(neurons_begin=True)"])
@pytest.mark.parametrize(("level", "verdict"), [(-0.501, "holds"), (-0.499, "violated")])
def test_few_inputs_are_split(search: str, level: float, verdict: str) -> None:
    """Of two input sets and several clauses."""
    first, second = (
        BoxSet(np.array([-1.0]), np.array([1.0])),
        BoxSet(np.array([0.5]), np.array([2.0])),
    )
    above = linear(np.array([[-1.0]]), np.array([-5.0]))  # f >= 5
    below = linear(np.array([[1.0]]), np.array([level]))  # f <= level
    prop = unsafe(first, any_of(above, below)) | unsafe(second, any_of(above, below))
    outcome = verify(ONE, prop, search=search, attacks=(), intermediate="interval", timeout=20)
    assert outcome.verdict.value == verdict
    if verdict == "holds":
        assert min(clause.lower for clause in outcome.clauses) <= 1e-3
    if search == "auto" and outcome.subproblems:
        assert "turns" in outcome.plan["search"].lower()


def test_neurons_are_split_where_many_inputs_vary() -> None:
    task = _task(_box(200))
    assert Auto().choice(task) == (Compact(), "200 inputs vary, too many to split the input set")
    assert Auto().chosen(_task(_box(5))) == Turns(neurons_share=0.25)
    assert Auto().chosen(_task(_box(50))) == Turns(neurons_begin=True)
    constant = _box(200)
    constant.upper[..., 5:] = constant.lower[..., 5:]
    assert Auto().chosen(_task(constant)) == Turns(neurons_share=0.25)


def _box(inputs: int) -> Box:
    return Box(torch.zeros(1, 1, inputs), torch.ones(1, 1, inputs))


def _task(box: Box) -> SearchTask:
    size = box.lower.shape[-1]
    network = Network((Node((size,)), Node((1,), (Edge(0, Dense.of(torch.ones(1, size))),))))
    problem = Problem(network, box, Objective.rows(network, torch.ones(1, 1)))
    bounds = interval(network, box)
    safety = SafetyProblem(problem, (ClauseRows(0, slice(0, 1)),))
    return SearchTask(
        safety,
        bounds,
        safety.clauses,
        Budget(),
        seed=0,
        confirm=lambda points: None,
        look=lambda points: None,
        advance=lambda lower, count: None,
    )


def test_a_search_that_gets_nowhere_yields_to_the_other() -> None:
    """Without memory there is no splitting of the input, and neurons get all the time."""
    outcome = decide("turns(inputs=inputs(memory=1), first=0.01, neurons_share=0.01)")
    assert outcome.verdict is Verdict.HOLDS
    assert outcome.plan["decided by splitting"] == "neurons"


def test_the_paper_s_rows_have_plans() -> None:
    plans = paper_plans(200, retighten=True)
    assert set(plans) == {row.value for row in Row}
    for plan in plans.values():
        assert plan.rule == BaBSR()
        assert plan.worst_first
        assert plan.batch == 200
        assert plan.tightening == Retighten()


@dataclass(frozen=True)
class Last(BranchingRule):
    """The last neuron that can be split."""

    def choose(self, state: None, problems: OpenProblems, generator: np.random.Generator) -> Index:
        scores = problems.intercepts()
        return best(np.where(scores >= 0, np.arange(scores.shape[1], dtype=np.float32), -1))


@dataclass(frozen=True)
class Nonsense(OneShot):
    """A dual point of noise: any is valid."""

    def rho(self, dual: Decomposition) -> Layers:
        zeros = dual.zeros()
        generator = torch.Generator().manual_seed(0)
        return zeros.like(0.01 * torch.randn(zeros.data.shape, generator=generator))


@pytest.mark.parametrize("engine", [Portable(), Compact()])
def test_a_rule_of_one_s_own(engine: Portable | Compact) -> None:
    assert decide(replace(engine, rule=Last())).verdict is Verdict.HOLDS


def test_a_method_of_one_s_own_cannot_prove_what_is_false() -> None:
    assert decide(Portable(Nonsense())).verdict in (Verdict.HOLDS, Verdict.UNKNOWN)
    found = decide(Portable(Nonsense()), "digits_dense_image4_eps0.1")
    assert found.verdict is not Verdict.HOLDS


def test_open_sub_problems_get_half_of_what_memory_is_left() -> None:
    used, task = resident(os.getpid()), _task(_box(2))
    assert Errand(task).pool_memory(100) == 100
    scarce = replace(task, budget=Budget(memory=used + (200 << 20)))
    assert Errand(scarce).pool_memory(1000) == 1000
    assert (50 << 20) < Errand(scarce).pool_memory(1 << 40) <= 110 << 20
    assert Errand(replace(task, budget=Budget(memory=1))).pool_memory(1000) == 0
