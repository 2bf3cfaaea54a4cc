"""One input set as the checker sees it: its bounds, and the steps that led to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray

from anybound.bound.bounds import Bounds
from anybound.bound.interval import interval
from anybound.certificate import Arrays, ClauseProof, Index, Step, proof_fields, step_fields
from anybound.errors import UnsupportedModel
from anybound.layers import Layers
from anybound.model.activations.identity import Identity
from anybound.model.domains.box import Box
from anybound.model.network import Network
from anybound.spec.problems import ClauseRows, SafetyProblem
from anybound.spec.property import Property
from anybound_check.archive import Record
from anybound_check.bounds import Region, Splits
from anybound_check.network import Network as CheckedNetwork
from anybound_check.proof import Checker
from anybound_check.vnnlib import Clause as CheckedClause

Vector = NDArray[np.float64]

WORTH = 0.01  # of an interval: what a bound has to gain to be written down
CLEARANCE = 1e-9  # between float64 evaluations of the same bound in different orders


@dataclass(frozen=True, eq=False)
class Numbering:
    """How the checker numbers the neurons of a network: `activation[k]` of hidden layer k, and
    `neuron` [total] of all hidden neurons in their flat order (−1 where it has none)."""

    activation: Mapping[int, int]
    neuron: Index

    @classmethod
    def of(cls, network: Network, checked: CheckedNetwork) -> Numbering:
        """Both read the file's activations in its order; sizes are compared."""
        layers = [k for k, a in network.activations() if not isinstance(a, Identity)]
        sizes = [network.layout.span(k).stop - network.layout.span(k).start for k in layers]
        if sizes != np.diff(checked.first).tolist():
            raise UnsupportedModel(
                f"activations of sizes {sizes} are {np.diff(checked.first).tolist()} to the "
                "certificate checker; no certificate can be written for this network"
            )
        neuron = np.full(network.layout.total, -1)
        for place, k in enumerate(layers):
            neuron[network.layout.span(k)] = np.arange(*checked.first[place : place + 2])
        return cls({k: place for place, k in enumerate(layers)}, neuron)


def _gains(old: Region, new: Region, v: int, side: int, neuron: Index) -> NDArray[np.bool_]:
    """Of which neurons the lower (side 1) or upper bound is better by `WORTH` of the interval, or decides the sign."""
    before, after = (r.lower[v] if side > 0 else -r.upper[v] for r in (old, new))
    gain = (after - before)[neuron, 0]
    width = (old.upper[v] - old.lower[v])[neuron, 0]
    decides = (before[neuron, 0] < 0) & (after[neuron, 0] >= 0)
    is_worth: NDArray[np.bool_] = (gain > WORTH * width) | decides
    return is_worth


