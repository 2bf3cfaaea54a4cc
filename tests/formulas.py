"""Random formulas in conjunctive normal form, written as networks with one hidden layer.

    y_0 = Σ over clauses of max(0, 1 − true literals) <= 0      and      y_1 = Σ x − max(0, 2x − 1) <= 0

over [0, 1]ⁿ hold together at the satisfying assignments, and nowhere else.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Formula:
    """`signs` [clauses, variables]: +1 for a literal, −1 for a negated one."""

    signs: Array

    @classmethod
    def random(cls, seed: int, variables: int = 14) -> Formula:
        """Clauses of two to four literals."""
        rng = np.random.default_rng(seed)
        signs = np.zeros((int(rng.uniform(2, 6) * variables), variables))
        for row in signs:
            chosen = rng.choice(variables, rng.integers(2, 5), replace=False)
            row[chosen] = rng.choice([-1.0, 1.0], len(chosen))
        return cls(signs)

    @property
    def variables(self) -> int:
        return self.signs.shape[1]

    @property
    def is_satisfiable(self) -> bool:
        """By trying all assignments."""
        every = (np.arange(2**self.variables)[:, None] >> np.arange(self.variables)) & 1
        true = every @ np.maximum(self.signs, 0).T + (1 - every) @ np.maximum(-self.signs, 0).T
        return bool((true > 0).all(1).any())

    @property
    def weight(self) -> Array:
        """Of the hidden layer, `[hidden, variables]`."""
        eye = np.eye(self.variables)
        return np.concatenate([-self.signs, eye, 2 * eye])

    @property
    def bias(self) -> Array:
        ends = np.zeros(self.variables), -np.ones(self.variables)
        return np.concatenate([1 - (self.signs < 0).sum(1), *ends])

    @property
    def last(self) -> Array:
        """Of the output, `[2, hidden]`."""
        last, clauses = np.zeros((2, len(self.bias))), len(self.signs)
        last[0, :clauses] = 1
        last[1, clauses:] = np.repeat([1.0, -1.0], self.variables)
        return last
