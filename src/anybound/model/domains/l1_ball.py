"""The l1 ball.

    min over ‖z − x̄‖₁ ≤ ε of gᵀz = gᵀx̄ − ε max_i |g_i|,    z_0 = x̄ − ε sign(g_i) e_i

where i is the coordinate of the largest |g_i|, the first on ties.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import torch
from torch import Tensor

from anybound.model.domains.ball import Ball
from anybound.model.domains.box import Box
from anybound.model.domains.domain import flat
from anybound.rounding import gamma, unit_roundoff


@dataclass(frozen=True, eq=False)
class L1Ball(Ball):
    """All z with ‖z − center‖₁ ≤ radius."""

    @staticmethod
    def norm(v: Tensor) -> Tensor:
        return v.abs().sum(-1)

    @staticmethod
    def dual_norm(g: Tensor) -> Tensor:
        return g.abs().amax(-1)

    @staticmethod
    def steepest(g: Tensor) -> Tensor:
        i = g.abs().argmax(-1, keepdim=True)
        return torch.zeros_like(g).scatter(-1, i, -g.gather(-1, i).sign())

    @staticmethod
    def exceeds(v: list[Fraction], radius: Fraction) -> bool:
        return sum(abs(x) for x in v) > radius

    def project(self, x: Tensor) -> Tensor:
        """The Euclidean projection: |x − x̄| less one amount for all, so that its norm is ε."""
        c, r = flat(self.center).double(), self.radius.double().unsqueeze(-1)
        v = flat(x).double() - c
        size = v.abs().sort(-1, descending=True).values
        rank = torch.arange(1, v.shape[-1] + 1, dtype=v.dtype, device=v.device)
        excess = (size.cumsum(-1) - r) / rank
        kept = (size > excess).sum(-1, keepdim=True).clamp(min=1)
        amount = excess.gather(-1, kept - 1).clamp(min=0)
        near = (c + v.sign() * (v.abs() - amount).clamp(min=0)).reshape(*v.shape[:2], *self.shape)
        return self.toward(self.center, near.to(torch.promote_types(x.dtype, self.center.dtype)))

    def meet(self, g: Tensor, limits: Box) -> tuple[Tensor, Tensor]:
        """The steepest coordinates go as far as the box lets them until the radius is spent.

        λ is the |g_i| of the one that is stopped by it; the ball's share is g cut to [−λ, λ], but
        −λ sign(z − x̄) where the box keeps z away from x̄."""
        c, l, u = (flat(x).double() for x in (self.center, limits.lower, limits.upper))
        g, base, r = flat(g).double(), c.clamp(l, u), self.radius.double().unsqueeze(-1)
        room = torch.where(g > 0, base - l, torch.where(g < 0, u - base, 0.0))
        size, order = g.abs().sort(-1, descending=True)
        budget = r - (base - c).abs().sum(-1, keepdim=True)
        room_sorted = room.expand_as(g).gather(-1, order)
        spent = room_sorted.cumsum(-1)
        taken = (budget - (spent - room_sorted)).clamp(min=0).minimum(room_sorted)
        z = base - g.sign() * torch.zeros_like(g).scatter(-1, order, taken)
        stopped = (spent < budget).sum(-1, keepdim=True)
        price = torch.cat([size, torch.zeros_like(size[..., :1])], dim=-1).gather(-1, stopped)  # λ
        # decided by x̄, not by z, of which rounding may leave a trace where the radius was spent
        share = torch.where(base == c, g.clamp(-price, price), -price * (base - c).sign())
        return z, share

    def reach(self, gap: Tensor) -> Tensor:
        """radius − Σ over j ≠ i of gap_j."""
        r, total = self.radius.double().unsqueeze(-1), gap.sum(-1, keepdim=True)
        rest = (total - gap - gamma(gap.shape[-1] + 8, gap.dtype) * total).clamp(min=0)
        return torch.fmin(r, (r - rest).clamp(min=0) + 8 * unit_roundoff(gap.dtype) * r)
