"""The protocol of an elementwise activation σ, as the dual needs it.

The minimum of a linear function over the convex hull of the graph of σ on [l, u] is attained on the graph,
so a neuron's share of every dual is

    min over x in [l, u] of  c·x + g·σ(x)

and `candidates` hands over points among which a minimiser is. All arguments are tensors that broadcast
against each other; bounds are finite with l <= u.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import NamedTuple

from torch import Tensor


class Relaxation(NamedTuple):
    """Lines below and above σ on [l, u]:  lower_slope·x + lower_offset <= σ(x) <= upper_slope·x + upper_offset.

    The offsets are rounded outwards, so the inequalities hold exactly for the numbers given."""

    lower_slope: Tensor
    lower_offset: Tensor
    upper_slope: Tensor
    upper_offset: Tensor


class Facet(NamedTuple):
    """One inequality of the hull's outer description:  sign·(σ − slope·x − offset) >= 0; sign is +1 or −1."""

    sign: int
    slope: Tensor
    offset: Tensor


@dataclass(frozen=True)
class Activation(ABC):
    """An elementwise, continuous, non-decreasing or piecewise smooth σ: ℝ → ℝ."""

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
        """Points of [l, u], one of which minimises c·x + g·σ(x) (up to `slack`). Order decides ties: first wins."""

    def argmin(self, c: Tensor, g: Tensor, l: Tensor, u: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """(x, σ(x), c·x + g·σ(x)) at the best candidate."""
        first, *others = self.candidates(c, g, l, u)
        x, s = first, self.value(first)
        best = c * x + g * s
        for point in others:
            s_new = self.value(point)
            value = c * point + g * s_new
            better = value < best
            x, s, best = point.where(better, x), s_new.where(better, s), value.minimum(best)
        return x, s, best

    @abstractmethod
    def slack(self, c: Tensor, g: Tensor, l: Tensor, u: Tensor) -> Tensor:
        """At least (best candidate's exact value) − (exact minimum), and the error of evaluating σ and the sum, in
        the arguments' dtype: `argmin(...)[2] − slack(...)` never exceeds the true minimum."""

    @abstractmethod
    def relax(self, l: Tensor, u: Tensor) -> Relaxation:
        """The default linear relaxation: the adaptive lower line of CROWN and the tightest upper line."""

    @abstractmethod
    def slopes(self, l: Tensor, u: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """(lower_min, lower_max, upper_min, upper_max): the slopes that lines below and above σ may usefully take on
        [l, u]; where min = max there is nothing to optimise."""

    @abstractmethod
    def facets(self, l: Tensor, u: Tensor, tolerance: float) -> tuple[Facet, ...]:
        """Inequalities valid on the hull of the graph over [l, u]; together they describe it exactly (piecewise
        linear σ) or to within `tolerance` in σ."""

    @abstractmethod
    def split_at(self, l: Tensor, u: Tensor) -> Tensor:
        """Where branch and bound cuts [l, u] in two."""

    @abstractmethod
    def fixed(self, l: Tensor, u: Tensor) -> Tensor:
        """Whether σ is affine on [l, u] (then nothing is lost by its hull and there is nothing to branch on)."""

    @property
    def uniform(self) -> bool:
        """Whether σ is the same for every neuron, so that layers that share it can be worked on in one piece."""
        return True

    @property
    @abstractmethod
    def lipschitz(self) -> float:
        """A Lipschitz constant of σ over ℝ."""
