"""The float64 evaluation that a verdict may rest on: q at given slopes, minus all that rounding may
have added.

The slopes only *propose* ν = −ρ. The computed numbers ν, whatever they are, define ρ exactly; the
minimum of every row,

    min over x in [l, u] of  c·x + h·σ(x),      c = −ν (a target's factor added),

is then evaluated at the ends and at the bend, and not taken from the formula that led to ν: no
slope, multiplier or kernel can make the bound wrong. The loss is collected on the same sweep
(`ExactSweep`):

    Σ_k |ν_k|·price_k  +  Σ_j (|c_j| + |h_j|)·reach_j

A NaN or an infinity anywhere ends up in the loss, and the bound is −∞.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from anybound.bound.compact.jit import exact, kernel
from anybound.bound.compact.machine import (
    LANES64,
    ROWS,
    STEP,
    WIDTH,
    absolute,
    addresses,
    block_product,
    load,
    maximum,
    minimum,
    splat,
    store,
    where_zero,
)
from anybound.bound.compact.native import Fixed
from anybound.bound.compact.network import CompactNetwork, Single, example_exact
from anybound.bound.compact.objective import Aim, CompactObjective, example_exact_goal
from anybound.bound.compact.problems import Children, Parents, example_problems
from anybound.bound.compact.reach import Reach, example_reach, in_cones, reach_all, restrict, whole
from anybound.bound.compact.rows import Index, Vector
from anybound.rounding import unit_roundoff

_ZERO = np.float64(0)
_UNIT = 1.01 * unit_roundoff(torch.float64)  # γ_n <= n·_UNIT for the few terms of a clause


class ExactWork(NamedTuple):
    """The state of a chunk in float64, `[…, WIDTH]`."""

    x: Vector  # [rows + 1]: ν
    tile: Vector  # [4]
    slope: Vector  # [A]
    sign: Vector  # [A]
    split: NDArray[np.int8]  # [A], not by problem
    goal: Vector  # [m]
    constant: Vector  # [·]
    scale: Vector  # [·]
    target: Index  # [·]
    weight: Vector  # [·]
    value: Vector  # [·]
    loss: Vector  # [·]
    reach: Reach


def _make_work(reach: Reach, goals: int) -> ExactWork:
    rows, ambiguous = len(reach.row), len(reach.bent)
    x, tile, slope, sign = (np.zeros((height, WIDTH)) for height in (rows, ROWS, *[ambiguous] * 2))
    constant, scale, weight, value, loss = (np.zeros(WIDTH) for _ in range(5))
    split, target, goal = (
        np.zeros(ambiguous, np.int8),
        np.zeros(WIDTH, np.int64),
        np.zeros((goals, WIDTH)),
    )
    return ExactWork(
        x,
        tile,
        slope,
        sign,
        split,
        goal,
        constant,
        scale,
        target,
        weight,
        value,
        loss,
        reach,
    )


def exact_workspace(network: CompactNetwork, objective: CompactObjective) -> Fixed[ExactWork]:
    """Buffers for `rigorous`; one may serve any number of calls for the same network, one at a
    time."""
    goals = len(objective.exact.coefficient)
    return Fixed(_make_work(whole(network, forward=False), goals))


def rigorous(
    network: CompactNetwork,
    objective: CompactObjective,
    parents: Parents,
    children: Children,
    slope: Single,
    aim: Aim | None = None,
    weight: Single | None = None,
    work: Fixed[ExactWork] | None = None,
) -> Vector:
    """A number for each child that never exceeds its minimum over the reals, `[N]`; −∞ if anything
    overflows.

    `slope` `[N, A]` are the children's own slopes and multipliers, `weight` `[N, M]` their own
    weights, such as `solve` returns; without them the weights are the parents'. Weights and scales
    below 0 count as 0."""
    count = len(children.parent)
    bound = np.empty(count)
    work = work or exact_workspace(network, objective)
    aim = Aim.none(count) if aim is None else aim
    weight = parents.weight[children.parent] if weight is None else weight
    _rigorous(
        network.fixed_exact,
        objective.fixed_exact,
        parents,
        children,
        aim,
        slope,
        weight,
        work,
        bound,
        in_cones(aim, parents, children),
    )
    return bound


def _example() -> tuple[object, ...]:
    parents, children = example_problems()
    single = np.zeros((1, 1), np.float32)
    return (
        example_exact(),
        example_exact_goal(),
        parents,
        children,
        Aim.none(1),
        single,
        single,
        _make_work(example_reach(), 1),
        np.zeros(1),
        True,
    )


@kernel(*_example())
def _rigorous(
    net: Any,
    goal: Any,
    parents: Any,
    children: Any,
    aim: Any,
    slope: Any,
    weight: Any,
    work: Any,
    bound: Any,
    alone: Any,
) -> Any:
    """All chunks, one after the other; only what is in reach, if the objectives are pre-activations alone."""
    if not alone:
        reach_all(net.adjoint, work.reach)
    net_, work_ = addresses(net), addresses(work)
    count = len(bound)
    for first in range(0, count, WIDTH):
        last = min(count, first + WIDTH)
        width = -(-(last - first) // STEP) * STEP
        _load(goal, children, parents, aim, weight, work, first, last, width)
        if alone:
            restrict(net, work.reach, work.x, work.target, width)
        _load_slopes(parents, children, slope, work, first, last, width)
        _sweep(net_, addresses(goal), work_, width)
        for i in range(last - first):
            bound[first + i] = _lower(work.value[i], 1.01 * work.loss[i] + net.lost)


@exact
def _lower(value: Any, loss: Any) -> Any:
    """value − loss rounded down. Where operations may be reordered, the compiler takes a NaN for finite."""
    lower = value - loss
    lower -= 1e-15 * abs(lower)
    return lower if np.isfinite(lower) else -np.inf


@exact
def _load(
    goal: Any,
    children: Any,
    parents: Any,
    aim: Any,
    weight: Any,
    work: Any,
    first: Any,
    last: Any,
    width: Any,
) -> Any:
    """Problems into columns; the columns behind the last one repeat it."""
    for i in range(width):
        child = min(first + i, last - 1)
        parent = children.parent[child]
        work.scale[i] = max(aim.scale[child], np.float32(0))
        work.target[i], work.weight[i] = aim.target[child], aim.weight[child]
        _load_function(goal, weight[child], parents.row[parent], work, i)


@exact
def _load_slopes(
    parents: Any, children: Any, slope: Any, work: Any, first: Any, last: Any, width: Any
) -> Any:
    """Slopes and signs of the neurons in reach."""
    for at in range(work.reach.used[1]):
        a = work.reach.bent[at]
        work.split[a] = 0
        for i in range(width):
            child = min(first + i, last - 1)
            work.slope[a, i] = slope[child, a]
            sign = parents.sign[children.parent[child], a]
            work.sign[a, i] = sign
            work.split[a] |= abs(sign)
    for i in range(width):
        child = min(first + i, last - 1)
        a = children.neuron[child]
        if a >= 0:
            work.sign[a, i] = children.sign[child]
            work.split[a] = 1


@exact
def _load_function(goal: Any, weights: Any, clause: Any, work: Any, i: Any) -> Any:
    """Column i's function Σ_r w_r f_r, and what it may lose: the rows' own losses, and the rounding
    of m products and sums of M terms, γ_(2M+4) Σ_r w_r (Σ_j |a_jr| max|z_j| + |constant_r|)."""
    first, count = goal.start[clause], goal.length[clause]
    work.constant[i], work.loss[i] = 0, 0
    work.goal[:, i] = 0
    extra = (2 * count + 4) * _UNIT
    for r in range(first, first + count):
        w = max(np.float64(weights[r - first]), 0.0)
        work.constant[i] += w * goal.constant[r]
        work.loss[i] += w * (goal.loss[r] + extra * goal.size[r])
        for j in range(len(work.goal)):
            work.goal[j, i] += w * goal.coefficient[j, r]
    work.loss[i] = work.scale[i] * (1.001 * work.loss[i] + count * goal.lost)


@exact
def _sweep(net: Any, goal: Any, work: Any, width: Any) -> Any:
    for lane in range(0, width, LANES64):
        store(work.value, 0, lane, load(work.scale, 0, lane) * load(work.constant, 0, lane))
    blocks, reach = net.adjoint, work.reach
    for layer in range(net.nodes - 1, -1, -1):
        for at in range(reach.first[layer], reach.first[layer + 1]):
            g = reach.adjoint[at]
            block_product(
                blocks.column, blocks.weight, work.x, work.tile,
                blocks.start[g], blocks.start[g + 1], width,
            )  # fmt: skip
            for q in range(ROWS):
                _row(net, goal, work, blocks.rows[g * ROWS + q], q, width)
        _aim(net, work, layer, width)


@exact
def _row(net: Any, goal: Any, work: Any, row: Any, q: Any, width: Any) -> Any:
    """One row of any kind."""
    number = goal.number[row]
    if number >= 0:
        for lane in range(0, width, LANES64):
            a = load(work.scale, 0, lane) * load(work.goal, number, lane)
            store(work.tile, q, lane, load(work.tile, q, lane) + a)
    if row < net.inputs:
        _close(net, work, row, q, width)
    elif net.ambiguous[row] < 0:
        _affine(net, work, row, q, width)
    elif work.split[net.ambiguous[row]] == 0:
        _bent(net, work, row, q, width)
    else:
        _split(net, work, row, q, width)


@exact
def _close(net: Any, work: Any, row: Any, q: Any, width: Any) -> Any:
    """min over [l_0, u_0] of h·z."""
    lower, upper, reach = splat(net.lower[row]), splat(net.upper[row]), splat(net.reach[row])
    for lane in range(0, width, LANES64):
        h = load(work.tile, q, lane)
        _add(work, lane, minimum(h * lower, h * upper), absolute(h) * reach)


@exact
def _add(work: Any, lane: Any, value: Any, loss: Any) -> Any:
    store(work.value, 0, lane, load(work.value, 0, lane) + value)
    store(work.loss, 0, lane, load(work.loss, 0, lane) + loss)


@exact
def _affine(net: Any, work: Any, row: Any, q: Any, width: Any) -> Any:
    """σ(x) = left·x: with ν = left·h the minimum of −ν·x + h·σ(x) is 0 but for the rounding of
    ν."""
    bias, left = splat(net.bias[row]), splat(net.left[row])
    price, reach = splat(net.price[row]), splat(net.reach[row])
    for lane in range(0, width, LANES64):
        h = load(work.tile, q, lane)
        nu = left * h
        store(work.x, row, lane, nu)
        _add(work, lane, nu * bias, absolute(nu) * price + absolute(h) * reach)


@exact
def _bent(net: Any, work: Any, row: Any, q: Any, width: Any) -> Any:
    """The smallest of f(l), f(0) = 0, f(u), for f(x) = −ν·x + h·σ(x)."""
    a, zero = net.ambiguous[row], splat(_ZERO)
    bias, chord = splat(net.bias[row]), splat(net.chord[row])
    lower, upper = splat(net.lower[row]), splat(net.upper[row])
    at_lower, at_upper = splat(net.at_lower[row]), splat(net.at_upper[row])
    price, reach = splat(net.price[row]), splat(net.reach[row])
    for lane in range(0, width, LANES64):
        h = load(work.tile, q, lane)
        nu = load(work.slope, a, lane) * maximum(h, zero) + chord * minimum(h, zero)
        first, last = h * at_lower - nu * lower, h * at_upper - nu * upper
        least = minimum(minimum(first, last), zero)
        store(work.x, row, lane, nu)
        size = absolute(nu)
        loss = size * price + (size + absolute(h)) * reach
        _add(work, lane, nu * bias + least, loss + _spoilt(first + last, zero))


@exact
def _split(net: Any, work: Any, row: Any, q: Any, width: Any) -> Any:
    """The interval is cut at 0 where the sign is not 0; any two ends and the bend between them."""
    a, zero = net.ambiguous[row], splat(_ZERO)
    bias, left, chord = splat(net.bias[row]), splat(net.left[row]), splat(net.chord[row])
    lower, upper = splat(net.lower[row]), splat(net.upper[row])
    price, reach = splat(net.price[row]), splat(net.reach[row])
    for lane in range(0, width, LANES64):
        h, slope, sign = (
            load(work.tile, q, lane),
            load(work.slope, a, lane),
            load(work.sign, a, lane),
        )
        positive, negative = maximum(sign, zero), minimum(sign, zero)
        affine = positive - left * negative
        relaxed = slope * maximum(h, zero) + chord * minimum(h, zero)
        nu = where_zero(sign, relaxed, affine * h - sign * slope)
        low = where_zero(positive, lower, maximum(lower, zero))
        high = where_zero(negative, upper, minimum(upper, zero))
        middle = minimum(maximum(zero, low), high)
        first, last = _at(low, h, nu, left, zero), _at(high, h, nu, left, zero)
        bend = _at(middle, h, nu, left, zero)
        least = minimum(minimum(first, last), bend)
        store(work.x, row, lane, nu)
        size = absolute(nu)
        loss = size * price + (size + absolute(h)) * reach
        _add(work, lane, nu * bias + least, loss + _spoilt(first + last + bend, zero))


@exact
def _at(x: Any, h: Any, nu: Any, left: Any, zero: Any) -> Any:
    """−ν·x + h·σ(x)."""
    return h * (maximum(x, zero) + left * minimum(x, zero)) - nu * x


@exact
def _spoilt(values: Any, zero: Any) -> Any:
    """0, or NaN where a value is infinite or NaN: `minimum` passes over the NaN of ∞ − ∞."""
    return values * zero


@exact
def _aim(net: Any, work: Any, layer: Any, width: Any) -> Any:
    """ν gains a target's factor w: ρ is what comes out, c = w + ρ, which the rounding of ν moves by
    at most |ν|·u."""
    for i in range(width):
        row = work.target[i]
        if net.first[layer] <= row < net.first[layer + 1]:
            nu = work.x[row * WIDTH + i] + work.weight[i]
            work.x[row * WIDTH + i] = nu
            work.value[i] += work.weight[i] * net.bias[row]
            work.loss[i] += (abs(nu) + abs(work.weight[i])) * (net.price[row] + net.reach[row])
