"""Ascent directions. State is separate from hyper-parameters and is updated in place by its owner."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from anybound.bound import kernels


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
        scale, root = self._update(moments, gradient)
        return torch.div(moments.first, root, out=root).mul_(scale)

    def ascend(self, x: Tensor, moments: Moments, gradient: Tensor, step: float) -> Tensor:
        """x + step · m̂ / (√v̂ + ε), a new tensor."""
        if kernels.fits(x):
            scale, epsilon = self._correction(moments)
            rates = step * scale, epsilon, 1 - self.beta1, 1 - self.beta2
            return kernels.adam_step(x, gradient, (moments.first, moments.second), rates)
        scale, root = self._update(moments, gradient)
        return torch.addcdiv(x, moments.first, root, value=step * scale)

    def _update(self, moments: Moments, gradient: Tensor) -> tuple[float, Tensor]:
        """a, r with m̂ / (√v̂ + ε) = a m / r."""
        scale, epsilon = self._correction(moments)
        moments.first.lerp_(gradient, 1 - self.beta1)
        moments.second.mul_(self.beta2).addcmul_(gradient, gradient, value=1 - self.beta2)
        return scale, moments.second.sqrt().add_(epsilon)

    def _correction(self, moments: Moments) -> tuple[float, float]:
        """The factors of the next step: the bias corrections b are numbers, and

        m/b₁ / (√(v/b₂) + ε)  =  (√b₂/b₁) · m / (√v + ε √b₂)."""
        moments.count += 1
        b1, root_b2 = 1 - self.beta1**moments.count, (1 - self.beta2**moments.count) ** 0.5
        return root_b2 / b1, self.epsilon * root_b2
