"""A job in a process of its own, seen from the parent: it can be watched, and killed at any time.

Processes are forked: from this one as long as it is light, else from a server that has imported
what jobs need (`preload`), so that every job finds warm imports and fresh memory.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from multiprocessing.context import BaseContext
from pathlib import Path
from typing import Any

from anybound.memory import resident
from anybound.runtime.job import Ending, Finished, Job, Record, Report
from anybound.runtime.worker import INTERRUPT, Hello, Progress, serve

__all__ = ["Running", "fresh", "server"]

INTERRUPT_SECONDS = 0.3  # for a job to come to its end by itself
START_SECONDS = 600.0  # a process that is not up by then, compiling included, never will be


def fresh(preload: Sequence[str]) -> BaseContext:
    """For one job: a fork of this process if that is safe, else as `server`."""
    light = "torch" not in sys.modules and "fork" in multiprocessing.get_all_start_methods()
    return multiprocessing.get_context("fork") if light else server(preload)


def server(preload: Sequence[str]) -> BaseContext:
    """For many jobs: forks of a server with these modules, or new processes where there is none."""
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(preload))
    return context


class Running:
    """A job at work; `watch` is told what it reports."""

    def __init__(self, job: Job, context: BaseContext, watch: Report | None = None) -> None:
        self.job, self.started = job, job.started
        self.launched = time.monotonic()
        self.watch = watch
        self.last: Record | None = None
        self.connection, theirs = context.Pipe()
        inherited = self.connection if context.get_start_method() == "fork" else None
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(AttributeError, OSError, ValueError):
                stream.flush()  # or the child would write it again
        if context.get_start_method() == "forkserver":
            _start_server()
        # The attribute exists in every context, but is not part of the base class's types.
        process: Any = context.Process  # type: ignore[attr-defined]
        self.process = process(target=serve, args=(theirs, inherited, job), daemon=True)
        self.process.start()
        theirs.close()

    def left(self) -> float:
        """Seconds until the process has to be looked at."""
        now = time.monotonic()
        if self.started is None:
            return self.launched + START_SECONDS - now
        return float("inf") if self.job.seconds is None else self.started + self.job.seconds - now

    def poll(self) -> Finished | None:
        """Read what the process has sent; how the job ended, if it has, or was made to here."""
        while self.connection.poll():
            finished = self._next()
            if finished is not None:
                return finished
        if self.left() <= 0:
            return self._overdue()
        if self.job.cpu is not None and cpu_seconds(self.process.pid) > self.job.cpu:
            return self.kill(Ending.TIMEOUT)
        if self.job.memory is not None and resident(self.process.pid) > self.job.memory:
            return self.kill(Ending.MEMORY, f"more than {self.job.memory:,} bytes")
        return None

    def interrupt(self) -> Finished:
        """End the job soon: by itself with the best it has if it can, else with its last report."""
        if INTERRUPT is not None and self.started is not None and self.process.pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.process.pid, INTERRUPT)
            deadline = time.monotonic() + INTERRUPT_SECONDS
            while (left := deadline - time.monotonic()) > 0 and self.connection.poll(left):
                finished = self._next()
                if finished is not None:
                    return replace(finished, ending=Ending.INTERRUPTED)
        return self.kill(Ending.INTERRUPTED)

    def kill(self, ending: Ending, message: str = "") -> Finished:
        """Stop the process at once, with what it reported last."""
        cpu = cpu_seconds(self.process.pid)
        self.process.kill()
        self._close()
        begun = self.launched if self.started is None else self.started
        return Finished(self.job, ending, self.last, time.monotonic() - begun, cpu, message)

    def _next(self) -> Finished | None:
        """Take one message; how the job ended, if it says that, or ended without a word."""
        try:
            message = self.connection.recv()
        except (EOFError, OSError):
            return self._died()
        match message:
            case Hello(started):
                self.started = started if self.job.started is None else self.job.started
            case Progress(record):
                self.last = record
                if self.watch is not None:
                    self.watch(record)
            case Finished():
                self._close()
                return replace(message, job=self.job)
        return None

    def _died(self) -> Finished:
        """The process ended without a word: killed from outside, or crashed in native code."""
        self.process.join(5)
        code = self.process.exitcode
        how = f"signal {-code}" if code is not None and code < 0 else f"exit code {code}"
        return self.kill(Ending.CRASHED, f"the process ended with {how}")

    def _overdue(self) -> Finished:
        if self.started is None:
            return self.kill(Ending.CRASHED, f"the process was not up in {START_SECONDS:g} s")
        return self.kill(Ending.TIMEOUT)

    def _close(self) -> None:
        self.connection.close()
        self.process.join(5)


def _start_server() -> None:
    """Start the fork server if there is none, with SIGINT blocked: a terminal sends Ctrl-C to all
    of its processes, and this one's imports would answer it with a traceback."""
    from multiprocessing import forkserver, resource_tracker

    resource_tracker.ensure_running()  # first, as it unblocks SIGINT
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        forkserver.ensure_running()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def cpu_seconds(pid: int | None) -> float:
    """What a process has used; 0 where that cannot be told."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    except (OSError, IndexError, ValueError):
        return 0.0
