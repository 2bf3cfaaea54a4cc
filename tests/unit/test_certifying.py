"""Certificates of properties that need a search: the checker is the judge, and a grid the oracle."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import pytest
from formulas import Formula
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from anybound.budget import Budget
from anybound.certificate import Arrays, Certificate, ClauseProof, Group, Step, step_fields
from anybound.certifying import Certifier
from anybound.certifying.boxes import BoxBounder, BoxProof
from anybound.certifying.hidden import bound_neurons
from anybound.certifying.input_set import InputSet
from anybound.search.neuron_trees import NeuronTrees
from anybound.spec.problems import problems
from anybound_check import check
from anybound_check.archive import Record

BENDS: dict[str, Callable[[NDArray[np.float64]], NDArray[np.float64]]] = {
    "Relu": lambda a: np.maximum(a, 0),
    "Sigmoid": lambda a: 1 / (1 + np.exp(-a)),
    "Tanh": np.tanh,
}


@dataclass(frozen=True)
class Files:
    """A network of two inputs and one output, and how far above its least value it is to stay."""

    network: Path
    weights: list[NDArray[np.float32]]
    activation: str

    @classmethod
    def random(cls, folder: Path, activation: str, seed: int, width: int = 12) -> "Files":
        rng = np.random.default_rng(seed)
        sizes = [2, width, width, 1]
        pairs = list(itertools.pairwise(sizes))
        weights = [rng.normal(size=pair).astype(np.float32) for pair in pairs]
        nodes, name = list[onnx.NodeProto](), "x"
        for k in range(3):
            nodes.append(helper.make_node("MatMul", [name, f"w{k}"], [f"a{k}"]))
            if k < 2:
                nodes.append(helper.make_node(activation, [f"a{k}"], [f"z{k}"]))
            name = f"z{k}"
        graph = helper.make_graph(
            nodes,
            "g",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 2))],
            [helper.make_tensor_value_info("a2", TensorProto.FLOAT, (1, 1))],
            [numpy_helper.from_array(w, f"w{k}") for k, w in enumerate(weights)],
        )
        path = folder / "net.onnx"
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)]), path)
        return cls(path, weights, activation)

    @property
    def least(self) -> float:
        """Over a grid of the box [-1, 1]²."""
        axis = np.linspace(-1, 1, 201)
        x = np.stack(np.meshgrid(axis, axis), -1).reshape(-1, 2)
        bend = BENDS[self.activation]
        first, second, last = self.weights
        return float((bend(bend(x @ first) @ second) @ last).min())

    def stays_above(self, level: float) -> Path:
        """The property that the output is above a level, in the box."""
        path = self.network.with_name("prop.vnnlib")
        path.write_text(
            "(declare-const X_0 Real)\n(declare-const X_1 Real)\n(declare-const Y_0 Real)\n"
            + "".join(f"(assert (>= X_{i} -1))\n(assert (<= X_{i} 1))\n" for i in range(2))
            + f"(assert (<= Y_0 {level:.6f}))\n"
        )
        return path


@pytest.mark.parametrize("seed", range(3))
def test_splits_of_the_input_make_a_certificate(tmp_path: Path, seed: int) -> None:
    files = Files.random(tmp_path, "Relu", seed)
    prop = files.stays_above(files.least - 0.05 * abs(files.least) - 0.05)
    certifier = Certifier(files.network, prop)
    (safety,) = problems(certifier.network, certifier.property)
    task = InputSet(certifier.network, certifier.property, certifier.checker, safety)
    proof = BoxProof(BoxBounder.of(task, safety.clauses[0])).run(Budget())
    assert proof is not None
    assert (proof.split >= certifier.checker.neurons).any()
    path = tmp_path / "proof.abc"
    Certificate(certifier.model, certifier.spec, [Group([], [proof])]).write(path)
    assert check(files.network, prop, path).valid


def test_formulas_are_certified_by_cutting_off_slabs(tmp_path: Path) -> None:
    """The other value of a variable that a clause decides is a leaf: trees are as small as by propagating units."""
    paths = tmp_path / "formula.onnx", tmp_path / "formula.vnnlib"
    formulas = [Formula.random(seed) for seed in range(20)]
    unsatisfiable = [formula for formula in formulas if not formula.is_satisfiable]
    assert len(unsatisfiable) > 5
    for formula in unsatisfiable:
        write(formula, *paths)
        certifier = Certifier(*paths)
        (safety,) = problems(certifier.network, certifier.property)
        task = InputSet(certifier.network, certifier.property, certifier.checker, safety)
        proof = BoxProof(BoxBounder.of(task, safety.clauses[0])).run(Budget(20.0))
        assert proof is not None
        assert proof.split is not None
        assert len(proof.split) < 2**formula.variables / 8  # of all assignments
        group = Group(task.steps, [proof])
        Certificate(certifier.model, certifier.spec, [group], "real").write(tmp_path / "proof.abc")
        assert check(*paths, tmp_path / "proof.abc").valid


def write(formula: Formula, network: Path, prop: Path) -> None:
    """As files."""
    n = formula.variables
    tensors = {"v": formula.weight, "b": formula.bias, "w": formula.last}
    graph = helper.make_graph(
        [
            helper.make_node("Gemm", ["x", "v", "b"], ["a"], transB=1),
            helper.make_node("Relu", ["a"], ["z"]),
            helper.make_node("Gemm", ["z", "w"], ["y"], transB=1),
        ],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, n))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, (1, 2))],
        [numpy_helper.from_array(t.astype(np.float32), name) for name, t in tensors.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)]), network)
    declared = [f"(declare-const X_{i} Real)" for i in range(n)]
    declared += [f"(declare-const Y_{i} Real)" for i in range(2)]
    box = [f"(assert (>= X_{i} 0.0)) (assert (<= X_{i} 1.0))" for i in range(n)]
    prop.write_text("\n".join([*declared, *box, "(assert (<= Y_0 0.0))", "(assert (<= Y_1 0.0))"]))


def test_what_does_not_hold_gets_no_certificate(tmp_path: Path) -> None:
    files = Files.random(tmp_path, "Relu", 0)
    prop = files.stays_above(files.least + 0.01)
    assert Certifier(files.network, prop).certificate(Budget(1.0)) is None


@pytest.mark.parametrize(("activation", "margin"), [("Tanh", 0.12), ("Sigmoid", 0.004)])
def test_curved_activations_are_split_at_points(
    tmp_path: Path, activation: str, margin: float
) -> None:
    files = Files.random(tmp_path, activation, 1, width=6)
    prop = files.stays_above(files.least - margin)
    certificate = Certifier(files.network, prop).certificate(Budget(300.0))
    assert certificate is not None
    ((proof,),) = (group.proofs for group in certificate.groups)
    assert len(proof.split) > 1  # it needs a search
    path = tmp_path / "proof.abc"
    certificate.write(path)
    assert check(files.network, prop, path).valid


def test_a_step_that_gains_nothing_is_left_out(tmp_path: Path) -> None:
    files = Files.random(tmp_path, "Relu", 0)
    certifier = Certifier(files.network, files.stays_above(-100.0))
    (safety,) = problems(certifier.network, certifier.property)
    task = InputSet(certifier.network, certifier.property, certifier.checker, safety)
    everything = np.arange(12)
    before = task.region.copy()
    taken = task.improve(task.region, Step(1, everything, everything))
    assert taken is not None
    v = certifier.checker.network.acts[1]
    assert (task.region.lower[v][taken.lower] > before.lower[v][taken.lower]).all()
    assert (task.region.upper[v][taken.upper] < before.upper[v][taken.upper]).all()
    assert task.improve(task.region, Step(1, everything, everything)) is None


def test_one_neuron_shows_that_a_clause_is_never_reached(tmp_path: Path) -> None:
    files = Files.random(tmp_path, "Relu", 0)
    prop = files.stays_above(-100.0)
    certifier = Certifier(files.network, prop)
    (safety,) = problems(certifier.network, certifier.property)
    task = InputSet(certifier.network, certifier.property, certifier.checker, safety)
    region, everything = task.region.copy(), np.arange(12)
    step = Step(1, everything, everything, weights=np.ones((24, 1)))
    taken = task.improve(region, step, safety.clauses[0])
    assert taken is not None
    assert region.empty[0]
    assert len({*taken.lower, *taken.upper}) == 1
    proof = ClauseProof(0, [taken], weights=np.ones((1, 1)))
    path = tmp_path / "proof.abc"
    Certificate(certifier.model, certifier.spec, [Group([], [proof])]).write(path)
    assert check(files.network, prop, path).valid


def test_trees_of_neurons_are_written_as_they_were_bounded(tmp_path: Path) -> None:
    """From what is written the checker alone finds the same bounds, and no input of a grid leaves them."""
    files = Files.random(tmp_path, "Relu", 3, width=20)
    certifier = Certifier(files.network, files.stays_above(files.least - 1))
    (safety,) = problems(certifier.network, certifier.property)
    task = InputSet(certifier.network, certifier.property, certifier.checker, safety)
    v = certifier.checker.network.acts[1]
    with np.errstate(all="ignore"):
        before = task.region.upper[v] - task.region.lower[v]
        assert bound_neurons(task, NeuronTrees(), Budget()) > 0.05
        region = certifier.checker.region(0)
        for step in task.steps:
            assert step.split is not None
            assert len(step.split) > len(step.lower) + len(step.upper)
            arrays = Arrays()
            certifier.checker.improve(region, Record(step_fields(step, arrays), arrays.content))
    np.testing.assert_allclose(region.lower[v], task.region.lower[v], atol=1e-9)
    np.testing.assert_allclose(region.upper[v], task.region.upper[v], atol=1e-9)
    assert (region.upper[v] - region.lower[v]).sum() < 0.9 * before.sum()
    axis = np.linspace(-1, 1, 101)
    first, second, _ = (weight.astype(float) for weight in files.weights)
    x = np.stack(np.meshgrid(axis, axis), -1).reshape(-1, 2)
    a = np.maximum(x @ first, 0) @ second
    assert (a + 1e-9 >= region.lower[v].T).all()
    assert (a <= region.upper[v].T + 1e-9).all()
