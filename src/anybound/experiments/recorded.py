"""Records by experiment: each keeps its own in a folder of its own, and takes no other's for its."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from types import MappingProxyType

from anybound.errors import InvalidInput
from anybound.experiments.measurement import Measurement
from anybound.io.records import Record, read_records

__all__ = ["check_records", "records_of"]

# What every record has; what tells one experiment's from another's is among it.
_FIELDS: Mapping[str, Sequence[str]] = MappingProxyType(
    {
        "incomplete": [f.name for f in fields(Measurement) if f.name not in ("original", "versions")],
        "complete": ("role", "network", "row", "family", "vnnlib", "verdict", "cpu_seconds", "subproblems"),
        "study": ("kind", "role", "network", "epsilon", "image", "row", "family", "seconds", "lower"),
    }
)  # fmt: skip


def check_records(
    path: Path, records: Sequence[Record], experiment: str, names: Mapping[str, str] | None = None
) -> None:
    """Refuse records of something else: of another experiment, or of networks other than `names`, by role."""
    for number, record in enumerate(records, 1):
        missing = next((name for name in _FIELDS[experiment] if name not in record), None)
        if missing is not None:
            raise InvalidInput(
                f"{path}: record {number} has no {missing!r}, so it is none of 'reproduce {experiment}'; "
                "choose another folder"
            )
        network = (names or {}).get(str(record["role"]), record["network"])
        if record["network"] != network:
            raise InvalidInput(
                f"{path}: record {number} is of {record['network']}, not {network}; choose another folder"
            )


def records_of(path: Path, experiment: str) -> Sequence[Record]:
    """What a file holds, and not nothing."""
    records = read_records(path)
    check_records(path, records, experiment)
    if not records:
        raise InvalidInput(f"{path}: holds no records; run 'reproduce {experiment}' without --draw")
    return records
