"""The l2 ball.

    min over ‖z − x̄‖₂ ≤ ε of gᵀz = gᵀx̄ − ε ‖g‖₂,    z_0 = x̄ − ε g / ‖g‖₂  (x̄ where g = 0)

With g = −W_1ᵀρ_1 this is what the paper's section on P_0 means, which prints √ε and ρ_1 instead of
ε and W_1ᵀρ_1.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import torch
from torch import Tensor

from anybound.host import looks_freely
from anybound.model.domains.ball import Ball
from anybound.model.domains.box import Box
from anybound.model.domains.domain import flat
from anybound.rounding import gamma, underflow, unit_roundoff

_STEPS = 60  # of a root search that takes about six; a root that is missed only loosens the bound
_CLOSE = 1e-13  # relative error of the squared norm; the bound loses about its square


@dataclass(frozen=True, eq=False)
class L2Ball(Ball):
    """All z with ‖z − center‖₂ ≤ radius."""

    @staticmethod
    def norm(v: Tensor) -> Tensor:
        largest = v.abs().amax(-1, keepdim=True)
        h = v / torch.where(largest > 0, largest, 1.0)  # squares neither overflow nor vanish
        return largest.squeeze(-1) * h.square().sum(-1).sqrt()

    @staticmethod
    def dual_norm(g: Tensor) -> Tensor:
        return L2Ball.norm(g)

    @staticmethod
    def steepest(g: Tensor) -> Tensor:
        h = _scaled(g)
        length = L2Ball.norm(h).unsqueeze(-1)
        return -h / torch.where(length > 0, length, 1.0)

    @staticmethod
    def exceeds(v: list[Fraction], radius: Fraction) -> bool:
        return sum(x * x for x in v) > radius * radius

    def meet(self, g: Tensor, limits: Box) -> tuple[Tensor, Tensor]:
        """z(λ) = clip(x̄ − g/λ, l, u) with λ such that ‖z − x̄‖₂ = ε; the ball's share is λ (x̄ − z),
        which is g itself where nothing is clipped."""
        c, g = flat(self.center).double(), flat(g).double()
        h, r = _scaled(g), self.radius.double().unsqueeze(-1)
        l, u = flat(limits.lower).double() - c, flat(limits.upper).double() - c
        start = torch.zeros_like(c).clamp(l, u)
        end = torch.where(h > 0, l, torch.where(h < 0, u, start))
        idle = (self.norm(end).unsqueeze(-1) <= r) | (h == 0).all(-1, keepdim=True)  # λ = 0
        t = _step_length(h, l, u, r, idle)
        p = -t * h
        step = p.clamp(l, u)
        pull = torch.where(step == p, h, -step / t)
        share = torch.where(pull.isfinite(), pull, h) * g.abs().amax(-1, keepdim=True)
        step = torch.where(idle, end, torch.where(step.isfinite(), step, start))
        return c + step, torch.where(idle, 0.0, share)

    def reach(self, gap: Tensor) -> Tensor:
        """(radius² − Σ over j ≠ i of gap_j²)^½."""
        r, square = self.radius.double().unsqueeze(-1), gap.square()
        total = square.sum(-1, keepdim=True)
        rest = (total - square - gamma(gap.shape[-1] + 8, gap.dtype) * total).clamp(min=0)
        u = unit_roundoff(gap.dtype)
        most = (r.square() - rest).clamp(min=0) + 8 * u * r.square() + underflow(8, gap.dtype)
        return torch.fmin(r, most.sqrt() * (1 + 8 * u))


def _scaled(g: Tensor) -> Tensor:
    """g over its largest entry."""
    largest = g.abs().amax(-1, keepdim=True)
    return g / torch.where(largest > 0, largest, 1.0)


def _step_length(h: Tensor, l: Tensor, u: Tensor, r: Tensor, idle: Tensor) -> Tensor:
    """t ≥ 0 with ‖clip(−t h, l, u)‖₂ = r, `[D, R, 1]`; any number where `idle`.

    The squared norm is continuous, nondecreasing and piecewise linear in s = t²: Newton's method
    from the left, kept within a bracket that is halved (geometrically) where Newton leaves it."""
    steep, square = h.square().sum(-1, keepdim=True), r.square()
    start = torch.zeros_like(h).clamp(l, u).square().sum(-1, keepdim=True)
    low = (square - start).maximum(1e-12 * square) / steep
    ends = torch.where(h > 0, l, u)
    high = torch.where(h != 0, (ends / h).square(), 0.0).amax(-1, keepdim=True)
    high = high.clamp(max=1e300).maximum(low)
    s = low
    for _ in range(_STEPS):
        p = -s.sqrt() * h
        step = p.clamp(l, u)
        miss = square - step.square().sum(-1, keepdim=True)
        done = (miss.abs() <= _CLOSE * square) | idle
        if looks_freely(done) and bool(done.all()):
            break
        low, high = torch.where(miss >= 0, s, low), torch.where(miss < 0, s, high)
        newton = s + miss / torch.where(step == p, h, 0.0).square().sum(-1, keepdim=True)
        middle = (low.sqrt() * high.sqrt()).clamp(low, high)
        inside = (newton > low) & (newton < high)
        s = torch.where(done, s, torch.where(inside, newton, middle))
    return s.sqrt()
