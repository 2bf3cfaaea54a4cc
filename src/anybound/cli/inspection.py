"""What `inspect` finds in a file, as plain data; also in a network outside the normal form."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import cast

from anybound.cli.network_record import ambiguous_record, check_sizes, layer_records
from anybound.cli.output import Record
from anybound.errors import UnsupportedModel, UnsupportedProperty
from anybound.io.files import read_bytes
from anybound.io.model_info import Model
from anybound.io.onnx_file import open_model
from anybound.io.onnx_inventory import GraphNode, GraphTensor, Inventory, take_inventory
from anybound.io.onnx_reader import read_onnx
from anybound.io.vnnlib import read_vnnlib
from anybound.spec.property import Property

__all__ = ["network_record", "property_record"]

_OUTSIDE = "the operator is outside the normal form of affine maps and elementwise activations"


def network_record(path: Path, property_path: Path | None = None) -> Record:
    """A network and, if it can be read, its normal form; `property_path` adds ambiguous neurons."""
    prop = None if property_path is None else read_vnnlib(property_path)
    inventory = take_inventory(open_model(read_bytes(path), path).proto)
    record = {"kind": "network", "file": str(path), **_inventory_record(inventory)}
    try:
        model = read_onnx(path)
    except UnsupportedModel as error:
        if prop is not None:
            raise
        return {**record, **_unsupported_record(inventory, str(error))}
    return {**record, **_normal_form_record(model, prop)}


def property_record(path: Path) -> Record:
    """A property's counts and widths, or why it is not supported."""
    record = {"kind": "property", "file": str(path)}
    try:
        prop = read_vnnlib(path)
    except UnsupportedProperty as error:
        return {**record, "supported": False, "unsupported": [{"reason": str(error)}]}
    return {**record, "supported": True, **_property_summary(prop), "unsupported": []}


def _inventory_record(inventory: Inventory) -> Record:
    return {
        "producer": inventory.producer,
        "opset": inventory.opset,
        "dtype": inventory.dtype,
        "inputs": [_tensor_record(tensor) for tensor in inventory.inputs],
        "outputs": [_tensor_record(tensor) for tensor in inventory.outputs],
        "operators": dict(inventory.operators),
        "parameters": inventory.parameters,
        "nodes": [_node_record(node) for node in inventory.nodes],
    }


def _normal_form_record(model: Model, prop: Property | None) -> Record:
    network = model.network
    record: Record = {
        "supported": True,
        "neurons": network.layout.total,
        "layers": layer_records(network),
        "notes": list(model.info.notes),
        "unsupported": [],
    }
    if prop is None:
        return record
    check_sizes(network, prop)
    return {
        **record,
        "property": _property_summary(prop),
        "ambiguous": ambiguous_record(network, prop),
    }


def _property_summary(prop: Property) -> Record:
    return {"name": prop.name, **cast(Record, prop.describe())}  # a TypedDict of plain data


def _unsupported_record(inventory: Inventory, message: str) -> Record:
    return {
        "supported": False,
        "layers": [],
        "notes": [],
        "unsupported": list(_unsupported_nodes(inventory, message)),
    }


def _unsupported_nodes(inventory: Inventory, message: str) -> Iterator[Record]:
    """What the reader stopped at, then every other node with an operator that it does not know."""
    culprit = next((node for node in inventory.nodes if message.startswith(node.label)), None)
    reason, _, advice = message.partition("; ")
    yield {
        "node": None if culprit is None else culprit.name,
        "operator": None if culprit is None else culprit.operator,
        "reason": reason,
        "advice": advice or None,
    }
    for node in inventory.nodes:
        if not node.supported and node is not culprit:
            yield {
                "node": node.name,
                "operator": node.operator,
                "reason": f"{node.label}: {_OUTSIDE}",
                "advice": node.advice,
            }


def _tensor_record(tensor: GraphTensor) -> Record:
    shape = None if tensor.shape is None else list(tensor.shape)
    return {"name": tensor.name, "dtype": tensor.dtype, "shape": shape}


def _node_record(node: GraphNode) -> Record:
    return {
        "name": node.name,
        "operator": node.operator,
        "outputs": [_tensor_record(tensor) for tensor in node.outputs],
    }
