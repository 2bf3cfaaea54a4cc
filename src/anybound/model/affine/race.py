"""Equal functions of a tensor, of which the fastest is found out while they are used.

Which form of a map is the fastest depends on shape, batch size, dtype and machine. Every call has
to be answered anyway, so the first calls of each batch size are answered by one form after another,
and timed; hopeless forms drop out, and after `ROUNDS` rounds the best one answers. No call is made
only to measure.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Protocol

import torch
from torch import Tensor

ROUNDS = 3
HOPELESS = 2.0  # times slower than the best
NEGLIGIBLE = 1e-3  # seconds: the first call of a form may spend this on preparing itself


class Form(Protocol):
    """One way to compute the function."""

    @property
    def name(self) -> str: ...

    def __call__(self, x: Tensor, /) -> Tensor: ...


@dataclass
class _Heat:
    """The state of a race at one batch size."""

    best: list[float]  # seconds per row of the batch, the smallest seen
    queue: list[int]
    turn: int = 0
    rounds: int = 1
    winner: int | None = None


@dataclass(frozen=True, eq=False)
class Race:
    """x `[N, …]` ↦ forms[?](x); all forms compute the same."""

    forms: Sequence[Form]
    _heats: dict[int, _Heat] = field(default_factory=dict, init=False)

    def __call__(self, x: Tensor) -> Tensor:
        if len(self.forms) == 1 or (x.requires_grad and torch.is_grad_enabled()):
            return self.forms[0](x)
        heat = self._heat(len(x))
        if torch.compiler.is_compiling():  # a clock has no place in a graph
            return self.forms[heat.winner or 0](x)
        return self._timed(heat, x) if heat.winner is None else self.forms[heat.winner](x)

    def fastest(self, x: Tensor) -> Form:
        """Runs the race for batches like x to its end."""
        if len(self.forms) == 1:
            return self.forms[0]
        heat = self._heat(len(x))
        while heat.winner is None:
            self._timed(heat, x)
        return self.forms[heat.winner]

    def _heat(self, batch: int) -> _Heat:
        bucket = batch.bit_length()
        if bucket not in self._heats:
            count = len(self.forms)
            self._heats[bucket] = _Heat([float("inf")] * count, list(range(count)))
        return self._heats[bucket]

    def _timed(self, heat: _Heat, x: Tensor) -> Tensor:
        runner = heat.queue[heat.turn % len(heat.queue)]  # in range even if threads meet here
        heat.turn += 1
        out, seconds = _clocked(self.forms[runner], x)
        heat.best[runner] = min(heat.best[runner], seconds / max(1, len(x)))
        if heat.turn >= len(heat.queue):
            self._next_round(heat, max(1, len(x)))
        return out

    def _next_round(self, heat: _Heat, batch: int) -> None:
        bar = max(HOPELESS * min(heat.best), NEGLIGIBLE / batch)
        heat.queue = [i for i, seconds in enumerate(heat.best) if seconds <= bar]
        heat.rounds, heat.turn = heat.rounds + 1, 0
        if heat.rounds > ROUNDS or len(heat.queue) == 1:
            heat.winner = heat.best.index(min(heat.best))


def _clocked(form: Callable[[Tensor], Tensor], x: Tensor) -> tuple[Tensor, float]:
    if x.is_cuda:
        torch.cuda.synchronize(x.device)
    start = perf_counter()
    out = form(x)
    if x.is_cuda:
        torch.cuda.synchronize(x.device)
    return out, perf_counter() - start
