"""Compiled elementwise passes are their plain readings.

Oracles: the ends and the bend in float64; `torch.optim.Adam`.
"""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from anybound.bound import kernels
from anybound.bound.kernels import FusedOracle, oracle
from anybound.bound.updates import Adam
from anybound.model.activations import Activation, LeakyReLU, ReLU

BENT = [ReLU(), LeakyReLU(0.25), LeakyReLU(-0.5)]


@pytest.fixture(autouse=True)
def at_any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "SMALL", 1)


def random_bounds(generator: torch.Generator, *shape: int) -> tuple[Tensor, Tensor]:
    """Of every state, 0 among the ends."""
    ends = torch.randn(2, *shape, generator=generator)
    ends = torch.where(torch.rand(ends.shape, generator=generator) < 0.1, 0.0, ends)
    return ends.amin(0), ends.amax(0)


@pytest.mark.parametrize("activation", BENT, ids=repr)
@pytest.mark.parametrize("shape", [(1, 1, 5), (3, 2, 37), (1, 4, 64), (4, 1, 2, 3, 9)])
@pytest.mark.parametrize("shared", [True, False])
def test_the_hull_kernel_is_the_plain_minimum(
    activation: Activation, shape: tuple[int, ...], *, shared: bool
) -> None:
    generator = torch.Generator().manual_seed(sum(shape) + shared)
    l, u = random_bounds(generator, 1 if shared else shape[0], 1, *shape[2:])
    whole = torch.randn(2, *shape[:-1], shape[-1] + 7, generator=generator)
    c, g = whole[..., 3 : 3 + shape[-1]]  # rows that do not follow one another
    c = torch.where(torch.rand(c.shape, generator=generator) < 0.3, -g * activation.chord(l, u), c)
    plain = activation.over(l, u)
    fused = oracle(activation, l, u, plain)
    assert isinstance(fused, FusedOracle)
    expected, found = plain(c, g), fused(c, g)
    for a, b in zip(found, expected, strict=True):
        assert a.shape == b.shape
        assert torch.allclose(a, b, rtol=1e-6, atol=1e-7)
    bend = torch.zeros_like(l).clamp(l, u)
    points = torch.stack([x.expand(shape) for x in (l, u, bend)]).double()
    least = (c.double() * points + g.double() * activation.value(points)).amin(0)
    assert torch.allclose(found.value.double(), least, rtol=1e-5, atol=1e-5)


def test_ties_at_the_start_of_wong_and_kolter_stay_ties() -> None:
    """With ρ = −s·g the ends are equal: l is taken, as the plain reading does."""
    generator = torch.Generator().manual_seed(3)
    l, u = -torch.rand(2, 1, 50, generator=generator) - 0.1, torch.rand(2, 1, 50) + 0.1
    g = torch.randn(2, 3, 50, generator=generator).abs()
    found = oracle(ReLU(), l, u, ReLU().over(l, u))(-ReLU().chord(l, u) * g, g)
    assert torch.equal(found.x, ReLU().over(l, u)(-ReLU().chord(l, u) * g, g).x)


def test_nan_and_infinity_stay() -> None:
    l, u = torch.tensor([[[-1.0, 1.0, -1.0]]]), torch.tensor([[[1.0, 2.0, -0.5]]])
    fused = oracle(ReLU(), l, u, ReLU().over(l, u))
    for wild in (torch.nan, torch.inf, -torch.inf):
        value = fused(torch.full((1, 1, 3), wild), torch.ones(1, 1, 3)).value
        assert not value[..., 1:].isfinite().any()
    assert fused(torch.full((1, 1, 3), torch.nan), torch.ones(1, 1, 3)).value.isnan().all()


def test_the_adam_kernel_is_torchs_adam() -> None:
    generator = torch.Generator().manual_seed(0)
    start = torch.randn(3, 1, 41, generator=generator)
    parameter = torch.nn.Parameter(start.clone())
    theirs = torch.optim.Adam([parameter], lr=1e-2, maximize=True)
    adam, x = Adam(), start
    moments = adam.init(x)
    for _ in range(20):
        gradient = torch.randn(x.shape, generator=generator)
        parameter.grad = gradient
        theirs.step()
        old = x.clone()
        moved = adam.ascend(x, moments, gradient, 1e-2)
        assert torch.equal(x, old)  # a ρ that was proposed stays
        x = moved
        assert torch.allclose(x, parameter.detach(), rtol=1e-5, atol=1e-6)
