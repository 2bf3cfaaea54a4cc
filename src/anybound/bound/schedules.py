"""Step sizes α_t for t = 1 … T."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from anybound.errors import InvalidConfig


@dataclass(frozen=True)
class Schedule(ABC):
    """A step size for every iteration."""

    @abstractmethod
    def at(self, t: int, steps: int) -> float:
        """α_t of iteration t = 1 … steps."""


@dataclass(frozen=True)
class Linear(Schedule):
    """start + (t/T)(end − start): the last step is exactly `end`, the first slightly past `start`."""

    start: float
    end: float

    def __post_init__(self) -> None:
        _check_positive(self, self.start, self.end)

    def at(self, t: int, steps: int) -> float:
        return self.start + t / steps * (self.end - self.start)


@dataclass(frozen=True)
class Geometric(Schedule):
    """start·(end/start)^(t/T): constant ratio from `start` to `end`, whatever T."""

    start: float
    end: float

    def __post_init__(self) -> None:
        _check_positive(self, self.start, self.end)

    def at(self, t: int, steps: int) -> float:
        return float(self.start * (self.end / self.start) ** (t / steps))


@dataclass(frozen=True)
class Decay(Schedule):
    """start·factor^(t−1): does not depend on T."""

    start: float
    factor: float

    def __post_init__(self) -> None:
        _check_positive(self, self.start, self.factor)

    def at(self, t: int, steps: int) -> float:
        return float(self.start * self.factor ** (t - 1))


def _check_positive(schedule: Schedule, *values: float) -> None:
    if not all(value > 0 for value in values):
        raise InvalidConfig(f"{schedule!r}: both numbers must be positive")
