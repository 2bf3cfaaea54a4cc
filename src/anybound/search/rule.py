"""The protocol of a branching rule: which neuron to split in each open sub-problem."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Index = NDArray[np.int64]
Vector = NDArray[np.float64]
Matrix = NDArray[np.float32]

NOTHING_LEFT = -1  # chosen where every neuron of a sub-problem is split already


class OpenProblems(Protocol):
    """N bounded sub-problems that did not close, as a rule sees them; A is the number of neurons there are to split."""

    @property
    def bound(self) -> Matrix:
        """`[N]`, all below the threshold."""

    @property
    def threshold(self) -> float:
        """A bound above this closes a sub-problem."""

    def intercepts(self) -> Matrix:
        """`[N, A]`: BaBSR's estimate of what a split gains: the share −h·offset that the upper line costs.

        Negative for neurons that are split already."""

    def probe(self, problem: Index, neuron: Index, sign: NDArray[np.int8]) -> Matrix:
        """Cheap bounds `[M]` of the sub-problems with one more split each."""


class BranchingRule(ABC):
    """A frozen record; what it learns over the tree lives in its state."""

    def init(self, neurons: int) -> Any:
        """The state at the root. Any: each rule has its own."""
        return None

    @abstractmethod
    def choose(self, state: Any, problems: OpenProblems, generator: np.random.Generator) -> Index:
        """`[N]`: the neuron to split, or `NOTHING_LEFT`."""


def best(scores: Matrix) -> Index:
    """The highest score of each row; `NOTHING_LEFT` where all are negative, or where there are none."""
    if scores.shape[1] == 0:
        return np.full(len(scores), NOTHING_LEFT)
    choice = scores.argmax(1)
    left = scores[np.arange(len(scores)), choice] >= 0
    return np.where(left, choice, NOTHING_LEFT)
