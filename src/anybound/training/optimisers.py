"""Optimisers as records of their parameters."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import nn

__all__ = ["AdamW", "Optimiser", "Sgd"]


class Optimiser(Protocol):
    """What makes torch's optimiser; the rates are at the start, both fall to 0 along a cosine."""

    @property
    def learning_rate(self) -> float: ...
    @property
    def weight_decay(self) -> float: ...
    def of(self, parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
        """The optimiser of these parameters."""


@dataclass(frozen=True)
class Sgd:
    """Stochastic gradient descent with momentum."""

    learning_rate: float = 0.05
    weight_decay: float = 5e-4
    momentum: float = 0.9

    def of(self, parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
        """See `Optimiser`."""
        return torch.optim.SGD(
            parameters,
            lr=self.learning_rate,
            momentum=self.momentum,
            weight_decay=self.weight_decay,
        )


@dataclass(frozen=True)
class AdamW:
    """Adam with decoupled weight decay: quicker to a good network on few images."""

    learning_rate: float = 5e-3
    weight_decay: float = 1e-4

    def of(self, parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
        """See `Optimiser`."""
        return torch.optim.AdamW(parameters, lr=self.learning_rate, weight_decay=self.weight_decay)
