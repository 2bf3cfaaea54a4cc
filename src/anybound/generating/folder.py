"""The folder that properties are written to, in the form of the paper's data sets.

    onnx/NET.onnx                                  the network
    vnnlib/NET-idx3-target5-eps0.031.vnnlib        a property
    instances.csv                                  onnx,vnnlib,timeout without a header
    expected.csv                                   unsat, sat or unknown by instance
    properties.csv                                 image, label, target, radii and margin of every property
    properties.jsonl                               a record per image, which a killed run goes on from

The lists are functions of the records.
"""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from anybound.errors import InvalidConfig, InvalidInput
from anybound.io.records import Record, RecordFile, read_records
from anybound.training.checkpoint import write_whole

__all__ = ["Folder"]

_COLUMNS = ("name", "idx", "label", "target", "epsilon", "holds", "violated", "margin", "expected")
# Records are plain JSON data, whose types the type checker cannot follow by key.
Data = Any


@dataclass(frozen=True)
class Folder:
    """The folder, and the name of the network's file."""

    path: Path
    network: str

    @property
    def records(self) -> Path:
        """The file of records."""
        return self.path / "properties.jsonl"

    def begin(self, file: RecordFile, settings: Record, content: bytes) -> dict[int, Record]:
        """Put the network there; the records by image of an earlier run with the same settings."""
        if file.records:
            _compare(file.records[0].get("settings"), settings, self.records)
        else:
            file.append({"settings": settings})
        for name in ("onnx", "vnnlib"):
            (self.path / name).mkdir(exist_ok=True)
        write_whole(self.path / "onnx" / self.network, content)
        return {record["image"]: record for record in _images(file.records[1:], self.records)}

    def write(self, name: str, text: str) -> None:
        """Write a property."""
        content = text.encode("ascii")
        packed = gzip.compress(content, mtime=0) if name.endswith(".gz") else content
        write_whole(self.path / "vnnlib" / name, packed)

    def list(self, timeout: float) -> None:
        """Write the lists of all properties there are records of, in the order of their images."""
        images = sorted(_images(read_records(self.records)[1:], self.records), key=_number)
        properties = [record["property"] for record in images if record["property"] is not None]
        pairs = [(f"onnx/{self.network}", f"vnnlib/{prop['name']}") for prop in properties]
        labels = [prop["expected"] for prop in properties]
        self._csv("instances.csv", [(*pair, f"{timeout:g}") for pair in pairs])
        rows = [(*pair, label) for pair, label in zip(pairs, labels, strict=True)]
        self._csv("expected.csv", [("onnx", "vnnlib", "expected"), *rows])
        table = [tuple(_cell(prop[column]) for column in _COLUMNS) for prop in properties]
        self._csv("properties.csv", [_COLUMNS, *table])

    def _csv(self, name: str, rows: Sequence[tuple[str, ...]]) -> None:
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows(rows)
        write_whole(self.path / name, text.getvalue().encode())


def _images(records: Iterable[Record], path: Path) -> list[Data]:
    """The records, whose numbers and names will be relied on."""
    for record in records:
        prop = record.get("property")
        if not isinstance(record.get("image"), int) or not (
            prop is None or (isinstance(prop, Mapping) and set(_COLUMNS) <= set(prop))
        ):
            raise InvalidInput(f"{path}: a line is no record of an image; choose another folder")
    return list(records)


def _number(record: Data) -> int:
    return int(record["image"])


def _cell(value: object) -> str:
    return "" if value is None else str(value)


def _compare(other: object, settings: Record, path: Path) -> None:
    known = other if isinstance(other, Mapping) else {}
    for name in {**known, **settings}:
        if known.get(name) != settings.get(name):
            raise InvalidConfig(
                f"{path}: is of a run with {name} {known.get(name)}, not {settings.get(name)}; choose "
                "another folder"
            )
