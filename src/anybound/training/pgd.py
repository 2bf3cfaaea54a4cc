"""Projected gradient descent (PGD) against a classifier, after Madry et al.

An image x' with |x' − x|_∞ ≤ ε and x' in [0, 1] on which loss(x', y) is large: from a random one,
steps along the sign of the loss's gradient, each brought back to what is allowed.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from anybound.training.architectures import Model

__all__ = ["Pgd"]

_TRAVEL = 2.5  # all steps together, in ε: enough to cross the ball from any start


@dataclass(frozen=True)
class Pgd:
    """`steps` steps of `2.5 ε / steps` from a random start; ε is in pixels of [0, 1]."""

    epsilon: float
    steps: int = 7

    def __call__(self, model: Model, x: Tensor, y: Tensor, random: torch.Generator) -> Tensor:
        """Images `[N, C, H, W]` within ε of `x` and in [0, 1], on which the loss is large."""
        lower, upper = (x - self.epsilon).clamp(min=0), (x + self.epsilon).clamp(max=1)
        step = _TRAVEL * self.epsilon / max(self.steps, 1)
        adversarial = lower + torch.rand(x.shape, generator=random) * (upper - lower)
        for _ in range(self.steps):
            adversarial.requires_grad_(True)
            loss = cross_entropy(model(adversarial), y, reduction="sum")
            (gradient,) = torch.autograd.grad(loss, adversarial)
            ascended = adversarial.detach() + step * gradient.sign()
            adversarial = torch.minimum(torch.maximum(ascended, lower), upper)
        return adversarial.detach()
