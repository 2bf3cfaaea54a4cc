"""Budgets of time, iterations and memory, and the only clock.

Whoever spends a budget can say how far it is (`progress`): the time is that of the whole, whatever
share is spent, and whoever made the budget may watch.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from threading import Event

from anybound.errors import InvalidConfig
from anybound.outcome import Progress


@dataclass(frozen=True)
class Budget:
    """What a computation may spend. The clock starts when the budget is made; None is unlimited."""

    seconds: float | None = None
    iterations: int | None = None
    memory: int | None = None  # bytes of working memory
    started: float = field(default_factory=time.monotonic)
    watch: Callable[[Progress], None] | None = field(default=None, repr=False, compare=False)
    _origin: float | None = None  # when the budget began that this one is a share of
    _cancelled: Event = field(default_factory=Event, repr=False, compare=False)

    def __post_init__(self) -> None:
        for name in ("seconds", "iterations", "memory"):
            value = getattr(self, name)
            if value is not None and not value >= 0:
                raise InvalidConfig(
                    f"budget: {name} is {value}; expected a number >= 0, or None for no limit"
                )

    def elapsed(self) -> float:
        return time.monotonic() - self.started

    def left(self) -> float:
        """Seconds, infinite without a limit."""
        return float("inf") if self.seconds is None else self.seconds - self.elapsed()

    def is_spent(self, iterations: int = 0) -> bool:
        out_of_steps = self.iterations is not None and iterations >= self.iterations
        return out_of_steps or self.left() <= 0 or self.is_cancelled

    def cancel(self) -> None:
        """Nothing more may be spent, of this budget and of those it shares with."""
        self._cancelled.set()

    @property
    def is_cancelled(self) -> bool:
        return self._cancelled.is_set()

    def at_most(self, seconds: float) -> Budget:
        """A budget of so many seconds, or what is left, starting now; it is cancelled with this one."""
        rest = self.share(1.0)
        return replace(rest, seconds=max(0.0, min(seconds, rest.left())))

    def share(self, fraction: float) -> Budget:
        """A budget of this fraction of the seconds left, starting now; it is cancelled with this one."""
        seconds = None if self.seconds is None else max(0.0, self.left() * fraction)
        return self._from_now(seconds)

    def within(self, seconds: float) -> Budget:
        """At most so many seconds from now, and no more than are left; it is cancelled with this one."""
        return self._from_now(min(seconds, max(0.0, self.left())))

    def progress(self, lower: float, open_count: int, closed: int) -> Progress:
        """A point of a search's trace, in seconds since the whole began; the watcher is told."""
        point = Progress(time.monotonic() - self._begun, lower, open_count, closed)
        if self.watch is not None:
            self.watch(point)
        return point

    def _from_now(self, seconds: float | None) -> Budget:
        return replace(self, seconds=seconds, started=time.monotonic(), _origin=self._begun)

    @property
    def _begun(self) -> float:
        """When the whole began."""
        return self.started if self._origin is None else self._origin
