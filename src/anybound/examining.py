"""What a report shows beyond a run's records: read from the files of an instance, if they are there.

- The input set's box and the network's input shape: enough to draw inputs that are images.
- The tightness of every layer, by interval propagation, WK, CROWN and optimised slopes: how many
  neurons each leaves ambiguous, and how wide its bounds of those are that all of them do. (Of the
  others some compute no bounds.)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import torch

from anybound.bound.bounds import Bounds
from anybound.bound.intermediates.auto import Auto
from anybound.bound.intermediates.crown import BestOfIntervalAndCrown
from anybound.bound.intermediates.interval import IntervalBounds
from anybound.bound.intermediates.strategy import IntermediateStrategy
from anybound.bound.intermediates.wk import BestOfIntervalAndWK
from anybound.io.onnx_reader import read_onnx
from anybound.io.records import Json, Record
from anybound.io.vnnlib import read_vnnlib
from anybound.layers import Layers
from anybound.model.network import Network
from anybound.spec.domains import from_input_set
from anybound.spec.problems import check_sizes

__all__ = ["examine_job"]

_STRATEGIES: tuple[tuple[str, IntermediateStrategy], ...] = (
    ("interval", IntervalBounds()),
    ("WK", BestOfIntervalAndWK()),
    ("CROWN", BestOfIntervalAndCrown()),
    ("slopes", Auto()),
)


def examine_job(
    report: Callable[[Record], None], network: str, prop: str, clause: int | None
) -> Record:
    """The files of an instance as plain data; a job, so that its time and memory have a limit.

    The input set is that of `clause`, or the first. Each strategy is reported when it is done.
    """
    net = read_onnx(Path(network)).network.to(torch.float64)
    stated = read_vnnlib(prop)
    check_sizes(net, stated)
    clause = clause if clause is not None and clause < len(stated.clauses) else 0
    input_set = stated.clauses[clause].input_set
    found: dict[str, Json] = {
        "shape": list(net.input_shape),
        "lower": input_set.lower.tolist(),
        "upper": input_set.upper.tolist(),
    }
    report({**found, "tightness": []})
    domain, between = from_input_set(input_set, net.input_shape), dict[str, Bounds]()
    for name, strategy in _STRATEGIES if net.layout.total else ():
        between[name] = strategy.bounds(net, domain)
        report({**found, "tightness": _tightness(net, between)})
    return {**found, "tightness": _tightness(net, between)}


def _tightness(network: Network, found: Mapping[str, Bounds]) -> list[Record]:
    """Per strategy and hidden layer: neurons, how many are ambiguous, and the mean width."""
    masks = [bounds.ambiguous(network) for bounds in found.values()]
    if not masks:
        return []
    shared = Layers(next(iter(found.values())).layout, torch.stack(masks).all(0))
    return [
        {"strategy": name, "layers": _layers(network, bounds, shared)}
        for name, bounds in found.items()
    ]


def _layers(network: Network, bounds: Bounds, shared: Layers) -> list[Record]:
    width = bounds.lower.like(bounds.upper.data - bounds.lower.data)
    records: list[Record] = []
    for count in bounds.counts(network):
        chosen = width.flat(count.layer)[shared.flat(count.layer)]
        mean = float(chosen.mean()) if chosen.numel() else 0.0
        records.append({**count._asdict(), "width": mean})
    return records
