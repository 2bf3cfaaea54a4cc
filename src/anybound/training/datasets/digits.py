"""scikit-learn's 1,797 handwritten digits, 8×8; a pixel is a count in 0…16, divided by 16."""

from __future__ import annotations

import numpy as np
import torch

from anybound.errors import MissingDependency
from anybound.training.datasets.dataset import Dataset, Split

__all__ = ["digits"]

_TEST_SHARE = 5  # every fifth image of the shuffled set is for testing
_SPLIT_SEED = 0  # the split never depends on the seed of a training


def digits() -> Dataset:
    """The digits in the project's own split: 1,437 to train on, 360 to test on."""
    try:
        from sklearn.datasets import load_digits
    except ModuleNotFoundError:
        raise MissingDependency(
            "the digits come with scikit-learn, which is not installed: pip install 'anybound[train]'"
        ) from None
    pixels, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(_SPLIT_SEED).permutation(len(labels))
    images = torch.from_numpy((pixels[order] / 16).astype(np.float32).reshape(-1, 1, 8, 8))
    targets = torch.from_numpy(labels[order].astype(np.int64))
    test = torch.arange(len(order)) % _TEST_SHARE == 0
    return Dataset(
        "digits", 10, Split(images[~test], targets[~test]), Split(images[test], targets[test])
    )
