"""Certificates of properties that are proved without a search.

    bounds of all hidden layers, with slopes → slopes of every clause → rounded, as coarsely as the
    bound stays positive by the checker's own evaluation

The checker's numbers decide what is written: nothing is put into a file that it would refuse.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from anybound.bound.bounds import Bounds
from anybound.bound.compact.network import CompactNetwork, supports
from anybound.bound.compact.objective import Aim, CompactObjective
from anybound.bound.compact.problems import Children, Parents
from anybound.bound.compact.refine import Adam, refine
from anybound.bound.compact.sparse import SparseNetwork
from anybound.bound.decomposition import Decomposition
from anybound.bound.interval import interval
from anybound.bound.method import maximise
from anybound.bound.methods.slopes import Slopes as SlopesMethod
from anybound.budget import Budget
from anybound.certificate import Certificate, ClauseProof, Group, Index, Slopes, Step
from anybound.errors import UnsupportedModel
from anybound.io.files import read_bytes
from anybound.io.onnx_reader import load
from anybound.io.vnnlib import read_vnnlib
from anybound.layers import Layers
from anybound.model.activations.identity import Identity
from anybound.model.domains.box import Box
from anybound.model.network import Network
from anybound.spec.problem import Problem
from anybound.spec.problems import SafetyProblem, problems
from anybound_check.arithmetic import Unreadable
from anybound_check.dual import Region
from anybound_check.network import Network as Checked
from anybound_check.network import read_network
from anybound_check.proof import Checker
from anybound_check.tree import Slopes as CheckedSlopes
from anybound_check.vnnlib import read_property

BITS = (3, 4, 6, 8, 12)  # of slopes, tried in this order


@dataclass(frozen=True, eq=False)
class Numbering:
    """How the checker numbers the neurons of a network: `activation[k]` of hidden layer k, and
    `neuron` [total] of all hidden neurons in their flat order (−1 where it has none)."""

    activation: dict[int, int]
    neuron: Index

    @classmethod
    def of(cls, network: Network, checked: Checked) -> Numbering:
        """Both read the file's activations in its order; sizes are compared."""
        layers = [k for k, a in network.activations() if not isinstance(a, Identity)]
        sizes = [network.layout.span(k).stop - network.layout.span(k).start for k in layers]
        if sizes != np.diff(checked.offsets).tolist():
            raise UnsupportedModel(
                f"activations of sizes {sizes} are {np.diff(checked.offsets).tolist()} to the "
                "certificate checker; no certificate can be written for this network"
            )
        neuron = np.full(network.layout.total, -1)
        for place, k in enumerate(layers):
            neuron[network.layout.span(k)] = np.arange(*checked.offsets[place : place + 2])
        return cls({k: place for place, k in enumerate(layers)}, neuron)


def certify_root(
    network: str | Path, prop: str | Path, *, steps: int = 20, semantics: str = "real"
) -> Certificate | None:
    """A certificate of a property that bounds at the root prove; None if they do not."""
    model, spec = read_bytes(network), read_bytes(prop)
    net = load(network, check=False)
    try:
        checked = read_network(model)
        clauses = read_property(spec, checked.nodes[0].size, checked.nodes[checked.output].size)
        checker = Checker(checked, clauses, semantics == "float32")
    except Unreadable as error:
        raise UnsupportedModel(f"the certificate checker does not read this: {error}") from None
    groups = []
    for safety in problems(net, read_vnnlib(prop)):
        group = _Root(net, checker, safety, steps).group()
        if group is None:
            return None
        groups.append(group)
    return Certificate(model, spec, groups, semantics)


