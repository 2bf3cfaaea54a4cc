"""What runs in a job's own process.

SIGINT and SIGTERM are the parent's business: it interrupts this process by `INTERRUPT`, once, and
kills it when it has to. When the parent is gone, however it died, so is this process. What libraries
print goes to standard error, as standard output belongs to the parent's result.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from multiprocessing.connection import Connection
from typing import NamedTuple

from anybound.runtime.job import Finished, Job, Record, execute

__all__ = ["INTERRUPT", "Hello", "Progress", "most_memory", "serve"]

INTERRUPT: int | None = getattr(signal, "SIGUSR1", None)  # None: there is only killing


class Hello(NamedTuple):
    """The process is up."""

    started: float


class Progress(NamedTuple):
    """The job has reported."""

    record: Record


def most_memory() -> int | None:
    """The most bytes that this process has had in memory; None where that cannot be told."""
    try:
        import resource
    except ModuleNotFoundError:  # Windows
        return None
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else 1024 * most


def serve(connection: Connection, inherited: Connection | None, job: Job) -> None:
    """Run the job and send what happens. `inherited` is the parent's end, if a fork copied it."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    line = Line(connection)
    if INTERRUPT is not None:
        signal.signal(INTERRUPT, line.interrupted)
    if inherited is not None:
        inherited.close()
    with contextlib.suppress(OSError):  # there may be no standard error
        os.dup2(2, 1)
    threading.Thread(target=_follow, args=(connection,), daemon=True).start()
    # Either the parent has lost interest, or it wants an end.
    with contextlib.suppress(BrokenPipeError, KeyboardInterrupt):
        line.send(Hello(time.monotonic()))
        line.send(execute(job, lambda record: line.send(Progress(record))))


class Line:
    """The way to the parent: an interrupt waits for the end of a message, as half of one would make all that
    follow unreadable."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.is_busy, self.is_interrupted = False, False

    def send(self, message: Message) -> None:
        """A whole message."""
        self.is_busy = True
        try:
            self.connection.send(message)
        finally:
            self.is_busy = False
        if self.is_interrupted:
            self.is_interrupted = False
            raise KeyboardInterrupt

    def interrupted(self, number: int, _: object) -> None:
        """What to do at the signal, once."""
        signal.signal(number, signal.SIG_IGN)
        if not self.is_busy:
            raise KeyboardInterrupt
        self.is_interrupted = True


def _follow(connection: Connection) -> None:
    """End with the parent: it never sends anything, so that there is only its end to read."""
    with contextlib.suppress(EOFError, OSError):
        connection.recv()
    os._exit(1)


Message = Hello | Progress | Finished
