"""The compiled loop over boxes: bounds of every open clause, where to split, and a point to try.

The input to split is the one that makes most of the error: symbol s weighs |v_s| in the clause's zonotope and comes
from a neuron whose width consists of the inputs' shares, so input i is to blame for Σ_s |v_s| share_si. The inputs' own
coefficients are no error (their minimum is exact) and count little.

Shapes: N boxes, D inputs, C clauses.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from anybound.bound.compact.jit import inner, kernel
from anybound.bound.compact.machine import addresses
from anybound.search.input_split.adjoint import adjoint
from anybound.search.input_split.combine import combine
from anybound.search.input_split.evaluate import evaluate, margin
from anybound.search.input_split.folded import Index, Net, Vector
from anybound.search.input_split.zonotope import Work, propagate

OWN = 0.1  # what an input's own coefficient counts beside its share of the error
NO_SPLIT = -1


def _example() -> tuple[object, ...]:
    vector, index, flag = np.zeros(2), np.zeros(2, np.int64), np.zeros(2, np.int8)
    net = Net._make(
        [*[index] * 5, vector, index, index, *[vector] * 5, index, flag, 0.0, 0.0, 0.0, index]
    )
    matrix = np.zeros((1, 1))
    boxes = (matrix, matrix, np.zeros((1, 1), np.bool_))
    return net, _work_like(vector, index), 0, boxes, (matrix, index, matrix, vector, matrix)


def _work_like(vector: Vector, index: Index) -> Work:
    kinds = [
        index if name in {"place", "live", "live_first", "width", "owner"} else vector
        for name in Work._fields
    ]
    return Work._make(kinds)


@kernel(*_example())
def bound_boxes(net: Net, work: Work, stride: int, boxes: Any, out: Any) -> None:
    """`boxes` are lower `[N, D]`, upper `[N, D]`, open `[N, C]`; `out` bound `[N, C]`, input `[N]`, point `[N, D]`,
    value `[N]`, weights of rows `[N, R]`.

    Clauses that are not open keep their bound. The point minimises the linear part of the worst clause's bound, and the
    value is the least margin of an open clause there."""
    lower, upper, is_open = boxes
    bound, choice, point, value, weight = out
    n, w = addresses(net), addresses(work)
    nodes = len(net.first) - 1
    for b in range(len(lower)):
        width = propagate(n, w, lower[b], upper[b], nodes, stride)
        worst = math.inf
        choice[b] = NO_SPLIT
        for c in range(len(net.clause) - 1):
            if is_open[b, c]:
                best = combine(n, w, nodes, c, width)
                if not best > 0.0:
                    other = adjoint(n, w, nodes, c)
                    if other > best:
                        best = other
                bound[b, c] = best
                for r in range(net.clause[c], net.clause[c + 1]):
                    weight[b, r] = work.weight[r]
                if not best > 0.0 and not best >= worst:
                    worst = best
                    choice[b] = _choose(n, w, lower[b], upper[b], width)
                    _minimiser(n, w, lower[b], upper[b], point[b])
        value[b] = math.inf
        if worst <= 0.0:
            evaluate(n, w, point[b], nodes)
            for c in range(len(net.clause) - 1):
                if is_open[b, c] and not bound[b, c] > 0.0:
                    value[b] = min(value[b], margin(n, w, nodes, c))


@inner
def _choose(net: Any, work: Any, lower: Any, upper: Any, width: Any) -> Any:
    """The splittable input with most of the error; of equals the widest."""
    inputs = net.first[1]
    best, widest, choice = -1.0, 0.0, NO_SPLIT
    for i in range(inputs):
        middle = 0.5 * lower[i] + 0.5 * upper[i]
        if lower[i] < middle < upper[i]:
            score = OWN * abs(work.sum[1 + i])
            for s in range(1 + inputs, width):
                score += abs(work.sum[s]) * work.share[s * inputs + i]
            if score > best or (not score < best and upper[i] - lower[i] > widest):
                best, widest, choice = score, upper[i] - lower[i], i
    return choice


@inner
def _minimiser(net: Any, work: Any, lower: Any, upper: Any, point: Any) -> Any:
    for i in range(net.first[1]):
        point[i] = upper[i] if work.sum[1 + i] < 0.0 else lower[i]
