"""Sub-problems in which every neuron is split: the network is linear there, and a linear program decides.

    min t   over x in the box:   t >= f_r(x) for the clause's rows,   s_a ẑ_a(x) + v_a >= 0,   v >= 0
            + price · Σ_a v_a

The multipliers of the rows and of the splits' inequalities are a dual point of the sub-problem, optimal but for
rounding; the solver only proposes them. The price keeps the program feasible where the splits contradict each other:
the least violation is then above 0, and the multipliers prove it. Where they do not, x is the sub-problem's minimiser,
and a witness if the minimum is not positive.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from anybound.bound.compact.network import CompactNetwork
from anybound.bound.compact.objective import CompactObjective
from anybound.bound.compact.problems import Signs

Vector = NDArray[np.float64]

LARGEST = 1 << 21  # numbers of the linear forms of all rows: beyond, no search gets as far as this
PRICES = (1e2, 1e4)  # of a violation, relative to the objective's coefficients


class Leaf(NamedTuple):
    """The multipliers of the splits' inequalities `[A]`, the clause's weights `[M]`, and the minimiser `[inputs]`."""

    multiplier: Vector
    weight: Vector
    point: Vector


class Forms(NamedTuple):
    """Linear functions of the input: matrix `[N, inputs]`, constant `[N]`."""

    matrix: Vector
    constant: Vector


def solve_leaf(
    network: CompactNetwork, objective: CompactObjective, clause: int, sign: Signs
) -> Leaf | None:
    """One sub-problem with a sign ±1 for each ambiguous row; None if it is too large or the solver fails."""
    if network.count * (network.inputs + 1) > LARGEST or not sign.all():
        return None
    splits, functions = linear_forms(network, objective, clause, sign)
    found = None
    for price in PRICES:
        solved = _solve(network, splits, functions, price)
        if solved is None:
            break
        found, violated = solved
        if not violated:
            break
    if found is None:
        return None
    weight = np.zeros(objective.width)
    weight[: len(found.weight)] = found.weight
    return found._replace(weight=weight)


def linear_forms(
    network: CompactNetwork, objective: CompactObjective, clause: int, sign: Signs
) -> tuple[Forms, Forms]:
    """s_a ẑ_a of the ambiguous rows, and f_r of the clause's rows, where σ is linear on every row."""
    rows, matrix, ambiguous = network.rows, network.matrix.scipy(), network.ambiguous
    slope = rows.left.copy()
    slope[ambiguous] = np.where(sign > 0, 1.0, rows.left[ambiguous])
    size = network.inputs
    before, after = np.zeros((2, network.count, size + 1))
    after[:size, :size] = np.eye(size)
    for k in range(1, len(network.nodes)):
        at = slice(network.first[k], network.first[k + 1])
        before[at] = matrix[at] @ after
        before[at, size] += network.bias[at]
        after[at] = slope[at, None] * before[at]
    splits = sign[:, None] * before[ambiguous]
    goal = objective.exact
    own = slice(goal.start[clause], goal.start[clause] + goal.length[clause])
    read = np.flatnonzero(goal.number[:-1] >= 0)
    functions = goal.coefficient[goal.number[read], own].T @ after[read]
    functions[:, size] += goal.constant[own]
    return _forms(splits), _forms(functions)


def _forms(values: Vector) -> Forms:
    return Forms(values[:, :-1], values[:, -1])


def _solve(
    network: CompactNetwork, splits: Forms, functions: Forms, price: float
) -> tuple[Leaf, bool] | None:
    """The program's multipliers and point, and whether the point violates a split."""
    from scipy.optimize import linprog

    inputs, count, rows = network.inputs, len(splits.constant), len(functions.constant)
    norm = np.maximum(np.abs(splits.matrix).max(1, initial=0), np.abs(splits.constant))
    norm = np.where(norm > 0, norm, 1.0)  # each inequality in a scale of its own
    size = max(float(np.abs(functions.matrix).max(initial=0)), 1e-6)
    cost = np.concatenate([np.zeros(inputs), np.full(count, price * size), [1.0]])
    left = np.zeros((count + rows, inputs + count + 1))
    left[:count, :inputs] = -splits.matrix / norm[:, None]
    left[:count, inputs : inputs + count] = -np.eye(count)
    left[count:, :inputs] = functions.matrix
    left[count:, -1] = -1.0
    right = np.concatenate([splits.constant / norm, -functions.constant])
    lower, upper = network.rows.lower[:inputs], network.rows.upper[:inputs]
    limits = [*zip(lower, upper, strict=True), *[(0, None)] * count, (None, None)]
    found = linprog(cost, left, right, bounds=limits, method="highs")
    if found.status != 0:
        return None
    multiplier = np.maximum(-found.ineqlin.marginals, 0.0)
    point, violation = found.x[:inputs], found.x[inputs : inputs + count]
    leaf = Leaf(multiplier[:count] / norm, multiplier[count:], np.clip(point, lower, upper))
    return leaf, bool(violation.sum() > 1e-9)
