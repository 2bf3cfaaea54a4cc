"""The R linear functions to be minimised, in terms of live rows, and the C clauses they belong to.

    f_r = Σ_j a_jrᵀ z_j + constant_r

Neurons that are not live are 0 and drop out. A clause is a slice of the rows; its function is

    f = Σ_r w_r f_r        over the rows of the clause, with weights w >= 0

of the sub-problem. A sub-problem's objective may be more than that:

    scale · f + sign · ẑ_target

with scale >= 0 and the pre-activation of one row: that is how bounds of neurons are computed (scale
0), and how they are tightened by what a function must not exceed (scale is then a multiplier of f
<= 0).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray

from anybound.bound.compact.native import Fixed
from anybound.bound.compact.network import CompactNetwork, Single
from anybound.bound.compact.rows import Index, Vector
from anybound.rounding import gamma
from anybound.spec.problem import Objective

_TINY = float(np.finfo(np.float64).tiny)


class Goal(NamedTuple):
    """What the float32 kernels read: a row's number in `coefficient` `[m, R]`, or −1; the
    constants `[R]`; each clause's first row and how many it has, `[C]`."""

    number: Index
    coefficient: Single
    constant: Single
    start: Index
    length: Index


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
    """The same in float64, and what rounding may cost: the rows' own `[R]`; the rows' sizes `[R]`,
    on which that of weighting them depends; and what one underflow in each coefficient does."""

    number: Index
    coefficient: Vector
    constant: Vector
    start: Index
    length: Index
    loss: Vector
    size: Vector
    lost: float


@dataclass(frozen=True, eq=False)
class CompactObjective:
    """`exact` and its float32 copy."""

    exact: ExactGoal

    @property
    def width(self) -> int:
        """M, the rows of the longest clause."""
        return int(self.exact.length.max())

    @cached_property
    def search(self) -> Goal:
        number, coefficient, constant, start, length, *_ = self.exact
        single = coefficient.astype(np.float32), constant.astype(np.float32)
        return Goal(number, *single, start, length)

    @cached_property
    def fixed_search(self) -> Fixed[Goal]:
        """`search` for the kernels' calls."""
        return Fixed(self.search)

    @cached_property
    def fixed_exact(self) -> Fixed[ExactGoal]:
        """`exact` for the kernel's calls."""
        return Fixed(self.exact)

    def weights(self, clause: Index) -> Single:
        """Equal weights of each clause's rows, `[N, M]`."""
        length = self.exact.length[clause][:, None]
        used = np.arange(self.width) < length
        return np.where(used, 1 / length, 0).astype(np.float32)

    @classmethod
    def none(cls, network: CompactNetwork) -> Self:
        """The function 0: for objectives that are pre-activations alone."""
        zero, nowhere = np.zeros(1), np.full(network.count + 1, -1)
        one = np.zeros(1, np.int64), np.ones(1, np.int64)
        return cls(ExactGoal(nowhere, np.zeros((0, 1)), zero, *one, zero, zero, 0.0))

    @classmethod
    @np.errstate(over="ignore", invalid="ignore")  # of what overflows nothing is proved
    def of(
        cls,
        objective: Objective,
        network: CompactNetwork,
        clauses: Sequence[slice] | None = None,
    ) -> Self:
        """The rows of a float64 objective shared by all sub-problems (D = 1); without `clauses` each
        is one."""
        number, used, costs = np.full(network.count + 1, -1), 0, objective.constant_error[0].clone()
        parts, reached, sizes = [], 0.0, np.zeros(len(objective.constant[0]))
        for j in sorted(objective.coefficients):
            rows = network.nodes[j]
            a = _flat(objective.coefficients[j])[:, rows.neuron]
            error = _flat(objective.errors[j])[:, rows.neuron]
            error = error + gamma(network.terms, torch.float64) * np.abs(a)
            costs = costs + torch.from_numpy(error @ rows.size)
            sizes, reached = sizes + np.abs(a) @ rows.size, reached + float(rows.size.sum())
            number[network.first[j] : network.first[j + 1]] = used + np.arange(len(rows))
            used += len(rows)
            parts.append(a.T)
        constant = objective.constant[0].double().numpy()
        terms = gamma(2 * network.count + 64, torch.float64)
        loss = 1.001 * (costs.numpy() + terms * np.abs(constant))
        sizes = 1.001 * (sizes + np.abs(constant))
        coefficient = np.concatenate(parts) if parts else np.zeros((0, len(constant)))
        coefficient = np.ascontiguousarray(coefficient)
        places = _places(clauses, len(constant))
        lost = _TINY * (1 + reached)
        return cls(ExactGoal(number, coefficient, constant.copy(), *places, loss, sizes, lost))


def _places(clauses: Sequence[slice] | None, rows: int) -> tuple[Index, Index]:
    """Each clause's first row, and how many it has."""
    if clauses is None:
        return np.arange(rows), np.ones(rows, np.int64)
    start = np.array([own.start for own in clauses], np.int64)
    return start, np.array([own.stop for own in clauses], np.int64) - start


def _flat(block: torch.Tensor) -> NDArray[np.float64]:
    """`[1, R, *shape]` as `[R, size]`."""
    return np.asarray(block[0].double().reshape(block.shape[1], -1).numpy())


def example_goal() -> Goal:
    """An example of the kernels' argument."""
    index, matrix = np.zeros(1, np.int64), np.zeros((1, 1), np.float32)
    return Goal(index, matrix, matrix[0], index, index)


def example_exact_goal() -> ExactGoal:
    """An example of the exact kernel's argument."""
    index, x = np.zeros(1, np.int64), np.zeros(1)
    return ExactGoal(index, np.zeros((1, 1)), x, index, index, x, x, 0.0)
