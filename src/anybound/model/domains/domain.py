"""The protocol of an input set C: compact, convex, and linear functions are easily minimised on it.

Shapes: a domain has a leading axis of D sub-problems (1 when shared); a point is `[D, R, *shape]`,
a linear function's coefficient `g` likewise, its minimum `[D, R]`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from anybound.errors import InvalidInput
from anybound.model.affine.map import Shape


@dataclass(frozen=True, eq=False)
class Domain(ABC):
    """A compact convex set C of inputs."""

    @property
    @abstractmethod
    def shape(self) -> Shape:
        """The shape of one point, without leading axes."""

    @property
    def is_box(self) -> bool:
        """Whether `box()` is the set itself."""
        return False

    @property
    @abstractmethod
    def count(self) -> int:
        """D, the number of sub-problems the set holds a copy for; 1 when shared."""

    @abstractmethod
    def argmin(self, g: Tensor) -> Tensor:
        """A minimiser of gᵀz over C, `[D, R, *shape]`. Tie rule of a box: u_0 where g = 0."""

    @abstractmethod
    def min(self, g: Tensor) -> Tensor:
        """The minimum of gᵀz over C, `[D, R]`."""

    def minimum(self, g: Tensor) -> tuple[Tensor, Tensor]:
        """`argmin(g)` and `min(g)`, at the cost of one of them where they share their work."""
        return self.argmin(g), self.min(g)

    @abstractmethod
    def slack(self, g: Tensor) -> Tensor:
        """`[D, R]`: `min(g) − slack(g)` never exceeds the exact minimum.

        Whatever the order of summation, and the rounding of that last subtraction included."""

    @abstractmethod
    def box(self) -> tuple[Tensor, Tensor]:
        """The smallest box around C, `[D, 1, *shape]` each, rounded outwards."""

    @abstractmethod
    def project(self, x: Tensor) -> Tensor:
        """A point of C close to `x` (the Euclidean projection where that has a closed form)."""

    @abstractmethod
    def sample(self, count: int, generator: torch.Generator) -> Tensor:
        """`[D, count, *shape]` points of C that reach its boundary."""

    @abstractmethod
    def contains(self, x: Tensor) -> Tensor:
        """Whether each point is in C, `[D, R]`, as exact arithmetic on the numbers would say."""

    @abstractmethod
    def clip(self, lower: Tensor, upper: Tensor) -> Domain:
        """C ∩ [lower, upper], limits `[D, 1, *shape]`; refused where that is empty."""

    @abstractmethod
    def to(self, dtype: torch.dtype, device: torch.device | None = None) -> Self:
        """The set in another dtype, rounded outwards where rounding is needed."""

    @abstractmethod
    def pick(self, index: Tensor) -> Self:
        """The sub-problems with these indices; a shared domain is returned as it is."""

    def magnitude(self) -> Tensor:
        """The largest |z_i| over C, `[D, 1, *shape]`, rounded up."""
        lower, upper = self.box()
        return torch.maximum(lower.abs(), upper.abs())


def flat(x: Tensor) -> Tensor:
    """`[D, R, *shape]` as `[D, R, n]`."""
    return x.reshape(*x.shape[:2], -1)


def check_point(kind: str, name: str, x: Tensor) -> None:
    """Refuse anything but finite floating-point numbers of shape `[D, 1, *shape]`."""
    if x.ndim < 2 or x.shape[1] != 1 or not x.is_floating_point():
        raise InvalidInput(
            f"{kind}: {name} is {x.dtype} of shape {list(x.shape)}; expected floating-point "
            "numbers of shape [D, 1, *shape]: add two leading axes of length 1 to a single point"
        )
    if not bool(x.isfinite().all()):
        raise InvalidInput(f"{kind}: {name} holds NaN or infinity; give finite numbers")
