"""MIPplanet's optimum is the exact minimum, its point attains it, and a time limit is kept."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from small_networks import Small, small

from anybound.bound.intermediates.crown import BestOfIntervalAndCrown
from anybound.budget import Budget
from anybound.errors import InvalidConfig
from anybound.search.mip import MIPplanet, MIPResult, MIPStatus
from anybound.spec.problems import problems

pytest.importorskip("highspy")


def solve(case: Small, clause: int, budget: Budget | None = None) -> MIPResult:
    (safety,) = problems(case.network, case.shifted(0.0))
    bounds = BestOfIntervalAndCrown().bounds(case.network, safety.problem.domain)
    rows = safety.clauses[clause].rows
    return MIPplanet().minimise(
        safety.problem, bounds, range(rows.start, rows.stop), budget or Budget()
    )


@pytest.mark.parametrize("seed", range(12))
def test_the_optimum_is_exact(seed: int) -> None:
    case = small(seed, "relu", np.inf)
    for clause, exact in enumerate(case.exact):
        result = solve(case, clause)
        assert result.status is MIPStatus.OPTIMAL
        assert result.lower <= exact.upper + 1e-5
        assert result.upper >= exact.lower - 1e-5
        assert result.upper - result.lower < 1e-5


@pytest.mark.parametrize("seed", range(12))
def test_the_point_attains_the_optimum(seed: int) -> None:
    case = small(seed, "relu", np.inf)
    result = solve(case, 0)
    assert result.point is not None
    x = torch.tensor(result.point).reshape(1, 1, *case.network.input_shape)
    A, b = case.clauses[0]
    value = (case.network.forward(x).flatten(2)[0, 0].numpy() @ A.T - b).max()
    assert abs(value - result.upper) < 1e-5
    assert case.region.lower.min() - 1e-6 <= result.point.min()


def test_a_spent_budget_leaves_a_valid_bound() -> None:
    case = small(3, "relu", np.inf)
    result = solve(case, 0, Budget(seconds=0.0))
    assert result.lower <= case.exact[0].upper + 1e-5


def test_other_activations_are_refused() -> None:
    case = small(0, "tanh", np.inf)
    with pytest.raises(InvalidConfig, match="ReLU"):
        solve(case, 0)
