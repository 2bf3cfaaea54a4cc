"""When the elementwise passes of an iteration run as compiled kernels, with tensors for arguments.

The choice is by device, dtype and size, and is made here only. Kernels take a moment to load, so small tensors stay
with PyTorch, and a single evaluation loads none: who iterates asks for them (`Hull.iterating`, `Adam`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from anybound.kernel_cache import directory
from anybound.model.activations.activation import Activation, Minimum
from anybound.model.activations.leaky_relu import LeakyReLU
from anybound.model.activations.relu import ReLU

SMALL = 1 << 16  # numbers: below, PyTorch's passes take less than a tenth of a millisecond each

Oracle = Callable[[Tensor, Tensor], Minimum]


def fits(x: Tensor) -> bool:
    """Whether a kernel serves this tensor, and pays."""
    return (
        x.dtype == torch.float32
        and x.device.type == "cpu"
        and x.numel() >= SMALL
        and not (x.requires_grad and torch.is_grad_enabled())
        and not torch.compiler.is_compiling()
        and directory() is not None
    )


def oracle(activation: Activation, l: Tensor, u: Tensor, plain: Oracle) -> Oracle:
    """(c, g) ↦ the minimum of c·x + g·σ(x) over [l, u], in one pass where there is a kernel for it."""
    if isinstance(activation, ReLU | LeakyReLU):
        left = float(activation.left(l.new_zeros((), dtype=torch.float32)))
        chord = activation.chord(l, u)
        return FusedOracle(plain, l.contiguous(), u.contiguous(), chord.contiguous(), left)
    return plain


@dataclass(frozen=True, eq=False)
class FusedOracle:
    """`BentOracle` by a kernel for tensors that fit; bounds are `[D, 1, *shape]`, c and g `[D, R, *shape]`."""

    plain: Oracle
    l: Tensor
    u: Tensor
    chord: Tensor
    left: float

    def __call__(self, c: Tensor, g: Tensor) -> Minimum:
        if not fits(c) or self.l.dtype != c.dtype:
            return self.plain(c, g)
        from anybound.bound.compact.elementwise import Minima, Terms, hull_minima

        rows, bounds = (c, g), (self.l, self.u, self.chord)
        c, g, l, u, chord = (_matrix(x) for x in (*rows, *bounds))
        size, share = c.shape, c.shape[0] // l.shape[0]
        terms = Terms(
            _flat(c), _flat(g), _flat(l), _flat(u), _flat(chord), self.left,
            c.stride(0), g.stride(0), l.stride(0) if len(l) > 1 else 0, share,
        )  # fmt: skip
        x, s, value = (torch.empty(size, dtype=c.dtype) for _ in range(3))
        hull_minima(terms, Minima(_flat(x), _flat(s), _flat(value), size[1]), size[0])
        return Minimum(*(out.view(rows[0].shape) for out in (x, s, value)))


def adam_step(
    x: Tensor,
    gradient: Tensor,
    moments: tuple[Tensor, Tensor],
    rates: tuple[float, float, float, float],
) -> Tensor:
    """x + step·m/(√v + ε), a new tensor; m and v are updated in place. `rates` are (step, ε, 1 − β₁, 1 − β₂)."""
    from anybound.bound.compact.elementwise import Averages, Rates
    from anybound.bound.compact.elementwise import adam_step as step

    moved = torch.empty_like(x)
    now, new, (first, second) = x.contiguous(), gradient.contiguous(), moments
    averages = Averages(
        _flat(now), _flat(new), _flat(first), _flat(second), _flat(moved), x.numel()
    )
    step(averages, Rates(*rates))
    return moved


def _matrix(x: Tensor) -> Tensor:
    """`[D, R, *shape]` as `[D R, n]`, each row in one piece."""
    matrix = x.flatten(0, 1).flatten(1)
    return matrix if matrix.stride(1) == 1 else matrix.contiguous()


def _flat(x: Tensor) -> NDArray[np.float32]:
    """The numbers from a tensor's first to its last, as they lie in memory."""
    reach = 1 + sum((size - 1) * stride for size, stride in zip(x.shape, x.stride(), strict=True))
    return x.detach().as_strided((reach,), (1,)).numpy()
