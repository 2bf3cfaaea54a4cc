"""An image data set: images `[N, C, H, W]` with pixels in [0, 1], labels `[N]` int64."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = ["Dataset", "Shape", "Split"]

Shape = tuple[int, int, int]  # channels, height, width


@dataclass(frozen=True, eq=False)
class Split:
    """Images and their labels. Bytes 0…255 stay bytes until a batch is asked for: a quarter of the memory."""

    pixels: Tensor  # [N, C, H, W], uint8 or float32
    labels: Tensor  # [N], int64

    def __len__(self) -> int:
        return len(self.labels)

    def images(self, rows: Tensor | slice) -> Tensor:
        """These images in [0, 1], float32."""
        chosen = self.pixels[rows]
        return chosen if chosen.dtype == torch.float32 else chosen.to(torch.float32) / 255

    def batches(self, size: int) -> list[slice]:
        """All rows in order, `size` at a time."""
        return [slice(start, start + size) for start in range(0, len(self), size)]

    def first(self, count: int | None) -> Split:
        """The first `count` images; None for all."""
        return Split(self.pixels[:count], self.labels[:count])

    def digest(self) -> str:
        """A name for exactly these images with these labels."""
        content = hashlib.sha256(str(tuple(self.pixels.shape)).encode())
        content.update(self.pixels.contiguous().numpy().data)
        content.update(self.labels.contiguous().numpy().data)
        return content.hexdigest()


@dataclass(frozen=True, eq=False)
class Dataset:
    """Images to train on, and others to test on. `mean` and `std` (a channel each) are what the paper
    normalises images with, x = (pixel − mean) / std; none where it has nothing to say."""

    name: str
    classes: int
    train: Split
    test: Split
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()

    @property
    def shape(self) -> Shape:
        """(channels, height, width) of an image."""
        channels, height, width = self.test.pixels.shape[1:]
        return channels, height, width
