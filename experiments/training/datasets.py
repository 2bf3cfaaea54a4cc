"""Image data sets with pixels in [0, 1]: images `[N, C, H, W]` float32, labels `[N]` int64."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import torch
from torch import Tensor

_TEST_SHARE = 5  # every fifth image of the shuffled set is for testing
_SPLIT_SEED = 0  # the split never depends on the seed of a training


@dataclass(frozen=True)
class Dataset:
    """Images and labels to train on, and others to test on."""

    name: str
    classes: int
    train_images: Tensor
    train_labels: Tensor
    test_images: Tensor
    test_labels: Tensor

    @property
    def shape(self) -> tuple[int, int, int]:
        """(channels, height, width) of an image."""
        channels, height, width = self.train_images.shape[1:]
        return channels, height, width


def digits() -> Dataset:
    """scikit-learn's 1,797 handwritten digits, 8×8; a pixel is a count in 0…16, divided by 16."""
    from sklearn.datasets import load_digits

    pixels, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(_SPLIT_SEED).permutation(len(labels))
    images = torch.from_numpy((pixels[order] / 16).astype(np.float32).reshape(-1, 1, 8, 8))
    targets = torch.from_numpy(labels[order].astype(np.int64))
    test = torch.arange(len(order)) % _TEST_SHARE == 0
    return Dataset("digits", 10, images[~test], targets[~test], images[test], targets[test])


DATASETS: Mapping[str, Callable[[], Dataset]] = MappingProxyType({"digits": digits})
