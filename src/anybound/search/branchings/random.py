"""Any neuron that is still ambiguous, for comparison."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from anybound.search.rule import BranchingRule, Index, OpenProblems, best


@dataclass(frozen=True)
class Random(BranchingRule):
    """Uniform over the neurons that are not split yet."""

    def choose(self, state: None, problems: OpenProblems, generator: np.random.Generator) -> Index:
        scores = problems.intercepts()
        return best(
            np.where(scores >= 0, generator.random(scores.shape, np.float32), np.float32(-1))
        )
