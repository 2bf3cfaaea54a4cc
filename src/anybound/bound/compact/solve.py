"""Bounds of many sub-problems with few steps each: what branch and bound calls.

A sub-problem is a parent with at most one more split. From the parent's slopes, every step is one
backward sweep (the bound), one forward sweep (its derivatives) and a move of all slopes along their
signs by a decaying step; no state beyond the slopes. A problem whose bound exceeds `stop_above`
keeps the slopes that showed it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from anybound.bound.compact.jit import inner, kernel
from anybound.bound.compact.kernels import INFINITY, ZERO, Work, backward, climb, make_work
from anybound.bound.compact.machine import (
    LANES,
    STEP,
    WIDTH,
    addresses,
    load,
    maximum,
    minimum,
    smallest,
    splat,
    store,
    where_less,
)
from anybound.bound.compact.native import Fixed
from anybound.bound.compact.network import CompactNetwork, Single, example_sweep
from anybound.bound.compact.objective import CompactObjective, example_goal
from anybound.bound.compact.problems import Children, Parents, example_problems
from anybound.bound.compact.reach import example_reach, whole
from anybound.bound.compact.weights import climb_weights, load_function
from anybound.errors import InvalidConfig


@dataclass(frozen=True)
class Climb:
    """Steps of the ascent: the t-th moves slopes by `slope_step`·decay^t, multipliers of splits by
    `split_step`·decay^t times the coefficient of their neuron, and the weights of a clause's rows
    by factors of at most 1 ± `weight_step`·decay^t."""

    steps: int = 4
    slope_step: float = 0.05
    split_step: float = 0.5
    weight_step: float = 0.5
    decay: float = 0.7

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise InvalidConfig(f"{self!r}: steps is {self.steps}; expected at least 1")
        if not 0 <= self.weight_step < 1:
            raise InvalidConfig(
                f"{self!r}: weight_step is {self.weight_step}; expected at least 0, below 1"
            )


class Solved(NamedTuple):
    """What came out, `[N, …]`; arrays that were not asked for have no rows."""

    bound: Single  # [N], the best of the steps
    slope: Single  # [N, A], after the last step, or where `stop_above` was exceeded
    coefficient: Single  # [N, A]: h at the last step, which branching scores are made of
    input: Single  # [N, inputs]: P_0's minimiser z_0 at the last step
    weight: Single  # [N, M], those of the slopes


def workspace(network: CompactNetwork, objective: CompactObjective) -> Fixed[Work]:
    """Buffers for `solve`; one may serve any number of calls for the same network, one at a
    time."""
    goals = len(objective.exact.coefficient)
    return Fixed(make_work(whole(network), goals, objective.width))


def solve(
    network: CompactNetwork,
    objective: CompactObjective,
    parents: Parents,
    children: Children,
    climbing: Climb,
    *,
    stop_above: float = np.inf,
    keep: tuple[bool, bool, bool] = (True, True, False),
    work: Fixed[Work] | None = None,
) -> Solved:
    """Bounds of all children; `keep` says which of slopes, coefficients and inputs are wanted.

    Two threads may call it at once, each with its own `work`: it releases the GIL."""
    count, ambiguous = len(children.parent), len(network.ambiguous)
    solved = Solved(
        np.empty(count, np.float32),
        np.empty((count if keep[0] else 0, ambiguous), np.float32),
        np.empty((count if keep[1] else 0, ambiguous), np.float32),
        np.empty((count if keep[2] else 0, network.inputs), np.float32),
        np.ones((count, objective.width), np.float32),
    )
    steps = np.array([
        climbing.slope_step, climbing.split_step, climbing.decay, stop_above, climbing.weight_step
    ])  # fmt: skip
    work = work or workspace(network, objective)
    _solve(
        network.fixed_sweep, objective.fixed_search, parents, children, work, solved,
        climbing.steps, steps.astype(np.float32),
    )  # fmt: skip
    return solved


def _example() -> tuple[object, ...]:
    matrix = np.zeros((1, 1), np.float32)
    return (
        example_sweep(),
        example_goal(),
        *example_problems(),
        make_work(example_reach(), 1),
        Solved(matrix[0], matrix, matrix, matrix, matrix),
        1,
        matrix[0],
    )


@kernel(*_example())
def _solve(
    net: Any, goal: Any, parents: Any, children: Any, work: Any, solved: Any, steps: Any, sizes: Any
) -> Any:
    """All chunks, one after the other."""
    net_, goal_, work_ = addresses(net), addresses(goal), addresses(work)
    count = len(children.parent)
    chunks = (count + WIDTH - 1) // WIDTH
    first = 0
    for c in range(chunks):
        # Chunks of about equal size, rounded up: no chunk is nearly empty.
        last = min(count, first + -(-(count - first) // (chunks - c)))
        width = min(WIDTH, -(-(last - first) // STEP) * STEP)
        _load(goal, parents, children, work, first, last, width)
        _ascend(net_, goal_, work_, steps, sizes, width)
        _store(work, solved, first, last)
        first = last


@inner
def _ascend(net: Any, goal: Any, work: Any, steps: Any, sizes: Any, width: Any) -> Any:
    """The steps of one chunk, until all of its problems are decided."""
    slope_step, split_step, decay, stop_above = sizes[0], sizes[1], sizes[2], sizes[3]
    weight_step = sizes[4]
    for t in range(steps):
        backward(net, goal, work, width)
        limit, reach, none = splat(stop_above), splat(slope_step), splat(ZERO)
        worst = splat(INFINITY)
        for lane in range(0, width, LANES):
            best = maximum(load(work.value, 0, lane), load(work.best, 0, lane))
            store(work.best, 0, lane, best)
            store(work.step, 0, lane, where_less(limit, best, none, reach))
            worst = minimum(best, worst)
        if t == steps - 1 or smallest(worst) > stop_above:
            break
        climb(net, work, split_step, width)
        climb_weights(net, goal, work, weight_step, t, width)
        slope_step *= decay
        weight_step *= decay
        split_step *= decay


@inner
def _load(
    goal: Any, parents: Any, children: Any, work: Any, first: Any, last: Any, width: Any
) -> Any:
    """Problems into columns; the columns behind the last one repeat it."""
    work.split[:] = 0
    work.aimed[0] = 0
    for i in range(width):
        child = min(first + i, last - 1)
        parent = children.parent[child]
        work.scale[i], work.best[i], work.target[i] = 1, -np.inf, -1
        load_function(goal, parents.weight[parent], parents.row[parent], work, i)
        for a in range(len(work.slope)):
            work.slope[a, i] = parents.slope[parent, a]
            sign = parents.sign[parent, a]
            work.sign[a, i] = sign
            work.split[a] |= abs(sign)
        a = children.neuron[child]
        if a >= 0:
            work.sign[a, i] = children.sign[child]
            work.slope[a, i] = ZERO
            work.split[a] = 1


@inner
def _store(work: Any, solved: Any, first: Any, last: Any) -> Any:
    """Columns back into problems."""
    for i in range(last - first):
        solved.bound[first + i] = work.best[i]
        for r in range(len(work.share)):
            solved.weight[first + i, r] = work.share[r, i]
    if len(solved.slope):
        for i in range(last - first):
            for a in range(len(work.slope)):
                solved.slope[first + i, a] = work.slope[a, i]
    if len(solved.coefficient):
        for i in range(last - first):
            for a in range(len(work.slope)):
                solved.coefficient[first + i, a] = work.h[a, i]
    if len(solved.input):
        for i in range(last - first):
            for j in range(solved.input.shape[1]):
                solved.input[first + i, j] = work.x[j, i]
