"""Ascent directions. State is separate from hyper-parameters and is updated in place by its owner."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(eq=False)
class Moments:
    """Adam's running averages of the gradient and of its square, and the number of updates."""

    first: Tensor
    second: Tensor
    count: int = 0


@dataclass(frozen=True)
class Adam:
    """Kingma & Ba's Adam; `epsilon` is added after the bias correction of the second moment."""

    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8

    def init(self, like: Tensor) -> Moments:
        return Moments(torch.zeros_like(like), torch.zeros_like(like))

    def direction(self, moments: Moments, gradient: Tensor) -> Tensor:
        """m̂ / (√v̂ + ε), to be scaled by the step size."""
        moments.count += 1
        moments.first.lerp_(gradient, 1 - self.beta1)
        moments.second.mul_(self.beta2).addcmul_(gradient, gradient, value=1 - self.beta2)
        m_hat = moments.first / (1 - self.beta1**moments.count)
        v_hat = moments.second / (1 - self.beta2**moments.count)
        return m_hat.div_(v_hat.sqrt_().add_(self.epsilon))
