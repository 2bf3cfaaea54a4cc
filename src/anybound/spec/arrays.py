"""Numbers as users have them (lists, numpy arrays, torch tensors) as float64 arrays, without loss."""

from __future__ import annotations

from typing import Any

import numpy as np

from anybound.errors import InvalidInput
from anybound.spec.rounding import FloatArray

__all__ = ["as_array"]


def as_array(value: Any, what: str) -> FloatArray:  # Any: whatever a user hands over
    """The numbers in their own shape; `what` names them in errors.

    A tensor may require gradients and lie on any device. Types that float64 cannot hold are refused.
    """
    if hasattr(value, "detach"):
        value = value.detach().cpu()
        value = value.double().numpy() if value.is_floating_point() else value.numpy()
    try:
        array = np.asarray(value)
    except ValueError:
        raise InvalidInput(f"{what}: rows of different lengths; expected an array") from None
    if not np.can_cast(array.dtype, np.float64):
        raise InvalidInput(f"{what}: type {array.dtype}; expected float64 or narrower")
    numbers: FloatArray = array.astype(np.float64)
    return numbers
