"""The clauses of a property as functions to prove positive: nonnegative combinations of their rows.

Clause c is unreachable if for every x some f_m(x) = a_mᵀ f(x) − b_m, m = 1 … M, is positive. That is so if

    min over x of Σ_m w_m f_m(x) > 0     for some w >= 0,

so w is one more multiplier, of which any value is valid: sub-problems climb in it along with ρ. The derivative of the
minimum with respect to w_m is f_m at the minimiser; the ascent multiplies w by exp(step·f_m), which keeps it on the
simplex {w >= 0, Σ w = 1}.

Shapes: N sub-problems, C clauses of at most M rows; shorter ones are filled up by rows whose weight stays 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from anybound.rounding import gamma
from anybound.spec.problem import Objective


@dataclass(frozen=True, eq=False)
class Clauses:
    """Rows of an objective (D = 1) by clause: `index` `[C, M]`, `used` `[C, M]`."""

    objective: Objective
    index: Tensor
    used: Tensor

    @staticmethod
    def of(objective: Objective, rows: Sequence[range]) -> Clauses:
        """Clause c has the rows `rows[c]`."""
        most = max(len(own) for own in rows)
        index = torch.zeros(len(rows), most, dtype=torch.int64)
        used = torch.zeros(len(rows), most, dtype=torch.bool)
        for c, own in enumerate(rows):
            index[c, : len(own)] = torch.tensor(list(own))
            used[c, : len(own)] = True
        return Clauses(objective, index, used)

    @property
    def width(self) -> int:
        """M."""
        return self.index.shape[1]

    @cached_property
    def has_choice(self) -> Tensor:
        """`[C]`: the clauses of more than one row."""
        return self.used.sum(1) > 1

    def start(self, clause: Tensor) -> Tensor:
        """Equal weights `[N, M]`, float32."""
        used = self.used[clause].float()
        return used / used.sum(1, keepdim=True)

    def to(self, dtype: torch.dtype) -> Clauses:
        return Clauses(self.objective.to(dtype), self.index, self.used)

    def combine(self, clause: Tensor, weight: Tensor) -> Objective:
        """Σ_m w_m f_m for every sub-problem, `[N, 1]` functions.

        The computed coefficient Σ w_m a_m is within Σ w_m error_m + γ_M Σ w_m |a_m| of the exact one."""
        blocks = self.objective.coefficients
        sums = {
            j: self._sum(a, self.objective.errors[j], clause, weight) for j, a in blocks.items()
        }
        constant, error = self._sum(
            self.objective.constant, self.objective.constant_error, clause, weight
        )
        return Objective(
            {j: a for j, (a, _) in sums.items()},
            constant,
            {j: e for j, (_, e) in sums.items()},
            error,
        )

    def values(self, clause: Tensor, z: Mapping[int, Tensor]) -> Tensor:
        """f_m `[N, M]` at layers' outputs z_j `[N, 1, *shape_j]`, the objective's layers being given."""
        total = self.objective.constant[0][self.index[clause]]
        for j, a in self.objective.coefficients.items():
            total = total + (a[0][self.index[clause]] * z[j]).flatten(2).sum(2)
        return total

    def climb(self, clause: Tensor, weight: Tensor, values: Tensor, step: Tensor) -> Tensor:
        """Weights moved towards rows with higher values, by factors of at most exp(±step) `[N, 1]`."""
        used = self.used[clause]
        middle = (weight * values).sum(1, keepdim=True)
        rise = (values - middle).masked_fill(~used, 0.0)
        rise = rise / rise.abs().amax(1, keepdim=True).clamp(min=torch.finfo(rise.dtype).tiny)
        moved = weight.clamp(min=1e-4) * torch.exp(step * rise) * used
        return moved / moved.sum(1, keepdim=True)

    def _sum(
        self, block: Tensor, error: Tensor, clause: Tensor, weight: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Rows `[1, R, …]` and their errors, combined to `[N, 1, …]`."""
        rows = self.index[clause]
        if self.width == 1:
            return block[0][rows], error[0][rows]
        a, e = block[0][rows], error[0][rows]
        w = weight.to(a.dtype).reshape(*weight.shape, *[1] * (a.ndim - 2))
        size = (w * a.abs()).sum(1, keepdim=True)
        lost = (w * e).sum(1, keepdim=True) + gamma(2 * self.width + 4, a.dtype) * size
        return (w * a).sum(1, keepdim=True), 1.001 * lost
