"""What `inspect` tells about a network in normal form, as plain data."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from math import prod

import torch
from torch import Tensor

from anybound.bound.interval import interval
from anybound.cli.output import Record
from anybound.errors import InvalidProperty
from anybound.model.affine.map import AffineMap
from anybound.model.network import Network, Node
from anybound.spec.domains import from_input_set
from anybound.spec.property import Property

__all__ = ["MOST_INPUT_SETS", "ambiguous_record", "check_sizes", "layer_records"]

MOST_INPUT_SETS = 64  # of a property with many; enough for an average


def layer_records(network: Network) -> list[Record]:
    """One record per node: the input is layer 0, the output layer n."""
    return [_layer_record(k, node) for k, node in enumerate(network.nodes)]


def check_sizes(network: Network, prop: Property) -> None:
    """Refuse a property that cannot be about this network."""
    for what, stated, actual in (
        ("inputs", prop.input_size, network.input_size),
        ("outputs", prop.output_size, network.output_size),
    ):
        if stated != actual:
            raise InvalidProperty(
                f"the property has {stated} {what}, the network {actual}; "
                "check that the two files belong together"
            )


def ambiguous_record(network: Network, prop: Property) -> Record:
    """Neurons whose activation is not affine between their interval bounds, per hidden layer.

    The counts are averages over the property's input sets, of which at most MOST_INPUT_SETS are
    used.
    """
    sets = [input_set for input_set, _ in prop.groups()]
    used = sets[:MOST_INPUT_SETS]
    exact = network.to(torch.float64)
    totals = dict.fromkeys(network.hidden, 0)
    for input_set in used if totals else ():
        bounds = interval(exact, from_input_set(input_set, network.input_shape))
        for count in bounds.counts(exact):
            totals[count.layer] += count.ambiguous
    layers = [
        {
            "layer": k,
            "neurons": prod(network.nodes[k].shape),
            "ambiguous": round(total / len(used), 1),
        }
        for k, total in totals.items()
    ]
    return {
        "bounds": "interval",
        "input_sets": len(sets),
        "input_sets_used": len(used),
        "layers": layers,
        "neurons": network.layout.total,
        "ambiguous": round(sum(totals.values()) / len(used), 1),
    }


def _layer_record(k: int, node: Node) -> Record:
    return {
        "index": k,
        "name": node.name,
        "maps": [_kind(edge.map) for edge in node.edges],
        "sources": [edge.source for edge in node.edges],
        "activation": None if node.activation is None else type(node.activation).__name__,
        "shape": list(node.shape),
        "neurons": prod(node.shape),
        "parameters": sum(_parameters(edge.map) for edge in node.edges),
    }


def _kind(map_: AffineMap) -> str:
    """The name of a map's class; of a composition, those of its parts in order of application."""
    parts = " → ".join(_kind(part) for part in _parts(map_))
    return parts or type(map_).__name__


def _parameters(map_: AffineMap) -> int:
    """How many floating-point numbers the map stores."""
    stored = (getattr(map_, field.name) for field in fields(map_))
    own = sum(t.numel() for t in stored if isinstance(t, Tensor) and t.is_floating_point())
    return own + sum(_parameters(part) for part in _parts(map_))


def _parts(map_: AffineMap) -> Iterator[AffineMap]:
    """The maps that a map is made of."""
    for field in fields(map_):
        value = getattr(map_, field.name)
        for entry in value if isinstance(value, tuple) else (value,):
            if isinstance(entry, AffineMap):
                yield entry
