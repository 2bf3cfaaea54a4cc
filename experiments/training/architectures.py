"""Network architectures, as functions of an image's shape and the number of classes."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from torch import Tensor, nn

Shape = tuple[int, int, int]


class Residual(nn.Module):
    """z ↦ σ(body(z) + shortcut(z)) with σ = ReLU."""

    def __init__(self, body: nn.Sequential, shortcut: nn.Sequential) -> None:
        super().__init__()
        self.body = body
        self.shortcut = shortcut

    def forward(self, z: Tensor) -> Tensor:
        """Apply the block to `[N, C, H, W]`."""
        return nn.functional.relu(self.body(z) + self.shortcut(z))


def dense(shape: Shape, classes: int) -> nn.Sequential:
    """Two hidden layers of 50 ReLUs."""
    return _fully_connected(shape, classes, width=50, activation=nn.ReLU)


def sigmoid(shape: Shape, classes: int) -> nn.Sequential:
    """Two hidden layers of 40 sigmoids."""
    return _fully_connected(shape, classes, width=40, activation=nn.Sigmoid)


def conv(shape: Shape, classes: int) -> nn.Sequential:
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


def residual(shape: Shape, classes: int) -> nn.Sequential:
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


ARCHITECTURES: Mapping[str, Callable[[Shape, int], nn.Sequential]] = MappingProxyType(
    {"dense": dense, "conv": conv, "residual": residual, "sigmoid": sigmoid}
)


def _fully_connected(
    shape: Shape, classes: int, width: int, activation: type[nn.Module]
) -> nn.Sequential:
    channels, height, columns = shape
    return nn.Sequential(
        nn.Flatten(),
        nn.Linear(channels * height * columns, width),
        activation(),
        nn.Linear(width, width),
        activation(),
        nn.Linear(width, classes),
    )


def _two_convolutions(inputs: int, outputs: int, stride: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, kernel_size=3, stride=stride, padding=1),
        nn.ReLU(),
        nn.Conv2d(outputs, outputs, kernel_size=3, padding=1),
    )


def _ceil_div(a: int, b: int) -> int:
    return -(-a // b)
