"""σ(x) = max(x, 0) + α·min(x, 0): a line with a bend at 0 (ReLU, leaky ReLU, PReLU, |x|).

On [l, u] the minimum of c·x + g·σ(x) is at l, at u or, if l < 0 < u, at 0, where it is 0. Of the
two ends the better one is told by the sign of d = c + g·s, s being the chord's slope, as
f(u) − f(l) = d·(u − l). That is exact where rounding would hide a tie: the start of Wong & Kolter
is ρ = s·ν̂, hence d = 0 for *every* neuron.

Tie rule (that of the original implementation, any choice being a valid supergradient): where
l < 0 < u, l wins over u and an end over 0; elsewhere u wins over l.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from anybound.model.activations.activation import (
    Activation,
    Between,
    Facet,
    Minimum,
    Rates,
    Relaxation,
    flag,
)


@dataclass(frozen=True)
class Bent(Activation):
    """max(x, 0) + α·min(x, 0); α of any sign and size."""

    touches_exactly: ClassVar[bool] = True

    @abstractmethod
    def left(self, like: Tensor) -> Tensor:
        """α in the dtype of `like`; it broadcasts against neurons."""

    @abstractmethod
    def left_error(self, like: Tensor) -> Tensor:
        """At least |α − left(like)|."""

    def value(self, x: Tensor) -> Tensor:
        return x.clamp(min=0) + self.left(x) * x.clamp(max=0)

    def slope(self, x: Tensor) -> Tensor:
        """1 for x > 0, otherwise α."""
        return torch.lerp(self.left(x), x.new_ones(()), flag(torch.gt, x, x.new_zeros(())))

    def range(self, l: Tensor, u: Tensor) -> tuple[Tensor, Tensor]:
        kink = torch.clamp(torch.zeros_like(l), l, u)
        at_l, at_u, at_kink = self.value(l), self.value(u), self.value(kink)
        low = torch.minimum(torch.minimum(at_l, at_u), at_kink)
        high = torch.maximum(torch.maximum(at_l, at_u), at_kink)
        alpha, error = self.left(l), self.left_error(l)
        info = torch.finfo(l.dtype)
        # α·x is the only rounded operation, and exact for α ∈ {−1, 0, 1}.
        inexact = flag(torch.ne, alpha * alpha.abs(), alpha) + flag(torch.gt, error, alpha * 0)
        reach = torch.maximum(-l, -u).clamp(min=0)
        margin = inexact * ((info.eps * alpha.abs() + 2 * error) * reach + info.tiny)
        return low - margin, high + margin

    def candidates(self, c: Tensor, g: Tensor, l: Tensor, u: Tensor) -> tuple[Tensor, ...]:
        """l, u and the bend clamped into [l, u]."""
        del c, g
        return l, u, torch.clamp(torch.zeros_like(l), l, u)

    def argmin(self, c: Tensor, g: Tensor, l: Tensor, u: Tensor) -> Minimum:
        """The best of l, u and the bend, by the tie rule of this module."""
        return self.over(l, u)(c, g)

    def over(self, l: Tensor, u: Tensor) -> BentOracle:
        info = torch.finfo(l.dtype)
        bends = _ambiguous(l, u)
        limit = torch.zeros_like(bends).masked_fill(bends == 0, torch.inf)
        return BentOracle(self, l, u, self.chord(l, u), bends * -info.tiny, limit)

    def slack(self, c: Tensor, g: Tensor, l: Tensor, u: Tensor) -> Tensor:
        """12·eps·(|c| + |g|·max(1, |α|))·max(|l|, |u|), and what underflow can take.

        With unit roundoff r = eps/2 and B = max(|l|, |u|): evaluating c·x + g·σ(x) errs by at most
        3r|c|B + 6r|g|LB; a wrong sign of d costs |d̂ − d|·(u − l) <= 2r|c|B + 14r|g|LB."""
        of_c, of_g, constant = self.slack_rates(l, u)
        return c.abs() * of_c + g.abs() * of_g + constant

    def slack_rates(self, l: Tensor, u: Tensor) -> Rates:
        info = torch.finfo(l.dtype)
        reach = torch.maximum(l.abs(), u.abs())
        of_c = 12 * info.eps * reach + info.tiny
        of_g = of_c * self.left(l).abs().clamp(min=1) + 4 * self.left_error(l) * reach
        return Rates(of_c, of_g, 8 * info.tiny * (1 + reach))

    def lower_offset(self, s: Tensor, l: Tensor, u: Tensor) -> Tensor:
        """min of σ(x) − s·x over the ends and the bend, rounded down; exactly 0 if s is σ's."""
        at_l, at_u, bends = self._gaps(s, l, u)
        lowest = torch.minimum(at_l[0], at_u[0])
        return torch.lerp(lowest, lowest.clamp(max=0), bends)

    def upper_offset(self, s: Tensor, l: Tensor, u: Tensor) -> Tensor:
        """max of σ(x) − s·x over the ends and the bend, rounded up; exactly 0 if s is σ's."""
        at_l, at_u, bends = self._gaps(s, l, u)
        highest = torch.maximum(at_l[1], at_u[1])
        return torch.lerp(highest, highest.clamp(min=0), bends)

    def _gaps(self, s: Tensor, l: Tensor, u: Tensor) -> tuple[_Interval, _Interval, Tensor]:
        return self._gap(s, l), self._gap(s, u), _ambiguous(l, u)

    def _gap(self, s: Tensor, x: Tensor) -> _Interval:
        """An interval around σ(x) − s·x = (1 − s)·max(x, 0) + (α − s)·min(x, 0); one term is 0."""
        info = torch.finfo(x.dtype)
        right, left = 1 - s, self.left(x) - s
        positive, negative = x.clamp(min=0), x.clamp(max=0)
        gap = right * positive + left * negative
        nonzero = (right * positive.sign()).abs() + (left * negative.sign()).abs()
        margin = 4 * info.eps * gap.abs() + nonzero.sign() * info.tiny
        margin = margin - 2 * self.left_error(x) * negative
        return gap - margin, gap + margin

    def chord(self, l: Tensor, u: Tensor) -> Tensor:
        """u⁺/(u⁺ − l⁻) of the way from α to 1: exactly α or 1 where σ does not bend."""
        return torch.lerp(self.left(l), l.new_ones(()), share(l, u))

    def relax(self, l: Tensor, u: Tensor) -> Relaxation:
        """The chord and, on the other side, a line through the bend: slope 1 if u > −l, else α."""
        s = self.chord(l, u)
        near = torch.lerp(self.left(l), l.new_ones(()), flag(torch.gt, u + l, u * 0))
        bends = _ambiguous(l, u)
        near = torch.lerp(s, near, bends)
        convex = flag(torch.le, self.left(l), l.new_ones(()))
        lower, upper = torch.lerp(s, near, convex), torch.lerp(near, s, convex)
        return Relaxation(
            lower, self.lower_offset(lower, l, u), upper, self.upper_offset(upper, l, u)
        )

    def slopes(self, l: Tensor, u: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """α to 1 on the side of the bend, the chord on the other; fixed where σ does not bend."""
        s, alpha, bends = self.chord(l, u), self.left(l), _ambiguous(l, u)
        smaller, larger = (
            torch.lerp(s, alpha.clamp(max=1), bends),
            torch.lerp(s, alpha.clamp(min=1), bends),
        )
        convex = flag(torch.le, alpha, l.new_ones(()))
        return (
            torch.lerp(s, smaller, convex),
            torch.lerp(s, larger, convex),
            torch.lerp(smaller, s, convex),
            torch.lerp(larger, s, convex),
        )

    def touching(self, s: Tensor, above: Tensor, between: Between) -> Minimum:
        """The bend, or an end for the chord; where σ does not bend every point of the line does, 0 too."""
        convex = flag(torch.le, self.left(s), s.new_ones(()))
        x = torch.lerp(1 - above, above, convex) * between.l
        value = self.value(x)
        return Minimum(x, value, torch.addcmul(value, s, x, value=-1))

    def facets(self, l: Tensor, u: Tensor, tolerance: float) -> tuple[Facet, ...]:
        """The two pieces and the chord; where σ does not bend, σ >= s·x and σ <= s·x."""
        del tolerance  # exact
        lower_min, lower_max, upper_min, upper_max = self.slopes(l, u)
        facets = [
            Facet(1, lower_min, self.lower_offset(lower_min, l, u)),
            Facet(-1, upper_min, self.upper_offset(upper_min, l, u)),
        ]
        alpha = self.left(l)
        if bool((alpha <= 1).any()):
            facets.append(Facet(1, lower_max, self.lower_offset(lower_max, l, u)))
        if bool((alpha > 1).any()):
            facets.append(Facet(-1, upper_max, self.upper_offset(upper_max, l, u)))
        return tuple(facets)

    def split_at(self, l: Tensor, u: Tensor) -> Tensor:
        """The bend."""
        return torch.zeros_like(l + u)

    def fixed(self, l: Tensor, u: Tensor) -> Tensor:
        return (l >= 0) | (u <= 0) | (self.left(l) == 1)

    @property
    def lipschitz(self) -> float:
        return max(1.0, float(self.left(torch.zeros((), dtype=torch.float64)).abs().max()))


_Interval = tuple[Tensor, Tensor]


@dataclass(frozen=True, eq=False)
class BentOracle:
    """(c, g) ↦ the minimum of c·x + g·σ(x) over [l, u], in eleven cheap passes over c and g.

    `tie` is −tiny where σ bends, else 0; `limit` is f(0) = 0 there, else ∞."""

    activation: Bent
    l: Tensor
    u: Tensor
    chord: Tensor
    tie: Tensor
    limit: Tensor

    def __call__(self, c: Tensor, g: Tensor) -> Minimum:
        end = torch.lerp(self.u, self.l, flag(torch.gt, g * self.chord + c, self.tie))
        s = self.activation.value(end)
        value = torch.addcmul(c * end, g, s)
        keep = flag(torch.le, value, self.limit)
        return Minimum(end * keep, s * keep, torch.minimum(value, self.limit))


def _ambiguous(l: Tensor, u: Tensor) -> Tensor:
    """1 where l < 0 < u, else 0."""
    return flag(torch.gt, torch.minimum(-l, u), l.new_zeros(()))


def share(l: Tensor, u: Tensor) -> Tensor:
    """u⁺/(u⁺ − l⁻): exactly 1 where l >= 0 (and u > 0), exactly 0 where u <= 0.

    Subnormal widths divide as well as others: a floor under them would tilt the chord, which
    `slack` relies on, by more than its rounding."""
    positive = u.clamp(min=0)
    width = positive - l.clamp(max=0)
    return positive / torch.where(width > 0, width, 1)
