"""Records of the study: how a method's bounds rise with time, and what intermediate bounds bring."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from anybound.io.records import Record

__all__ = ["Curve", "Tightened", "curves", "tightened"]


@dataclass(frozen=True)
class Curve:
    """`mean[i]` is the mean of the nine lower bounds after `seconds[i]` CPU seconds; `lower` is proved in the end."""

    role: str
    network: str
    epsilon: str
    image: int
    part: str
    row: str
    family: str
    method: str
    seconds: tuple[float, ...]
    mean: tuple[float, ...]
    lower: tuple[float, ...]

    @property
    def key(self) -> tuple[str, str, int, str]:
        """What is measured once."""
        return "curve", self.network, self.image, self.row

    def record(self) -> Record:
        """As plain data."""
        return {"kind": "curve", **asdict(self)}


@dataclass(frozen=True)
class Tightened:
    """A method on intermediate bounds of a strategy; seconds are CPU seconds of one thread, of either."""

    role: str
    network: str
    epsilon: str
    image: int
    strategy: str
    row: str
    family: str
    ambiguous: int
    between_seconds: float
    seconds: float
    lower: tuple[float, ...]

    @property
    def key(self) -> tuple[str, str, int, str]:
        """What is measured once."""
        return self.strategy, self.network, self.image, self.row

    def record(self) -> Record:
        """As plain data."""
        return {"kind": "tightened", **asdict(self)}


def curves(records: list[Record]) -> list[Curve]:
    """From plain data."""
    return [Curve(**_values(r)) for r in records if r.get("kind") == "curve"]


def tightened(records: list[Record]) -> list[Tightened]:
    """From plain data."""
    return [Tightened(**_values(r)) for r in records if r.get("kind") == "tightened"]


def _values(record: Record) -> dict[str, Any]:
    return {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in record.items()
        if name != "kind"
    }
