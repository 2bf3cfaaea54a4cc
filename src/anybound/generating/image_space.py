"""How a network reads images: their layout, and what pixels become before they get there.

The record beside a network, NET.json, says it: of those that `anybound train` writes, and of the
paper's. `mean` and `std` are there if the network reads x = (pixel − mean) / std.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from anybound.errors import InvalidConfig, InvalidInput, InvalidModel
from anybound.io.files import read_bytes
from anybound.training.datasets.dataset import Shape

__all__ = ["ImageSpace", "normalisation_of"]

_MOST_BYTES = 2**20
Normalisation = tuple[tuple[float, ...], tuple[float, ...]]


@dataclass(frozen=True)
class ImageSpace:
    """From images of a data set to points of the network's input."""

    shape: Shape
    mean: tuple[float, ...]
    std: tuple[float, ...]
    channels_last: bool

    @staticmethod
    def of(input_shape: tuple[int, ...], shape: Shape, normalisation: Normalisation) -> ImageSpace:
        """The space of a network with this input, batch axis included."""
        channels, height, width = shape
        size = channels * height * width
        if int(np.prod(input_shape)) != size:
            raise InvalidModel(
                f"the network reads {list(input_shape)}, but images are {list(shape)}; is it for "
                "another data set?"
            )
        for name, given in zip(("mean", "std"), normalisation, strict=True):
            if len(given) not in (0, channels):
                raise InvalidConfig(
                    f"{name}: {len(given)} numbers; expected {channels}, one a channel"
                )
        last = input_shape[-3:] == (height, width, channels) and input_shape[-3:] != shape
        return ImageSpace(shape, *normalisation, channels_last=last)

    def point(self, image: Tensor) -> NDArray[np.float32]:
        """An image `[C, H, W]` of pixels in [0, 1] as a flat point, in float32 as frameworks do it."""
        pixels = image.numpy()
        if self.mean:
            mean, std = (np.array(v, np.float32).reshape(-1, 1, 1) for v in (self.mean, self.std))
            pixels = (pixels - mean) / std
        if self.channels_last:
            pixels = pixels.transpose(1, 2, 0)
        flat: NDArray[np.float32] = np.ascontiguousarray(pixels, np.float32).reshape(-1)
        return flat

    def valid(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """The points of a black and of a white image."""
        import torch

        black = torch.zeros(self.shape)
        return self.point(black), self.point(black + 1)


def normalisation_of(network: Path) -> Normalisation:
    """What the record beside a network says; none where there is no record."""
    name = network.name.removesuffix(".gz").removesuffix(".onnx")
    path = network.with_name(f"{name}.json")
    if not path.is_file():
        return (), ()
    try:
        record = json.loads(read_bytes(path, _MOST_BYTES))
    except ValueError as error:
        raise InvalidInput(f"{path}: is no JSON: {error}") from None
    if not isinstance(record, dict):
        raise InvalidInput(f"{path}: expected an object that describes the network")
    if record.get("input") == "pixels":
        return (), ()
    mean, std = (_numbers(record.get(key, []), f"{path}: {key}") for key in ("mean", "std"))
    if any(value <= 0 for value in std) or len(mean) != len(std):
        raise InvalidInput(f"{path}: std has to be above 0, and as long as mean")
    return mean, std


def _numbers(value: object, where: str) -> tuple[float, ...]:
    numbers = isinstance(value, list) and all(isinstance(entry, int | float) for entry in value)
    if not numbers or not np.isfinite(value).all():  # type: ignore[call-overload]  # a list of numbers
        raise InvalidInput(f"{where}: expected a list of numbers")
    return tuple(map(float, value))  # type: ignore[call-overload]  # as above
