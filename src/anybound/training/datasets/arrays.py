"""Images and labels as arrays, checked and brought into one form."""

from __future__ import annotations

import io
import zipfile
import zlib

import numpy as np
import torch

from anybound.errors import InvalidInput
from anybound.training.datasets.dataset import Shape, Split
from anybound.training.datasets.store import Store

__all__ = ["empty", "joined", "read_npz", "split_of"]

_MOST_BYTES = 4 * 2**30
# The names that archives of arrays give to images and labels, to train on and to test on.
_TRAIN = (("x_train", "y_train"), ("train_images", "train_labels"))
_TEST = (("x_test", "y_test"), ("test_images", "test_labels"), ("images", "labels"))


def split_of(
    images: np.ndarray, labels: np.ndarray, shape: Shape, classes: int, where: str
) -> Split:
    """Images, `[N, C, H, W]`, `[N, H, W, C]`, `[N, H, W]` or flat, and labels `[N]` or `[N, 1]`."""
    pixels = _pixels(np.asarray(images), shape, where)
    targets = np.asarray(labels)
    if targets.ndim == 2 and targets.shape[1] == 1:
        targets = targets[:, 0]
    if targets.ndim != 1 or not np.issubdtype(targets.dtype, np.integer):
        kind = f"{targets.dtype} {list(targets.shape)}"
        raise InvalidInput(f"{where}: labels are {kind}; expected one whole number per image")
    if len(targets) != len(pixels):
        raise InvalidInput(f"{where}: {len(pixels)} images, but {len(targets)} labels")
    wrong = (targets < 0) | (targets >= classes)
    if wrong.any():
        raise InvalidInput(f"{where}: label {targets[wrong][0]}; expected 0 to {classes - 1}")
    return Split(
        torch.from_numpy(np.require(pixels, requirements="W")),
        torch.from_numpy(targets.astype(np.int64)),
    )


def joined(splits: list[Split], shape: Shape) -> Split:
    """One after the other."""
    if not splits:
        return empty(shape)
    return Split(
        torch.cat([split.pixels for split in splits]), torch.cat([split.labels for split in splits])
    )


def empty(shape: Shape) -> Split:
    """No images."""
    return Split(torch.zeros(0, *shape, dtype=torch.uint8), torch.zeros(0, dtype=torch.int64))


def read_npz(store: Store, name: str, shape: Shape, classes: int) -> tuple[Split, Split]:
    """Images to train on and to test on, as Keras names them; those that are there."""
    where = store.where(name)
    try:
        arrays = _loaded(store.read(name), where)
    except (
        EOFError,
        KeyError,
        MemoryError,
        OSError,
        RuntimeError,
        ValueError,
        zipfile.BadZipFile,
        zlib.error,
    ) as error:
        raise InvalidInput(f"{where}: damaged archive of arrays: {error}") from None
    splits = []
    for names in (_TRAIN, _TEST):
        found = [(x, y) for x, y in names if x in arrays and y in arrays]
        splits += [
            split_of(arrays[x], arrays[y], shape, classes, f"{where} ({x})") for x, y in found[:1]
        ] or [empty(shape)]
    train, test = splits
    if len(train) == len(test) == 0:
        raise InvalidInput(
            f"{where}: holds {', '.join(sorted(arrays)) or 'nothing'}; expected x_train, y_train, x_test "
            "and y_test, or images and labels"
        )
    return train, test


def _loaded(content: bytes, where: str) -> dict[str, np.ndarray]:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        size = sum(member.file_size for member in archive.infolist())
    if size > _MOST_BYTES:
        raise InvalidInput(f"{where}: unpacks to {size} bytes; the limit is {_MOST_BYTES}")
    with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
        return {name: arrays[name] for name in arrays.files}


def _pixels(images: np.ndarray, shape: Shape, where: str) -> np.ndarray:
    """`[N, C, H, W]`, bytes or float32 in [0, 1]."""
    channels, height, width = shape
    if images.dtype != np.uint8:
        images = _in_range(images, where)
    if images.ndim >= 1:
        if images.shape[1:] in (shape, (channels * height * width,)) or (
            channels == 1 and images.shape[1:] == (height, width)
        ):
            return np.ascontiguousarray(images).reshape(-1, *shape)
        if images.shape[1:] == (height, width, channels):
            return np.ascontiguousarray(images.transpose(0, 3, 1, 2))
    raise InvalidInput(
        f"{where}: images of shape {list(images.shape)}; expected [N, {channels}, {height}, {width}]"
    )


def _in_range(images: np.ndarray, where: str) -> np.ndarray:
    if not np.issubdtype(images.dtype, np.floating):
        raise InvalidInput(
            f"{where}: pixels are {images.dtype}; expected bytes, or floats in [0, 1]"
        )
    if images.size and not (images.min() >= 0 and images.max() <= 1):
        raise InvalidInput(
            f"{where}: pixels from {images.min()} to {images.max()}; expected 0 to 1, or bytes"
        )
    return images.astype(np.float32)
