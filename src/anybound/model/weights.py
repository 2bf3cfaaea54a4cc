"""The weights of a network by name, to be trained or exchanged.

Names say where a weight is: `"2.0.weight"` belongs to the first edge into layer 2, `"2.0.maps.1.bias"`
to the second map of a chain there, `"2.alpha"` to layer 2's activation.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor

from anybound.errors import InvalidInput
from anybound.model.network import Edge, Network, Node

Change = Callable[[str, Tensor], Tensor]


def weights(network: Network) -> dict[str, Tensor]:
    """Every weight, bias and activation parameter.

    >>> import anybound
    >>> net = anybound.load(anybound.bundled("digits_dense.onnx"))
    >>> {n: tuple(w.shape) for n, w in anybound.weights(net).items() if w.ndim == 2 and w.shape[0] > 1}
    {'1.0.maps.1.weight': (50, 64), '2.0.weight': (50, 50), '3.0.maps.0.weight': (10, 50)}
    """
    found: dict[str, Tensor] = {}

    def note(name: str, tensor: Tensor) -> Tensor:
        found[name] = tensor
        return tensor

    _mapped(network, note)
    return found


def with_weights(network: Network, values: Mapping[str, Tensor]) -> Network:
    """The same network with some weights exchanged for others of their shapes and dtypes.

    Gradients flow to the new ones. What is known of the rounding of the old ones is kept.

    >>> import anybound
    >>> net = anybound.load(anybound.bundled("digits_dense.onnx"))
    >>> half = {name: weight / 2 for name, weight in anybound.weights(net).items()}
    >>> smaller = anybound.with_weights(net, half)
    """
    left = dict(values)

    def exchange(name: str, tensor: Tensor) -> Tensor:
        new = left.pop(name, tensor)
        if new.shape != tensor.shape or new.dtype != tensor.dtype:
            raise InvalidInput(
                f"weight {name!r} is {new.dtype} of shape {list(new.shape)}; expected "
                f"{tensor.dtype} of shape {list(tensor.shape)}"
            )
        return new

    changed = _mapped(network, exchange)
    if left:
        raise InvalidInput(
            f"the network has no weight {next(iter(left))!r}; `weights(network)` names them"
        )
    return changed


def _mapped(network: Network, change: Change) -> Network:
    nodes = []
    for k, node in enumerate(network.nodes):
        edges = tuple(
            Edge(edge.source, _changed(edge.map, f"{k}.{i}", change))
            for i, edge in enumerate(node.edges)
        )
        activation = _changed(node.activation, str(k), change)
        nodes.append(Node(node.shape, edges, activation, node.name))
    return Network(tuple(nodes))


def _changed(value: Any, name: str, change: Change) -> Any:
    """A map or an activation with every floating-point tensor in it changed."""
    if isinstance(value, Tensor):
        return change(name, value) if value.is_floating_point() else value
    if isinstance(value, tuple):
        return tuple(_changed(item, f"{name}.{i}", change) for i, item in enumerate(value))
    if not dataclasses.is_dataclass(value) or isinstance(value, type):
        return value
    fields = {f.name: getattr(value, f.name) for f in dataclasses.fields(value) if f.init}
    new = {key: _changed(item, f"{name}.{key}", change) for key, item in fields.items()}
    changed = {key: item for key, item in new.items() if item is not fields[key]}
    return dataclasses.replace(value, **changed)
