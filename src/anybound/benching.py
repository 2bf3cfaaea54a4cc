"""A benchmark: many instances, each in a process of its own, one record per instance in a file.

A list of instances is the competition's: lines `onnx,vnnlib,timeout` without a header, files relative
to the list. A run that was killed goes on where it was: instances with a record are not repeated.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from anybound.errors import InvalidConfig, InvalidInput
from anybound.io.files import read_bytes
from anybound.io.records import Record, RecordFile
from anybound.runtime.job import Ending, Finished, Job, Report
from anybound.runtime.pool import run_all, run_one
from anybound.runtime.process import server

__all__ = [
    "EMPTY",
    "GRACE",
    "PRELOAD",
    "Instance",
    "Run",
    "check_settings",
    "completed",
    "read_expected",
    "read_instances",
    "settings_job",
]

GRACE = 0.25  # seconds after the timeout until the process that works is killed
PRELOAD = ("anybound.warm",)  # imported by the process that all others are forks of

# What is known of an instance before anything was reported.
EMPTY: Mapping[str, Any] = MappingProxyType(
    {
        "verdict": "unknown",
        "seconds": 0.0,
        "cpu_seconds": 0.0,
        "subproblems": 0,
        "memory": None,
        "clauses": [],
        "witness": None,
        "certified": None,
        "phases": {},
        "plan": {},
        "trace": [],
        "reason": "",
    }
)
_REASONS = MappingProxyType(
    {
        Ending.TIMEOUT: ("timeout", "the time is spent"),
        Ending.MEMORY: ("unknown", "stopped at its memory limit"),
        Ending.INTERRUPTED: ("unknown", "interrupted"),
        Ending.REFUSED: ("unknown", "the input cannot be used"),
        Ending.CRASHED: ("unknown", "it crashed"),
    }
)


@dataclass(frozen=True)
class Instance:
    """A line of the list, as it is written there."""

    onnx: str
    vnnlib: str
    timeout: float | None

    @property
    def name(self) -> tuple[str, str]:
        """What identifies it in a run."""
        return self.onnx, self.vnnlib


def completed(finished: Finished) -> Record:
    """The record of a job that may have been cut short; what it proved before that stands."""
    record = finished.record or EMPTY
    if finished.ending is Ending.DONE or record["verdict"] in ("holds", "violated"):
        return record
    if finished.ending is Ending.INTERRUPTED and record["reason"]:
        return record
    verdict, reason = _REASONS[finished.ending]
    measured = {"seconds": finished.seconds, "cpu_seconds": finished.cpu_seconds}
    return {**record, **measured, "verdict": verdict, "reason": reason}


def read_instances(path: str | Path, contains: str = "") -> list[Instance]:
    """The instances of a list whose line contains a text."""
    rows = list(_rows(path))
    instances = [_instance(row, path, number) for number, row in rows]
    chosen = [i for i in instances if contains in f"{i.onnx},{i.vnnlib}"]
    if not instances:
        raise InvalidInput(f"{path}: lists no instances; expected lines onnx,vnnlib,timeout")
    if not chosen:
        raise InvalidInput(f"{path}: none of {len(instances)} instances contains {contains!r}")
    return chosen


def read_expected(path: str | Path) -> dict[tuple[str, str], str]:
    """What `expected.csv` beside a list says: sat, unsat or unknown by instance; or nothing."""
    beside = Path(path).with_name("expected.csv")
    if not beside.is_file():
        return {}
    rows = [row for _, row in _rows(beside) if row[:1] != ["onnx"]]
    return {(row[0], row[1]): row[2] for row in rows if len(row) >= 3}


def check_settings(method: str | None, intermediate: str | None, search: str | None) -> None:
    """Refuse a method that does not exist once, and not in every record.

    In a process of its own: this one stays light, and ends at once when it is told to.
    """
    settings = {"method": method, "intermediate": intermediate, "search": search}
    job = Job("anybound.benching:settings_job", settings)
    finished = run_one(job, server(PRELOAD))
    finished.check()
    if finished.ending is Ending.INTERRUPTED:
        raise KeyboardInterrupt


def settings_job(
    report: Report, method: str | None, intermediate: str | None, search: str | None
) -> Record:
    """The settings as the records they stand for."""
    from anybound.registry import INTERMEDIATES, METHODS, SEARCHES

    del report
    given = ((METHODS, method), (INTERMEDIATES, intermediate), (SEARCHES, search))
    return {registry.kind: repr(registry.parse(text)) for registry, text in given if text}


@dataclass(frozen=True)
class Run:
    """The instances of a list, and how to decide them. `timeout` replaces those of the list; `cpu` bounds the CPU
    seconds of each as well, which a busy machine leaves as they are.

    `labels` are in every record; records without them are of other runs that share the file."""

    instances: Sequence[Instance]
    folder: Path
    timeout: float | None = None
    workers: int = 1
    options: Mapping[str, Any] = field(default_factory=dict)
    versions: Mapping[str, str | None] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    cpu: float | None = None

    def records(self, file: RecordFile) -> Iterator[Record]:
        """Decide what has no record in the file yet; each record is in the file when it comes."""
        done = self.done(file)
        jobs = [self._job(i) for i in self.instances if i.name not in done]
        for finished in run_all(jobs, self.workers, server(PRELOAD)):
            record = self._record(finished)
            file.append(record)
            yield record

    def done(self, file: RecordFile) -> dict[tuple[str, str], Record]:
        """The records that the file holds of these instances, which have to be of such a run."""
        ours = (r for r in file.records if all(r.get(k) == v for k, v in self.labels.items()))
        known = {(str(r.get("onnx")), str(r.get("vnnlib"))): r for r in ours}
        found = {i.name: known[i.name] for i in self.instances if i.name in known}
        for instance in self.instances:
            record = found.get(instance.name)
            if record is not None and record.get("config") != self._config(instance):
                raise InvalidConfig(
                    f"{file.path}: has {instance.vnnlib} with other settings; choose another file, "
                    f"or the settings {record.get('config')}"
                )
        return found

    def limit(self, instance: Instance) -> float | None:
        """Seconds that an instance may take, None for as long as it likes."""
        return instance.timeout if self.timeout is None else self.timeout

    def _config(self, instance: Instance) -> Record:
        limits = {"timeout": self.limit(instance)} | ({} if self.cpu is None else {"cpu": self.cpu})
        return {**limits, **self.options}

    def _job(self, instance: Instance) -> Job:
        limit = self.limit(instance)
        arguments = {
            "network": str(self.folder / instance.onnx),
            "prop": str(self.folder / instance.vnnlib),
            "timeout": limit,
            **self.options,
        }
        return Job(
            "anybound.deciding:verify_job",
            arguments,
            key=instance,
            seconds=None if limit is None else limit + GRACE,
            cpu=self.cpu,
            memory=self.options.get("memory"),
        )

    def _record(self, finished: Finished) -> Record:
        instance: Instance = finished.job.key
        failed = finished.ending in (Ending.REFUSED, Ending.CRASHED)
        return {
            **self.labels,
            "onnx": instance.onnx,
            "vnnlib": instance.vnnlib,
            **completed(finished),
            "error": finished.message if failed else None,
            "traceback": finished.traceback or None,
            "config": self._config(instance),
            "versions": dict(self.versions),
            "folder": str(self.folder.resolve()),
        }


def _rows(path: str | Path) -> Iterator[tuple[int, list[str]]]:
    """Numbered lines of a csv file that are not empty."""
    try:
        text = read_bytes(path).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InvalidInput(f"{path}: is no text; expected lines onnx,vnnlib,timeout") from None
    try:
        rows = list(csv.reader(io.StringIO(text)))
    except csv.Error as error:
        raise InvalidInput(f"{path}: is no csv file: {error}") from None
    for number, row in enumerate(rows, 1):
        cells = [cell.strip() for cell in row]
        if any(cells):
            yield number, cells


def _instance(row: Sequence[str], path: str | Path, number: int) -> Instance:
    if len(row) not in (2, 3) or not row[0] or not row[1]:
        raise InvalidInput(
            f"{path}: line {number} is {','.join(row)!r}; expected onnx,vnnlib,timeout"
        )
    try:
        timeout = float(row[2]) if len(row) == 3 else None
    except ValueError:
        timeout = -1.0
    if timeout is not None and not 0 < timeout < float("inf"):
        raise InvalidInput(f"{path}: line {number}: the timeout is {row[2]!r}; expected seconds")
    return Instance(row[0], row[1], timeout)
