"""ReLU: σ(x) = max(x, 0). Every state is covered by x ∈ {l, u, clamp(0, l, u)}: no masks."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from anybound.model.activations.bent import Bent, share


@dataclass(frozen=True)
class ReLU(Bent):
    """max(x, 0)."""

    def left(self, like: Tensor) -> Tensor:
        return like.new_zeros(())

    def left_error(self, like: Tensor) -> Tensor:
        return like.new_zeros(())

    def value(self, x: Tensor) -> Tensor:
        return x.clamp(min=0)

    def range(self, l: Tensor, u: Tensor) -> tuple[Tensor, Tensor]:
        return l.clamp(min=0), u.clamp(min=0)

    def chord(self, l: Tensor, u: Tensor) -> Tensor:
        """u⁺/(u⁺ − l⁻): 1 where l >= 0, 0 where u <= 0."""
        return share(l, u)

    @property
    def lipschitz(self) -> float:
        return 1.0
