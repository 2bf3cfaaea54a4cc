"""Narrowing: clipping by intervals and adjoint sweeps alone, where the only hidden layer reads the inputs sparsely.

Intervals of that layer are exact, so that a zonotope adds little to them, and costs a hundred times more. As long as
rows of the layer cut inputs (see `clip`), boxes are narrowed until nothing moves, and split by how close rows are to
cutting; a simple point of each is tried. On formulas written as networks that is the procedure of Davis, Putnam,
Logemann and Loveland.
"""

from __future__ import annotations

import math
from typing import Any

from anybound.bound.compact.jit import inner
from anybound.search.input_split.adjoint import adjoint
from anybound.search.input_split.clip import (
    begin_cut,
    cut_by_adjoint,
    cut_by_layer,
    is_cut_away,
)
from anybound.search.input_split.zonotope import LOST, U, inputs_row

POSITIVE = 1e-300  # the bound of what is clipped away, of which no more is known
FINEST = 2.0**-40
PASSES = 64  # at most
MOVES = 0.9  # of the volume, left by a pass that is worth another


@inner
def narrow(net: Any, work: Any, nodes: Any, clause: Any, box: Any) -> Any:
    """The box cut down, in place, to what can violate the clause; returns the clause's bound there.

    Where nothing can, the box is what it was cut down to when a row or a bound showed that."""
    lower, upper = box
    share, passes, best = 0.0, 0, -math.inf
    while share < MOVES and passes < PASSES:
        passes += 1
        inputs_row(net, work, lower, upper)
        _intervals(net, work, lower, upper)
        begin_cut(net, work, lower, upper)
        best = max(best, _cut_by_each(net, work, nodes, clause, box))
        if best > 0.0 or is_cut_away(net, work):
            return POSITIVE
        cut_by_layer(net, work, nodes, clause)
        share = _take(net, work, lower, upper)
        if is_cut_away(net, work):
            return POSITIVE
    return best


@inner
def _cut_by_each(net: Any, work: Any, nodes: Any, clause: Any, box: Any) -> Any:
    """Each row of the clause alone; the best of their bounds."""
    first, last = net.clause[clause], net.clause[clause + 1]
    best = -math.inf
    for r in range(first, last):
        work.weight[r] = 0.0
    for r in range(first, last):
        work.weight[r] = 1.0
        value = adjoint(net, work, nodes, clause)
        work.weight[r] = 0.0
        best = max(best, value)
        cut_by_adjoint(net, work, value, box)
    return best


@inner
def _take(net: Any, work: Any, lower: Any, upper: Any) -> Any:
    """What is left becomes the box; returns its share of the volume."""
    share = 1.0
    for i in range(net.first[1]):
        before = upper[i] - lower[i]
        lower[i], upper[i] = work.cut_lower[i], work.cut_upper[i]
        if before > 0.0:
            share *= (upper[i] - lower[i]) / before
    return share


@inner
def _intervals(net: Any, work: Any, lower: Any, upper: Any) -> Any:
    """l and u of the hidden layer, and which of its neurons are live."""
    p, begin, alive = net.maps[1], net.first[1], net.first[1]
    for g in range(begin, net.first[2]):
        head, tail = (
            net.row[net.start[p] + g - begin],
            net.row[net.start[p] + g - begin + 1],
        )
        low = high = net.bias[g]
        size = abs(low)
        for q in range(head, tail):
            w, x = net.weight[q], net.column[q]
            a, b = w * lower[x], w * upper[x]
            low, high = low + min(a, b), high + max(a, b)
            size += max(abs(a), abs(b))
        margin = net.slack[g] + U * (2.0 * (tail - head) + 64.0) * size + LOST
        work.lower[g], work.upper[g] = low - margin, high + margin
        if not high + margin <= 0.0 or net.left[g] != 0.0:
            work.live[alive] = g
            alive += 1
    work.live_first[2] = alive


@inner
def simplest(net: Any, lower: Any, upper: Any, point: Any) -> Any:
    """Of every interval the multiple of the largest power of two: where several rows are to be 0 at once, that is
    often at simple numbers."""
    for i in range(net.first[1]):
        point[i] = lower[i]
        step = 1.0
        while step > FINEST:
            multiple = math.ceil(lower[i] / step) * step
            if lower[i] <= multiple <= upper[i]:  # a number beyond integers has no ceiling
                point[i] = multiple
                break
            step *= 0.5
