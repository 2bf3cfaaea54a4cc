"""What `anybound.bounds` answers: the bounds, what they rest on, and how they look in a notebook."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from anybound.bound.bounds import Bounds, LayerCount
from anybound.bound.method import Method, Stopped
from anybound.drawing.cards import card
from anybound.drawing.charts import Axis, Series, chart
from anybound.drawing.intervals import MOST_INTERVALS, intervals
from anybound.drawing.markup import Html
from anybound.layers import Layers
from anybound.model.domains.domain import Domain
from anybound.model.network import Network
from anybound.registry import text_of

__all__ = ["BoundsResult", "Trace"]

_MOST_CURVES = 4


@dataclass(frozen=True, eq=False)
class Trace:
    """The method's own bounds over time, in the search's precision: `lower[i]`, `upper[i]` are
    those after `seconds[i]`."""

    seconds: tuple[float, ...]
    iterations: tuple[int, ...]
    lower: Tensor
    upper: Tensor


@dataclass(frozen=True, eq=False)
class BoundsResult:
    """Proved bounds `lower`, `upper` `[R]` (`[D, R]` for a batch of D input sets), in float64, and
    what is needed to go on from them or to prove them again.

    `rho` is the dual point behind them (rows for `lower` first, then those for `upper`): pass the
    result as `warm` to continue. `intermediate` are the bounds of the hidden layers that were used;
    `network` and `domain` are what they hold for. `ambiguous` counts, per hidden layer, the neurons
    that these leave undecided."""

    lower: Tensor
    upper: Tensor
    rho: Layers
    intermediate: Bounds
    ambiguous: tuple[LayerCount, ...]
    method: Method[Any]
    iterations: int
    seconds: float
    seconds_intermediate: float
    stopped: Stopped
    network: Network
    domain: Domain
    trace: Trace | None = None

    def __repr__(self) -> str:
        shown = ", ".join(f"[{low:.4g}, {high:.4g}]" for low, high in self._pairs())
        shown = shown if len(shown) < 400 else shown[:400] + " …"
        return (
            f"BoundsResult({self.lower.numel()} functions, {self.seconds:.2f} s, "
            f"{self.iterations} iterations, {self.stopped.name.lower()}: {shown})"
        )

    def _repr_html_(self) -> str:
        """What a notebook shows: the bounds as intervals and, with a trace, how they became tight."""
        ambiguous, neurons = (sum(c[i] for c in self.ambiguous) for i in (2, 1))
        facts = {
            "method": text_of(self.method),
            "iterations": f"{self.iterations}, {self.stopped.name.lower()}",
            "seconds": f"{self.seconds:.2f} ({self.seconds_intermediate:.2f} on hidden layers)",
            "ambiguous": f"{ambiguous:,} of {neurons:,} hidden neurons",
        }
        return card(f"Bounds of {self.lower.numel():,} functions", facts.items(), self._figures())

    def _figures(self) -> Iterator[Html]:
        pairs = self._pairs()
        left_out = len(pairs) - MOST_INTERVALS
        more = f" (and {left_out:,} more)" if left_out > 0 else ""
        rows = [(i, *pair) for i, pair in enumerate(pairs[:MOST_INTERVALS])]
        yield intervals(f"Proved bounds{more}", rows)
        if self.trace is not None and len(self.trace.seconds) > 1:
            yield _curves(self.trace)

    def _pairs(self) -> list[tuple[float, float]]:
        return list(zip(self.lower.flatten().tolist(), self.upper.flatten().tolist(), strict=True))


def _curves(trace: Trace) -> Html:
    """The lower bounds over time of the widest functions."""
    lower, upper = trace.lower.flatten(1).double(), trace.upper.flatten(1).double()
    widest = (upper[-1] - lower[-1]).topk(min(_MOST_CURVES, lower.shape[1])).indices
    series = [
        Series(f"row {row}", list(zip(trace.seconds, lower[:, row].tolist(), strict=True)), True)
        for row in widest.tolist()
    ]
    values = [value for s in series for _, value in s.points if math.isfinite(value)]
    time = Axis.around("seconds", [0.0, *trace.seconds])
    return chart("Lower bounds over time", time, Axis.around("lower bound", values), series)
