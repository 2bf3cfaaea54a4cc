"""Bounds of random small networks: never above the exact optimum, and those of the verifier's own evaluator.

The optimum is found in fractions, cell by cell (`exact_cells`); for sigmoid and tanh samples stand
for it, in 50 digits.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import onnx
import pytest
import torch
from exact_cells import minimum
from exact_certificate import read_network as read_forms
from numpy.typing import NDArray
from random_proofs import random_slopes, random_step
from tiny_networks import KINDS, network

from anybound.bound.bounds import Bounds
from anybound.bound.decomposition import Decomposition
from anybound.certifying.input_set import Numbering
from anybound.io.onnx_reader import from_proto
from anybound.layers import Layers
from anybound.model.domains.box import Box
from anybound.spec.problem import Objective, Problem
from anybound_check import bounds
from anybound_check.bounds import Problems, Region
from anybound_check.network import read_network
from anybound_check.proof import Checker

Numbers = NDArray[np.float64]
ROWS = 3


class Case:
    """A network, intervals after random steps, and rows c with random slopes."""

    def __init__(self, seed: int, activation: str = "Relu") -> None:
        self.rng = np.random.default_rng(seed)
        kinds = KINDS if activation == "Relu" else ("gemm", "matmul", "residual", "conv")
        self.content, inputs = network(self.rng, kinds[seed % len(kinds)], activation=activation)
        self.checker = Checker(read_network(self.content), [])
        center = self.rng.normal(size=inputs).astype(np.float32)
        radius = np.where(np.arange(inputs) < 2, np.float32(10 ** self.rng.uniform(-2, 0.5)), 0)
        self.lower, self.upper = (center - radius).astype(float), (center + radius).astype(float)
        self.region = Region(
            self.checker.network, self.lower[:, None], self.upper[:, None], single=False
        )
        for layer in range(1, len(self.checker.network.acts)):
            with np.errstate(all="ignore"):
                random_step(self.checker, self.region, self.rng, layer)
        self.rows = self.rng.normal(size=(ROWS, 2))
        slopes = random_slopes(self.checker, self.rng, ROWS)
        table = np.rint(slopes.values * 2**slopes.bits) / 2**slopes.bits
        zeros = np.zeros(ROWS)
        self.problems = Problems(
            np.zeros(ROWS, int), zeros, zeros, self.rows.T, columns=slopes.columns, slopes=table.T
        )

    def lower_bounds(self) -> Numbers:
        with np.errstate(all="ignore"):
            return self.region.bound(self.problems)

    def point(self) -> Numbers:
        """An input, more often than not at the border."""
        t = self.rng.uniform(-0.3, 1.3, len(self.lower)).clip(0, 1)
        return np.clip(self.lower + t * (self.upper - self.lower), self.lower, self.upper)


@pytest.mark.parametrize("first", range(0, 500, 100))
def test_no_bound_exceeds_the_exact_optimum(first: int) -> None:
    """And it is the optimum where the box is a point."""
    close = 0
    for seed in range(first, first + 100):
        case = Case(seed)
        forms = read_forms(case.content)
        box = [(Fraction(l), Fraction(u)) for l, u in zip(case.lower, case.upper, strict=True)]
        for row, bound in zip(case.rows, case.lower_bounds(), strict=True):
            coefficients = {i: Fraction(c) for i, c in enumerate(row.tolist())}
            optimum = minimum(forms, box, [(coefficients, Fraction(0))])
            assert Fraction(bound) <= optimum
            close += float(optimum) - bound < 1e-9 * (1 + abs(bound))
    assert close > 10  # many boxes are so small that no neuron is bent


@pytest.mark.parametrize("activation", ["Sigmoid", "Tanh"])
def test_smooth_networks_reach_no_lower(activation: str) -> None:
    for seed in range(60):
        case = Case(seed, activation)
        forms, lower = read_forms(case.content), case.lower_bounds()
        for _ in range(6):
            y = forms.values([Fraction(x) for x in case.point().tolist()])
            for row, bound in zip(case.rows.tolist(), lower, strict=True):
                assert Fraction(bound) <= sum(Fraction(c) * v for c, v in zip(row, y, strict=True))


@pytest.fixture
def multipliers(monkeypatch: pytest.MonkeyPatch) -> dict[int, Numbers]:
    """nu of the nodes with activations, as the checker uses them."""
    found = dict[int, Numbers]()
    original = bounds._Sweep.relax

    def relax(sweep: bounds._Sweep, v: int, h: Numbers) -> Numbers:
        found[v] = original(sweep, v, h)
        return found[v]

    monkeypatch.setattr(bounds._Sweep, "relax", relax)
    return found


@pytest.mark.parametrize("first", range(0, 500, 100))
def test_bounds_are_the_verifiers(first: int, multipliers: dict[int, Numbers]) -> None:
    """q(rho) = the checker's bound for rho = -nu between the same intervals, within 1e-6 relative."""
    compared = 0
    for seed in range(first, first + 100):
        case = Case(seed, ("Relu", "Relu", "Sigmoid", "Tanh")[seed % 4])
        multipliers.clear()
        lower = case.lower_bounds()
        rigorous = _rigorous(case, multipliers)
        if rigorous is not None:
            compared += 1
            np.testing.assert_allclose(lower, rigorous, rtol=1e-6, atol=1e-6)
    assert compared >= 75


def _rigorous(case: Case, multipliers: dict[int, Numbers]) -> Numbers | None:
    """The verifier's own evaluation; None if it keeps other layers than the checker."""
    net = from_proto(onnx.load_model_from_string(case.content)).network
    box = Box(
        *(torch.from_numpy(x).reshape(1, 1, *net.input_shape) for x in (case.lower, case.upper))
    )
    numbering = Numbering.of(net, case.checker.network)
    if set(numbering.activation) != set(net.hidden):
        return None
    blocks: dict[str, list[torch.Tensor]] = {"lower": [], "upper": [], "rho": []}
    for k in net.hidden:
        v = case.checker.network.acts[numbering.activation[k]]
        nu = multipliers.get(v, np.zeros((len(case.region.lower[v]), ROWS)))
        blocks["lower"].append(torch.from_numpy(case.region.lower[v].T[None]))
        blocks["upper"].append(torch.from_numpy(case.region.upper[v].T[None]))
        blocks["rho"].append(torch.from_numpy(-nu.T[None]))
    layers = {key: Layers(net.layout, torch.cat(block, -1)) for key, block in blocks.items()}
    rows = torch.from_numpy(case.rows).reshape(ROWS, *net.output_shape)
    problem = Problem(net, box, Objective.rows(net, rows))
    dual = Decomposition.between(problem, Bounds(layers["lower"], layers["upper"]))
    value: Numbers = dual.rigorous(layers["rho"])[0].numpy()
    return value
