"""PyTorch modules become networks that compute the same, and stay as they were."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from anybound.errors import InvalidInput, UnsupportedModel
from anybound.io.torch_module import from_torch

IMAGE = (1, 3, 8, 8)


class Score(nn.Module):
    """One number without axes, as `squeeze` leaves it."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(8, 6), nn.ReLU(), nn.Linear(6, 1))

    def forward(self, x: Tensor) -> Tensor:
        return self.body(x).squeeze().sigmoid()


class Residual(nn.Module):
    """A block whose input joins its output, with batch normalisation before the activation."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 3, 3, padding=1)
        self.norm = nn.BatchNorm2d(3)
        self.second = nn.Conv2d(3, 3, 3, padding=1, bias=False)
        self.head = nn.Linear(3 * 64, 4)

    def forward(self, x: Tensor) -> Tensor:
        y = functional.relu(self.norm(self.first(x)))
        y = functional.relu(self.second(y) + x)
        return self.head(torch.flatten(y, 1))


class Functional(nn.Module):
    """What people write in `forward` without sub-modules."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, stride=2, padding=1)
        self.fc = nn.Linear(4 * 4 * 3, 5)
        self.scale = nn.Parameter(torch.randn(4, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        y = self.conv(x) * self.scale - 0.5
        y = torch.cat([y.clamp(min=0), functional.max_pool2d(y, 3, 1, 1), y.abs()], dim=1)
        y = functional.leaky_relu(functional.avg_pool2d(y, 2), 0.1)
        y = y.view(x.size(0), -1)
        y = self.fc(y)
        return torch.sigmoid(y) + y.mean(dim=1, keepdim=True) - torch.clamp(y, -1, 1)


class Branches(nn.Module):
    """Slices, transposes, minima, chunks."""

    def __init__(self) -> None:
        super().__init__()
        self.left, self.right = nn.Linear(4, 6), nn.Linear(4, 6)

    def forward(self, x: Tensor) -> Tensor:
        a, b = self.left(x[:, ::2]), self.right(x.flip(1)[:, :4])
        c, d = torch.minimum(a, b).chunk(2, dim=1)
        e = torch.stack([c, d.tanh()], dim=2).permute(0, 2, 1).reshape(x.shape[0], 6)
        return functional.hardtanh(e.unsqueeze(1).squeeze(1)) / 3 + torch.maximum(a, b).sum(1, True)


MODULES = [
    (nn.Sequential(nn.Linear(8, 6), nn.ReLU(), nn.Dropout(0.5), nn.Linear(6, 3)), (1, 8)),
    (nn.Sequential(nn.Linear(8, 6), nn.Tanh(), nn.Linear(6, 3), nn.Hardsigmoid()), (8,)),
    (
        nn.Sequential(
            nn.Conv2d(3, 4, 3, stride=2),
            nn.BatchNorm2d(4),
            nn.PReLU(4),
            nn.MaxPool2d(2),
            nn.ConvTranspose2d(4, 2, 3, stride=2),
            nn.Hardtanh(),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
        ),
        IMAGE,
    ),
    (nn.Sequential(nn.ZeroPad2d(1), nn.Upsample(scale_factor=2), nn.ReLU6(), nn.Flatten()), IMAGE),
    (Residual(), IMAGE),
    (Functional(), IMAGE),
    (Branches(), (1, 8)),
    (Score(), (1, 8)),
]


def randomised(module: nn.Module) -> nn.Module:
    """Running statistics that are not those of a new module."""
    generator = torch.Generator().manual_seed(3)
    for part in module.modules():
        if isinstance(part, nn.BatchNorm2d):
            assert part.running_mean is not None
            assert part.running_var is not None
            part.running_mean.normal_(generator=generator)
            part.running_var.uniform_(0.5, 2.0, generator=generator)
    return module


@pytest.mark.parametrize(("module", "shape"), MODULES, ids=lambda v: type(v).__name__)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_same_function(module: nn.Module, shape: tuple[int, ...], dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    module = randomised(copy.deepcopy(module)).to(dtype).eval()
    network = from_torch(module, torch.randn(shape, dtype=dtype), check=False)
    assert network.input_shape == shape
    for _ in range(3):
        x = 3 * torch.randn(shape, dtype=dtype)
        ours, theirs = network.forward(x.double()), torch.atleast_1d(module(x).detach())
        # In float64 what differs is that ONNX's attributes (slopes) are float32.
        tolerance = 1e-4 if dtype == torch.float32 else 1e-7
        np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=tolerance)


def test_module_is_left_as_it_was() -> None:
    module = Residual()
    module.train()
    module.norm.eval()
    module.head.weight.requires_grad_(False)
    before = copy.deepcopy(module.state_dict())
    random_state = torch.get_rng_state()
    from_torch(module, torch.zeros(IMAGE))
    assert module.training
    assert not module.norm.training
    assert module.first.training
    assert [p.requires_grad for p in module.parameters()] == [True] * 5 + [False, True]
    assert all(p.grad is None for p in module.parameters())
    assert torch.is_grad_enabled()
    assert torch.equal(torch.get_rng_state(), random_state)
    for name, value in module.state_dict().items():
        assert torch.equal(value, before[name]), name


def test_training_mode_is_restored_after_an_error() -> None:
    module = nn.Sequential(nn.Linear(2, 2), nn.Softmax(dim=1))
    with pytest.raises(UnsupportedModel, match="Softmax"):
        from_torch(module, torch.zeros(1, 2))
    assert all(part.training for part in module.modules())


def test_weights_are_not_folded_in_float32() -> None:
    """Batch normalisation after a convolution, against the same in float64."""
    torch.manual_seed(1)
    module = randomised(nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4))).eval()
    network = from_torch(module, torch.randn(IMAGE))
    x = torch.randn(IMAGE, dtype=torch.float64)
    exact = module.double()(x).detach()
    # ε is a float32 number in ONNX.
    assert float((network.forward(x) - exact).abs().max()) < 1e-11


def test_wrong_example_is_refused() -> None:
    module = nn.Linear(4, 2)
    with pytest.raises(InvalidInput, match="expected real numbers"):
        from_torch(module, torch.zeros(1, 4, dtype=torch.int64))
    with pytest.raises(UnsupportedModel, match="Linear cannot be exported"):
        from_torch(module, torch.zeros(1, 5))


def test_computation_that_depends_on_values_is_refused() -> None:
    class Forked(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x * 2 if float(x.sum()) == 0.0 else x * 3

    with pytest.raises(UnsupportedModel, match="depend on the values"):
        from_torch(Forked(), torch.zeros(1, 3))
