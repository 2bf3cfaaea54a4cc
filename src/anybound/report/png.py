"""Small pictures as PNG files in a data address, without any imaging library."""

from __future__ import annotations

import struct
import zlib
from base64 import b64encode

import numpy as np
from numpy.typing import NDArray

__all__ = ["data_address", "png"]

FloatArray = NDArray[np.float64]
_GREY, _COLOUR = 0, 2  # colour types of the format


def data_address(image: FloatArray) -> str:
    """`[height, width]` or `[height, width, 3]` with values in [0, 1] as `data:image/png;…`."""
    return "data:image/png;base64," + b64encode(png(image)).decode("ascii")


def png(image: FloatArray) -> bytes:
    """The file: one filter byte (none) before each row, deflated."""
    levels = (np.clip(np.nan_to_num(image), 0.0, 1.0) * 255.0).round().astype(np.uint8)
    height, width = levels.shape[:2]
    kind = _GREY if levels.ndim == 2 else _COLOUR
    rows = np.zeros((height, 1 + levels[0].size), np.uint8)
    rows[:, 1:] = levels.reshape(height, -1)
    header = struct.pack(">IIBBBBB", width, height, 8, kind, 0, 0, 0)
    body = zlib.compress(rows.tobytes(), 9)
    chunks = ((b"IHDR", header), (b"IDAT", body), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(name, data) for name, data in chunks)


def _chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
