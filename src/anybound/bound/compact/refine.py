"""Slopes by Adam: more steps on fewer problems, for root bounds, tightening and the first bound of
a property.

Adam with a decaying step, on slopes (step `slope_step`), on multipliers of splits (in units of
their coefficient) and on the scale γ of the function f in the objective  γ·f + w·ẑ_target  (in
given units, 0 to keep it): the multiplier of f <= 0. What is returned is the best point seen.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from anybound.bound.compact.jit import inner, kernel
from anybound.bound.compact.kernels import (
    INFINITY,
    ONE,
    ZERO,
    aligned,
    backward,
    make_work,
    pass_on,
    product,
)
from anybound.bound.compact.machine import (
    LANES,
    ROWS,
    STEP,
    WIDTH,
    absolute,
    addresses,
    load,
    maximum,
    minimum,
    smallest,
    splat,
    square_root,
    store,
    where_less,
    where_zero,
)
from anybound.bound.compact.network import CompactNetwork, Single, example_sweep
from anybound.bound.compact.objective import Aim, CompactObjective, example_goal
from anybound.bound.compact.problems import Children, Parents, example_problems
from anybound.bound.compact.reach import example_reach, in_cones, list_forward, restrict
from anybound.bound.compact.solve import workspace
from anybound.bound.compact.weights import climb_weights, load_function
from anybound.errors import InvalidConfig

_TINY = np.float32(1e-12)
_FLOOR = (
    0.1  # of the mean |h|: a neuron behind a blocked one has h = 0, and its multiplier must move
)


@dataclass(frozen=True)
class Adam:
    """`steps` evaluations; the t-th step is `step`·decay^t."""

    steps: int = 10
    step: float = 0.3
    decay: float = 0.9
    first_decay: float = 0.9
    second_decay: float = 0.999
    weight_step: float = 0.3  # of a clause's rows; not by Adam, but with the same decay

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise InvalidConfig(f"{self!r}: steps is {self.steps}; expected at least 1")
        if not 0 <= self.weight_step < 1:
            raise InvalidConfig(
                f"{self!r}: weight_step is {self.weight_step}; expected at least 0, below 1"
            )


class Refined(NamedTuple):
    """The best point of every problem, `[N, …]`."""

    bound: Single
    slope: Single  # [N, A]
    scale: Single  # [N], the function's share in the objective
    coefficient: Single  # [N, A]: h at the last step
    input: Single  # [N, inputs]: z_0 at the last step; no rows if not asked for
    weight: Single  # [N, M]


class Moments(NamedTuple):
    """Adam's memory and the best point, `[…, WIDTH]`."""

    mean: Single  # [A]
    square: Single  # [A]
    best: Single  # [A]
    scale_mean: Single  # [·]
    scale_square: Single  # [·]
    scale_unit: Single  # [·]
    best_scale: Single  # [·]
    won: Single  # [·]: 1 where the last value was the best
    unit: Single  # [·]: the least unit in which multipliers of splits move
    best_share: Single  # [M]: the weights of a clause's rows


def refine(
    network: CompactNetwork,
    objective: CompactObjective,
    parents: Parents,
    children: Children,
    adam: Adam,
    aim: Aim | None = None,
    *,
    scale_unit: Single | None = None,
    stop_above: float = np.inf,
    inputs: bool = False,
) -> Refined:
    """Ascend from the parents' slopes; `scale_unit` `[N]` is the unit in which γ moves, if it is to
    move.

    Where all objectives are pre-activations and nothing is split, only their cones are visited (see
    `reach`): slopes and coefficients of neurons outside, which play no part, come out as 0."""
    count, ambiguous = len(children.parent), len(network.ambiguous)
    aim = Aim.none(count) if aim is None else aim
    unit = np.zeros(count, np.float32) if scale_unit is None else scale_unit
    refined = Refined(
        np.empty(count, np.float32),
        np.zeros((count, ambiguous), np.float32),
        aim.scale.copy(),
        np.zeros((count, ambiguous), np.float32),
        np.zeros((count if inputs else 0, network.inputs), np.float32),
        np.ones((count, objective.width), np.float32),
    )
    work = workspace(network, objective)
    moments = _moments(ambiguous, len(work.record.share))
    sizes = np.array([
        adam.step, adam.decay, adam.first_decay, adam.second_decay, stop_above, adam.weight_step
    ])  # fmt: skip
    _refine(
        network.fixed_sweep, objective.fixed_search, parents, children, aim, unit, work, moments,
        refined, adam.steps, sizes, in_cones(aim, parents, children) and not unit.any(),
    )  # fmt: skip
    return refined


def _moments(ambiguous: int, choices: int) -> Moments:
    mean, square, best = (aligned(ambiguous) for _ in range(3))
    a, b, c, d, e, f = (np.zeros(WIDTH, np.float32) for _ in range(6))
    return Moments(mean, square, best, a, b, c, d, e, f, aligned(choices))


