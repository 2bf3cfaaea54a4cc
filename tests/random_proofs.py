"""Certificates of tiny properties from random multipliers: whatever is proposed, more splits prove it.

All that the format knows occurs: slopes of steps, of leaves, trees for neurons, negated properties, row
weights, multipliers of splits, splits of neurons at 0 or elsewhere, splits of inputs, layers renewed in leaves.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from anybound.certificate import (
    Arrays,
    Certificate,
    ClauseProof,
    Group,
    Slopes,
    Step,
    proof_fields,
    step_fields,
)
from anybound_check.archive import Record
from anybound_check.bounds import Region
from anybound_check.network import read_network
from anybound_check.proof import Checker
from anybound_check.vnnlib import read_property

STYLES = ("neurons", "elsewhere", "inputs", "mixed", "negated")
ROUNDS, TRIALS, BITS = 12, 4, 6
Numbers = NDArray[np.float64]


@np.errstate(all="ignore")
def certificate(
    model: bytes, spec: bytes, rng: np.random.Generator, style: str, semantics: str = "real"
) -> Certificate | None:
    """A proof, or None if splits were not enough; all clauses are over one box."""
    network = read_network(model)
    sizes = network.nodes[0].size, network.nodes[network.output].size
    checker = Checker(network, read_property(spec, *sizes), semantics == "float32")
    region, steps = checker.region(0), list[Step]()
    for activation in range(1, len(network.acts)):
        steps.append(random_step(checker, region, rng, activation))
    proofs = []
    for number in range(len(checker.clauses)):
        proof = _Growing(checker, region.copy(), number, rng, style).proof()
        if proof is None:
            return None
        proofs.append(proof)
    return Certificate(model, spec, [Group(steps, proofs)], semantics)


def _record(fields: object, value: object) -> Record:
    arrays = Arrays()
    return Record(fields(value, arrays), arrays.content)  # type: ignore[operator]


def random_step(
    checker: Checker, region: Region, rng: np.random.Generator, activation: int
) -> Step:
    """A step, which is taken."""
    step = _step(checker, rng, activation, 0)
    checker.improve(region, _record(step_fields, step))
    return step


def random_slopes(checker: Checker, rng: np.random.Generator, rows: int) -> Slopes:
    """For about every second neuron."""
    columns = np.flatnonzero(rng.random(checker.neurons) < 0.6)
    columns = columns if len(columns) else np.zeros(1, np.int64)
    network = checker.network
    curved = any(network.nodes[v].activation != "relu" for v in network.acts)
    steepest = 0.3 if curved else 1.0
    return Slopes(rng.permutation(columns), steepest * rng.random((rows, len(columns))), BITS)


def _step(checker: Checker, rng: np.random.Generator, activation: int, rows: int) -> Step:
    """Bounds of about all neurons of an activation, under the negated property if it has rows."""
    size = checker.network.nodes[checker.network.acts[activation]].size
    lower, upper = (np.flatnonzero(rng.random(size) < 0.9) for _ in range(2))
    count = len(lower) + len(upper)
    weights = rng.exponential(0.5, (count, rows)) if rows else None
    split = _small_trees(checker, activation, count)
    splits = int((split >= 0).sum())
    slopes = random_slopes(checker, rng, count + splits) if count else None
    return Step(activation, lower, upper, slopes, weights, split, rng.exponential(0.3, 2 * splits))


def _small_trees(checker: Checker, activation: int, count: int) -> NDArray[np.int64]:
    """About every third is split, at a neuron of an activation before."""
    rng, before = np.random.default_rng([activation, count]), int(checker.network.first[activation])
    trees = [
        [int(rng.integers(before)), -1, -1] if before and rng.random() < 0.3 else [-1]
        for _ in range(count)
    ]
    return np.array([code for tree in trees for code in tree], np.int64)


@dataclass
class _Growing:
    """One clause's tree in preorder; its open leaves are split until all are closed."""

    checker: Checker
    region: Region
    number: int
    rng: np.random.Generator
    style: str
    split: list[int] = field(default_factory=lambda: [-1])
    at: list[float] = field(default_factory=lambda: [0.0])

    def proof(self) -> ClauseProof | None:
        steps = self._negated() if self.style == "negated" else []
        if self.region.empty[0]:
            return None  # nothing else of it would be looked at
        for _ in range(ROUNDS):
            found, lower = self._best()
            if (lower > 0).all():
                return replace(found, steps=steps)
            self._grow(lower)
        return None

    @property
    def _rows(self) -> int:
        return len(self.checker.clauses[self.number].offset)

    def _negated(self) -> list[Step]:
        steps = []
        for activation in range(1, len(self.checker.network.acts)):
            step = _step(self.checker, self.rng, activation, self._rows)
            record = _record(step_fields, step)
            self.checker.improve(self.region, record, self.checker.clauses[self.number])
            steps.append(step)
            if self.region.empty[0]:
                break
        return steps

    def _best(self) -> tuple[ClauseProof, Numbers]:
        """Each leaf with the best of a few random proposals; CROWN's slopes at first."""
        count, splits = self.split.count(-1), self._depths()
        owner = np.repeat(np.arange(count), splits)
        slopes = random_slopes(self.checker, self.rng, count)
        clause, best = self.checker.clauses[self.number], np.full(count, -np.inf)
        beta, weights = np.zeros(len(owner)), np.ones((count, self._rows))
        values, steepest = np.round(slopes.values), slopes.values.max(initial=0.0)
        for trial in range(TRIALS):
            new = (
                steepest * self.rng.random(values.shape) if trial else values,
                self.rng.exponential(0.3, len(owner)) if trial else beta,
                self.rng.exponential(1.0, weights.shape) if trial else weights,
            )
            record = _record(proof_fields, self._proof(slopes, *new))
            lower = np.concatenate(list(self.checker.leaves(self.region, clause, record)))
            better = lower > best
            best = np.maximum(lower, best)
            values = np.where(better[:, None], new[0], values)
            beta = np.where(better[owner], new[1], beta)
            weights = np.where(better[:, None], new[2], weights)
        found = self._proof(slopes, values, beta, weights)
        lower = np.concatenate(
            list(self.checker.leaves(self.region, clause, _record(proof_fields, found)))
        )
        return found, lower

    def _proof(
        self, slopes: Slopes, values: Numbers, beta: Numbers, weights: Numbers
    ) -> ClauseProof:
        return ClauseProof(
            self.number,
            split=np.array(self.split),
            at=np.array(self.at) if any(self.at) else None,
            slopes=replace(slopes, values=values),
            beta=beta if len(beta) else None,
            weights=weights,
            renew=(1,) if self.style == "mixed" and len(self.checker.network.acts) > 1 else (),
        )

    def _depths(self) -> list[int]:
        return [len(path) for path in self._paths()]

    def _paths(self) -> list[list[int]]:
        """Of each leaf the codes split above it."""
        found, pending = [], [list[int]()]
        for code in self.split:
            above = pending.pop()
            if code < 0:
                found.append(above)
            else:
                pending += [[*above, code]] * 2
        return found

    def _grow(self, lower: Numbers) -> None:
        split, at, leaf, paths = list[int](), list[float](), 0, self._paths()
        for code, place in zip(self.split, self.at, strict=True):
            if code < 0 and lower[leaf] <= 0:
                new, where = self._choice(paths[leaf])
                split, at = [*split, new, -1, -1], [*at, where, 0.0, 0.0]
            else:
                split, at = [*split, code], [*at, place]
            leaf += code < 0
        self.split, self.at = split, at

    def _choice(self, path: list[int]) -> tuple[int, float]:
        """A split that is not above yet; of inputs one of the two widest, at its middle third."""
        network = self.checker.network
        low = np.concatenate([self.region.lower[v][:, 0] for v in network.acts])
        high = np.concatenate([self.region.upper[v][:, 0] for v in network.acts])
        bent = [j for j in np.argsort(-np.minimum(-low, high)) if low[j] < 0 < high[j]]
        bent = [int(j) for j in bent if j not in path]
        use_input = self.style == "inputs" or (self.style == "mixed" and self.rng.random() < 0.5)
        if use_input or not bent:
            l, u = (side[0][:, 0] for side in (self.region.lower, self.region.upper))
            i = int(self.rng.choice(np.argsort(l - u, kind="stable")[:2]))
            return self.checker.neurons + i, float(self.rng.uniform(l[i], u[i]))
        j = bent[0]
        if self.style != "elsewhere":
            return j, 0.0
        return j, float(self.rng.uniform(low[j], high[j]) * 0.3)
