"""The network at one point, in float64: what a minimiser is worth as a witness. Nothing rigorous rests on it."""

from __future__ import annotations

import math
from typing import Any

from anybound.bound.compact.jit import inner
from anybound.bound.compact.machine import LANES64, load, multiply_add, splat, store

L = LANES64


@inner
def evaluate(net: Any, work: Any, point: Any, nodes: Any) -> Any:
    """All neurons after σ in `work.value`; the rows to prove positive are the last node's."""
    for i in range(net.first[1]):
        work.value[i] = point[i]
    for k in range(1, nodes):
        begin, end = net.first[k], net.first[k + 1]
        for g in range(begin, end):
            work.value[g] = net.bias[g]
        for p in range(net.maps[k], net.maps[k + 1]):
            if net.stride[p]:
                _dense(net, work, p, begin)
            else:
                _sparse(net, work, p, begin, end)
        if k < nodes - 1:
            for g in range(begin, end):
                x = work.value[g]
                work.value[g] = max(x, 0.0) + net.left[g] * min(x, 0.0)


@inner
def margin(net: Any, work: Any, nodes: Any, clause: Any) -> Any:
    """The largest of a clause's rows: at most 0 where the point is unsafe."""
    begin, best = net.first[nodes - 1], -math.inf
    for r in range(net.clause[clause], net.clause[clause + 1]):
        best = max(best, work.value[begin + r])
    return best


@inner
def _dense(net: Any, work: Any, p: Any, begin: Any) -> Any:
    """Rows behind the last one add zeros to neurons that are not computed yet."""
    source, stride = net.source[p], net.stride[p]
    first = net.first[source]
    for j in range(first, net.first[source + 1]):
        z = work.value[j]
        if z != 0.0:
            w = net.start[p] + (j - first) * stride
            for lane in range(0, stride, L):
                a = load(work.value, 0, begin + lane)
                store(
                    work.value,
                    0,
                    begin + lane,
                    multiply_add(load(net.dense, 0, w + lane), splat(z), a),
                )


@inner
def _sparse(net: Any, work: Any, p: Any, begin: Any, end: Any) -> Any:
    first = net.first[net.source[p]]
    for i in range(end - begin):
        a = 0.0
        for q in range(net.row[net.start[p] + i], net.row[net.start[p] + i + 1]):
            a += net.weight[q] * work.value[first + net.column[q]]
        work.value[begin + i] += a
