"""A job is a call by name; however it ends, there is one record of how.

    target(report, **arguments) -> record        report(record): the best known so far

Records are plain data, so that whoever starts jobs needs to load nothing of what they use.
"""

from __future__ import annotations

import gc
import importlib
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from anybound import errors
from anybound.errors import AnyboundError

__all__ = ["Crash", "Ending", "Finished", "Job", "Report", "execute", "loaded"]

Record = Mapping[str, Any]  # Any: plain JSON data
Report = Callable[[Record], None]


class Ending(Enum):
    """How a job ended."""

    DONE = "done"
    REFUSED = "its input cannot be used"
    CRASHED = "it crashed"
    TIMEOUT = "it was stopped at its time limit"
    MEMORY = "it was stopped at its memory limit"
    INTERRUPTED = "it was interrupted"


class Crash(Exception):
    """A defect in what a job runs; its traceback is a note of the exception."""

    def __init__(self, message: str, trace: str) -> None:
        super().__init__(message)
        if trace:
            self.add_note(trace)


@dataclass(frozen=True)
class Job:
    """`target` is "module:function", `arguments` can be pickled. `key` is the caller's.

    After `seconds` the job is killed; they count from `started` (`time.monotonic()`), or from when
    the process is up; so it is after `cpu` seconds of CPU time. `memory` bounds its resident bytes.
    """

    target: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    key: Any = None
    seconds: float | None = None
    started: float | None = None
    cpu: float | None = None
    memory: int | None = None


@dataclass(frozen=True)
class Finished:
    """How a job ended: its record or the last it reported, and a message if it did not end well."""

    job: Job
    ending: Ending
    record: Record | None
    seconds: float
    cpu_seconds: float
    message: str = ""
    error: str = ""  # the name of the error's class in `anybound.errors`
    traceback: str = ""

    def check(self) -> None:
        """Raise the error that refused the job, as it was raised there; for a crash `Crash`."""
        if self.ending is Ending.REFUSED:
            raise getattr(errors, self.error, AnyboundError)(self.message)
        if self.ending is Ending.CRASHED:
            raise Crash(self.message, self.traceback)


def execute(job: Job, report: Report) -> Finished:
    """Run a job here and now."""
    started, cpu = time.monotonic(), time.process_time()
    last: list[Record] = []

    def remember(record: Record) -> None:
        last[:] = [record]
        report(record)

    def finished(ending: Ending, **fields: Any) -> Finished:
        record = fields.pop("record", last[0] if last else None)
        seconds, used = time.monotonic() - started, time.process_time() - cpu
        return Finished(job, ending, record, seconds, used, **fields)

    try:
        record = loaded(job.target)(remember, **job.arguments)
    except AnyboundError as error:
        kind = type(error).__name__
        return finished(Ending.REFUSED, message=str(error), error=kind)
    # The border of a job: whatever it dies of is recorded, and others go on.
    except Exception as error:  # noqa: BLE001
        trace = "".join(traceback.format_exception(error))
        message = f"{type(error).__name__}: {error}"
        return finished(Ending.CRASHED, message=message, traceback=trace)
    return finished(Ending.DONE, record=record)


def loaded(target: str) -> Callable[..., Any]:
    """The function of a name, for a process that does nothing else.

    What is imported stays for good: searching for garbage in it, a million objects with PyTorch's, would take longer
    than many a job, and finds none. So nothing is searched while importing, and what is there then never again.
    """
    module, _, name = target.partition(":")
    searching = gc.isenabled()
    gc.disable()
    try:
        function: Callable[..., Any] = getattr(importlib.import_module(module), name)
    finally:
        if searching:
            gc.enable()
    gc.freeze()
    return function