class _Root:
    """The clauses over one box."""

    def __init__(self, net: Network, checker: Checker, safety: SafetyProblem, steps: int) -> None:
        self.net, self.checker, self.safety, self.steps = net, checker, safety, steps
        self.numbering = Numbering.of(net, checker.network)
        if not isinstance(safety.problem.domain, Box):
            raise UnsupportedModel("certificates are for boxes of inputs")
        self.box: Box = safety.problem.domain.to(torch.float64)

    def group(self) -> Group | None:
        for bits in BITS:
            region = self.checker.region(self.safety.clauses[0].clause)
            steps = self._intermediate(region, bits)
            proofs = self._clauses(region, bits)
            if proofs is not None:
                return Group(steps, proofs)
        return None

    def _intermediate(self, region: Region, bits: int) -> list[Step]:
        """CROWN's bounds for what intervals leave ambiguous, then optimised slopes for what is left
        of that."""
        compact = not supports(self.net, self.box)
        sparse = SparseNetwork(self.net) if compact else None
        steps = []
        for k, activation in sorted(self.numbering.activation.items()):
            if all(edge.source == 0 for edge in self.net.nodes[k].edges):
                continue
            steps.append(self._step(region, activation, self._open(region, activation), None))
            neuron = self._open(region, activation)
            if sparse is not None and len(neuron):
                slopes = self._refined(sparse, region, k, neuron, bits)
                steps.append(self._step(region, activation, neuron, slopes))
        return [step for step in steps if len(step.lower)]

    def _open(self, region: Region, activation: int) -> Index:
        return np.flatnonzero(_bent(region, self.checker.network.pre[activation]))

    def _step(self, region: Region, activation: int, neuron: Index, slopes: Slopes | None) -> Step:
        step = Step(activation, neuron, neuron, slopes)
        self.checker.improve(region, activation, neuron, neuron, _as_read(slopes, 2 * len(neuron)))
        return step

    def _refined(
        self, sparse: SparseNetwork, region: Region, k: int, neuron: Index, bits: int
    ) -> Slopes:
        """Slopes by Adam for lower bounds of some neurons of layer k, then for upper ones."""
        bounds, before = self._bounds(region), range(1, k)
        lower = {j: bounds.lower[j][0, 0] for j in before}
        upper = {j: bounds.upper[j][0, 0] for j in before}
        aimed = CompactNetwork.between(sparse, lower, upper, self.box).aiming(neuron)
        row = aimed.first[-2] + np.arange(len(neuron))
        weight = np.repeat(np.array([1, -1], np.float32), len(neuron))
        aim = Aim(np.zeros(2 * len(neuron), np.float32), np.tile(row, 2), weight)
        start = Parents.roots(aimed, np.zeros(1, np.int64))
        children = Children.of(np.zeros(2 * len(neuron), np.int64))
        refined = refine(aimed, CompactObjective.none(aimed), start, children, Adam(), aim)
        # Only where the coefficient is positive does a slope matter; zeros pack well.
        values = np.where(refined.coefficient > 0, refined.slope, 0)
        return Slopes(self.numbering.neuron[aimed.neuron], values, bits)

    def _bounds(self, region: Region) -> Bounds:
        """The checker's bounds of all hidden layers, float64; of layers without a bend intervals."""
        sides = []
        for side, far in ((region.lower, -np.inf), (region.upper, np.inf)):
            known = np.concatenate([side[pre][:, 0] for pre in self.checker.network.pre])
            values = np.where(self.numbering.neuron >= 0, known[self.numbering.neuron], far)
            sides.append(Layers(self.net.layout, torch.from_numpy(values)[None, None]))
        return interval(self.net, self.box, Bounds(*sides))

    def _clauses(self, region: Region, bits: int) -> Sequence[ClauseProof] | None:
        """Every clause proved by one of its rows; None if some are not."""
        problem = Problem(self.net, self.box, self.safety.problem.objective.to(torch.float64))
        dual = Decomposition.between(problem, self._bounds(region))
        found = maximise(dual, SlopesMethod(self.steps), Budget())
        g = dual.coefficients(found.rho).hidden.data[0]
        slope = torch.where(g == 0, 0.0, -found.rho.data[0] / g).numpy()
        bent = np.concatenate([_bent(region, pre) for pre in self.checker.network.pre])
        used = np.flatnonzero((self.numbering.neuron >= 0) & bent[self.numbering.neuron])
        columns = self.numbering.neuron[used]
        proofs = []
        for clause in self.safety.clauses:
            rows = np.arange(clause.rows.start, clause.rows.stop)
            best = int(np.argmax(found.value[0, rows].numpy()))
            slopes = Slopes(columns, slope[rows[best]][None, used].clip(0, None), bits)
            weights = None if len(rows) == 1 else np.eye(len(rows))[best : best + 1]
            if not self._value(region, clause.clause, slopes, weights) > 0:
                return None
            proofs.append(ClauseProof(clause.clause, slopes=slopes, weights=weights))
        return proofs

    def _value(
        self, region: Region, clause: int, slopes: Slopes, weights: NDArray[Any] | None
    ) -> float:
        """What the checker will find."""
        one = np.ones((1, 1)) if weights is None else weights
        goal = self.checker.goal(region, self.checker.clauses[clause], one)
        which = np.zeros(1, np.int64)
        hints = _as_read(slopes, 1).rows(which)
        return float(region.bound(goal.start, goal.value, goal.loss, hints, which)[0])


def _bent(region: Region, pre: int) -> NDArray[np.bool_]:
    """The neurons on which an activation is not affine."""
    low, high = region.lower[pre][:, 0], region.upper[pre][:, 0]
    kind = region.network.nodes[pre + 1].activation
    bent: NDArray[np.bool_] = ((low < 0) & (high > 0)) | (kind != "relu")
    return bent


def _as_read(slopes: Slopes | None, count: int) -> CheckedSlopes:
    """Slopes as the checker will read them."""
    if slopes is None:
        return CheckedSlopes.none(count)
    table, of = slopes.encoded(count)
    return CheckedSlopes(slopes.columns, table, slopes.bits, of)
