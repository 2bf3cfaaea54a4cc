"""Slopes: ascent on q restricted to the manifold where stable neurons' ρ is propagated.

    ρ_k = −s_k(g_k)·g_k + β_k,   g_j = a_j − Σ_k W_kjᵀ ρ_k          (see bound.backward)

Free are the slopes s of the lines below (where g >= 0) and above (g < 0) each ambiguous neuron, per
objective row, and the multipliers β of neurons fixed by branching. The gradient has a closed form.
With x*_k the minimiser of ρ_k x + g_k σ(x) on [l_k, u_k], a forward sweep along the chosen lines

    Z_0 = z_0*,    ẑ_k = Σ_j W_kj Z_j + b_k,    Z_k = σ(x*_k) + s_k (ẑ_k − x*_k)

gives  ∂q/∂β_k = x*_k − ẑ_k  and  ∂q/∂s_k = −g_k (x*_k − ẑ_k). For a ReLU's lower slope, x* = 0 and this is the
pre-activation times the back-propagated coefficient where that is positive.

On this manifold ten steps reach what hundreds of free supergradient or proximal steps reach.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from anybound.bound.backward import crown_slopes, lines_of, propagate
from anybound.bound.decomposition import Decomposition
from anybound.bound.hull import HullMin
from anybound.bound.hull import Slopes as Lines
from anybound.bound.method import Method, Proposal, check_steps
from anybound.bound.schedules import Decay, Schedule
from anybound.bound.updates import Adam, Moments
from anybound.layers import Layers
from anybound.model.activations.activation import flag


@dataclass(eq=False)
class SlopesState:
    """The lines' slopes and β, the ρ and value they give, the gradients there, and Adam's moments."""

    lower: Tensor
    upper: Tensor
    beta: Tensor
    rho: Layers
    value: Tensor
    gradient: Tensor  # −∂q/∂ρ: ẑ_k − x*_k along the lines
    g: Tensor
    moments: Moments
    beta_moments: Moments
    t: int = 0


@dataclass(frozen=True)
class Slopes(Method[SlopesState]):
    """Adam on slopes and on the multipliers of fixed neurons, from CROWN's lines or from the slopes of a given ρ."""

    iterations: int = 20
    schedule: Schedule = Decay(0.3, 0.98)
    beta_schedule: Schedule = Decay(0.05, 0.98)
    adam: Adam = Adam()

    def __post_init__(self) -> None:
        check_steps(self, self.iterations)

    def steps(self, dual: Decomposition) -> int:
        return self.iterations

    def init(self, dual: Decomposition, warm: Layers | None) -> SlopesState:
        lines = crown_slopes(dual.hull)
        full = (*dual.batch, dual.net.layout.total)
        lower, upper = lines.lower.expand(full).clone(), lines.upper.expand(full).clone()
        beta = torch.zeros_like(lower)
        if warm is not None:
            (lower, upper), beta = lines_of(dual, warm, dual.coefficients(warm).hidden.data, lines)
        like = self.adam.init(lower)
        return _evaluate(dual, lower, upper, beta, like, self.adam.init(lower), 0)

    def step(self, dual: Decomposition, state: SlopesState) -> SlopesState:
        t = state.t + 1
        # ∂q/∂s = g·(ẑ − x*), for the lower slope where g > 0 and for the upper one where g < 0;
        # a step is a share of the useful slopes, which are [0, 1] below a ReLU
        direction = self.adam.direction(state.moments, state.g * state.gradient)
        step = self.schedule.at(t, self.iterations)
        low_min, low_max, up_min, up_max = dual.hull.slope_limits
        below, above = dual.hull.slope_spans
        zero, lower, upper = state.g.new_zeros(()), state.lower, state.upper
        if below is not None:
            span = below * flag(torch.gt, state.g, zero)
            lower = torch.addcmul(lower, direction, span, value=step).clamp_(low_min, low_max)
        if above is not None:
            span = above * flag(torch.lt, state.g, zero)
            upper = torch.addcmul(upper, direction, span, value=step).clamp_(up_min, up_max)
        beta = state.beta
        if dual.hull.branched is not None:
            step = self.beta_schedule.at(t, self.iterations)
            beta = beta - step * self.adam.direction(
                state.beta_moments, state.gradient * dual.hull.branched
            )
        return _evaluate(dual, lower, upper, beta, state.moments, state.beta_moments, t)

    def propose(self, dual: Decomposition, state: SlopesState) -> Proposal:
        return Proposal(state.rho, state.value)


def _evaluate(
    dual: Decomposition,
    lower: Tensor,
    upper: Tensor,
    beta: Tensor,
    moments: Moments,
    beta_moments: Moments,
    t: int,
) -> SlopesState:
    sweep = propagate(dual, Lines(lower, upper), beta if dual.hull.branched is not None else None)
    rho, (g0, g) = sweep.rho, sweep.g
    z0, p0 = dual.input_minimum(g0)
    above = flag(torch.lt, g.data, g.data.new_zeros(()))  # 1 where the line above σ is in use
    slope = torch.lerp(lower, upper, above)
    touch = dual.hull.touching(slope, above)
    if dual.hull.touches_exactly and dual.hull.branched is None:
        # ρ = −s g: the minimum of g (σ(x) − s x) is at the touching point
        q = dual.value_from(rho, p0, (g.data * touch.value).sum(-1))
    else:
        q = dual.value_from(rho, p0, dual.hull.argmin(rho.data, g.data).value.sum(-1))
    if dual.hull.split_unfixed is not None:
        # where branching has cut a neuron whose σ still bends, β ≠ 0 moves the minimiser
        moved, there = (beta != 0) & dual.hull.split_unfixed, dual.hull.argmin(rho.data, g.data)
        x, z = (torch.where(moved, a, b) for a, b in zip(there[:2], touch[:2], strict=True))
        touch = HullMin(x, z, z - slope * x)
    zhat, x = _along_lines(dual, z0, touch, slope, beta)
    return SlopesState(lower, upper, beta, rho, q, zhat - x, g.data, moments, beta_moments, t)


def _along_lines(
    dual: Decomposition, z0: Tensor, touch: HullMin, slope: Tensor, beta: Tensor
) -> tuple[Tensor, Tensor]:
    """(ẑ, x*) of the forward sweep Z_k = σ(x*_k) + s_k (ẑ_k − x*_k), `[D, R, total]` each.

    On a neuron that branching has fixed σ is affine, so that x* matters for β only: it is the end
    of [l, u] that β ≠ 0 pushes to, and for β = 0 the point of [l, u] closest to ẑ, which makes the
    gradient the violation of the cut."""
    net, layout = dual.net, dual.net.layout
    zhat, x = dual.zeros(), touch.zhat_b
    z = zhat.like(touch.value.clone())  # σ(x*) − s x*, to which s ẑ comes layer by layer
    for k in net.hidden:
        at = layout.span(k)
        net.write_affine(k, z0, z, zhat[k])
        z.data[..., at].addcmul_(slope[..., at], zhat.data[..., at])
    if dual.hull.branched is not None:
        fixed = dual.hull.branched & ~dual.hull.ambiguous
        l, u = dual.bounds.lower.data, dual.bounds.upper.data
        end = torch.where(beta > 0, l, torch.where(beta < 0, u, zhat.data.clamp(l, u)))
        x = torch.where(fixed, end, x)
    return zhat.data, x
