"""S-shaped activations: σ(x) = m + h·tanh(x/κ), convex for x <= 0, concave for x >= 0.

It follows the paper's appendix A with its errata, extended to tanh.

Minimum of f(x) = c·x + g·σ(x) on [l, u]. A stationary point solves σ'(x) = −c/g, which has the two
roots ±x̃ if 0 < −c/g <= σ'(0) (for the sigmoid: σ = (1 ± √(1 + 4c/g))/2). Only the one where g·σ is
convex is a minimum, so the candidates are l, u and x̃ = −sign(g)·root, clamped into [l, u]. With
y = −c/(g·σ'(0)) the root is κ·artanh √(1−y) = κ·(log1p √(1−y) − ½ log y), which keeps its digits as
y → 0, where the logit would not.

How far can the best candidate be from the minimum? Where g·σ is concave, f is smallest at an end of
the piece, and 0 belongs to the other piece as well. Where it is convex, [p, q] say, the tangent at
x̃ lies below f:

    f(x) >= f(x̃) + f'(x̃)·(x − x̃) >= f(x̃) − max(f'(x̃)·(x̃ − p), −f'(x̃)·(q − x̃), 0),

*whatever* x̃ in [p, q] is; so a root that is not quite exact costs only tightness. This and a bound
on the error with which σ and σ' are evaluated make `slack`. It is assumed that torch computes σ
with a relative error of at most 4 eps (plus the smallest normal number), which the tests compare
with 50 digits; it was 1 eps at worst.

Every line (`relax`, `parallel`, `facets`) takes its offset from this minimum for c = ∓slope and
g = ±1, hence holds whatever the slope is; tangent points are computed to make lines tight, not to
make them valid.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from anybound.errors import InvalidConfig
from anybound.model.activations.activation import Activation, Facet, Relaxation, flag

VALUE_ERROR = 4  # eps: the assumed relative error of σ
SLOPE_ERROR = 12  # eps: the relative error of σ', a product of two sigmoids
TANGENT_STEPS = 20  # of Newton's method, safeguarded by bisection


@dataclass(frozen=True)
class SShaped(Activation):
    """m + h·tanh(x/κ)."""

    @property
    @abstractmethod
    def stretch(self) -> float:
        """κ."""

    @property
    @abstractmethod
    def limits(self) -> tuple[float, float]:
        """σ(−∞) = m − h and σ(∞) = m + h."""

    @property
    def height(self) -> float:
        """h, half the distance of the limits."""
        low, high = self.limits
        return (high - low) / 2

    @property
    def lipschitz(self) -> float:
        """σ'(0) = h/κ."""
        return self.height / self.stretch

    def range(self, l: Tensor, u: Tensor) -> tuple[Tensor, Tensor]:
        low, high = self.value(l), self.value(u)
        low, high = low - _value_error(low), high + _value_error(high)
        return low.clamp(*self.limits), high.clamp(*self.limits)

    def candidates(self, c: Tensor, g: Tensor, l: Tensor, u: Tensor) -> tuple[Tensor, ...]:
        """l, u and, clamped into [l, u], the stationary point where g·σ is convex."""
        return l, u, self._stationary(c, g, l, u)

    def _stationary(self, c: Tensor, g: Tensor, l: Tensor, u: Tensor) -> Tensor:
        """−sign(g)·root: σ'(root) = −c/g where that has a solution, else some point of [l, u]."""
        c, g = c.detach(), g.detach() + 0.0  # f' = 0 there, so no gradient; −0 becomes 0
        # fmax ignores the NaN of 0/0; y <= 0 means no root, and the far end of the convex piece.
        y = torch.fmax(c / (g * -self.lipschitz), c.new_zeros(())).clamp(max=1)
        root = self.stretch * (torch.log1p(torch.sqrt(1 - y)) - 0.5 * torch.log(y))
        return torch.clamp(torch.copysign(root, -g), l, u)

    def slack(self, c: Tensor, g: Tensor, l: Tensor, u: Tensor) -> Tensor:
        """The tangent's loss on the convex piece plus the error of evaluating c·x + g·σ(x)."""
        info = torch.finfo(l.dtype)
        x = self._stationary(c, g, l, u)
        slope = self.slope(x)
        d = c + g * slope  # f'(x)
        d_error = (SLOPE_ERROR + 4) * info.eps * (c.abs() + g.abs() * slope)
        d_error = d_error + 4 * info.tiny * (1 + g.abs())
        rising = flag(torch.ge, g, g.new_zeros(()))
        first = torch.lerp(l.clamp(min=0), l, rising)
        last = torch.lerp(u, u.clamp(max=0), rising)
        before, after = (x - first).clamp(min=0), (last - x).clamp(min=0)
        # The root's last digits may differ between calls; an end of [l, u] is a candidate anyway.
        pad = 16 * info.eps * (1 + x.abs())
        before = (d + d_error) * (before + pad * before.sign())
        after = (d_error - d) * (after + pad * after.sign())
        tangent = torch.maximum(before, after).clamp(min=0)
        reach = torch.maximum(l.abs(), u.abs())
        height = torch.maximum(self.value(l).abs(), self.value(u).abs())
        rounding = 4 * info.eps * (c.abs() * reach + g.abs() * height)
        return 1.01 * tangent + rounding + g.abs() * _value_error(height) + 4 * info.tiny

    def chord(self, l: Tensor, u: Tensor) -> Tensor:
        """Kept between the least and the largest σ' on [l, u], where it must lie, as u − l → 0."""
        width = (u - l).clamp(min=torch.finfo(l.dtype).tiny)
        secant = (self.value(u) - self.value(l)) / width
        least = torch.minimum(self.slope(l), self.slope(u))
        most = self.slope(torch.clamp(torch.zeros_like(l), l, u))
        return torch.clamp(secant, least, most)

    def tangent(self, l: Tensor, u: Tensor) -> Tensor:
        """t such that the concave envelope is the line from l to t, and σ from t to u.

        For l < 0 < u it solves h(t) = σ'(t)·(t − l) − (σ(t) − σ(l)) = 0, or is u if h(u) >= 0. h is
        decreasing for t > 0, with h(0) > 0 and h(−l) < 0, so t lies in (0, min(u, −l)]. For l >= 0
        there is no root but σ is concave."""
        at_l = self.value(l)
        lo = torch.zeros_like(l + u)
        hi = torch.minimum(u, -l).clamp(min=0) + lo
        t = torch.minimum(hi, self.stretch + lo)
        for _ in range(TANGENT_STEPS):
            slope = self.slope(t)
            h = slope * (t - l) - (self.value(t) - at_l)
            positive = flag(torch.ge, h, h.new_zeros(()))
            lo, hi = torch.lerp(lo, t, positive), torch.lerp(t, hi, positive)
            bend = slope * torch.tanh(t / self.stretch) * (t - l) * (-2 / self.stretch)  # h' < 0
            newton = t - h / bend.clamp(max=-torch.finfo(l.dtype).tiny)
            middle = lo + (hi - lo) / 2
            inside = flag(torch.ge, newton, lo) * flag(torch.le, newton, hi)
            t = torch.lerp(middle, newton.clamp(lo, hi), inside)
        whole = flag(torch.ge, self.slope(u) * (u - l), self.value(u) - at_l)
        t = torch.lerp(t, u, whole * flag(torch.gt, -l, l.new_zeros(())))
        return torch.clamp(t, l, u)

    def relax(self, l: Tensor, u: Tensor) -> Relaxation:
        """The lines that touch the envelopes over the middle of [l, u]."""
        middle = l + (u - l) / 2
        upper = self._upper_slope(middle, l, u)
        lower = self._upper_slope(
            -middle, -u, -l
        )  # σ' is even, and psi_{l,u}(x) = 2m − phi_{−u,−l}(−x)
        return Relaxation(
            lower, self.lower_offset(lower, l, u), upper, self.upper_offset(upper, l, u)
        )

    def _upper_slope(self, x: Tensor, l: Tensor, u: Tensor) -> Tensor:
        """The slope of the concave envelope at x."""
        t = self.tangent(l, u)
        return torch.lerp(self.slope(x), self.chord(l, t), flag(torch.le, x, t))

    def slopes(self, l: Tensor, u: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        upper_min, upper_max = self._upper_slopes(l, u)
        lower_min, lower_max = self._upper_slopes(-u, -l)
        return lower_min, lower_max, upper_min, upper_max

    def _upper_slopes(self, l: Tensor, u: Tensor) -> tuple[Tensor, Tensor]:
        """The slopes of the concave envelope at u and at l."""
        t = self.tangent(l, u)
        at_l = self.chord(l, t)
        at_u = torch.lerp(self.slope(u), at_l, flag(torch.ge, t, u))
        return torch.minimum(at_u, at_l), at_l

    def facets(self, l: Tensor, u: Tensor, tolerance: float) -> tuple[Facet, ...]:
        """The line of each envelope, and tangents to its curve with gaps of at most `tolerance`."""
        if not tolerance > 0:
            raise InvalidConfig(f"tolerance of facets is {tolerance}, expected a number > 0")
        upper = self._upper_facet_slopes(l, u, tolerance)
        lower = self._upper_facet_slopes(-u, -l, tolerance)
        return (
            *(Facet(1, s, self.lower_offset(s, l, u)) for s in lower),
            *(Facet(-1, s, self.upper_offset(s, l, u)) for s in upper),
        )

    def _upper_facet_slopes(self, l: Tensor, u: Tensor, tolerance: float) -> list[Tensor]:
        """Slopes of tangents whose contacts are equally spaced in w = tanh(x / 2κ) from t to u.

        Between contacts Δw apart the tangents rise above σ by about |σ''|·Δx²/8, which is at most
        0.52·h·Δw² for all x, as Δx = 2κ·cosh²(x/2κ)·Δw; h·Δw² leaves room for what is not
        infinitesimal."""
        t = self.tangent(l, u)
        w_t, w_u = torch.tanh(t / (2 * self.stretch)), torch.tanh(u / (2 * self.stretch))
        longest = float((w_u - w_t).max()) if t.numel() else 0.0
        pieces = max(1, math.ceil(longest * math.sqrt(self.height / tolerance)))
        slopes = [self.chord(l, t)]
        for i in range(1, pieces + 1):
            w = torch.lerp(w_t, w_u, i / pieces)
            x = torch.clamp(2 * self.stretch * torch.atanh(w), t, u)
            slopes.append(torch.minimum(self.slope(x), slopes[0]))
        return slopes

    def split_at(self, l: Tensor, u: Tensor) -> Tensor:
        """The inflection 0 if it is inside, else the middle."""
        inside = flag(torch.gt, torch.minimum(-l, u), l.new_zeros(()))
        return (l + (u - l) / 2) * (1 - inside)

    def fixed(self, l: Tensor, u: Tensor) -> Tensor:
        return l == u


def _value_error(s: Tensor) -> Tensor:
    """How far the computed σ may be from the exact one."""
    info = torch.finfo(s.dtype)
    return (VALUE_ERROR + 1) * info.eps * s.abs() + info.tiny
