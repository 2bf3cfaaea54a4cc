"""Images as PNG files in folders: train/CLASS/….png and test/CLASS/….png.

A class is a number, or one of the names that the data set gives; images come in the order of their
paths.
"""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Sequence
from pathlib import PurePosixPath

import numpy as np

from anybound.errors import InvalidInput, MissingDependency
from anybound.training.datasets.arrays import empty, split_of
from anybound.training.datasets.dataset import Shape, Split
from anybound.training.datasets.store import Store

__all__ = ["read_png_tree"]

_TRAIN, _TEST = ("train", "training"), ("test", "testing", "val", "valid", "validation")


def read_png_tree(store: Store, shape: Shape, classes: Sequence[str]) -> tuple[Split, Split]:
    """Images to train on and to test on; those that are there."""
    parts: dict[str, list[tuple[str, int]]] = {"train": [], "test": []}
    for path in store.ending(".png"):
        kind, label = _place(path, store, classes)
        parts[kind].append((path, label))
    train, test = (_read(store, entries, shape, len(classes)) for entries in parts.values())
    return train, test


def _place(path: str, store: Store, classes: Sequence[str]) -> tuple[str, int]:
    """What an image is for, and its class."""
    folders = [folder.lower() for folder in PurePosixPath(path).parts[:-1]]
    if len(folders) >= 2 and folders[-2] in (*_TRAIN, *_TEST):
        kind = "train" if folders[-2] in _TRAIN else "test"
        if folders[-1] in classes:
            return kind, list(classes).index(folders[-1])
        if folders[-1].isascii() and folders[-1].isdigit() and int(folders[-1]) < len(classes):
            return kind, int(folders[-1])
    raise InvalidInput(
        f"{store.where(path)}: expected images as train/CLASS/….png and test/CLASS/….png, where CLASS is "
        f"0 to {len(classes) - 1} or one of {', '.join(classes)}"
    )


def _read(store: Store, entries: list[tuple[str, int]], shape: Shape, classes: int) -> Split:
    if not entries:
        return empty(shape)
    images = np.stack([_decoded(store, path, shape) for path, _ in entries])
    labels = np.array([label for _, label in entries])
    return split_of(images, labels, shape, classes, store.place)


def _decoded(store: Store, path: str, shape: Shape) -> np.ndarray:
    """`[C, H, W]` bytes."""
    try:
        from PIL import Image
    except ModuleNotFoundError:
        raise MissingDependency(
            "reading PNG files needs Pillow, which is not installed: pip install 'anybound[train]'"
        ) from None
    channels, height, width = shape
    try:
        with Image.open(io.BytesIO(store.read(path)), formats=("PNG",)) as image:
            if image.size != (width, height):  # known before any pixel is unpacked
                raise InvalidInput(
                    f"{store.where(path)}: {image.width}×{image.height} pixels; expected {width}×{height}"
                )
            levels = np.asarray(image.convert("L" if channels == 1 else "RGB"))
    except (OSError, SyntaxError, ValueError, struct.error, zlib.error) as error:
        reason = str(error).partition("<")[0].strip()
        raise InvalidInput(f"{store.where(path)}: damaged or no PNG file: {reason}") from None
    return levels.reshape(height, width, channels).transpose(2, 0, 1)
