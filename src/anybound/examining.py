"""What a report shows beyond a run's records: read from the files of an instance, if they are there.

- The input set's box and the network's input shape: enough to draw inputs that are images.
- The tightness of every layer: the mean width of the bounds of the neurons that interval
  propagation leaves ambiguous, by interval propagation, WK, CROWN and optimised slopes.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch

from anybound.bound.bounds import Bounds
from anybound.bound.intermediates.auto import Auto
from anybound.bound.intermediates.crown import BestOfIntervalAndCrown
from anybound.bound.intermediates.interval import IntervalBounds
from anybound.bound.intermediates.strategy import IntermediateStrategy
from anybound.bound.intermediates.wk import BestOfIntervalAndWK
from anybound.io.onnx_reader import read_onnx
from anybound.io.records import Record
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
    found: dict[str, object] = {
        "shape": list(net.input_shape),
        "lower": input_set.lower.tolist(),
        "upper": input_set.upper.tolist(),
    }
    report({**found, "tightness": []})
    domain, tightness = from_input_set(input_set, net.input_shape), list[Record]()
    loose: Bounds | None = None
    for name, strategy in _STRATEGIES if net.layout.total else ():
        between = strategy.bounds(net, domain)
        loose = between if loose is None else loose
        tightness.append({"strategy": name, "layers": _layers(net, between, loose)})
        report({**found, "tightness": list(tightness)})
    return {**found, "tightness": tightness}


def _layers(network: Network, bounds: Bounds, loose: Bounds) -> list[Record]:
    """Per hidden layer: neurons, how many are ambiguous, and the mean width of those that `loose`
    leaves so."""
    mask = Layers(loose.layout, loose.ambiguous(network))
    width = bounds.lower.like(bounds.upper.data - bounds.lower.data)
    records: list[Record] = []
    for count in bounds.counts(network):
        chosen = width.flat(count.layer)[mask.flat(count.layer)]
        mean = float(chosen.mean()) if chosen.numel() else 0.0
        records.append({**count._asdict(), "width": mean})
    return records
