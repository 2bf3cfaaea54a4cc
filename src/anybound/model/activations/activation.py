"""The protocol of an elementwise activation σ, as the dual needs it.

The minimum of a linear function over the convex hull of the graph of σ on [l, u] is attained on the
graph, so a neuron's share of every dual is

    min over x in [l, u] of  c·x + g·σ(x)

and `candidates` hands over points among which a minimiser is. All arguments are tensors that
broadcast against each other; bounds are finite with l <= u (`check_bounds` sees to it at the
border).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from anybound.errors import InvalidInput
from anybound.layers import Shape


class Minimum(NamedTuple):
    """A minimiser x of c·x + g·σ(x), σ(x), and the value there."""

    x: Tensor
    s: Tensor
    value: Tensor


class Relaxation(NamedTuple):
    """Lines around σ:  lower_slope·x + lower_offset <= σ(x) <= upper_slope·x + upper_offset.

    The offsets are rounded outwards, so the inequalities hold exactly for the numbers given."""

    lower_slope: Tensor
    lower_offset: Tensor
    upper_slope: Tensor
    upper_offset: Tensor


class Rates(NamedTuple):
    """`of_c·|c| + of_g·|g| + constant`, each a tensor that broadcasts against neurons."""

    of_c: Tensor
    of_g: Tensor
    constant: Tensor


class Facet(NamedTuple):
    """One inequality on the hull:  sign·(σ − slope·x − offset) >= 0, where sign is ±1."""

    sign: int
    slope: Tensor
    offset: Tensor


class Between(NamedTuple):
    """Bounds on x, and the useful slopes of lines around σ there: those of `Activation.slopes`."""

    l: Tensor
    u: Tensor
    lower_min: Tensor
    lower_max: Tensor
    upper_min: Tensor
    upper_max: Tensor


@dataclass(frozen=True)
class Activation(ABC):
    """An elementwise, continuous, piecewise smooth σ: ℝ → ℝ."""

    touches_exactly: ClassVar[bool] = False  # whether `touching` needs no moving of slopes

    @abstractmethod
    def value(self, x: Tensor) -> Tensor:
        """σ(x)."""

    @abstractmethod
    def slope(self, x: Tensor) -> Tensor:
        """σ'(x); at a kink, a number between the one-sided derivatives."""

    @abstractmethod
    def range(self, l: Tensor, u: Tensor) -> tuple[Tensor, Tensor]:
        """The exact (or outward rounded) minimum and maximum of σ over [l, u]."""

    @abstractmethod
    def candidates(self, c: Tensor, g: Tensor, l: Tensor, u: Tensor) -> tuple[Tensor, ...]:
        """Points of [l, u], one of which minimises c·x + g·σ(x) (up to `slack`).

        Their order decides ties in `argmin`: the first wins."""

    def argmin(self, c: Tensor, g: Tensor, l: Tensor, u: Tensor) -> Minimum:
        """(x, σ(x), c·x + g·σ(x)) at the best candidate."""
        x, *others = self.candidates(c, g, l, u)
        s = self.value(x)
        best = c * x + g * s
        for point in others:
            s_new = self.value(point)
            value = c * point + g * s_new
            better = flag(torch.lt, value, best)
            x, s = torch.lerp(x, point, better), torch.lerp(s, s_new, better)
            best = torch.minimum(best, value)
        return Minimum(x, s, best)

    def over(self, l: Tensor, u: Tensor) -> Callable[[Tensor, Tensor], Minimum]:
        """(c, g) ↦ argmin(c, g, l, u), with whatever depends on the bounds alone computed once."""
        return partial(self.argmin, l=l, u=u)

    @abstractmethod
    def slack(self, c: Tensor, g: Tensor, l: Tensor, u: Tensor) -> Tensor:
        """`argmin(...).value − slack(...)` never exceeds the true minimum over [l, u].

        It covers (best candidate's exact value) − (exact minimum) and the error of evaluating σ and
        the sum in the arguments' dtype."""

    def slack_rates(self, l: Tensor, u: Tensor) -> Rates | None:
        """`slack` as a linear function of |c| and |g|, where it is one: its sum over neurons is then two products."""
        del l, u
        return None

    def lower_offset(self, s: Tensor, l: Tensor, u: Tensor) -> Tensor:
        """At most min over [l, u] of σ(x) − s·x, and close to it: s·x + lower_offset <= σ(x)."""
        c, g = -s, torch.ones_like(s)
        return _down(self.argmin(c, g, l, u).value - self.slack(c, g, l, u))

    def upper_offset(self, s: Tensor, l: Tensor, u: Tensor) -> Tensor:
        """At least max over [l, u] of σ(x) − s·x, and close to it: σ(x) <= s·x + upper_offset."""
        g = -torch.ones_like(s)
        return -_down(self.argmin(s, g, l, u).value - self.slack(s, g, l, u))

    @abstractmethod
    def chord(self, l: Tensor, u: Tensor) -> Tensor:
        """The slope (σ(u) − σ(l)) / (u − l), up to rounding; where l = u, the slope at l."""

    def parallel(self, l: Tensor, u: Tensor) -> Relaxation:
        """Both lines with the slope of the chord: the relaxation of Wong & Kolter."""
        s = self.chord(l, u)
        return Relaxation(s, self.lower_offset(s, l, u), s, self.upper_offset(s, l, u))

    @abstractmethod
    def relax(self, l: Tensor, u: Tensor) -> Relaxation:
        """The lines closest to σ in the mean over [l, u]; for a ReLU CROWN's adaptive choice."""

    @abstractmethod
    def slopes(self, l: Tensor, u: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """(lower_min, lower_max, upper_min, upper_max): the useful slopes of lines around σ.

        They are the slopes of the convex and of the concave envelope at their ends; where min = max
        there is nothing to optimise."""

    def touching(self, s: Tensor, above: Tensor, between: Between) -> Minimum:
        """(x, σ(x), σ(x) − s·x) where a line of slope s touches σ from below; from above where `above` is 1, else 0.

        Slopes at the end of their range are moved inwards a little for this: there the point is not
        unique, and the one that belongs to slopes inside the range gives the one-sided derivative."""
        l, u, low_min, low_max, up_min, up_max = between
        least, most = low_min + above * (up_min - low_min), low_max + above * (up_max - low_max)
        margin = 1e-3 * (most - least)
        inside = s.clamp(least + margin, most - margin)
        side = 1 - 2 * above  # min σ(x) − s x for a line below, max for one above
        x, value, _ = self.argmin(-side * inside, side, l, u)
        return Minimum(x, value, value - s * x)

    @abstractmethod
    def facets(self, l: Tensor, u: Tensor, tolerance: float) -> tuple[Facet, ...]:
        """Inequalities valid on the hull of the graph over [l, u].

        Together they describe it up to rounding, or (σ not piecewise linear) to `tolerance`."""

    @abstractmethod
    def split_at(self, l: Tensor, u: Tensor) -> Tensor:
        """Where branch and bound cuts [l, u] in two."""

    @abstractmethod
    def fixed(self, l: Tensor, u: Tensor) -> Tensor:
        """Whether σ is affine on [l, u]: its hull is exact, there is nothing to branch on."""

    def flattened(self, shape: Shape) -> Activation:
        """σ for neurons of a layer of this shape that are laid out in one axis."""
        del shape
        return self

    @property
    def uniform(self) -> bool:
        """Whether σ is the same for every neuron, so that layers that share it are worked on in one
        piece."""
        return True

    @property
    @abstractmethod
    def lipschitz(self) -> float:
        """A Lipschitz constant of σ over ℝ."""


def check_bounds(l: Tensor, u: Tensor) -> None:
    """Refuse bounds that are not finite, or crossed; for the border, not for inner loops."""
    if not (bool(torch.isfinite(l).all()) and bool(torch.isfinite(u).all())):
        raise InvalidInput(
            "pre-activation bounds contain NaN or infinity, expected finite numbers; "
            "check the weights and the input set, or bound the input"
        )
    crossed = int((l > u).sum())
    if crossed:
        raise InvalidInput(
            f"{crossed} pre-activation bounds have lower > upper, expected lower <= upper; "
            "exchange them, or treat the sub-problem as empty"
        )


def flag(compare: Callable[..., Tensor], a: Tensor, b: Tensor) -> Tensor:
    """`compare(a, b)` as 0 and 1 in the dtype of `a`: cheap, unlike a boolean mask."""
    a = a.detach()
    if torch.compiler.is_compiling():
        return compare(a, b.detach()).to(a.dtype)  # fused with what uses it
    return compare(a, b.detach(), out=a.new_empty(0))


def _down(x: Tensor) -> Tensor:
    """A number that is smaller by at least one rounding of the operation that gave x."""
    info = torch.finfo(x.dtype)
    return x - (x.abs() * info.eps + info.tiny)
