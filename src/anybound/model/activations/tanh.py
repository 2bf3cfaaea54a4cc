"""Hyperbolic tangent, which the paper's appendix leaves out: the same shape as the sigmoid."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from anybound.model.activations.s_shaped import SShaped


@dataclass(frozen=True)
class Tanh(SShaped):
    """tanh(x)."""

    def value(self, x: Tensor) -> Tensor:
        return torch.tanh(x)

    def slope(self, x: Tensor) -> Tensor:
        """4·sigmoid(2x)·sigmoid(−2x): unlike 1 − tanh² it keeps its digits for large x."""
        return 4 * torch.sigmoid(2 * x) * torch.sigmoid(-2 * x)

    @property
    def stretch(self) -> float:
        return 1.0

    @property
    def limits(self) -> tuple[float, float]:
        return -1.0, 1.0
