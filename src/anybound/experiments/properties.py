"""What complete verification decides: properties of networks, and the times recorded when the data set was made.

The paper's three networks and the properties of its data set are read from a folder of benchmarks; with none at hand,
three of the bundled networks of digits take their place.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Protocol

from anybound.benching import Instance, read_instances
from anybound.bundle import bundled
from anybound.errors import InvalidInput

__all__ = ["ROLES", "DigitProperties", "PaperProperties", "PropertySource", "Recorded"]

ROLES = ("base", "wide", "deep")
_ROWS = {"LP BaBSR": ("BSAT_KW", "BTime_KW", "BBran_KW"), "MIPplanet": ("GSAT", "GTime", None)}


@dataclass(frozen=True)
class Recorded:
    """What somebody else's run took, on another machine. `verdict` is unsat, sat or timeout."""

    row: str
    vnnlib: str
    verdict: str
    seconds: float
    subproblems: int | None


class PropertySource(Protocol):
    """Where networks and properties come from."""

    def name(self, role: str) -> str:
        """The network that plays a role."""

    def folder(self, role: str) -> Path:
        """What file names are relative to."""

    def instances(self, role: str, count: int | None) -> Sequence[Instance]:
        """So many properties evenly from the easiest to the hardest, or all."""

    def recorded(self, role: str) -> Sequence[Recorded]:
        """Times of others."""


@dataclass(frozen=True)
class PaperProperties:
    """`dev/paper_base_kw` and so on in a folder of benchmarks."""

    root: Path

    def __post_init__(self) -> None:
        if not (self.root / "dev" / "paper_base_kw" / "properties.csv").is_file():
            raise InvalidInput(
                f"{self.root}: has no dev/paper_base_kw/properties.csv; expected the folder of "
                "benchmarks (or --digits to run on the bundled ones)"
            )

    def name(self, role: str) -> str:
        return f"cifar_{role}_kw"

    def folder(self, role: str) -> Path:
        return self.root / "dev" / f"paper_{role}_kw"

    def instances(self, role: str, count: int | None) -> Sequence[Instance]:
        known = sorted(self._rows(role), key=lambda row: float(row["BTime_KW"]))
        wanted = min(count or len(known), len(known))
        rows = [known[i * len(known) // wanted] for i in range(wanted)]
        return [Instance(f"onnx/{self.name(role)}.onnx", _file(row), None) for row in rows]

    def recorded(self, role: str) -> Sequence[Recorded]:
        return [
            Recorded(
                row,
                _file(line),
                line[verdict],
                float(line[time]),
                int(line[tree]) if tree and line[tree] else None,  # time-outs have none
            )
            for line in self._rows(role)
            for row, (verdict, time, tree) in _ROWS.items()
        ]

    def _rows(self, role: str) -> list[dict[str, str]]:
        with (self.folder(role) / "properties.csv").open(encoding="utf-8") as file:
            return list(csv.DictReader(file))


def _file(row: Mapping[str, str]) -> str:
    return f"vnnlib/{row['name']}.vnnlib.gz"


_DIGITS = MappingProxyType(
    {"base": "digits_dense", "wide": "digits_conv", "deep": "digits_residual"}
)


@dataclass(frozen=True)
class DigitProperties:
    """The bundled networks with ReLU."""

    def name(self, role: str) -> str:
        return _DIGITS[role]

    def folder(self, role: str) -> Path:
        del role
        return bundled("instances.csv").parent

    def instances(self, role: str, count: int | None) -> Sequence[Instance]:
        return read_instances(bundled("instances.csv"), f"networks/{self.name(role)}.onnx")[:count]

    def recorded(self, role: str) -> Sequence[Recorded]:
        return []
