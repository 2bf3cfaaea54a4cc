"""The R linear functions to be minimised, in terms of live rows.

    f_r = Σ_j a_jrᵀ z_j + constant_r

Neurons that are not live are 0 and drop out. A sub-problem's objective may be more than one of
these functions:

    scale · f_r + sign · ẑ_target

with scale >= 0 and the pre-activation of one row: that is how bounds of neurons are computed (scale
0), and how they are tightened by what a function must not exceed (scale is then a multiplier of f_r
<= 0).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray

from anybound.bound.compact.network import CompactNetwork, Single
from anybound.bound.compact.rows import Index, Vector
from anybound.rounding import gamma
from anybound.spec.problem import Objective


class Goal(NamedTuple):
    """What the float32 kernels read: a row's number in `coefficient` `[m, R]`, or −1; and the
    constants `[R]`."""

    number: Index
    coefficient: Single
    constant: Single


class Aim(NamedTuple):
    """Each sub-problem's share of its function, and the pre-activation that is added, `[N]`
    each."""

    scale: Single  # >= 0
    target: Index  # a row, or −1
    weight: Single  # of the target

    @classmethod
    def none(cls, count: int) -> Self:
        """The functions as they are."""
        one = np.ones(count, np.float32)
        return cls(one, np.full(count, -1), np.zeros(count, np.float32))


class ExactGoal(NamedTuple):
    """The same in float64, and what its rounding may cost in total, `[R]`."""

    number: Index
    coefficient: Vector
    constant: Vector
    loss: Vector


@dataclass(frozen=True, eq=False)
class CompactObjective:
    """`exact` and its float32 copy."""

    exact: ExactGoal

    @property
    def count(self) -> int:
        """R."""
        return len(self.exact.constant)

    @property
    def search(self) -> Goal:
        number, coefficient, constant, _ = self.exact
        return Goal(number, coefficient.astype(np.float32), constant.astype(np.float32))

    @classmethod
    def none(cls, network: CompactNetwork) -> Self:
        """The function 0: for objectives that are pre-activations alone."""
        zero = np.zeros(1)
        return cls(ExactGoal(np.full(network.count + 1, -1), np.zeros((0, 1)), zero, zero))

    @classmethod
    def of(cls, objective: Objective, network: CompactNetwork) -> Self:
        """The rows of a float64 objective shared by all sub-problems (D = 1)."""
        number, used, costs = np.full(network.count + 1, -1), 0, objective.constant_error[0].clone()
        parts = []
        for j in sorted(objective.coefficients):
            rows = network.nodes[j]
            a = _flat(objective.coefficients[j])[:, rows.neuron]
            error = _flat(objective.errors[j])[:, rows.neuron]
            error = error + gamma(network.terms, torch.float64) * np.abs(a)
            costs = costs + torch.from_numpy(error @ rows.size)
            number[network.first[j] : network.first[j + 1]] = used + np.arange(len(rows))
            used += len(rows)
            parts.append(a.T)
        constant = objective.constant[0].double().numpy()
        terms = gamma(2 * network.count + 64, torch.float64)
        loss = 1.001 * (costs.numpy() + terms * np.abs(constant))
        coefficient = np.concatenate(parts) if parts else np.zeros((0, len(constant)))
        return cls(ExactGoal(number, np.ascontiguousarray(coefficient), constant.copy(), loss))


def _flat(block: torch.Tensor) -> NDArray[np.float64]:
    """`[1, R, *shape]` as `[R, size]`."""
    return np.asarray(block[0].double().reshape(block.shape[1], -1).numpy())


def example_goal() -> Goal:
    """An example of the kernels' argument."""
    return Goal(np.zeros(1, np.int64), np.zeros((1, 1), np.float32), np.zeros(1, np.float32))


def example_exact_goal() -> ExactGoal:
    """An example of the exact kernel's argument."""
    return ExactGoal(np.zeros(1, np.int64), np.zeros((1, 1)), np.zeros(1), np.zeros(1))
