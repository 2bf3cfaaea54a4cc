"""A run in numbers: verdicts by benchmark, and whether any contradicts what is expected."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import PurePath
from types import MappingProxyType
from typing import Any

__all__ = ["Row", "benchmark_of", "contradictions", "is_contradicted", "summarise"]

Data = Mapping[str, Any]  # a record of `bench`
Expected = Mapping[tuple[str, str], str]

_OPPOSITE = MappingProxyType({"holds": "sat", "violated": "unsat"})
_FILE_DEPTH = 3  # benchmark/onnx/file


@dataclass
class Row:
    """One benchmark: how many verdicts of each kind, failures, and seconds in all."""

    benchmark: str
    verdicts: Counter[str] = field(default_factory=Counter)
    certified: int = 0
    failed: int = 0
    contradicted: int = 0
    seconds: float = 0.0
    cpu_seconds: float = 0.0

    @property
    def count(self) -> int:
        """The instances of the benchmark."""
        return sum(self.verdicts.values())

    def add(self, record: Data, contradicted: bool) -> None:
        """Count one more record."""
        self.verdicts[record["verdict"]] += 1
        self.certified += record.get("certified") is True
        self.failed += record.get("error") is not None
        self.contradicted += contradicted
        self.seconds += record["seconds"]
        self.cpu_seconds += record["cpu_seconds"]


def summarise(records: Iterable[Data], expected: Expected, default: str) -> list[Row]:
    """One row per benchmark: the folder two above a network, or `default` if there is none."""
    rows: dict[str, Row] = {}
    for record in records:
        name = benchmark_of(record["onnx"], default)
        row = rows.setdefault(name, Row(name))
        row.add(record, is_contradicted(record, expected))
    return [rows[name] for name in sorted(rows)]


def contradictions(records: Iterable[Data], expected: Expected) -> list[Data]:
    """The records whose verdict is the opposite of what is expected."""
    return [record for record in records if is_contradicted(record, expected)]


def is_contradicted(record: Data, expected: Expected) -> bool:
    """Whether `holds` meets sat, or `violated` unsat."""
    label = expected.get((record["onnx"], record["vnnlib"]))
    return label is not None and _OPPOSITE.get(record["verdict"]) == label


def benchmark_of(onnx: str, default: str) -> str:
    """The folder two above a network's file, or `default` if there is none."""
    parts = [part for part in PurePath(onnx).parts if part not in (".", "..")]
    return parts[-_FILE_DEPTH] if len(parts) >= _FILE_DEPTH else default
