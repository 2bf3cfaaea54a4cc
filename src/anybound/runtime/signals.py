"""SIGTERM as an interrupt: whoever handles Ctrl-C handles it, too. Both can be put off."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["held", "sigterm_interrupts"]


@contextmanager
def sigterm_interrupts() -> Iterator[None]:
    """Inside the block SIGTERM raises KeyboardInterrupt (in the main thread, where signals go)."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, _interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def held() -> Iterator[None]:
    """Inside the block SIGINT and SIGTERM wait; what came is answered at its end."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came = list[int]()
    before = {n: signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)}
    for number in before:
        signal.signal(number, lambda number, _: came.append(number))
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler or signal.SIG_DFL)
        if came:
            signal.raise_signal(came[0])


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt
