"""One method on one image: what it proved of the margins, and what that took."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from anybound.io.records import Json, Record

__all__ = ["Measurement"]


@dataclass(frozen=True)
class Measurement:
    """`lower` are proved lower bounds on label − other; seconds are those of the last layer alone.

    `original` are the bounds that the original code gave for this row, empty where they are not known.
    """

    role: str
    network: str
    epsilon: str
    image: int
    row: str
    family: str
    method: str
    lower: tuple[float, ...]
    seconds: float
    cpu_seconds: float
    iterations: int
    ambiguous: int
    original: tuple[float, ...] = ()
    versions: Mapping[str, Json] = field(default_factory=dict)

    @property
    def key(self) -> tuple[str, int, str]:
        """What is measured once in a run."""
        return self.network, self.image, self.row

    def record(self) -> Record:
        """As plain data."""
        return {**asdict(self), "lower": list(self.lower), "original": list(self.original)}

    @staticmethod
    def of(record: Record) -> Measurement:
        """From plain data."""
        values = dict(record)
        for name in ("lower", "original"):
            values[name] = tuple(values.get(name, ()))  # type: ignore[arg-type]  # a list of numbers
        return Measurement(**values)  # type: ignore[arg-type]  # checked by its names
