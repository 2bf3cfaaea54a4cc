"""q(ρ) of a small problem from its definition, in 150 digits: written without the project's dual.

q(ρ) = min over z_0 ∈ C of g_0ᵀ z_0 + Σ_k min over x ∈ [l_k, u_k] of (ρ_k x + g_k σ(x)) − Σ_k ρ_kᵀ b_k + cᵀ b_n,
g_j = Σ over edges j → n of Wᵀ c − Σ over edges j → k of Wᵀ ρ_k
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
from mpmath import mpf
from random_networks import Case
from torch import Tensor

from anybound.model.activations import (
    Abs,
    Activation,
    Clip,
    Identity,
    LeakyReLU,
    PReLU,
    ReLU,
    Sigmoid,
    Tanh,
)
from anybound.model.domains.box import Box
from anybound.model.domains.domain import Domain
from anybound.model.domains.l1_ball import L1Ball
from anybound.model.domains.l2_ball import L2Ball

DIGITS = 150
Exact = Any  # a NumPy array of mpf, or an mpf: neither package has types for it


def exact(values: Tensor) -> Exact:
    """`[n]`: the same numbers, exactly."""
    return np.array([mpf(v) for v in values.detach().double().reshape(-1).tolist()], dtype=object)


def exact_q(case: Case, rho: Tensor, d: int, r: int) -> Exact:
    """q of sub-problem d and row r, at ρ `[total]`."""
    with mpmath.workdps(DIGITS):
        return _Evaluation(case, rho, d, r).value()


class _Evaluation:
    def __init__(self, case: Case, rho: Tensor, d: int, r: int) -> None:
        self.case, self.d = case, d
        net = case.network
        whole = exact(rho)
        self.multiplier = {k: whole[net.layout.span(k)] for k in net.hidden}
        self.multiplier[net.n] = -exact(case.rows[r])
        self.cost: dict[int, Exact] = {}
        self.bias = mpf(0)
        for k, node in enumerate(net.nodes):
            for edge in node.edges:
                matrix = edge.map.sparse().scipy().tocoo()
                share = np.array([mpf(0)] * edge.map.in_size, dtype=object)
                for o, i, w in zip(matrix.row, matrix.col, matrix.data, strict=True):
                    share[i] -= mpf(float(w)) * self.multiplier[k][o]
                self.cost[edge.source] = self.cost.get(edge.source, 0) + share
                if edge.map.bias is not None:
                    b = exact(edge.map.bias.expand(edge.map.out_shape))
                    self.bias -= (self.multiplier[k] * b).sum()

    def value(self) -> Exact:
        total = self.bias
        if 0 in self.cost:
            total += domain_minimum(self.case.domain, self.d, self.cost[0])
        for k, activation in self.case.network.activations():
            l, u = (
                exact(_at(x[k], self.d)) for x in (self.case.bounds.lower, self.case.bounds.upper)
            )
            g = self.cost.get(k, np.array([mpf(0)] * len(l), dtype=object))
            flat = activation.flattened(self.case.network.nodes[k].shape)
            for i, (c, g_i, low, high) in enumerate(zip(self.multiplier[k], g, l, u, strict=True)):
                total += neuron_minimum(flat, i, c, g_i, low, high)
        return total


def domain_minimum(domain: Domain, d: int, g: Exact) -> Exact:
    if isinstance(domain, Box):
        lower, upper = exact(_at(domain.lower, d)), exact(_at(domain.upper, d))
        return sum((min(a * l, a * u) for a, l, u in zip(g, lower, upper, strict=True)), mpf(0))
    assert isinstance(domain, L1Ball | L2Ball)
    radius = mpf(float(_at(domain.radius, d)))
    largest = max(abs(a) for a in g)
    norm = largest if isinstance(domain, L1Ball) else mpmath.sqrt(sum(a * a for a in g))
    return (g * exact(_at(domain.center, d))).sum() - radius * norm


def neuron_minimum(σ: Activation, i: int, c: Exact, g: Exact, l: Exact, u: Exact) -> Exact:
    value, special = meaning(σ, i, c, g)
    points = [l, u, *(x for x in special if l < x < u)]
    return min(c * x + g * value(x) for x in points)


def meaning(
    σ: Activation, i: int, c: Exact, g: Exact
) -> tuple[Callable[[Exact], Exact], list[Exact]]:
    """σ, and where c·x + g·σ(x) may be smallest apart from the ends."""
    match σ:
        case Identity():
            return lambda x: x, []
        case ReLU():
            return lambda x: max(x, mpf(0)), [mpf(0)]
        case Abs():
            return abs, [mpf(0)]
        case LeakyReLU() | PReLU():
            alpha = mpf(σ.alpha if isinstance(σ, LeakyReLU) else float(σ.alpha.reshape(-1)[i]))
            return lambda x: x if x > 0 else alpha * x, [mpf(0)]
        case Clip():
            low, high = mpf(σ.low), mpf(σ.high)
            return lambda x: min(max(x, low), high), [low, high]
        case Sigmoid():
            return lambda x: 1 / (1 + mpmath.exp(-x)), _stationary(4, 1, c, g)
        case Tanh():
            return mpmath.tanh, _stationary(1, mpf(1) / 2, c, g)
    raise AssertionError(σ)


def _stationary(steepness: int, scale: Exact, c: Exact, g: Exact) -> list[Exact]:
    """σ'(x) = −c/g for σ' = (1 − tanh²(x/2s))/steepness, in s = scale·logit."""
    y = -steepness * c / g if g else mpf(-1)
    if not 0 < y < 1:
        return []
    t = mpmath.sqrt(1 - y)
    root = scale * mpmath.log((1 + t) / (1 - t))
    return [root, -root]


def _at(x: Tensor, d: int) -> Tensor:
    return x[d] if len(x) > 1 else x[0]
