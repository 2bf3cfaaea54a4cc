"""CIFAR-10: 60,000 colour images, 32×32, in the forms that it is passed around in.

data_batch_1 … data_batch_5, test_batch              pickles of Python 2, as in the official archive
data_batch_1.bin … data_batch_5.bin, test_batch.bin  a label, then 3,072 pixels, for every image
*.npz                                                x_train, y_train, x_test, y_test
train/CLASS/*.png, test/CLASS/*.png
"""

from __future__ import annotations

import numpy as np

from anybound.errors import InvalidInput
from anybound.training.datasets.arrays import empty, joined, read_npz, split_of
from anybound.training.datasets.dataset import Dataset, Shape, Split
from anybound.training.datasets.pickled import read_pickled
from anybound.training.datasets.png_tree import read_png_tree
from anybound.training.datasets.store import Store

__all__ = ["ADDRESS", "cifar10"]

ADDRESS = "https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz"
_SHAPE: Shape = (3, 32, 32)
_SIZE = 3 * 32 * 32
_CLASSES = (
    "airplane",
    "automobile",
    "bird",
    "cat",
    "deer",
    "dog",
    "frog",
    "horse",
    "ship",
    "truck",
)
_OFFICIAL = 10_000  # images in each of the official batches
# What the paper's networks read: x = (pixel − mean) / std.
_MEAN, _STD = (0.485, 0.456, 0.406), (0.225, 0.225, 0.225)


def cifar10(store: Store) -> Dataset:
    """The data set, in whichever form it is there."""
    train, test = _read(store)
    return Dataset("cifar10", len(_CLASSES), train, test, _MEAN, _STD)


def _read(store: Store) -> tuple[Split, Split]:
    for suffix in ("", ".bin"):
        names = [f"data_batch_{i}{suffix}" for i in range(1, 6)]
        if store.named(*names, f"test_batch{suffix}") is not None:
            return _batches(store, names), _batches(store, [f"test_batch{suffix}"])
    archives = store.ending(".npz")
    if archives:
        return read_npz(store, archives[0], _SHAPE, len(_CLASSES))
    if store.ending(".png"):
        return read_png_tree(store, _SHAPE, _CLASSES)
    raise InvalidInput(
        f"{store.place}: no CIFAR-10 found: neither batches (data_batch_1, or data_batch_1.bin), nor an "
        f".npz, nor train/CLASS/….png; the official archive is {ADDRESS}"
    )


def _batches(store: Store, names: list[str]) -> Split:
    """Those of the batches that are there; of the official ones, none may be missing."""
    paths = {name: store.named(name) for name in names}
    splits = [_batch(store, path) for path in paths.values() if path is not None]
    missing = [name for name, path in paths.items() if path is None]
    if splits and missing and any(len(split) == _OFFICIAL for split in splits):
        raise InvalidInput(f"{store.place}: {missing[0]} is missing; it is in {ADDRESS}")
    return joined(splits, _SHAPE) if splits else empty(_SHAPE)


def _batch(store: Store, path: str) -> Split:
    where, content = store.where(path), store.read(path)
    return _binary(content, where) if path.endswith(".bin") else _pickled(content, where)


def _binary(content: bytes, where: str) -> Split:
    if not content or len(content) % (1 + _SIZE):
        raise InvalidInput(
            f"{where}: has {len(content)} bytes; expected a multiple of {1 + _SIZE}, a label and "
            f"{_SIZE} pixels for every image"
        )
    rows = np.frombuffer(content, np.uint8).reshape(-1, 1 + _SIZE)
    return split_of(rows[:, 1:], rows[:, 0], _SHAPE, len(_CLASSES), where)


def _pickled(content: bytes, where: str) -> Split:
    batch = read_pickled(content, where)
    if not isinstance(batch, dict):
        raise InvalidInput(f"{where}: holds no dictionary; expected one with data and labels")
    named = {key.decode("latin-1") if isinstance(key, bytes) else key: batch[key] for key in batch}
    for name in ("data", "labels"):
        if name not in named:
            raise InvalidInput(f"{where}: has no {name!r}; expected a batch of CIFAR-10")
    if not isinstance(named["data"], np.ndarray):
        raise InvalidInput(f"{where}: 'data' is no array; expected [N, {_SIZE}] bytes")
    labels = named["labels"]
    if isinstance(labels, list):
        if not all(type(label) is int and 0 <= label < len(_CLASSES) for label in labels):
            raise InvalidInput(f"{where}: labels are not all numbers from 0 to 9")
        labels = np.array(labels, np.int64)
    if not isinstance(labels, np.ndarray):
        raise InvalidInput(f"{where}: 'labels' is neither a list nor an array")
    return split_of(named["data"], labels, _SHAPE, len(_CLASSES), where)
