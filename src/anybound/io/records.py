"""Results as plain data, and files of them: JSON lines, appended one at a time.

A line is written by one call and synced, so that a file that was being written when the process or
the machine died holds complete lines and at most one torn one, the last: it is dropped when the
file is opened again. While a file is open, nobody else can open it to append.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from anybound.errors import InvalidInput

if TYPE_CHECKING:
    from anybound.outcome import Outcome, Progress, Witness

__all__ = [
    "Json",
    "Record",
    "RecordFile",
    "finite",
    "outcome_record",
    "read_records",
    "to_line",
    "witness_record",
]

MOST_TRACE_POINTS = 500  # a curve needs no more

Json = None | bool | int | float | str | Sequence["Json"] | Mapping[str, "Json"]
Record = Mapping[str, Json]


def outcome_record(outcome: Outcome) -> Record:
    """All that an outcome says, as plain data."""
    return {
        "verdict": outcome.verdict.value,
        "seconds": outcome.seconds,
        "cpu_seconds": outcome.cpu_seconds,
        "subproblems": outcome.subproblems,
        "clauses": [
            {"clause": c.clause, "lower": c.lower, "upper": c.upper} for c in outcome.clauses
        ],
        "witness": None if outcome.witness is None else witness_record(outcome.witness),
        "certified": outcome.certified,
        "phases": dict(outcome.phases),
        "plan": dict(outcome.plan),
        "trace": [
            {"seconds": p.seconds, "lower": p.lower, "open": p.open, "closed": p.closed}
            for p in _thinned(outcome.trace)
        ],
        "reason": outcome.reason,
    }


def _thinned(trace: Sequence[Progress]) -> Sequence[Progress]:
    """Evenly chosen points, the last one among them, if there are very many."""
    step = -(-len(trace) // MOST_TRACE_POINTS)
    return trace if step <= 1 else trace[::-step][::-1]


def witness_record(witness: Witness) -> Record:
    """A witness as plain data."""
    return {
        "input": witness.input.tolist(),
        "output": witness.output.tolist(),
        "clause": witness.clause,
    }


def finite(value: Json) -> Json:
    """JSON has no infinity and no NaN: a bound that is none becomes null."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: finite(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [finite(entry) for entry in value]
    return value


def to_line(record: Record) -> str:
    """One line of JSON."""
    return json.dumps(finite(record), allow_nan=False) + "\n"


def read_records(path: str | Path) -> list[Record]:
    """The records of a file; a torn last line is left out, any other damage is refused."""
    try:
        content = Path(path).read_bytes()
    except FileNotFoundError:
        raise InvalidInput(f"{path}: no such file") from None
    lines = content[: content.rfind(b"\n") + 1].splitlines()
    return [_parsed(line, path, number) for number, line in enumerate(lines, 1) if line.strip()]


class RecordFile:
    """A file of records, open to append; what it held before is in `records`."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        except ValueError as error:  # a NUL character in the name
            raise InvalidInput(f"{str(self.path)!r}: cannot be written: {error}") from None
        try:
            _lock(self._file, self.path)
            self.records = read_records(self.path)
            _drop_torn_line(self._file, self.path)
        except BaseException:
            os.close(self._file)
            raise

    def append(self, record: Record) -> None:
        """Write a record, whole, and to the disk."""
        data = to_line(record).encode("utf-8")
        written = os.write(self._file, data)
        if written != len(data):  # a full disk
            os.ftruncate(self._file, os.fstat(self._file).st_size - written)
            raise OSError(28, "No space left on device", str(self.path))
        os.fsync(self._file)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        os.close(self._file)


def _parsed(line: bytes, path: str | Path, number: int) -> Record:
    try:
        record = json.loads(line)
    except ValueError:
        record = None
    if not isinstance(record, dict):
        raise InvalidInput(
            f"{path}: line {number} is no JSON object; expected a file of records, one per line"
        )
    return record


def _drop_torn_line(file: int, path: Path) -> None:
    content = path.read_bytes()
    end = content.rfind(b"\n") + 1
    if end < len(content):
        os.ftruncate(file, end)


def _lock(file: int, path: Path) -> None:
    """Keep others from appending until the file is closed, where the system can."""
    try:
        import fcntl
    except ModuleNotFoundError:  # Windows
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise InvalidInput(f"{path}: another run is writing to it; choose another file") from None
