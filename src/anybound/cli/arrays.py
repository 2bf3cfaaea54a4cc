"""Arrays from `.npy` files: numbers only, as pickled objects could run code."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from anybound.errors import InvalidInput
from anybound.io.files import read_bytes

__all__ = ["load_array"]


def load_array(path: str | Path) -> NDArray[np.float64]:
    """The real, finite numbers of a `.npy` file, in float64 without loss."""
    content = io.BytesIO(read_bytes(path))
    try:
        array = np.lib.format.read_array(content, allow_pickle=False)
    except (ValueError, EOFError, SyntaxError, TypeError) as error:
        if "pickle" in str(error):
            raise InvalidInput(
                f"{path}: holds pickled objects, which could run code; save numbers with numpy.save"
            ) from None
        raise InvalidInput(f"{path}: not a .npy file, or a damaged one; use numpy.save") from None
    if array.dtype.kind not in "iuf" or not np.can_cast(array.dtype, np.float64):
        raise InvalidInput(f"{path}: holds {array.dtype}; expected float64 or narrower")
    numbers = np.asarray(array, dtype=np.float64)
    if not np.isfinite(numbers).all():
        count = int(np.count_nonzero(~np.isfinite(numbers)))
        raise InvalidInput(f"{path}: {count} of {numbers.size} numbers are NaN or infinite")
    return numbers
