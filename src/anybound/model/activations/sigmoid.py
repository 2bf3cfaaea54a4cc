"""Sigmoid: σ(x) = 1/(1 + e^{−x}) = ½ + ½·tanh(x/2)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from anybound.model.activations.s_shaped import SShaped


@dataclass(frozen=True)
class Sigmoid(SShaped):
    """1/(1 + exp(−x))."""

    def value(self, x: Tensor) -> Tensor:
        return torch.sigmoid(x)

    def slope(self, x: Tensor) -> Tensor:
        """σ(x)·σ(−x): unlike σ·(1 − σ) it keeps its digits for large x."""
        return torch.sigmoid(x) * torch.sigmoid(-x)

    @property
    def stretch(self) -> float:
        return 2.0

    @property
    def limits(self) -> tuple[float, float]:
        return 0.0, 1.0
