"""The plain reading of the kernels: the same sweeps in a few lines of NumPy, in float64.

The oracle of the kernels' tests, and the way from slopes to ρ for whoever wants to see it (a
certificate, the portable engine): ρ_k = −ν_k on live rows, 0 elsewhere.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch

from anybound.bound.compact.network import CompactNetwork
from anybound.bound.compact.objective import Aim, CompactObjective
from anybound.bound.compact.problems import Children, Parents
from anybound.bound.compact.rows import Index, Vector
from anybound.layers import Layers


class Backward(NamedTuple):
    """`[N, rows]`: the coefficients h of z and ν of ẑ, targets' factors included; and q `[N]`."""

    h: Vector
    nu: Vector
    value: Vector


class Forward(NamedTuple):
    """`[N, rows]`: ∂q/∂h = z and ∂q/∂ν = ẑ; and ∂q/∂slope `[N, A]`."""

    z: Vector
    zhat: Vector
    slope: Vector


def signs(parents: Parents, children: Children) -> Vector:
    """`[N, A]`: the parents' splits and each child's own."""
    sign = parents.sign[children.parent].astype(np.float64)
    (split,) = np.nonzero(children.neuron >= 0)
    sign[split, children.neuron[split]] = children.sign[split]
    return sign


def backward(
    network: CompactNetwork,
    objective: CompactObjective,
    sign: Vector,
    row: Index,
    slope: Vector,
    aim: Aim | None = None,
    weight: Vector | None = None,
) -> Backward:
    """h_j = a_j + Σ_k W_kjᵀ ν_k, node by node from the last; `weight` is `[N, M]`, or equal
    weights."""
    count, rows = len(sign), network.rows
    aim = Aim.none(count) if aim is None else aim
    even = objective.weights(row).astype(np.float64)
    coefficient, constant = _functions(objective, row, even if weight is None else weight)
    scale, number = aim.scale.astype(np.float64), objective.exact.number[:-1]
    h, nu = np.zeros((count, network.count)), np.zeros((count, network.count))
    with_goal = number >= 0
    h[:, with_goal] = scale[:, None] * coefficient[:, number[with_goal]]
    value = scale * constant
    matrix = network.matrix.scipy()
    for k in range(len(network.nodes) - 1, 0, -1):
        at = np.arange(network.first[k], network.first[k + 1])
        h[:, at] += nu @ matrix[:, at]
        nu[:, at], share = _relax(network, at, h[:, at], sign, slope)
        value += share.sum(1)
        for i in np.flatnonzero(np.isin(aim.target, at)):
            nu[i, aim.target[i]] += aim.weight[i]
        value += nu[:, at] @ network.bias[at]
    at = np.arange(network.inputs)
    h[:, at] += nu @ matrix[:, at]
    value += np.minimum(h[:, at] * rows.lower[at], h[:, at] * rows.upper[at]).sum(1)
    return Backward(h, nu, value)


def _functions(objective: CompactObjective, clause: Index, weight: Vector) -> tuple[Vector, Vector]:
    """Σ_r w_r a_r `[N, m]` and Σ_r w_r constant_r `[N]`."""
    goal, columns = objective.exact, np.arange(weight.shape[1])
    used = columns < goal.length[clause][:, None]
    row = goal.start[clause][:, None] + np.where(used, columns, 0)
    weight = np.where(used, weight, 0)
    coefficient = np.einsum("nr,mnr->nm", weight, goal.coefficient[:, row])
    return coefficient, (weight * goal.constant[row]).sum(1)


def _relax(
    network: CompactNetwork, at: Index, h: Vector, sign: Vector, slope: Vector
) -> tuple[Vector, Vector]:
    """ν of some rows, and each row's share of q."""
    rows, number = network.rows, network.numbers[at]
    bends, left, chord = number >= 0, rows.left[at], rows.chord[at]
    s, p = _at(sign, number), _at(slope, number)
    rising, falling = np.maximum(h, 0), np.minimum(h, 0)
    relaxed = np.where(bends, p * rising + chord * falling, left * h)
    split = np.where(s > 0, h, left * h) - s * p
    share = np.where(bends & (s == 0), falling * rows.offset[at], 0.0)
    return np.where(s == 0, relaxed, split), share


def _at(values: Vector, number: Index) -> Vector:
    """The columns with these numbers; 0 for −1."""
    return np.pad(values, ((0, 0), (0, 1)))[:, number]


def forward(network: CompactNetwork, sweep: Backward, sign: Vector, slope: Vector) -> Forward:
    """The derivatives of `sweep.value`, node by node from the input's minimiser z_0."""
    rows, matrix = network.rows, network.matrix.scipy()
    z, zhat = np.zeros_like(sweep.h), np.zeros_like(sweep.h)
    at = np.arange(network.inputs)
    z[:, at] = np.where(sweep.h[:, at] > 0, rows.lower[at], rows.upper[at])
    for k in range(1, len(network.nodes)):
        at = np.arange(network.first[k], network.first[k + 1])
        zhat[:, at] = z @ matrix[at].T + network.bias[at]
        number, h = network.numbers[at], sweep.h[:, at]
        bends = number >= 0
        s, p = _at(sign, number), _at(slope, number)
        up = rows.chord[at] * zhat[:, at] + rows.offset[at]
        line = np.where(h < 0, up, p * zhat[:, at])
        line = np.where(bends, line, rows.left[at] * zhat[:, at])
        z[:, at] = np.where(s == 0, line, np.where(s > 0, 1.0, rows.left[at]) * zhat[:, at])
    at = network.ambiguous
    rising = np.maximum(sweep.h[:, at], 0)
    return Forward(z, zhat, np.where(sign == 0, rising, -sign) * zhat[:, at])


def multipliers(network: CompactNetwork, nu: Vector) -> Layers:
    """ρ of the portable engine, `[1, N, total]`, without the targets' rows."""
    layout = network.sparse.network.layout.upto(network.hidden + 1)
    rho = np.zeros((1, len(nu), layout.total))
    for k in range(1, network.hidden + 1):
        place = layout.offsets[k - 1] + network.nodes[k].neuron
        rho[0][:, place] = -nu[:, network.first[k] : network.first[k + 1]]
    return Layers(layout, torch.from_numpy(rho))
