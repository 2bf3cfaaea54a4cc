"""A limit on torch's threads that ends with the block."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from anybound.errors import InvalidConfig

__all__ = ["at_most"]


@contextmanager
def at_most(threads: int | None) -> Iterator[None]:
    """Let torch use at most so many threads inside the block; None changes nothing."""
    if threads is None:
        yield
        return
    if threads < 1:
        raise InvalidConfig(f"threads is {threads}; expected at least 1, or None for no limit")
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)
