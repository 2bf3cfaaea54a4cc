"""Absolute value: σ(x) = |x|, a bend whose left slope is −1."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from anybound.model.activations.bent import Bent


@dataclass(frozen=True)
class Abs(Bent):
    """|x|."""

    def left(self, like: Tensor) -> Tensor:
        return like.new_full((), -1.0)

    def left_error(self, like: Tensor) -> Tensor:
        return like.new_zeros(())

    def value(self, x: Tensor) -> Tensor:
        return x.abs()
