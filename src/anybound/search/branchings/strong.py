"""Strong branching: bound the children of every neuron. The yardstick of the other rules, not a rule to use."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from anybound.search.rule import BranchingRule, Index, Matrix, OpenProblems, best


@dataclass(frozen=True)
class Strong(BranchingRule):
    """The largest sum of the children's capped gains over all neurons."""

    def choose(self, state: None, problems: OpenProblems, generator: np.random.Generator) -> Index:
        intercept = problems.intercepts()
        problem, neuron = np.nonzero(intercept >= 0)
        pairs = np.repeat(problem, 2), np.repeat(neuron, 2)
        sign = np.tile(np.array([1, -1], np.int8), len(problem))
        bound = problems.probe(*pairs, sign).reshape(-1, 2)
        start = problems.bound[problem][:, None]
        gains = np.clip(bound - start, 0, np.maximum(problems.threshold - start, 1e-9)).sum(1)
        scores: Matrix = np.full(intercept.shape, -1, np.float32)
        scores[problem, neuron] = gains
        return best(scores)
