"""What the balls {z : ‖z − center‖ ≤ radius} of any norm share: membership and feasible rounding.

Norms are computed in float64 whatever the dtype. A point is in the ball if its exact norm is at
most the radius, for the numbers as they are stored.

Shapes: `center` is `[D, 1, *shape]`, `radius` is `[D, 1]`.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import Self

import torch
from torch import Tensor

from anybound.errors import InvalidInput
from anybound.model.affine.map import Shape
from anybound.model.domains.box import Box
from anybound.model.domains.clipped_ball import ClippedBall
from anybound.model.domains.domain import Domain, check_point, flat
from anybound.rounding import (
    add_down,
    add_up,
    gamma,
    round_up,
    underflow,
    unit_roundoff,
)


@dataclass(frozen=True, eq=False)
class Ball(Domain):
    """All z with ‖z − center‖ ≤ radius; sub-classes say which norm."""

    center: Tensor
    radius: Tensor

    def __post_init__(self) -> None:
        kind = type(self).__name__
        check_point(kind, "center", self.center)
        if self.radius.shape != (self.count, 1) or self.radius.dtype != self.center.dtype:
            raise InvalidInput(
                f"{kind}: radius is {self.radius.dtype} of shape {list(self.radius.shape)}; "
                f"expected {self.center.dtype} of shape [{self.count}, 1], one per sub-problem"
            )
        if not bool(((self.radius >= 0) & self.radius.isfinite()).all()):
            raise InvalidInput(f"{kind}: a radius is negative or not finite; give a number ≥ 0")

    @staticmethod
    @abstractmethod
    def norm(v: Tensor) -> Tensor:
        """‖v‖ over the last axis of float64 numbers, with a relative error of at most γ_{n+8}."""

    @staticmethod
    @abstractmethod
    def dual_norm(g: Tensor) -> Tensor:
        """max gᵀv over ‖v‖ ≤ 1, likewise."""

    @staticmethod
    @abstractmethod
    def steepest(g: Tensor) -> Tensor:
        """A minimiser of gᵀv over ‖v‖ ≤ 1, `[D, R, n]` in float64; 0 where g = 0."""

    @staticmethod
    @abstractmethod
    def exceeds(v: list[Fraction], radius: Fraction) -> bool:
        """Whether ‖v‖ > radius, exactly."""

    @abstractmethod
    def meet(self, g: Tensor, limits: Box) -> tuple[Tensor, Tensor]:
        """The minimum of gᵀz over the ball and the box, approximately, `[D, R, n]` in float64 each.

        The first is the minimiser; the second the share of g that the ball has to carry, so that
        min over both of gᵀz ≈ min over the ball of shareᵀz + min over the box of (g − share)ᵀz."""

    @abstractmethod
    def reach(self, gap: Tensor) -> Tensor:
        """How far each coordinate may be from the centre, rounded up, when every other one j is at
        least `gap[..., j]` away; `[D, 1, n]` in float64."""

    @property
    def shape(self) -> Shape:
        return tuple(self.center.shape[2:])

    @property
    def count(self) -> int:
        return len(self.center)

    def argmin(self, g: Tensor) -> Tensor:
        step = self.steepest(flat(g).double()) * self.radius.double().unsqueeze(-1)
        return self.toward(self.center, self.center + step.reshape(g.shape).to(g.dtype))

    def min(self, g: Tensor) -> Tensor:
        along = flat(g * self.center).sum(-1)
        return along - (self.radius * self.dual_norm(flat(g).double())).to(along.dtype)

    def slack(self, g: Tensor) -> Tensor:
        weight = flat(g * self.center).abs()
        n = weight.shape[-1]
        size = weight.sum(-1) + (self.radius * self.dual_norm(flat(g).double())).to(weight.dtype)
        # γ_n for gᵀ center and γ_{n+8} for the norm, as much again for the rounding of `size`, and
        # a few more for the roundings of these lines and of `min − slack`.
        lost = underflow(2 * n + 8, weight.dtype) * (1 + self.radius)
        return gamma(2 * n + 48, weight.dtype) * size + lost

    def box(self) -> tuple[Tensor, Tensor]:
        reach = self.radius.reshape(self.count, 1, *[1] * len(self.shape))
        return add_down(self.center, -reach), add_up(self.center, reach)

    def project(self, x: Tensor) -> Tensor:
        return self.toward(self.center, x)

    def toward(self, base: Tensor, x: Tensor) -> Tensor:
        """The last point of the ball on the way from `base`, in the ball, to `x`; x if inside.

        ‖base + τ (x − base) − center‖ ≤ (1 − τ) ‖base − center‖ + τ ‖x − center‖, by convexity; τ
        is chosen with room for every rounding, so that the point returned *is* in the ball."""
        dtype = torch.promote_types(self.center.dtype, x.dtype)
        c, b, p = flat(self.center).double(), flat(base).double(), flat(x).double()
        r, d = self.radius.double(), p - b
        loss = 8 * gamma(p.shape[-1] + 16, p.dtype)
        near, far = self.norm(b - c), self.norm(p - c)
        blur = 4 * unit_roundoff(dtype) * self.norm(torch.where(d != 0, b.abs() + d.abs(), 0.0))
        room = r * (1 - loss) - near * (1 + loss) - blur - underflow(p.shape[-1], dtype)
        part = torch.where(far > near, room / (far - near), 0.0).clamp(0, 1)
        inside = far * (1 + loss) <= r
        point = torch.where(inside.unsqueeze(-1), p, b + part.unsqueeze(-1) * d)
        return point.to(dtype).reshape(*point.shape[:2], *self.shape)

    def sample(self, count: int, generator: torch.Generator) -> Tensor:
        """About a third are on the sphere; directions are sparse or dense."""
        size = (self.count, count, flat(self.center).shape[-1])
        device = self.center.device

        def uniform(*size: int) -> Tensor:
            return torch.rand(size, generator=generator, dtype=torch.float64, device=device)

        v = uniform(*size) * 2 - 1
        v = v * (uniform(*size) < uniform(*size[:2], 1))
        length = self.radius.double() * (1.5 * uniform(*size[:2])).clamp(max=1)
        scale = length / torch.where(v.any(-1), self.norm(v), 1.0)
        points = flat(self.center).double() + scale.unsqueeze(-1) * v
        return self.toward(
            self.center, points.reshape(*size[:2], *self.shape).to(self.center.dtype)
        )

    def contains(self, x: Tensor) -> Tensor:
        offset = flat(x).double() - flat(self.center).double()
        size = self.norm(offset)
        c, p = (flat(y).double().expand_as(offset) for y in (self.center, x))
        r = self.radius.double().expand_as(size)
        loss = 4 * gamma(p.shape[-1] + 16, p.dtype)
        inside = (size * (1 + loss) <= r) | (size == 0)
        unsure = ~inside & (size * (1 - loss) <= r)
        for i, j in unsure.nonzero().tolist():
            pairs = zip(p[i, j].tolist(), c[i, j].tolist(), strict=True)
            exact = [Fraction(a) - Fraction(b) for a, b in pairs]
            inside[i, j] = not self.exceeds(exact, Fraction(float(r[i, j])))
        return inside

    def clip(self, lower: Tensor, upper: Tensor) -> ClippedBall:
        return ClippedBall(self, Box(lower, upper))

    def to(self, dtype: torch.dtype, device: torch.device | None = None) -> Self:
        center = self.center.to(device)
        rounded = center.to(dtype)
        offset = flat(rounded).double() - flat(center).double()
        moved = self.norm(offset) * (1 + 2 * gamma(offset.shape[-1] + 16, offset.dtype))
        radius = add_up(self.radius.to(device).double(), moved)
        return type(self)(rounded, round_up(radius, dtype))

    def pick(self, index: Tensor) -> Self:
        if self.count == 1:
            return self
        return type(self)(self.center[index], self.radius[index])
