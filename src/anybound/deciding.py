"""`anybound.verify`: does a property hold of a network?

Only two things make a verdict. `HOLDS`: rigorous lower bounds of every clause are positive.
`VIOLATED`: the original model, run by onnxruntime, maps an input of the set into the unsafe set,
without tolerance. Whatever ends the work sooner leaves valid bounds. See `anybound.decision`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from anybound.bound.intermediates.strategy import IntermediateStrategy
from anybound.bound.method import Method
from anybound.budget import Budget
from anybound.decision import Decision, Search, Settings, Watch
from anybound.io.onnx_reader import load
from anybound.io.records import Record, outcome_record
from anybound.io.replay import Replay
from anybound.io.vnnlib import read_vnnlib
from anybound.model.network import Network
from anybound.outcome import Outcome
from anybound.planning import PlannedSearch
from anybound.registry import INTERMEDIATES, METHODS
from anybound.search.attack import Attack
from anybound.search.portfolio import QUICK
from anybound.search.witness import OriginalModel
from anybound.spec.problems import check_sizes
from anybound.spec.property import Property
from anybound.threads import at_most

__all__ = ["PLANNED", "NormalForm", "opened", "verify", "verify_job"]

PLANNED = PlannedSearch()


def verify(  # noqa: PLR0913  (the one call for everything; all but two arguments are options)
    network: str | Path | Network,
    prop: str | Path | Property,
    *,
    timeout: float | None = None,
    method: str | Method[Any] = "crown",
    intermediate: str | IntermediateStrategy = "auto",
    attacks: Sequence[Attack] = QUICK,
    search: Search | None = PLANNED,
    seed: int = 0,
    threads: int | None = None,
    memory: int | None = None,
    started: float | None = None,
    watch: Watch | None = None,
) -> Outcome:
    """Decide a property of a network, both from files or made in Python, within `timeout` seconds.

    The time counts from `started`, a value of `time.monotonic()`, or from the call. `watch` is told
    what is known so far after each phase. `method`, `intermediate` are records or their texts, such
    as "proximal(iterations=50)"; `search` decides what the bounds of the root leave open, None
    leaves it open. A network that is not a file is itself the model that witnesses are replayed
    on, in float64. `memory` bounds the working memory, in bytes.
    """
    begun = time.monotonic() if started is None else started
    budget = Budget(seconds=timeout, memory=memory, started=begun)
    settings = Settings(
        METHODS.parse(method) if isinstance(method, str) else method,
        INTERMEDIATES.parse(intermediate) if isinstance(intermediate, str) else intermediate,
        tuple(attacks),
        search,
        seed,
    )
    with at_most(threads):
        reading = time.monotonic()
        original, net = opened(network)
        prop = prop if isinstance(prop, Property) else read_vnnlib(prop)
        check_sizes(net, prop)
        decision = Decision(net, prop, original, settings, budget, watch)
        decision.phases |= {"start": reading - begun, "read": time.monotonic() - reading}
        decision.tell()
        return decision.run()


def verify_job(report: Callable[[Record], None], *, complete: bool, **options: Any) -> Record:
    """`verify` as a job: records instead of outcomes; without search if not `complete`."""
    chosen = {name: value for name, value in options.items() if value is not None}

    def watch(known: Outcome) -> None:
        report(outcome_record(known))

    outcome = verify(watch=watch, search=PLANNED if complete else None, **chosen)
    return outcome_record(outcome)


class NormalForm:
    """A network as its own original: for those that were made in Python."""

    dtype: np.dtype[np.floating[Any]] = np.dtype(np.float64)

    def __init__(self, network: Network) -> None:
        self.network = network.to(torch.float64)

    def __call__(self, x: NDArray[np.float64], /) -> NDArray[np.float64]:
        point = torch.from_numpy(np.array(x)).reshape(self.network.input_shape)
        with torch.no_grad():
            y: NDArray[np.float64] = self.network.forward(point).reshape(-1).numpy()
        return y


def opened(network: str | Path | Network) -> tuple[OriginalModel, Network]:
    """What witnesses are replayed on, and the network in float64."""
    if isinstance(network, Network):
        return NormalForm(network), network.to(torch.float64)
    return Replay.of(network), load(network)