def _example() -> tuple[object, ...]:
    matrix = np.zeros((1, 1), np.float32)
    return (
        example_sweep(),
        example_goal(),
        *example_problems(),
        Aim.none(1),
        matrix[0],
        make_work(example_reach(), 1),
        _moments(1, 0),
        Refined(matrix[0], matrix, matrix[0], matrix, matrix, matrix),
        1,
        np.zeros(1),
        True,
    )


@kernel(*_example())
def _refine(
    net: Any,
    goal: Any,
    parents: Any,
    children: Any,
    aim: Any,
    unit: Any,
    work: Any,
    moments: Any,
    refined: Any,
    steps: Any,
    sizes: Any,
    alone: Any,
) -> Any:
    """All chunks, one after the other."""
    net_, goal_, work_, moments_ = (
        addresses(net),
        addresses(goal),
        addresses(work),
        addresses(moments),
    )
    count = len(refined.bound)
    for first in range(0, count, WIDTH):
        last = min(count, first + WIDTH)
        width = -(-(last - first) // STEP) * STEP
        _load(goal, parents, children, aim, unit, work, moments, first, last, width)
        if alone:
            restrict(net, work.reach, work.x, work.target, width)
            list_forward(net.forward, work.reach)
        _load_slopes(parents, children, work, moments, first, last, width)
        _ascend(net_, goal_, work_, moments_, len(work.slope), steps, sizes, width)
        _keep(work, moments, refined, first, last)


@inner
def _load(
    goal: Any,
    parents: Any,
    children: Any,
    aim: Any,
    unit: Any,
    work: Any,
    moments: Any,
    first: Any,
    last: Any,
    width: Any,
) -> Any:
    """Problems into columns; the columns behind the last one repeat it."""
    work.aimed[0] = 0
    moments.scale_mean[:], moments.scale_square[:] = 0, 0
    for i in range(width):
        child = min(first + i, last - 1)
        parent = children.parent[child]
        work.scale[i], work.best[i], work.step[i] = aim.scale[child], -np.inf, 1
        load_function(goal, parents.weight[parent], parents.row[parent], work, i)
        work.target[i], work.weight[i] = aim.target[child], aim.weight[child]
        work.aimed[0] |= aim.target[child] >= 0
        moments.scale_unit[i] = unit[child]


@inner
def _load_slopes(
    parents: Any, children: Any, work: Any, moments: Any, first: Any, last: Any, width: Any
) -> Any:
    """Slopes, signs and fresh moments of the neurons in reach."""
    for at in range(work.reach.used[1]):
        a = work.reach.bent[at]
        work.split[a] = 0
        for i in range(width):
            parent = children.parent[min(first + i, last - 1)]
            work.slope[a, i] = parents.slope[parent, a]
            sign = parents.sign[parent, a]
            work.sign[a, i] = sign
            work.split[a] |= abs(sign)
            moments.mean[a, i], moments.square[a, i] = 0, 0
    for i in range(width):
        child = min(first + i, last - 1)
        a = children.neuron[child]
        if a >= 0:
            work.sign[a, i] = children.sign[child]
            work.slope[a, i] = ZERO
            work.split[a] = 1


@inner
def _keep(work: Any, moments: Any, refined: Any, first: Any, last: Any) -> Any:
    """Columns back into problems."""
    for i in range(last - first):
        refined.bound[first + i] = work.best[i]
        refined.scale[first + i] = moments.best_scale[i]
        for r in range(len(work.share)):
            refined.weight[first + i, r] = moments.best_share[r, i]
        for at in range(work.reach.used[1]):
            a = work.reach.bent[at]
            refined.slope[first + i, a] = moments.best[a, i]
            refined.coefficient[first + i, a] = work.h[a, i]
        for j in range(refined.input.shape[1] if len(refined.input) else 0):
            refined.input[first + i, j] = work.x[j, i]


@inner
def _ascend(
    net: Any, goal: Any, work: Any, moments: Any, ambiguous: Any, steps: Any, sizes: Any, width: Any
) -> Any:
    """The steps of one chunk, until all of its problems are decided."""
    step, first_power, second_power = sizes[0], 1.0, 1.0
    weight_step = sizes[5]
    for t in range(steps):
        backward(net, goal, work, width)
        worst = _remember(work, moments, ambiguous, width)
        if t == steps - 1 or worst > sizes[4]:
            break
        first_power, second_power = first_power * sizes[2], second_power * sizes[3]
        rates = _Rates(
            np.float32(step / (1 - first_power)),
            np.float32(1 / (1 - second_power)),
            np.float32(sizes[2]),
            np.float32(sizes[3]),
        )
        _step(net, work, moments, rates, width)
        _step_scale(net, goal, work, moments, rates, width)
        climb_weights(net, goal, work, np.float32(weight_step), t, width)
        step *= sizes[1]
        weight_step *= sizes[1]


class _Rates(NamedTuple):
    """Of one step: its size over the first bias correction, the second correction, and both
    decays."""

    step: np.float32
    correction: np.float32
    first: np.float32
    second: np.float32


@inner
def _remember(work: Any, moments: Any, ambiguous: Any, width: Any) -> Any:
    """Keep the slopes of problems whose value is the best so far; the worst of the best values."""
    one, zero, worst = splat(ONE), splat(ZERO), splat(INFINITY)
    for lane in range(0, width, LANES):
        value, best = load(work.value, 0, lane), load(work.best, 0, lane)
        won = where_less(best, value, one, zero)
        store(moments.won, 0, lane, won)
        store(work.best, 0, lane, maximum(value, best))
        kept = where_zero(won, load(moments.best_scale, 0, lane), load(work.scale, 0, lane))
        store(moments.best_scale, 0, lane, kept)
        store(moments.unit, 0, lane, zero)
        worst = minimum(maximum(value, best), worst)
    for r in range(work.choices if work.choices > 1 else 0):
        for lane in range(0, width, LANES):
            won = load(moments.won, 0, lane)
            kept = where_zero(won, load(moments.best_share, r, lane), load(work.share, r, lane))
            store(moments.best_share, r, lane, kept)
    for at in range(work.reach.used[1]):
        a = work.reach.bent[at]
        for lane in range(0, width, LANES):
            won = load(moments.won, 0, lane)
            kept = where_zero(won, load(moments.best, a, lane), load(work.slope, a, lane))
            store(moments.best, a, lane, kept)
            share = absolute(load(work.h, a, lane)) * splat(np.float32(_FLOOR / ambiguous))
            store(moments.unit, 0, lane, load(moments.unit, 0, lane) + share)
    return smallest(worst)


@inner
def _step(net: Any, work: Any, moments: Any, rates: Any, width: Any) -> Any:
    """One forward sweep, and Adam's step of every slope."""
    blocks, reach = net.forward, work.reach
    for at in range(reach.used[0]):
        g = reach.forward[at]
        product(blocks, work, g, width)
        for q in range(ROWS):
            row = blocks.rows[g * ROWS + q]
            if reach.row[row] == 0:
                continue
            if net.ambiguous[row] < 0:
                pass_on(net, work, row, q, width)
            else:
                _step_row(net, work, moments, rates, row, q, width)


@inner
def _step_row(net: Any, work: Any, moments: Any, rates: Any, row: Any, q: Any, width: Any) -> Any:
    """z of an ambiguous row; its derivative is h⁺ ẑ for a slope, −sign·ẑ for the multiplier of a
    split."""
    a = net.ambiguous[row]
    chord, offset, bias = splat(net.chord[a]), splat(net.offset[a]), splat(net.bias[row])
    left, zero, one = splat(net.left[a]), splat(ZERO), splat(ONE)
    for lane in range(0, width, LANES):
        zhat = load(work.tile, q, lane) + bias
        h, slope, sign = load(work.h, a, lane), load(work.slope, a, lane), load(work.sign, a, lane)
        line = where_less(h, zero, chord * zhat + offset, slope * zhat)
        affine = where_less(zero, sign, one, left)
        store(work.x, row, lane, where_zero(sign, line, affine * zhat))
        gradient = where_zero(sign, maximum(h, zero) * zhat, zero - sign * zhat)
        moved = adam(moments.mean, moments.square, a, lane, gradient, rates)
        inside = minimum(maximum(slope + moved, left), one)
        beside = maximum(slope + maximum(absolute(h), load(moments.unit, 0, lane)) * moved, zero)
        store(work.slope, a, lane, where_zero(sign, inside, beside))


@inner
def adam(mean: Any, square: Any, row: Any, lane: Any, gradient: Any, rates: Any) -> Any:
    """The move that Adam makes of a gradient, its moments updated."""
    one, b1, b2 = splat(ONE), splat(rates.first), splat(rates.second)
    m = b1 * load(mean, row, lane) + (one - b1) * gradient
    v = b2 * load(square, row, lane) + (one - b2) * gradient * gradient
    store(mean, row, lane, m)
    store(square, row, lane, v)
    return splat(rates.step) * m / (square_root(v * splat(rates.correction)) + splat(_TINY))


@inner
def _step_scale(net: Any, goal: Any, work: Any, moments: Any, rates: Any, width: Any) -> Any:
    """∂q/∂γ = constant + Σ a·z: what f is at the point that the forward sweep has reached."""
    for lane in range(0, width, LANES):
        store(work.tile, 0, lane, load(work.constant, 0, lane))
    for row in range(net.first[net.layers + 1]):
        number = goal.number[row]
        if number >= 0:
            for lane in range(0, width, LANES):
                share = load(work.goal, number, lane) * load(work.x, row, lane)
                store(work.tile, 0, lane, load(work.tile, 0, lane) + share)
    for lane in range(0, width, LANES):
        gradient = load(work.tile, 0, lane)
        moved = adam(moments.scale_mean, moments.scale_square, 0, lane, gradient, rates)
        scale = load(work.scale, 0, lane) + load(moments.scale_unit, 0, lane) * moved
        store(work.scale, 0, lane, maximum(scale, splat(ZERO)))
