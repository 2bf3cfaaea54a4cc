"""Searches by name: each decides, or says honestly that it does not; and plug-ins of one's own."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
import torch

import anybound
from anybound import Outcome, Verdict, verify
from anybound.bound.decomposition import Decomposition
from anybound.bound.method import OneShot
from anybound.bound.methods.crown import Crown
from anybound.bound.methods.proximal import Proximal
from anybound.bound.methods.slopes import Slopes
from anybound.deciding import chosen_search
from anybound.decision import Search
from anybound.errors import InvalidConfig
from anybound.layers import Layers
from anybound.registry import RULES, SEARCHES
from anybound.search.branchings.babsr import BaBSR
from anybound.search.portable_search import paper_plans
from anybound.search.rule import BranchingRule, Index, OpenProblems, best
from anybound.search.tightening import Retighten
from anybound.searches.auto import Auto
from anybound.searches.compact import Compact
from anybound.searches.paper import Row
from anybound.searches.portable import Portable

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
            "compact" if text == "auto" else text.partition("(")[0].replace("auto", "portable")
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
    assert {"auto", "compact", "mip", "paper", "portable"} <= set(SEARCHES.names())
    assert RULES.names() == ["babsr", "filtered", "random", "strong"]


def test_a_method_that_iterates_drives_the_planned_search() -> None:
    method = Proximal(20)
    assert chosen_search("auto", method) == Auto(method)
    for given in (None, Crown(), Slopes()):
        assert chosen_search("auto", given) == Auto()
    assert chosen_search("compact", method) == Compact()
    assert chosen_search(None, method) is None


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
