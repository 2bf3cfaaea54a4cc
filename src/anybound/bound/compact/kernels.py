"""The float32 sweeps over one chunk of problems, `[row, problem]`.

Backward: h_j = a_j + Σ_k W_kjᵀ ν_k from the last layer to the input, ν_j from h_j by the relaxation
of `network`, and q on the way. Forward: the derivatives of that q,

    z_j = ∂q/∂h_j,      ẑ_k = Σ_j W_kj z_j + b_k = ∂q/∂ν_k,      ∂q/∂α = h⁺ ẑ,      ∂q/∂β = −ẑ (x >=
    0), +ẑ (x <= 0)

from the input's minimiser z_0 on. One buffer holds the ν of the rows behind and the z of the rows
before.

These numbers are proposals: `rigorous` decides what they are worth.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from anybound.bound.compact.jit import inner
from anybound.bound.compact.machine import (
    LANES,
    ROWS,
    WIDTH,
    absolute,
    block_product,
    copysign,
    load,
    maximum,
    minimum,
    splat,
    store,
    where_less,
    where_zero,
)
from anybound.bound.compact.network import Single
from anybound.bound.compact.reach import Reach
from anybound.bound.compact.rows import Index

ZERO, ONE, INFINITY = np.float32(0), np.float32(1), np.float32(np.inf)


class Work(NamedTuple):
    """The state of a chunk, `[…, WIDTH]`; reused from chunk to chunk. One per thread."""

    x: Single  # [rows + 1]: ν or z
    tile: Single  # [4]: the block at hand
    slope: Single  # [A]: α, or β where the sign is not 0
    sign: Single  # [A]: +1 where split to x >= 0, −1 to x <= 0, else 0
    split: NDArray[np.int8]  # [A], not by problem: whether any sign is not 0
    aimed: NDArray[np.int8]  # [1]: whether any problem has a target
    h: Single  # [A]: the coefficients, for the gradient and for branching
    goal: Single  # [m]: the objective's coefficients
    constant: Single  # [·]: the objective's constant
    scale: Single  # [·]: its factor
    target: Index  # [·]: the row of a pre-activation in the objective
    weight: Single  # [·]: its factor
    value: Single  # [·]: q
    best: Single  # [·]: the largest so far
    step: Single  # [·]: how far slopes move; 0 once a problem is decided
    share: Single  # [M]: w; this and what follows have no rows where M = 1
    used: Single  # [M]: 1 where the clause has the row
    function: Single  # [m·M]: the rows' coefficients
    shift: Single  # [M]: the rows' constants
    rise: Single  # [M]: the rows' values
    mean: Single  # [M]: their mean over the last steps
    reach: Reach
    choices: int  # M


def make_work(reach: Reach, goals: int, choices: int = 1) -> Work:
    """Zeroed buffers, aligned to cache lines."""
    rows, ambiguous = len(reach.row), len(reach.bent)
    weighted = choices if choices > 1 else 0
    constant, scale, weight, value, best, step = (np.zeros(WIDTH, np.float32) for _ in range(6))
    return Work(
        x=aligned(rows),
        tile=aligned(ROWS),
        slope=aligned(ambiguous),
        sign=aligned(ambiguous),
        split=np.zeros(ambiguous, np.int8),
        aimed=np.zeros(1, np.int8),
        h=aligned(ambiguous),
        goal=aligned(goals),
        constant=constant,
        scale=scale,
        target=np.zeros(WIDTH, np.int64),
        weight=weight,
        value=value,
        best=best,
        step=step,
        share=aligned(weighted),
        used=aligned(weighted),
        function=aligned(weighted * goals),
        shift=aligned(weighted),
        rise=aligned(weighted),
        mean=aligned(weighted),
        reach=reach,
        choices=choices,
    )


def aligned(height: int) -> Single:
    """Zeros `[height, WIDTH]` that begin at a cache line."""
    raw = np.zeros(height * WIDTH * 4 + 64, np.uint8)
    start = -raw.ctypes.data % 64
    return raw[start : len(raw) - 64 + start].view(np.float32).reshape(height, WIDTH)


@inner
def backward(net: Any, goal: Any, work: Any, width: Any) -> Any:
    """One adjoint sweep: q of every problem in `work.value`, h in `work.h`, z_0 in the first rows
    of `work.x`.

    `net`, `goal` and `work` are addresses."""
    for lane in range(0, width, LANES):
        store(work.value, 0, lane, load(work.scale, 0, lane) * load(work.constant, 0, lane))
    blocks, reach = net.adjoint, work.reach
    for layer in range(net.nodes - 1, 0, -1):
        for at in range(reach.first[layer], reach.first[layer + 1]):
            g = reach.adjoint[at]
            product(blocks, work, g, width)
            for q in range(ROWS):
                _relax(net, goal, work, blocks.rows[g * ROWS + q], q, width)
        if work.aimed[0]:
            _aim(net, work, layer, width)
    for at in range(reach.first[0], reach.first[1]):
        g = reach.adjoint[at]
        product(blocks, work, g, width)
        for q in range(ROWS):
            _close(net, goal, work, blocks.rows[g * ROWS + q], q, width)


@inner
def product(blocks: Any, work: Any, g: Any, width: Any) -> Any:
    """Block g of a matrix times `work.x`, in `work.tile`."""
    block_product(
        blocks.column, blocks.weight, work.x, work.tile, blocks.start[g], blocks.start[g + 1], width
    )


@inner
def _add_goal(goal: Any, work: Any, row: Any, q: Any, width: Any) -> Any:
    """h_j gains a_j."""
    number = goal.number[row]
    if number >= 0:
        for lane in range(0, width, LANES):
            a = load(work.scale, 0, lane) * load(work.goal, number, lane)
            store(work.tile, q, lane, load(work.tile, q, lane) + a)


@inner
def _relax(net: Any, goal: Any, work: Any, row: Any, q: Any, width: Any) -> Any:
    """ν from h, and the row's share of q."""
    _add_goal(goal, work, row, q, width)
    a = net.ambiguous[row]
    if a < 0:
        fixed, bias = splat(net.fixed[row]), splat(net.bias[row])
        for lane in range(0, width, LANES):
            nu = fixed * load(work.tile, q, lane)
            store(work.x, row, lane, nu)
            store(work.value, 0, lane, load(work.value, 0, lane) + nu * bias)
    elif work.split[a] == 0:
        _relax_row(net, work, row, q, width)
    else:
        _relax_split(net, work, row, q, width)


