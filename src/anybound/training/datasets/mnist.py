"""MNIST: 70,000 handwritten digits, 28×28, in the forms that it is passed around in.

train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-…   as published, gzip'd or not
*.npz                                                      x_train, y_train, x_test, y_test
train/CLASS/*.png, test/CLASS/*.png                        also training and testing
"""

from __future__ import annotations

import math
import struct

import numpy as np

from anybound.errors import InvalidInput
from anybound.training.datasets.arrays import empty, read_npz, split_of
from anybound.training.datasets.dataset import Dataset, Shape, Split
from anybound.training.datasets.png_tree import read_png_tree
from anybound.training.datasets.store import Store

__all__ = ["ADDRESS", "mnist"]

ADDRESS = "http://yann.lecun.com/exdb/mnist (the same files: https://ossci-datasets.s3.amazonaws.com/mnist)"
_SHAPE: Shape = (1, 28, 28)
_CLASSES = tuple(map(str, range(10)))
_BYTES = 0x08  # the code of unsigned bytes in an idx file


def mnist(store: Store) -> Dataset:
    """The data set, in whichever form it is there."""
    train, test = _read(store)
    return Dataset("mnist", len(_CLASSES), train, test)


def _read(store: Store) -> tuple[Split, Split]:
    found = [_idx_paths(store, part) for part in ("train", "t10k")]
    if any(path is not None for paths in found for path in paths):
        train, test = (_idx_split(store, *paths) for paths in found)
        return train, test
    archives = store.ending(".npz")
    if archives:
        return read_npz(store, archives[0], _SHAPE, len(_CLASSES))
    if store.ending(".png"):
        return read_png_tree(store, _SHAPE, _CLASSES)
    raise InvalidInput(
        f"{store.place}: no MNIST found: neither idx files (train-images-idx3-ubyte.gz), nor an .npz, nor "
        f"train/CLASS/….png; it is at {ADDRESS}"
    )


def _idx_paths(store: Store, part: str) -> tuple[str | None, str | None]:
    names = [
        [f"{part}-{kind}{dot}idx{rank}-ubyte{gz}" for dot in "-." for gz in ("", ".gz")]
        for kind, rank in (("images", 3), ("labels", 1))
    ]
    return store.named(*names[0]), store.named(*names[1])


def _idx_split(store: Store, images: str | None, labels: str | None) -> Split:
    if images is None and labels is None:
        return empty(_SHAPE)
    if images is None or labels is None:
        there = images or labels
        kind = "images" if images is None else "labels"
        raise InvalidInput(f"{store.place}: there is {there}, but not the file of its {kind}")
    pixels = _idx(store.read(images), 3, store.where(images))
    numbers = _idx(store.read(labels), 1, store.where(labels))
    return split_of(pixels, numbers, _SHAPE, len(_CLASSES), store.where(images))


def _idx(content: bytes, rank: int, where: str) -> np.ndarray:
    """Two zeros, the element's code, the rank, the sizes as big-endian 32-bit numbers, the elements."""
    head = 4 + 4 * rank
    if len(content) < head or content[:4] != bytes((0, 0, _BYTES, rank)):
        raise InvalidInput(
            f"{where}: is no idx file of bytes with {rank} sizes (it begins with {content[:4].hex(' ')})"
        )
    sizes = struct.unpack(f">{rank}I", content[4:head])
    if math.prod(sizes) != len(content) - head:
        raise InvalidInput(
            f"{where}: {list(sizes)} elements are announced, but {len(content) - head} bytes follow; "
            "truncated? fetch it again"
        )
    return np.frombuffer(content, np.uint8, offset=head).reshape(sizes)