class InputSet:
    """The clauses over one box; `region` and `steps` grow until they are handed to a proof."""

    def __init__(
        self, network: Network, prop: Property, checker: Checker, safety: SafetyProblem
    ) -> None:
        if not isinstance(safety.problem.domain, Box):
            raise UnsupportedModel("certificates are for boxes of inputs")
        self.network, self.prop, self.checker, self.safety = network, prop, checker, safety
        self.box: Box = safety.problem.domain.to(torch.float64)
        self.numbering = Numbering.of(network, checker.network)
        self.number = {m.clause: self._number(m) for m in safety.clauses}
        self.region = checker.region(self.number[safety.clauses[0].clause])
        self.steps: list[Step] = []

    def clause(self, member: ClauseRows) -> CheckedClause:
        """A clause as the checker has read it."""
        return self.checker.clauses[self.number[member.clause]]

    def improve(self, region: Region, step: Step, member: ClauseRows | None = None) -> Step | None:
        """Let the checker take a step, under the negated property for a clause; what is left of the
        step without neurons that gain next to nothing, None if that is all of them."""
        arrays = Arrays()
        record = Record(step_fields(step, arrays), arrays.content)
        trial, v = region.copy(), self._acts[step.activation]
        self.checker.improve(trial, record, None if member is None else self.clause(member))
        if trial.empty[0]:
            region.lower, region.upper = trial.lower, trial.upper
            crossed = (trial.lower[v] - trial.upper[v])[:, 0]
            if crossed.max() > CLEARANCE:  # one neuron shows it
                return step.part(np.concatenate([step.lower, step.upper]) == crossed.argmax())
            return step
        kept = [
            _gains(region, trial, v, side, own) for side, own in ((1, step.lower), (-1, step.upper))
        ]
        lower, upper = region.lower[v].copy(), region.upper[v].copy()
        low, high = step.lower[kept[0]], step.upper[kept[1]]
        lower[low], upper[high] = trial.lower[v][low], trial.upper[v][high]
        region.lower[v], region.upper[v] = lower, upper
        region.propagate(v)
        both = np.concatenate(kept)
        return step.part(both) if both.any() else None

    def take(self, step: Step) -> None:
        """A step for all clauses, as far as it is worth it."""
        if len(step.lower) + len(step.upper):
            useful = self.improve(self.region, step)
            self.steps += [] if useful is None else [useful]

    def proves(self, region: Region, member: ClauseRows, proof: ClauseProof) -> bool:
        """Whether the checker accepts all leaves; the first that it does not ends it."""
        arrays = Arrays()
        record = Record(proof_fields(proof, arrays), arrays.content)
        batches = self.checker.leaves(region, self.clause(member), record)
        return all((lower > CLEARANCE).all() for lower in batches)

    def coarsest(
        self, region: Region, member: ClauseRows, proof: ClauseProof, grids: Sequence[int]
    ) -> ClauseProof:
        """The proof with slopes on the first of some dyadic grids, 2^-bits, that is enough; else as it is."""
        if proof.slopes is None:
            return proof
        for bits in grids:
            coarse = replace(proof, slopes=replace(proof.slopes, bits=bits))
            if self.proves(region, member, coarse):
                return coarse
        return proof

    def bound(
        self, region: Region, member: ClauseRows, weight: Vector, columns: Index, slopes: Vector,
        splits: Splits,
    ) -> Vector:  # fmt: skip
        """The checker's lower bounds of N leaves: weights [N, m], slopes [N, A] of A neurons."""
        found, size = np.empty(len(weight)), self.checker.batch
        for first in range(0, len(weight), size):
            part, which = slice(first, first + size), np.arange(len(weight[first : first + size]))
            goal = self.checker.goal(region, self.clause(member), weight[part], which)
            own = (splits.owner >= first) & (splits.owner < first + size)
            cut = Splits._make(column[own] for column in splits)._replace(
                owner=splits.owner[own] - first
            )
            found[part] = region.bound(
                goal._replace(columns=columns, slopes=slopes[part].T, splits=cut)
            )
        return found

    def bounds(self, region: Region) -> Bounds:
        """The region's bounds of all hidden layers, float64; of layers without a bend intervals."""
        sides = []
        for side, far in ((region.lower, -np.inf), (region.upper, np.inf)):
            known = np.concatenate([np.zeros(0), *(side[v][:, 0] for v in self._acts)])
            values = np.full(len(self.numbering.neuron), far)
            own = self.numbering.neuron >= 0
            values[own] = known[self.numbering.neuron[own]]
            sides.append(Layers(self.network.layout, torch.from_numpy(values)[None, None]))
        return interval(self.network, self.box, Bounds(*sides))

    @property
    def _acts(self) -> list[int]:
        """The checker's nodes with activations."""
        return self.checker.network.acts

    def bent(self, region: Region, activation: int) -> Index:
        """The neurons on which an activation is not affine."""
        v = self._acts[activation]
        low, high = region.lower[v][:, 0], region.upper[v][:, 0]
        curved = self.checker.network.nodes[v].activation != "relu"
        return np.flatnonzero(((low < 0) & (high > 0)) | curved)

    def _number(self, member: ClauseRows) -> int:
        """The checker's number of a clause: that with the same half-spaces over the same box."""
        clauses = self.checker.clauses
        for number in [member.clause, *range(len(clauses))]:
            if number < len(clauses) and self._is_same(clauses[number], member.clause):
                return int(number)
        raise UnsupportedModel(
            f"clause {member.clause} is not among those that the certificate checker reads"
        )

    def _is_same(self, clause: CheckedClause, index: int) -> bool:
        outputs = self.prop.clauses[index].outputs
        lower, upper = (side[0, 0].reshape(-1).numpy() for side in (self.box.lower, self.box.upper))
        return (
            np.array_equal(clause.matrix, outputs.matrix)
            and np.allclose(clause.offset, outputs.offset, rtol=1e-12, atol=1e-300)
            and np.allclose(clause.lower[:, 0], lower, rtol=1e-5, atol=1e-7)
            and np.allclose(clause.upper[:, 0], upper, rtol=1e-5, atol=1e-7)
        )