@inner
def _relax_row(net: Any, work: Any, row: Any, q: Any, width: Any) -> Any:
    """An ambiguous row that none of the problems splits."""
    a = net.ambiguous[row]
    chord, offset, bias = splat(net.chord[a]), splat(net.offset[a]), splat(net.bias[row])
    zero = splat(ZERO)
    for lane in range(0, width, LANES):
        h = load(work.tile, q, lane)
        rising, falling = maximum(h, zero), minimum(h, zero)
        nu = load(work.slope, a, lane) * rising + chord * falling
        store(work.h, a, lane, h)
        store(work.x, row, lane, nu)
        store(work.value, 0, lane, load(work.value, 0, lane) + falling * offset + nu * bias)


@inner
def _relax_split(net: Any, work: Any, row: Any, q: Any, width: Any) -> Any:
    """An ambiguous row that is split in some of the problems."""
    a = net.ambiguous[row]
    chord, offset, bias = splat(net.chord[a]), splat(net.offset[a]), splat(net.bias[row])
    left, zero = splat(net.left[a]), splat(ZERO)
    for lane in range(0, width, LANES):
        h, slope, sign = (
            load(work.tile, q, lane),
            load(work.slope, a, lane),
            load(work.sign, a, lane),
        )
        affine = maximum(sign, zero) - left * minimum(sign, zero)
        rising, falling = maximum(h, zero), minimum(h, zero)
        relaxed = slope * rising + chord * falling
        nu = where_zero(sign, relaxed, affine * h - sign * slope)
        share = where_zero(sign, falling * offset, zero)
        store(work.h, a, lane, h)
        store(work.x, row, lane, nu)
        store(work.value, 0, lane, load(work.value, 0, lane) + share + nu * bias)


