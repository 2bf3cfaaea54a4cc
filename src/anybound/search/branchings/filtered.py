"""Filtered smart branching: bound the children of the most promising neurons cheaply, and take the best.

Candidates are the `candidates` largest intercepts, weighted by pseudo-costs: what splits of a neuron gained so far in
the tree, relative to their intercepts. A candidate's score is the sum (or maximum) of its children's gains, each capped
at what is still needed to close: a child that closes needs no more. The usual minimum of the two needs three times as
many sub-problems; the maximum a tenth fewer on large ReLU networks, but with sigmoids it cuts off slivers without end.
Few gains are enough to trust what a neuron has gained more than what all have: a weak prior.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from anybound.search.rule import BranchingRule, Index, Matrix, OpenProblems, Vector, best


class Combine(Enum):
    """How the gains of the two children make a score."""

    SUM = "sum"
    MAX = "max"
    MIN = "min"


@dataclass(eq=False)
class PseudoCosts:
    """Per neuron, the gains seen and the intercepts that promised them."""

    gained: Vector
    promised: Vector

    def weights(self, strength: float) -> Matrix:
        """`[A]`: gain per promise relative to the tree's mean, drawn towards 1 where little was seen."""
        total = self.promised.sum()
        if total <= 0:
            return np.ones(len(self.gained), np.float32)
        mean = self.gained.sum() / total + 1e-12
        prior = strength * total / max(1, np.count_nonzero(self.promised))
        return _single((self.gained + prior * mean) / (self.promised + prior) / mean)


@dataclass(frozen=True)
class Filtered(BranchingRule):
    """FSB with capped gains and pseudo-costs."""

    candidates: int = 8
    combine: Combine = Combine.SUM
    pseudo_costs: float = 0.1  # the strength of the prior; 0 switches them off

    def init(self, neurons: int) -> PseudoCosts:
        return PseudoCosts(np.zeros(neurons), np.zeros(neurons))

    def choose(
        self, state: PseudoCosts, problems: OpenProblems, generator: np.random.Generator
    ) -> Index:
        intercept = problems.intercepts()
        count, neurons = intercept.shape
        scores = (
            intercept if self.pseudo_costs == 0 else _weighted(intercept, state, self.pseudo_costs)
        )
        if min(self.candidates, neurons) <= 1 or count == 0:
            return best(scores)
        k = min(self.candidates, neurons)
        chosen = np.argpartition(-scores, k - 1, axis=1)[:, :k]
        gains = _gains(problems, chosen)
        promise = np.take_along_axis(intercept, chosen, 1)
        value = self._combined(gains)
        # neurons that are split already come last; equal gains are decided by the intercept
        value = np.where(promise >= 0, value + 1e-6 * promise / (1 + promise.max(initial=0)), -1.0)
        if self.pseudo_costs:
            np.add.at(state.gained, chosen.ravel(), gains.sum(2).ravel())
            np.add.at(state.promised, chosen.ravel(), np.maximum(promise, 0).ravel())
        place = best(value)
        return np.where(place >= 0, chosen[np.arange(count), np.maximum(place, 0)], place)

    def _combined(self, gains: Matrix) -> Matrix:
        if self.combine is Combine.SUM:
            return _single(gains.sum(2))
        return _single(gains.max(2) if self.combine is Combine.MAX else gains.min(2))


def _weighted(intercept: Matrix, state: PseudoCosts, strength: float) -> Matrix:
    weights = state.weights(strength)
    return _single(np.where(intercept >= 0, intercept * weights, intercept))


def _gains(problems: OpenProblems, chosen: Index) -> Matrix:
    """`[N, k, 2]`: how much each child's bound rises, at most what is needed to close it."""
    count, k = chosen.shape
    problem = np.repeat(np.arange(count), 2 * k)
    neuron = np.repeat(chosen.ravel(), 2)
    sign = np.tile(np.array([1, -1], np.int8), count * k)
    bound = problems.probe(problem, neuron, sign).reshape(count, k, 2)
    start = problems.bound[:, None, None]
    needed = np.maximum(problems.threshold - start, 1e-9)
    return _single(np.clip(bound - start, 0, needed))


def _single(values: NDArray[np.floating]) -> Matrix:
    return values.astype(np.float32, copy=False)
