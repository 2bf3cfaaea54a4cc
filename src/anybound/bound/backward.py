"""Linear bound propagation as a choice of ρ: IP, WK, CROWN and every other choice of slopes.

Replace z_k by a line of slope s_k below (where its coefficient g_k >= 0) or above it (g_k < 0). The
coefficient that is handed on to ẑ_k is s_k g_k, and

    ρ_k = −s_k(g_k)·g_k (+ β_k),     g_j = a_j − Σ_k W_kjᵀ ρ_k,     k = n−1 … 1

is the dual point whose q is at least the bound that these lines give, as min (g σ(x) − g s x) >= g
t for every valid line s x + t. β is the free multiplier of a neuron fixed by branching; any β is
valid.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

import torch
from torch import Tensor

from anybound.bound.decomposition import Coefficients, Decomposition
from anybound.bound.hull import Hull, Slopes
from anybound.layers import Layers
from anybound.model.activations.activation import flag


class Sweep(NamedTuple):
    """What one backward sweep gives: ρ on the slope manifold, and all g."""

    rho: Layers
    g: Coefficients


def propagate(dual: Decomposition, slopes: Slopes, beta: Tensor | None = None) -> Sweep:
    """ρ_k = −s_k(g_k)·g_k + β_k from the last layer to the first."""
    net, layout = dual.net, dual.net.layout
    rho, g = dual.zeros(), dual.zeros()
    for k in reversed(net.hidden):
        at = layout.span(k)
        coefficient = dual.coefficient(k, rho)
        if coefficient is None:
            continue
        g_k = coefficient.flatten(2)
        slope = in_use(slopes.lower[..., at], slopes.upper[..., at], g_k)
        if beta is not None:
            rho.data[..., at] = beta[..., at]
        rho.data[..., at].addcmul_(slope, g_k, value=-1)
        g.data[..., at] = g_k
    return Sweep(rho, Coefficients(dual.coefficient(0, rho), g))


def in_use(lower: Tensor, upper: Tensor, g: Tensor) -> Tensor:
    """s_k(g_k): `lower` where g >= 0, `upper` where g < 0; without a mask."""
    return torch.lerp(lower, upper, flag(torch.lt, g, g.new_zeros(())))


class Start(Enum):
    """A dual point to be had without iterating."""

    ZERO = "zero"
    WK = "wk"
    CROWN = "crown"

    def rho(self, dual: Decomposition) -> Layers:
        if self is Start.ZERO:
            return dual.zeros()
        return propagate(
            dual, wk_slopes(dual.hull) if self is Start.WK else crown_slopes(dual.hull)
        ).rho


def crown_slopes(hull: Hull) -> Slopes:
    """CROWN's: the tightest upper line, and the adaptive lower one."""
    return hull.lines(lambda activation: activation.relax)


def wk_slopes(hull: Hull) -> Slopes:
    """Wong & Kolter's: both lines of the chord's slope (D_k = u/(u−l) for an ambiguous ReLU)."""
    return hull.lines(lambda activation: activation.parallel)


def lines_of(dual: Decomposition, rho: Layers, g: Tensor, default: Slopes) -> tuple[Slopes, Tensor]:
    """The lines and β that come closest to a given ρ with its g: s = −ρ/g where that is a slope, and where a neuron
    was cut by branching what is left of ρ into β."""
    low_min, low_max, up_min, up_max = dual.hull.slope_limits
    slope = -rho.data / torch.where(g == 0, torch.ones_like(g), g)
    lower = torch.where(g > 0, slope, default.lower).clamp(low_min, low_max)
    upper = torch.where(g < 0, slope, default.upper).clamp(up_min, up_max)
    if dual.hull.branched is None:
        return Slopes(lower, upper), torch.zeros_like(lower)
    passed = lower * g.clamp(min=0) + upper * g.clamp(max=0)
    return Slopes(lower, upper), (rho.data + passed) * dual.hull.branched
