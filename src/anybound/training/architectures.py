"""Network architectures, as functions of an image's shape and the number of classes.

`base`, `wide` and `deep` are those of the paper's table of complete verification, `small` the one of
incomplete verification, from Wong and Kolter. There `padding=1` is left out, without which the sizes
do not come out, and `small` is `wide` by another name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import torch
from torch import Tensor, nn

from anybound.training.datasets.dataset import Shape

__all__ = ["ARCHITECTURES", "Model", "Normalise", "Residual"]

Model = nn.Sequential


class Normalise(nn.Module):
    """x ↦ (x − mean) / std, channel by channel; constants, not trained."""

    mean: Tensor
    std: Tensor

    def __init__(self, mean: tuple[float, ...], std: tuple[float, ...]) -> None:
        super().__init__()
        self.register_buffer("mean", torch.tensor(mean).reshape(-1, 1, 1))
        self.register_buffer("std", torch.tensor(std).reshape(-1, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        """Normalise `[N, C, H, W]`."""
        return (x - self.mean) / self.std


class Residual(nn.Module):
    """z ↦ σ(body(z) + shortcut(z)) with σ = ReLU."""

    def __init__(self, body: nn.Sequential, shortcut: nn.Sequential) -> None:
        super().__init__()
        self.body = body
        self.shortcut = shortcut

    def forward(self, z: Tensor) -> Tensor:
        """Apply the block to `[N, C, H, W]`."""
        return nn.functional.relu(self.body(z) + self.shortcut(z))


def base(shape: Shape, classes: int) -> Model:
    """Two convolutions with 8 and 16 channels, 100 hidden units: 3,172 ReLUs on CIFAR-10."""
    return _convolutional(shape, classes, ((8, 4, 2), (16, 4, 2)))


def wide(shape: Shape, classes: int) -> Model:
    """Two convolutions with 16 and 32 channels, 100 hidden units: 6,244 ReLUs on CIFAR-10."""
    return _convolutional(shape, classes, ((16, 4, 2), (32, 4, 2)))


def deep(shape: Shape, classes: int) -> Model:
    """Four convolutions with 8 channels each, 100 hidden units: 6,756 ReLUs on CIFAR-10."""
    return _convolutional(shape, classes, ((8, 4, 2), (8, 3, 1), (8, 3, 1), (8, 4, 2)))


def dense(shape: Shape, classes: int) -> Model:
    """Two hidden layers of 50 ReLUs."""
    return _fully_connected(shape, classes, width=50, activation=nn.ReLU)


def sigmoid(shape: Shape, classes: int) -> Model:
    """Two hidden layers of 40 sigmoids."""
    return _fully_connected(shape, classes, width=40, activation=nn.Sigmoid)


def conv(shape: Shape, classes: int) -> Model:
    """Two strided, padded convolutions (the first of even kernel size) and a dense layer."""
    channels, height, width = shape
    return nn.Sequential(
        nn.Conv2d(channels, 8, kernel_size=4, stride=2, padding=1),
        nn.ReLU(),
        nn.Conv2d(8, 16, kernel_size=3, stride=2, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(16 * _ceil_div(height // 2, 2) * _ceil_div(width // 2, 2), 40),
        nn.ReLU(),
        nn.Linear(40, classes),
    )


def residual(shape: Shape, classes: int) -> Model:
    """A strided convolution, a block with an identity and one with a convolution as shortcut."""
    channels, height, width = shape
    return nn.Sequential(
        nn.Conv2d(channels, 8, kernel_size=3, stride=2, padding=1),
        nn.ReLU(),
        Residual(_two_convolutions(8, 8, stride=1), nn.Sequential()),
        Residual(_two_convolutions(8, 16, stride=2), nn.Sequential(nn.Conv2d(8, 16, 1, stride=2))),
        nn.Flatten(),
        nn.Linear(16 * _ceil_div(height, 4) * _ceil_div(width, 4), classes),
    )


ARCHITECTURES: Mapping[str, Callable[[Shape, int], Model]] = MappingProxyType(
    {
        "base": base,
        "wide": wide,
        "deep": deep,
        "small": wide,
        "dense": dense,
        "conv": conv,
        "residual": residual,
        "sigmoid": sigmoid,
    }
)


def _convolutional(
    shape: Shape, classes: int, convolutions: tuple[tuple[int, int, int], ...]
) -> Model:
    """Convolutions of (channels, kernel size, stride) with padding 1, then 100 hidden units."""
    channels, height, width = shape
    layers: list[nn.Module] = []
    for outputs, kernel, stride in convolutions:
        layers += [nn.Conv2d(channels, outputs, kernel, stride, padding=1), nn.ReLU()]
        channels = outputs
        height, width = ((size + 2 - kernel) // stride + 1 for size in (height, width))
    hidden = nn.Linear(channels * height * width, 100)
    return nn.Sequential(*layers, nn.Flatten(), hidden, nn.ReLU(), nn.Linear(100, classes))


def _fully_connected(shape: Shape, classes: int, width: int, activation: type[nn.Module]) -> Model:
    channels, height, columns = shape
    return nn.Sequential(
        nn.Flatten(),
        nn.Linear(channels * height * columns, width),
        activation(),
        nn.Linear(width, width),
        activation(),
        nn.Linear(width, classes),
    )


def _two_convolutions(inputs: int, outputs: int, stride: int) -> Model:
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, kernel_size=3, stride=stride, padding=1),
        nn.ReLU(),
        nn.Conv2d(outputs, outputs, kernel_size=3, padding=1),
    )


def _ceil_div(a: int, b: int) -> int:
    return -(-a // b)
