"""The intersection of a ball and a box; the box may or may not hold the ball's centre.

    min over B ∩ [l, u] of gᵀz  =  max over s of  min over B of sᵀz  +  min over [l, u] of (g − s)ᵀz

Any share s gives a lower bound, so `min` is one in exact arithmetic however well the ball has found
its share (`Ball.meet`), and only roundings are left to `slack`: those of a ball and of a box.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import torch
from torch import Tensor

from anybound.errors import InvalidInput
from anybound.model.affine.map import Shape
from anybound.model.domains.box import Box
from anybound.model.domains.domain import Domain, flat
from anybound.rounding import add_down, add_up, round_down, round_up

if TYPE_CHECKING:
    from anybound.model.domains.ball import Ball


@dataclass(frozen=True, eq=False)
class ClippedBall(Domain):
    """All z of `ball` with limits.lower ≤ z ≤ limits.upper."""

    ball: Ball
    limits: Box

    def __post_init__(self) -> None:
        if (
            self.ball.shape != self.limits.shape
            or self.ball.center.dtype != self.limits.lower.dtype
        ):
            raise InvalidInput(
                f"ClippedBall: the ball has {self.ball.center.dtype} points of shape "
                f"{list(self.ball.shape)}, the box {self.limits.lower.dtype} points of shape "
                f"{list(self.limits.shape)}; give both alike"
            )
        if min(self.ball.count, self.limits.count) not in (1, self.count):
            raise InvalidInput(
                f"ClippedBall: {self.ball.count} balls and {self.limits.count} boxes; "
                "give as many, or one that all share"
            )
        if not bool(self.ball.contains(self._base).all()):
            raise InvalidInput(
                "ClippedBall: the ball and the box have no point in common; enlarge the radius or "
                "the valid range"
            )

    @property
    def _base(self) -> Tensor:
        """The box's point closest to the centre, in every norm: `[D, 1, *shape]`."""
        return self.limits.project(self.ball.center)

    @property
    def shape(self) -> Shape:
        return self.limits.shape

    @property
    def count(self) -> int:
        return max(self.ball.count, self.limits.count)

    def argmin(self, g: Tensor) -> Tensor:
        dtype = torch.promote_types(self.limits.lower.dtype, g.dtype)
        z, _ = self.ball.meet(g, self.limits)
        return self._inward(z.to(dtype).reshape(*z.shape[:2], *self.shape))

    def min(self, g: Tensor) -> Tensor:
        share, rest = self._split(g)
        return self.ball.min(share) + self.limits.min(rest)

    def slack(self, g: Tensor) -> Tensor:
        # Both terms have room for a few more roundings of their own size: those of g − share and of
        # the sum of the two minima.
        share, rest = self._split(g)
        return self.ball.slack(share) + self.limits.slack(rest)

    def box(self) -> tuple[Tensor, Tensor]:
        c = flat(self.ball.center).double()
        reach = self.ball.reach((flat(self._base).double() - c).abs())
        dtype, size = self.limits.lower.dtype, (self.count, 1, *self.shape)
        lower = round_down(add_down(c, -reach), dtype).reshape(size)
        upper = round_up(add_up(c, reach), dtype).reshape(size)
        return self.limits.lower.maximum(lower), self.limits.upper.minimum(upper)

    def project(self, x: Tensor) -> Tensor:
        return self._inward(self.limits.project(self.ball.project(x)))

    def sample(self, count: int, generator: torch.Generator) -> Tensor:
        """One after the other, points of the ball and points of the box, moved into the other."""
        from_ball = self.ball.sample(count, generator)
        from_box = self.limits.sample(count, generator)
        odd = torch.arange(count, device=from_box.device) % 2 == 1
        odd = odd.reshape(1, count, *[1] * len(self.shape))
        return self.project(torch.where(odd, from_box, from_ball))

    def contains(self, x: Tensor) -> Tensor:
        return self.ball.contains(x) & self.limits.contains(x)

    def clip(self, lower: Tensor, upper: Tensor) -> ClippedBall:
        return ClippedBall(self.ball, self.limits.clip(lower, upper))

    def to(self, dtype: torch.dtype, device: torch.device | None = None) -> Self:
        return type(self)(self.ball.to(dtype, device), self.limits.to(dtype, device))

    def pick(self, index: Tensor) -> Self:
        return type(self)(self.ball.pick(index), self.limits.pick(index))

    def _inward(self, x: Tensor) -> Tensor:
        """From a point of the box, the way towards `_base` until it is in the ball as well."""
        return self.limits.project(self.ball.toward(self._base, x))

    def _split(self, g: Tensor) -> tuple[Tensor, Tensor]:
        """(s, g − s), the ball's share and the box's, `[D, R, *shape]`."""
        _, share = self.ball.meet(g, self.limits)
        share = share.reshape(*share.shape[:2], *self.shape).to(g.dtype)
        return share, g - share
