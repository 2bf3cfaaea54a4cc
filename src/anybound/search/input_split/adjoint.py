"""A second bound of the same combination of rows: one adjoint sweep between the zonotope's l and u.

    h_j = Σ_k W_kjᵀ ν_k,     ν = (slope of the line below or above σ)·h

    Σ_r w_r f_r(x) >= h_0ᵀ x + Σ ν·b + Σ min(h, 0)·2μ

Where h >= 0 the line below σ may be steeper or flatter than the chord, which the zonotope cannot use. Errors are
bounded by |ν|·price, see `folded`; a mirrored twin's h moves to its partner, as there σ(x) = σ(x') + (1 + left)·x.
"""

from __future__ import annotations

from typing import Any

from anybound.bound.compact.jit import inner
from anybound.bound.compact.machine import LANES64, load, multiply_add, splat, total
from anybound.search.input_split.zonotope import (
    ZERO,
    U,
    _bends,
    _chord,
    _gap,
    _has_twin,
)

L = LANES64


@inner
def adjoint(net: Any, work: Any, nodes: Any, clause: Any) -> Any:
    """The rigorous bound for the rows' weights in `work.weight`."""
    last = nodes - 1
    begin = net.first[last]
    for g in range(begin):
        work.h[g] = 0.0
    for g in range(begin, net.first[nodes] + 16):
        work.nu[g] = 0.0
    value, size, loss = 0.0, 0.0, 0.0
    for r in range(net.clause[clause], net.clause[clause + 1]):
        g, w = begin + r, work.weight[r]
        work.nu[g] = w
        value += w * net.bias[g]
        size += abs(w * net.bias[g])
        loss += w * net.price[g]
    _push(net, work, last)
    for k in range(last - 1, 0, -1):
        v, s, e = _relax(net, work, k)
        value, size, loss = value + v, size + s, loss + e
        _push(net, work, k)
    for i in range(net.first[1]):
        c, r = work.z[work.place[i]], work.z[work.place[i] + 1 + i]
        value += work.h[i] * c - abs(work.h[i]) * r
        size += abs(work.h[i]) * (abs(c) + r)
    return value - loss - U * (4.0 * net.first[nodes] + 64.0) * (size + loss) - net.lost


@inner
def _push(net: Any, work: Any, k: Any) -> Any:
    """h_j += W_kjᵀ ν_k for the nodes that k reads."""
    begin, rows = net.first[k], net.first[k + 1] - net.first[k]
    for p in range(net.maps[k], net.maps[k + 1]):
        source = net.source[p]
        first, stride = net.first[source], net.stride[p]
        if stride:
            for q in range(work.live_first[source], work.live_first[source + 1]):
                j = work.live[q]
                a = splat(ZERO)
                w = net.start[p] + (j - first) * stride
                for lane in range(0, stride, L):
                    a = multiply_add(
                        load(net.dense, 0, w + lane), load(work.nu, 0, begin + lane), a
                    )
                work.h[j] += total(a)
        else:
            for i in range(rows):
                nu = work.nu[begin + i]
                if nu != 0.0:
                    for q in range(net.row[net.start[p] + i], net.row[net.start[p] + i + 1]):
                        work.h[first + net.column[q]] += net.weight[q] * nu


@inner
def _relax(net: Any, work: Any, k: Any) -> Any:
    """ν_k from h_k; returns the node's share of the bound, of its size and of the loss."""
    value, size, loss = 0.0, 0.0, 0.0
    for g in range(net.first[k], net.first[k + 1] + 16):
        work.nu[g] = 0.0
    for q in range(work.live_first[k], work.live_first[k + 1]):
        loss += _merge(net, work, work.live[q])
    for q in range(work.live_first[k], work.live_first[k + 1]):
        g = work.live[q]
        h, l, u = work.h[g], work.lower[g], work.upper[g]
        nu = h
        if _bends(net, work, g):
            if _has_twin(net, work, g):
                nu = work.nu[g]
            elif h >= 0.0:
                nu = h if u > -l else net.left[g] * h
            else:
                chord = _chord(net, l, u, g)
                nu = chord * h
                gain = h * _gap(net, l, u, g, chord)
                value, size = value + gain, size - gain
        elif u <= 0.0:
            nu = net.left[g] * h
        work.nu[g] = nu
        value += nu * net.bias[g]
        size += abs(nu * net.bias[g])
        loss += abs(nu) * net.price[g]
    return value, size, loss


@inner
def _merge(net: Any, work: Any, g: Any) -> Any:
    """h of a neuron with a twin goes to the twin; what of it stays is affine. Returns what that may lose."""
    if not (_bends(net, work, g) and _has_twin(net, work, g)):
        return 0.0
    twin, h = net.twin[g], work.h[g]
    work.h[twin] += h
    if net.mirrored[g]:
        work.nu[g] = (1.0 + net.left[g]) * h
    return abs(h) * (net.price[g] + 3.0 * (net.slack[g] + net.slack[twin]))
