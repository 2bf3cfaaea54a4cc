"""`anybound.verify`: does a property hold of a network?

Only two things make a verdict. `HOLDS`: rigorous lower bounds of every clause are positive.
`VIOLATED`: the original model, run by onnxruntime, maps an input of the set into the unsafe set,
without tolerance. Whatever ends the work sooner leaves valid bounds. See `anybound.decision`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from anybound.bound.intermediates.strategy import IntermediateStrategy
from anybound.bound.method import Method, OneShot
from anybound.bound.methods.crown import Crown
from anybound.bound.methods.slopes import Slopes
from anybound.budget import Budget
from anybound.decision import Decision, Search, Settings, Watch
from anybound.errors import InvalidConfig, InvalidInput
from anybound.io.onnx_reader import load
from anybound.io.records import Record, outcome_record
from anybound.io.replay import Replay
from anybound.io.trust import anywhere, compare, within
from anybound.io.vnnlib import read_vnnlib
from anybound.model.network import Network
from anybound.outcome import Outcome
from anybound.registry import INTERMEDIATES, METHODS, SEARCHES
from anybound.runtime.worker import most_memory
from anybound.search.attack import Attack
from anybound.search.portfolio import QUICK
from anybound.search.witness import OriginalModel
from anybound.searches.auto import Auto
from anybound.spec.problems import check_sizes
from anybound.spec.property import Property
from anybound.threads import at_most

if TYPE_CHECKING:
    from anybound.certifying.evidence import Evidence

__all__ = [
    "NormalForm",
    "chosen_method",
    "chosen_search",
    "opened",
    "property_of",
    "verify",
    "verify_job",
]


def verify(  # noqa: PLR0913  (the one call for everything; all but two arguments are options)
    network: str | Path | Network,
    prop: str | Path | Property,
    *,
    timeout: float | None = None,
    method: str | Method[Any] | None = None,
    intermediate: str | IntermediateStrategy = "auto",
    attacks: Sequence[Attack] = QUICK,
    search: str | Search | None = "auto",
    seed: int = 0,
    threads: int | None = None,
    memory: int | None = None,
    started: float | None = None,
    watch: Watch | None = None,
    certificate: str | Path | None = None,
    certify: bool = False,
    semantics: str = "real",
) -> Outcome:
    """Decide a property of a network, both from files or made in Python, within `timeout` seconds.

    The time counts from `started`, a value of `time.monotonic()`, or from the call. `watch` is told
    what is known so far after each phase. `method`, `intermediate` and `search` are records or their
    texts, such as "proximal(iterations=50)". A method that iterates bounds the clauses of the root
    and every sub-problem of the search; None leaves it to the planner, as the search "auto" leaves
    to it how to decide what the root leaves open. `search` None leaves that open. A network that is
    not a file is itself the model that witnesses are replayed on, in float64. `memory` bounds the
    working memory, in bytes.

    `certificate` names a file to write the proof to, or the witness; with `certify` the independent
    checker is run on it and says whether the outcome is `certified`. `semantics` is "real", for the
    network as a function over the reals, or "float32", for its execution in float32 as well.

    >>> import anybound
    >>> net, prop = "digits_dense.onnx", "digits_dense_image0_eps0.05.vnnlib"
    >>> outcome = anybound.verify(anybound.bundled(net), anybound.bundled(prop), timeout=60)
    >>> outcome.verdict, min(clause.lower for clause in outcome.clauses) > 8
    (<Verdict.HOLDS: 'holds'>, True)
    """
    begun = time.monotonic() if started is None else started
    budget = Budget(seconds=timeout, memory=memory, started=begun)
    chosen = chosen_method(method)
    settings = Settings(
        chosen or Crown(),
        INTERMEDIATES.parse(intermediate) if isinstance(intermediate, str) else intermediate,
        tuple(attacks),
        chosen_search(search, chosen),
        seed,
    )
    evidence = _evidence(network, prop, certificate, certify, semantics)
    with at_most(threads):
        reading = time.monotonic()
        original, net = opened(network, check=False)
        source, prop = prop, property_of(prop)
        check_sizes(net, prop)
        check_reading(original, net, prop)
        decision = Decision(net, prop, original, settings, budget, watch)
        decision.phases |= {"start": reading - begun, "read": time.monotonic() - reading}
        decision.tell()
        outcome = decision.run()
        if evidence is None or decision.interrupted:
            return outcome
        with decision.phase("certificate"):
            certified, told = evidence.of(outcome, str(network), str(source), decision.work)
        plan = {**outcome.plan, "certificate": told}
        measured = decision.outcome()
        return replace(measured, certified=certified, plan=plan)


def property_of(prop: str | Path | Property) -> Property:
    """The property, read if it is a file."""
    if isinstance(prop, str | Path):
        return read_vnnlib(prop)
    if not isinstance(prop, Property):
        raise InvalidInput(
            f"the property is a {type(prop).__name__}; expected a file, or what anybound.robust or "
            "anybound.unsafe makes"
        )
    return prop


def chosen_method(method: str | Method[Any] | None) -> Method[Any] | None:
    """The record of a text."""
    return METHODS.parse(method) if isinstance(method, str) else method


def chosen_search(search: str | Search | None, method: Method[Any] | None) -> Search | None:
    """The record of a text; the planner lets a method that iterates drive the search.

    Slopes is what the planner's searches climb in anyway, by the engine that suits the problem."""
    chosen: Search | None = SEARCHES.parse(search) if isinstance(search, str) else search
    drives = method is not None and not isinstance(method, OneShot | Slopes)
    return replace(chosen, method=method) if drives and isinstance(chosen, Auto) else chosen


def verify_job(report: Callable[[Record], None], *, complete: bool, **options: Any) -> Record:
    """`verify` as a job: records instead of outcomes; without search if not `complete`."""
    chosen = {name: value for name, value in options.items() if value is not None}
    if not complete:
        chosen["search"] = None

    def watch(known: Outcome) -> None:
        report({**outcome_record(known), "memory": most_memory()})

    outcome = verify(watch=watch, **chosen)
    return {**outcome_record(outcome), "memory": most_memory()}


def _evidence(
    network: object, prop: object, path: str | Path | None, certify: bool, semantics: str
) -> Evidence | None:
    """What is asked for beside the verdict."""
    if path is None and not certify:
        return None
    if not isinstance(network, str | Path) or not isinstance(prop, str | Path):
        raise InvalidConfig(
            "certificates are about files; give the paths of an ONNX and a VNN-LIB file"
        )
    from anybound.certifying.evidence import Evidence

    return Evidence(None if path is None else Path(path), certify, semantics)


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


def opened(network: str | Path | Network, *, check: bool = True) -> tuple[OriginalModel, Network]:
    """What witnesses are replayed on, and the network in float64; `check` it, or see `check_reading`."""
    if isinstance(network, Network):
        return NormalForm(network), network.to(torch.float64)
    return Replay.of(network), load(network, check=check)


def check_reading(original: OriginalModel, network: Network, prop: Property) -> None:
    """Refuse a network that differs from its file at random points, of usual ranges and of the property's sets."""
    if isinstance(original, Replay):
        points = [*anywhere(network), *within(network, prop)]
        compare(original.content, network, points, directory=original.directory)
