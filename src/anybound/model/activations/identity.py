"""Identity: σ(x) = x, for a node that is affine only."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from anybound.model.activations.activation import (
    Activation,
    Facet,
    Minimum,
    Rates,
    Relaxation,
    flag,
)


@dataclass(frozen=True)
class Identity(Activation):
    """x. Tie rule: u where c + g = 0, as for any neuron that is fixed."""

    def value(self, x: Tensor) -> Tensor:
        return x

    def slope(self, x: Tensor) -> Tensor:
        return torch.ones_like(x)

    def range(self, l: Tensor, u: Tensor) -> tuple[Tensor, Tensor]:
        return l, u

    def candidates(self, c: Tensor, g: Tensor, l: Tensor, u: Tensor) -> tuple[Tensor, ...]:
        del c, g
        return u, l

    def argmin(self, c: Tensor, g: Tensor, l: Tensor, u: Tensor) -> Minimum:
        d = c + g
        x = torch.lerp(u, l, flag(torch.gt, d, d.new_zeros(())))
        return Minimum(x, x, d * x)

    def slack(self, c: Tensor, g: Tensor, l: Tensor, u: Tensor) -> Tensor:
        """4·eps·(|c| + |g|)·max(|l|, |u|), and what underflow can take."""
        of_c, of_g, constant = self.slack_rates(l, u)
        return c.abs() * of_c + g.abs() * of_g + constant

    def slack_rates(self, l: Tensor, u: Tensor) -> Rates:
        info = torch.finfo(l.dtype)
        rate = 4 * info.eps * torch.maximum(l.abs(), u.abs()) + info.tiny
        return Rates(rate, rate, torch.full_like(rate, 4 * info.tiny))

    def chord(self, l: Tensor, u: Tensor) -> Tensor:
        return torch.ones_like(l + u)

    def lower_offset(self, s: Tensor, l: Tensor, u: Tensor) -> Tensor:
        """min of (1 − s)·x over the ends, rounded down; 0 for s = 1."""
        return torch.minimum(self._gap(s, l)[0], self._gap(s, u)[0])

    def upper_offset(self, s: Tensor, l: Tensor, u: Tensor) -> Tensor:
        """max of (1 − s)·x over the ends, rounded up; 0 for s = 1."""
        return torch.maximum(self._gap(s, l)[1], self._gap(s, u)[1])

    def _gap(self, s: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        info = torch.finfo(x.dtype)
        gap = (1 - s) * x
        margin = 4 * info.eps * gap.abs() + ((1 - s) * x.sign()).sign().abs() * info.tiny
        return gap - margin, gap + margin

    def relax(self, l: Tensor, u: Tensor) -> Relaxation:
        one = self.chord(l, u)
        return Relaxation(one, one * 0, one, one * 0)

    def slopes(self, l: Tensor, u: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        one = self.chord(l, u)
        return one, one, one, one

    def facets(self, l: Tensor, u: Tensor, tolerance: float) -> tuple[Facet, ...]:
        del tolerance  # exact
        one = self.chord(l, u)
        return Facet(1, one, one * 0), Facet(-1, one, one * 0)

    def split_at(self, l: Tensor, u: Tensor) -> Tensor:
        return l + (u - l) / 2

    def fixed(self, l: Tensor, u: Tensor) -> Tensor:
        return torch.ones_like(l + u, dtype=torch.bool)

    @property
    def lipschitz(self) -> float:
        return 1.0
