"""BaBSR (Bunel et al. 2020): split the neuron whose relaxation costs the most."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from anybound.search.rule import BranchingRule, Index, OpenProblems, best


@dataclass(frozen=True)
class BaBSR(BranchingRule):
    """The largest intercept −h⁻·offset: what the bound would gain if the neuron's upper line vanished."""

    def choose(self, state: None, problems: OpenProblems, generator: np.random.Generator) -> Index:
        return best(problems.intercepts())
