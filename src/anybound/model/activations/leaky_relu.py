"""Leaky ReLU: σ(x) = x for x > 0, α·x otherwise; α is a number or, for PReLU, one per channel."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from anybound.errors import InvalidModel
from anybound.layers import Shape
from anybound.model.activations.bent import Bent


@dataclass(frozen=True)
class LeakyReLU(Bent):
    """max(x, 0) + alpha·min(x, 0)."""

    alpha: float = 0.01

    def __post_init__(self) -> None:
        if not math.isfinite(self.alpha):
            raise InvalidModel(
                f"LeakyReLU: alpha is {self.alpha}, expected a finite number; retrain or re-export"
            )

    def left(self, like: Tensor) -> Tensor:
        return like.new_full((), self.alpha)

    def left_error(self, like: Tensor) -> Tensor:
        return like.new_full((), abs(self.alpha - float(self.left(like))))


@dataclass(frozen=True, eq=False)
class PReLU(Bent):
    """max(x, 0) + alpha·min(x, 0); `alpha` broadcasts against the neurons, e.g. `[C, 1, 1]`."""

    alpha: Tensor

    def __post_init__(self) -> None:
        if not bool(torch.isfinite(self.alpha).all()):
            raise InvalidModel(
                "PReLU: alpha contains NaN or infinity, expected finite numbers; "
                "retrain or re-export"
            )

    def flattened(self, shape: Shape) -> PReLU:
        return PReLU(self.alpha.expand(shape).reshape(-1))

    @property
    def uniform(self) -> bool:
        return False

    def left(self, like: Tensor) -> Tensor:
        return self.alpha.to(like)

    def left_error(self, like: Tensor) -> Tensor:
        error = (self.alpha.double() - self.left(like).double()).abs()
        return (2 * error).to(like)