@inner
def _aim(net: Any, work: Any, layer: Any, width: Any) -> Any:
    """ν gains the factor of the pre-activation that is part of the objective, if it is in this
    layer."""
    for i in range(width):
        row = work.target[i]
        if net.first[layer] <= row < net.first[layer + 1]:
            work.x[row * WIDTH + i] += work.weight[i]
            work.value[i] += work.weight[i] * net.bias[row]


@inner
def _close(net: Any, goal: Any, work: Any, row: Any, q: Any, width: Any) -> Any:
    """P_0 on a box: min h·z = h·center − |h|·radius, at z_0 = center − sign(h)·radius."""
    if row < net.inputs:
        _add_goal(goal, work, row, q, width)
        center, radius = splat(net.center[row]), splat(net.radius[row])
        for lane in range(0, width, LANES):
            h = load(work.tile, q, lane)
            share = h * center - absolute(h) * radius
            store(work.value, 0, lane, load(work.value, 0, lane) + share)
            store(work.x, row, lane, center - copysign(radius, h))


@inner
def climb(net: Any, work: Any, relative: Any, width: Any) -> Any:
    """One forward sweep, and a step of every slope along the sign of its derivative.

    Multipliers of splits move by `relative`·|h|, the scale on which they matter. `net` and `work`
    are addresses."""
    blocks, reach = net.forward, work.reach
    for at in range(reach.used[0]):
        g = reach.forward[at]
        product(blocks, work, g, width)
        for q in range(ROWS):
            row = blocks.rows[g * ROWS + q]
            a = net.ambiguous[row]
            if a < 0:
                pass_on(net, work, row, q, width)
            elif work.split[a] == 0:
                _climb_row(net, work, row, q, width)
            else:
                _climb_split(net, work, row, q, relative, width)


@inner
def pass_on(net: Any, work: Any, row: Any, q: Any, width: Any) -> Any:
    """z of an affine row."""
    bias, fixed = splat(net.bias[row]), splat(net.fixed[row])
    for lane in range(0, width, LANES):
        store(work.x, row, lane, fixed * (load(work.tile, q, lane) + bias))


@inner
def _climb_row(net: Any, work: Any, row: Any, q: Any, width: Any) -> Any:
    """z = α ẑ where h > 0, else chord·ẑ + offset; α moves where h > 0 and stays in [left, 1]."""
    a = net.ambiguous[row]
    chord, offset, bias = splat(net.chord[a]), splat(net.offset[a]), splat(net.bias[row])
    left, zero, one = splat(net.left[a]), splat(ZERO), splat(ONE)
    for lane in range(0, width, LANES):
        zhat = load(work.tile, q, lane) + bias
        h, slope = load(work.h, a, lane), load(work.slope, a, lane)
        moved = slope + copysign(load(work.step, 0, lane), zhat)
        moved = minimum(maximum(moved, left), one)
        store(work.x, row, lane, where_less(h, zero, chord * zhat + offset, slope * zhat))
        store(work.slope, a, lane, where_less(zero, h, moved, slope))


@inner
def _climb_split(net: Any, work: Any, row: Any, q: Any, relative: Any, width: Any) -> Any:
    """The same for a row that is split in some of the problems."""
    a = net.ambiguous[row]
    chord, offset, bias = splat(net.chord[a]), splat(net.offset[a]), splat(net.bias[row])
    left, zero, one, scale = splat(net.left[a]), splat(ZERO), splat(ONE), splat(relative)
    for lane in range(0, width, LANES):
        zhat = load(work.tile, q, lane) + bias
        h, slope, sign = load(work.h, a, lane), load(work.slope, a, lane), load(work.sign, a, lane)
        step = load(work.step, 0, lane)
        line = where_less(h, zero, chord * zhat + offset, slope * zhat)
        affine = where_less(zero, sign, one, left)
        store(work.x, row, lane, where_zero(sign, line, affine * zhat))
        moved = minimum(maximum(slope + copysign(step, zhat), left), one)
        inside = where_less(zero, h, moved, slope)
        reach = where_zero(step, zero, scale * absolute(h))
        beside = maximum(slope - sign * copysign(reach, zhat), zero)
        store(work.slope, a, lane, where_zero(sign, inside, beside))
