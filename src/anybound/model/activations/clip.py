"""Clip: σ(x) = min(max(x, low), high), with hard tanh as (−1, 1) and ReLU6 as (0, 6).

The graph has the vertices l, low, high, u (those inside [l, u]). Its convex envelope is l → low →
u, its concave envelope l → high → u.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from anybound.errors import InvalidModel
from anybound.model.activations.activation import Activation, Facet, Rates, Relaxation, flag


@dataclass(frozen=True)
class Clip(Activation):
    """min(max(x, low), high); one of the two may be infinite."""

    low: float = -1.0
    high: float = 1.0

    def __post_init__(self) -> None:
        if math.isnan(self.low) or math.isnan(self.high) or self.low > self.high:
            raise InvalidModel(
                f"Clip: low is {self.low} and high is {self.high}, expected low <= high; "
                "exchange them or re-export"
            )
        if math.inf in (self.low, -self.high):
            raise InvalidModel(
                f"Clip: the range [{self.low}, {self.high}] has no finite number; re-export"
            )

    def value(self, x: Tensor) -> Tensor:
        return x.clamp(self.low, self.high)

    def slope(self, x: Tensor) -> Tensor:
        """1 strictly between low and high, otherwise 0."""
        low, high = self._bends(x)
        return flag(torch.gt, x, low) * flag(torch.lt, x, high)

    def range(self, l: Tensor, u: Tensor) -> tuple[Tensor, Tensor]:
        error = self._error(l)
        return self.value(l) - error, self.value(u) + error

    def candidates(self, c: Tensor, g: Tensor, l: Tensor, u: Tensor) -> tuple[Tensor, ...]:
        """l, u, and the bends clamped into [l, u]."""
        del c, g
        low, high = self._bends(l)
        return l, u, torch.clamp(low, l, u), torch.clamp(high, l, u)

    def slack(self, c: Tensor, g: Tensor, l: Tensor, u: Tensor) -> Tensor:
        """The rounding of c·x + g·σ(x), and of low and high where the dtype cannot hold them."""
        of_c, of_g, constant = self.slack_rates(l, u)
        return c.abs() * of_c + g.abs() * of_g + constant

    def slack_rates(self, l: Tensor, u: Tensor) -> Rates:
        info = torch.finfo(l.dtype)
        reach = torch.maximum(l.abs(), u.abs())
        height = torch.maximum(self.value(l).abs(), self.value(u).abs())
        stored = 2 * self._error(l) + info.tiny
        of_c, of_g = 4 * info.eps * reach + stored, 4 * info.eps * height + stored
        return Rates(of_c, of_g, torch.full_like(of_c, 4 * info.tiny))

    def chord(self, l: Tensor, u: Tensor) -> Tensor:
        width = u - l
        secant = (self.value(u) - self.value(l)) / width.clamp(min=torch.finfo(l.dtype).tiny)
        point = flag(torch.le, width, width.new_zeros(()))
        return torch.lerp(secant.clamp(0, 1), self.slope(l), point)

    def relax(self, l: Tensor, u: Tensor) -> Relaxation:
        """The piece of each envelope that lies over the middle of [l, u]."""
        lower_min, lower_max, upper_min, upper_max = self.slopes(l, u)
        low, high = self._bends(l)
        middle = l + (u - l) / 2
        lower = torch.lerp(lower_min, lower_max, flag(torch.gt, middle, low))
        upper = torch.lerp(upper_min, upper_max, flag(torch.lt, middle, high))
        return Relaxation(
            lower, self.lower_offset(lower, l, u), upper, self.upper_offset(upper, l, u)
        )

    def slopes(self, l: Tensor, u: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        low, high = self._bends(l)
        lower_max = self.chord(torch.clamp(low, l, u), u)
        upper_max = self.chord(l, torch.clamp(high, l, u))
        lower_min = lower_max * flag(torch.ge, l, low)
        upper_min = upper_max * flag(torch.le, u, high)
        return lower_min, lower_max, upper_min, upper_max

    def facets(self, l: Tensor, u: Tensor, tolerance: float) -> tuple[Facet, ...]:
        """The two pieces of each envelope."""
        del tolerance  # exact
        lower_min, lower_max, upper_min, upper_max = self.slopes(l, u)
        return (
            Facet(1, lower_min, self.lower_offset(lower_min, l, u)),
            Facet(1, lower_max, self.lower_offset(lower_max, l, u)),
            Facet(-1, upper_min, self.upper_offset(upper_min, l, u)),
            Facet(-1, upper_max, self.upper_offset(upper_max, l, u)),
        )

    def split_at(self, l: Tensor, u: Tensor) -> Tensor:
        """The bend at which the hull is wider; low where they tie."""
        _, lower_max, _, upper_max = self.slopes(l, u)
        low, high = (torch.clamp(bend, l, u) for bend in self._bends(l))
        above_low, below_high = upper_max * (low - l), lower_max * (u - high)
        return torch.lerp(low, high, flag(torch.gt, below_high, above_low))

    def fixed(self, l: Tensor, u: Tensor) -> Tensor:
        if self.low == self.high:
            return torch.ones_like(l + u, dtype=torch.bool)
        inside = (l >= self.low) & (u <= self.high)
        return inside | (u <= self.low) | (l >= self.high) | (l == u)

    @property
    def lipschitz(self) -> float:
        return 1.0

    def _bends(self, like: Tensor) -> tuple[Tensor, Tensor]:
        return like.new_full((), self.low), like.new_full((), self.high)

    def _error(self, like: Tensor) -> float:
        """0 if the dtype holds low and high, else their distance to it and a rounding more."""
        pairs = zip((self.low, self.high), self._bends(like), strict=True)
        finite = [(exact, float(rounded)) for exact, rounded in pairs if math.isfinite(exact)]
        error = max((abs(exact - rounded) for exact, rounded in finite), default=0.0)
        rounding = torch.finfo(like.dtype).eps * max((abs(e) for e, _ in finite), default=0.0)
        return error + rounding if error else 0.0
