"""What a model's file says about itself, beside the network it defines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from anybound.model.affine.map import Shape
from anybound.model.network import Network


@dataclass(frozen=True)
class TensorInfo:
    """An input or output: `shape` is the file's, with None for what it leaves open."""

    name: str
    element_type: str
    shape: tuple[int | None, ...]


@dataclass(frozen=True)
class ModelInfo:
    """What `inspect` shows."""

    opset: int
    ir_version: int
    producer: str
    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]
    operators: Mapping[str, int]  # how many nodes of each operator
    weights: Mapping[str, int]  # how many numbers of each element type
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Model:
    """A network in normal form, and where it comes from."""

    network: Network
    info: ModelInfo

    @property
    def input_shape(self) -> Shape:
        return self.network.input_shape
