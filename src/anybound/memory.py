"""Memory: how much is in use, and what to do when it runs out: work in pieces, and in smaller ones from then on."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

__all__ = ["Pieces", "is_out_of_memory", "resident"]

T = TypeVar("T")


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an exception says so, in Python's, NumPy's or PyTorch's way."""
    said = str(error).lower()
    torch_says = "allocate memory" in said or "out of memory" in said
    return isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and torch_says)


def resident(pid: int | None) -> int:
    """Bytes of a process in memory; 0 where that cannot be told."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (OSError, IndexError, ValueError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


class Pieces:
    """Work on many items at once, as many as fit into so many bytes."""

    def __init__(self, bytes_each: int, memory: int) -> None:
        self.most = max(1, memory // max(1, bytes_each))

    def run(self, count: int, work: Callable[[int, int], T]) -> list[T]:
        """work(first, last) over all items (at least once, for none); where memory runs out the piece is
        halved, and no later one is larger."""
        done: list[T] = []
        first = 0
        while first < count or not done:
            last = min(count, first + self.most)
            try:
                done.append(work(first, last))
            except (MemoryError, RuntimeError) as error:
                if not is_out_of_memory(error) or last - first <= 1:
                    raise
                self.most = (last - first) // 2
                continue
            first = last
        return done
