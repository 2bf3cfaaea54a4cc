"""The box [l_0, u_0]; an l-infinity ball, clipped to the valid range or not, is one as well.

    min over l ≤ z ≤ u of gᵀz = Σ_i min(g_i l_i, g_i u_i)
    z_0 = l_0 where g > 0, u_0 where g ≤ 0            (eq. box_bounds_sol, with g = −W_1ᵀρ_1)

Shapes: `lower`, `upper` are `[D, 1, *shape]`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from anybound.errors import InvalidInput
from anybound.model.activations.activation import flag
from anybound.model.affine.map import Shape
from anybound.model.domains.domain import Domain, check_point, flat
from anybound.rounding import add_down, add_up, gamma, round_down, round_up, underflow


@dataclass(frozen=True, eq=False)
class Box(Domain):
    """All z with lower ≤ z ≤ upper."""

    lower: Tensor
    upper: Tensor

    def __post_init__(self) -> None:
        check_point("Box", "lower", self.lower)
        check_point("Box", "upper", self.upper)
        if self.lower.shape != self.upper.shape or self.lower.dtype != self.upper.dtype:
            raise InvalidInput(
                f"Box: lower is {self.lower.dtype} of shape {list(self.lower.shape)}, upper is "
                f"{self.upper.dtype} of shape {list(self.upper.shape)}; give both alike"
            )
        crossed = int((self.lower > self.upper).sum())
        if crossed:
            raise InvalidInput(
                f"Box: lower exceeds upper in {crossed} of {self.lower.numel()} entries, so the "
                "set is empty; exchange them, or check that the valid range meets the ball"
            )

    @classmethod
    def ball(
        cls, center: Tensor, radius: float | Tensor, clip: tuple[float, float] | None = None
    ) -> Self:
        """|z_i − center_i| ≤ radius, and lo ≤ z ≤ hi if `clip` is (lo, hi); rounded outwards."""
        exact = torch.as_tensor(radius, dtype=torch.float64, device=center.device)
        reach = round_up(exact, center.dtype)
        if not bool((reach >= 0).all()):
            raise InvalidInput(f"Box.ball: the radius is {radius}; give a number ≥ 0")
        lower, upper = add_down(center, -reach), add_up(center, reach)
        if clip is not None:
            lo, hi = torch.tensor(clip, dtype=torch.float64, device=center.device)
            lower = lower.maximum(round_down(lo, center.dtype))
            upper = upper.minimum(round_up(hi, center.dtype))
        return cls(lower, upper)

    @property
    def shape(self) -> Shape:
        return tuple(self.lower.shape[2:])

    @property
    def is_box(self) -> bool:
        return True

    @property
    def count(self) -> int:
        return len(self.lower)

    def argmin(self, g: Tensor) -> Tensor:
        # eq. box_bounds_sol; a mask would cost many times what this does
        return torch.lerp(self.upper, self.lower, flag(torch.gt, g, g.new_zeros(())))

    def min(self, g: Tensor) -> Tensor:
        return self.minimum(g)[1]

    def minimum(self, g: Tensor) -> tuple[Tensor, Tensor]:
        z = self.argmin(g)
        return z, flat(g * z).sum(-1)

    def slack(self, g: Tensor) -> Tensor:
        weight = flat(g * self.argmin(g)).abs()
        n = weight.shape[-1]
        # γ_n for the sum, as much again for summing |g z| with rounding, and a few more for the
        # roundings of this line and of `min − slack`; `lost` is for products that underflow.
        lost = underflow(2 * n + 2, weight.dtype)
        return gamma(2 * n + 32, weight.dtype) * weight.sum(-1) + lost

    def box(self) -> tuple[Tensor, Tensor]:
        return self.lower, self.upper

    def project(self, x: Tensor) -> Tensor:
        return x.clamp(self.lower, self.upper)

    def sample(self, count: int, generator: torch.Generator) -> Tensor:
        """About half of the coordinates are at a limit, the others uniform between them."""
        lead, *rest = self.lower.shape
        size = (lead, count, *rest[1:])
        part = torch.rand(
            size, generator=generator, dtype=self.lower.dtype, device=self.lower.device
        )
        part = (2 * part - 0.5).clamp(0, 1)
        return self.project(self.lower * (1 - part) + self.upper * part)

    def contains(self, x: Tensor) -> Tensor:
        return flat((self.lower <= x) & (x <= self.upper)).all(-1)

    def clip(self, lower: Tensor, upper: Tensor) -> Box:
        return Box(self.lower.maximum(lower), self.upper.minimum(upper))

    def to(self, dtype: torch.dtype, device: torch.device | None = None) -> Self:
        lower, upper = self.lower.to(device), self.upper.to(device)
        return type(self)(round_down(lower, dtype), round_up(upper, dtype))

    def pick(self, index: Tensor) -> Self:
        if self.count == 1:
            return self
        return type(self)(self.lower[index], self.upper[index])
