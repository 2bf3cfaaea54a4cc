"""The compiled loop over boxes: bounds of every open clause, what of a box is left, where to split, and a point to try.

The input to split is the one that makes most of the error: symbol s weighs |v_s| in the clause's zonotope and comes
from a neuron whose width consists of the inputs' shares, so input i is to blame for Σ_s |v_s| share_si. The inputs' own
coefficients are no error (their minimum is exact) and count little.

A box of which clipping leaves less than half is bounded again at once: that gains more than a split.

Shapes: N boxes, D inputs, C clauses.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from anybound.bound.compact.jit import inner, kernel
from anybound.bound.compact.machine import addresses
from anybound.search.input_split.adjoint import adjoint
from anybound.search.input_split.clip import (
    begin_cut,
    cut_by_adjoint,
    cut_by_layer,
    cut_by_rows,
    find_close,
    is_cut_away,
    reads_sparsely,
)
from anybound.search.input_split.combine import combine
from anybound.search.input_split.evaluate import evaluate, margin
from anybound.search.input_split.folded import Index, Net, Vector
from anybound.search.input_split.narrow import POSITIVE, narrow, simplest
from anybound.search.input_split.zonotope import Work, propagate

OWN = 0.1  # what an input's own coefficient counts beside its share of the error
NO_SPLIT = -1
ROUNDS = 8  # of clipping, at most
HALF = 0.5


def _example() -> tuple[object, ...]:
    vector, index, flag = np.zeros(2), np.zeros(2, np.int64), np.zeros(2, np.int8)
    net = Net._make(
        [*[index] * 5, vector, index, index, *[vector] * 5, index, flag, 0.0, 0.0, 0.0, index]
    )
    matrix = np.zeros((1, 1))
    boxes = (matrix, matrix, np.zeros((1, 1), np.bool_))
    out = (matrix, index, matrix, vector, matrix, matrix, matrix)
    return net, _work_like(vector, index), 0, True, boxes, out


def _work_like(vector: Vector, index: Index) -> Work:
    kinds = [
        index if name in {"place", "live", "live_first", "width", "owner"} else vector
        for name in Work._fields
    ]
    return Work._make(kinds)


@kernel(*_example())
def bound_boxes(net: Net, work: Work, stride: int, clips: bool, boxes: Any, out: Any) -> None:
    """`boxes` are lower `[N, D]`, upper `[N, D]`, open `[N, C]`; `out` bound `[N, C]`, input `[N]`, point `[N, D]`,
    value `[N]`, weights of rows `[N, R]`, and what is left of the boxes, lower `[N, D]` and upper `[N, D]`.

    Clauses that are not open keep their bound. The point minimises the linear part of the worst clause's bound, or is
    the simplest of a box that is narrowed; the value is the least margin of an open clause there.

    Boxes are clipped if `clips`."""
    lower, upper, is_open = boxes
    bound, choice, point, value, weight, left_lower, left_upper = out
    n, w = addresses(net), addresses(work)
    nodes = len(net.first) - 1
    sparse = clips and reads_sparsely(n, nodes)
    for b in range(len(lower)):
        for i in range(net.first[1]):
            left_lower[b, i], left_upper[b, i] = lower[b, i], upper[b, i]
        for c in range(len(net.clause) - 1):
            if is_open[b, c]:
                bound[b, c] = -math.inf
        box = left_lower[b], left_upper[b]
        value[b], choice[b] = math.inf, NO_SPLIT
        if sparse:
            choice[b] = _narrow(n, w, nodes, box, bound[b])
            if choice[b] != NO_SPLIT:
                simplest(n, box[0], box[1], point[b])
                value[b] = _value(n, w, nodes, bound[b], point[b])
        if choice[b] == NO_SPLIT and _some_open(bound[b]):
            worst = _clip(n, w, box, (nodes, stride, clips), bound[b], point[b], weight[b])
            choice[b] = NO_SPLIT if worst == math.inf else _choose(n, w, box[0], box[1])
            if worst <= 0.0:
                value[b] = _value(n, w, nodes, bound[b], point[b])


@inner
def _some_open(bound: Any) -> Any:
    some = False
    for c in range(len(bound)):
        some = some or not bound[c] > 0.0
    return some


@inner
def _narrow(net: Any, work: Any, nodes: Any, box: Any, bound: Any) -> Any:
    """Narrows the box if a single clause is open; the input to split if that is settled by how close rows are."""
    clause, count = 0, 0
    for c in range(len(bound)):
        if not bound[c] > 0.0:
            clause, count = c, count + 1
    if count != 1:
        return NO_SPLIT
    bound[clause] = narrow(net, work, nodes, clause, box)
    if bound[clause] > 0.0 or not find_close(net, work):
        return NO_SPLIT
    for i in range(net.first[1]):
        work.score[i] = work.close[i]
    return _choose(net, work, box[0], box[1])


@inner
def _clip(net: Any, work: Any, box: Any, how: Any, bound: Any, point: Any, weight: Any) -> Any:
    """Bounds of the box, clipped and bounded again while that gains more than a split; the worst bound."""
    nodes, stride, clips = how
    worst, rounds, share = math.inf, 0, 0.0
    while share < HALF and rounds < ROUNDS:
        width = propagate(net, work, box[0], box[1], nodes, stride)
        worst = _bound_clauses(net, work, box, (nodes, width, clips), bound, point, weight)
        rounds += 1
        share = _shrink(net, work, box) if clips and worst <= 0.0 else 1.0
    return worst


@inner
def _value(net: Any, work: Any, nodes: Any, bound: Any, point: Any) -> Any:
    """The least margin of an open clause at a point."""
    evaluate(net, work, point, nodes)
    value = math.inf
    for c in range(len(bound)):
        if not bound[c] > 0.0:
            value = min(value, margin(net, work, nodes, c))
    return value


@inner
def _bound_clauses(
    net: Any, work: Any, box: Any, at: Any, bound: Any, point: Any, weight: Any
) -> Any:
    """Bounds of all clauses that are not closed yet, and the least box around what of it can violate one; returns the
    worst of them, +∞ if all are closed."""
    width = at[1]
    worst = math.inf
    for i in range(net.first[1]):
        work.hull_lower[i], work.hull_upper[i] = math.inf, -math.inf
    for c in range(len(bound)):
        if not bound[c] > 0.0:
            best = _bound_clause(net, work, box, at, c)
            if not best <= bound[c]:
                bound[c] = best
            for r in range(net.clause[c], net.clause[c + 1]):
                weight[r] = work.weight[r]
            if not best > 0.0:
                _enclose(net, work)
                if not best >= worst:
                    worst = best
                    _blame(net, work, width)
                    _minimiser(net, work, box[0], box[1], point)
    return worst


@inner
def _bound_clause(net: Any, work: Any, box: Any, at: Any, clause: Any) -> Any:
    """The better of both bounds, and what of the box can violate the clause."""
    nodes, width, clips = at
    best = combine(net, work, nodes, clause, width)
    begin_cut(net, work, box[0], box[1])
    if best > 0.0:
        return best
    other = adjoint(net, work, nodes, clause)
    if clips:
        cut_by_rows(net, work, nodes, clause, width, box)
        cut_by_adjoint(net, work, other, box)
        cut_by_layer(net, work, nodes, clause)
        if is_cut_away(net, work):
            return POSITIVE
    return other if other > best else best


@inner
def _enclose(net: Any, work: Any) -> Any:
    """The hull grows by what is left for one clause."""
    for i in range(net.first[1]):
        work.hull_lower[i] = min(work.hull_lower[i], work.cut_lower[i])
        work.hull_upper[i] = max(work.hull_upper[i], work.cut_upper[i])


@inner
def _shrink(net: Any, work: Any, box: Any) -> Any:
    """The box becomes the hull; returns what share of its volume that is."""
    lower, upper = box
    share = 1.0
    for i in range(net.first[1]):
        before = upper[i] - lower[i]
        lower[i] = max(lower[i], work.hull_lower[i])
        upper[i] = min(upper[i], work.hull_upper[i])
        if before > 0.0:
            ratio = (upper[i] - lower[i]) / before
            share *= ratio
            work.score[i] *= ratio
    return share


@inner
def _blame(net: Any, work: Any, width: Any) -> Any:
    """How much of the error every input makes."""
    inputs = net.first[1]
    for i in range(inputs):
        score = OWN * abs(work.sum[1 + i])
        for s in range(1 + inputs, width):
            score += abs(work.sum[s]) * work.share[s * inputs + i]
        work.score[i] = score


@inner
def _choose(net: Any, work: Any, lower: Any, upper: Any) -> Any:
    """The splittable input with most of the error; of equals the widest."""
    best, widest, choice = -1.0, 0.0, NO_SPLIT
    for i in range(net.first[1]):
        middle = 0.5 * lower[i] + 0.5 * upper[i]
        if lower[i] < middle < upper[i]:
            score = work.score[i]
            if score > best or (not score < best and upper[i] - lower[i] > widest):
                best, widest, choice = score, upper[i] - lower[i], i
    return choice


@inner
def _minimiser(net: Any, work: Any, lower: Any, upper: Any, point: Any) -> Any:
    for i in range(net.first[1]):
        point[i] = upper[i] if work.sum[1 + i] < 0.0 else lower[i]
