"""Jobs, in this process one after the other, or in processes of their own, several at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from multiprocessing.connection import wait
from multiprocessing.context import BaseContext

from anybound.runtime.job import Ending, Finished, Job, Record, Report, execute
from anybound.runtime.process import Running
from anybound.runtime.signals import held, sigterm_interrupts

__all__ = ["run_all", "run_here", "run_one"]

_LOOK = 0.1  # seconds between looks at what processes use
_LONGEST_WAIT = 60.0


def run_here(jobs: Iterable[Job]) -> Iterator[Finished]:
    """One after the other in this process: nothing can be killed, so limits are the jobs' own."""
    for job in jobs:
        yield execute(job, _ignore)


def run_one(job: Job, context: BaseContext, watch: Report | None = None) -> Finished:
    """In a process of its own; SIGINT and SIGTERM end it at once, with what it reported last."""
    running: Running | None = None
    with sigterm_interrupts():
        try:
            running = Running(job, context, watch)
            while (finished := running.poll()) is None:
                wait([running.connection], timeout=_patience([running]))
        except KeyboardInterrupt:
            if running is None:
                raise
            return running.interrupt()
    return finished


def run_all(jobs: Iterable[Job], workers: int, context: BaseContext) -> Iterator[Finished]:
    """At most `workers` at once, each in a process of its own; the first to end comes first.

    If the iterator is closed, or interrupted, the processes at work are killed.
    """
    waiting = iter(jobs)
    running: list[Running] = []
    is_served = False  # the first process waits for a server that imports: that can be interrupted
    try:
        while True:
            while len(running) < workers and (job := next(waiting, None)) is not None:
                # not cut off while it reads what it is to do, but killed below
                with held() if is_served else nullcontext():
                    running.append(Running(job, context))
                is_served = True
            if not running:
                return
            wait([one.connection for one in running], timeout=_patience(running))
            for one in list(running):
                finished = one.poll()
                if finished is not None:
                    running.remove(one)
                    yield finished
    finally:
        for one in running:
            one.kill(Ending.INTERRUPTED)


def _ignore(record: Record) -> None:
    del record


def _patience(running: Iterable[Running]) -> float:
    """Seconds until something has to be looked at though nothing was sent."""
    seconds = _LONGEST_WAIT
    for one in running:
        seconds = min(seconds, one.left())
        if one.job.memory is not None or one.job.cpu is not None:
            seconds = min(seconds, _LOOK)
    return max(0.0, seconds)
