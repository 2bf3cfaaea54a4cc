"""One ONNX node on its way into the normal form: typed access to its inputs and attributes, and its
errors.

Every complaint is one line that names operator, node and opset.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite, prod
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from onnx import AttributeProto, TensorProto

from anybound.errors import AnyboundError, InvalidModel, UnsupportedModel
from anybound.io.onnx_ops.value import Affine, Constant, Value
from anybound.model.activations.activation import Activation
from anybound.model.affine.map import Shape

MAX_ELEMENTS = 2**24  # of a tensor that the network computes; VGG's largest has 2**21.6


class Builder(Protocol):
    """What handlers may do to the network under construction."""

    def activate(self, value: Affine, activation: Activation, name: str) -> Affine:
        """A new node with pre-activation `value`; its activation as a value of the same shape."""

    def settled(self, value: Affine, name: str) -> Affine:
        """The same value in a form that costs little to use several times."""


@dataclass(frozen=True, eq=False)
class Op:
    """A node with its inputs (None where an optional one is left out)."""

    kind: str
    name: str
    opset: int
    inputs: tuple[Value | None, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, AttributeProto]
    builder: Builder

    @property
    def title(self) -> str:
        """What a node of the normal form made here is called."""
        return self.name or self.outputs[0]

    @property
    def label(self) -> str:
        name = f"node '{self.name}'" if self.name else f"node with output '{self.outputs[0]}'"
        return f"{self.kind} {name} (opset {self.opset})"

    def invalid(self, message: str) -> InvalidModel:
        return InvalidModel(f"{self.label}: {message}")

    def unsupported(self, message: str) -> UnsupportedModel:
        return UnsupportedModel(f"{self.label}: {message}")

    def named(self, error: AnyboundError) -> AnyboundError:
        """The error with this node in front, unless it says so already."""
        message = str(error)
        return error if message.startswith(self.label) else type(error)(f"{self.label}: {message}")

    # inputs

    def optional(self, position: int) -> Value | None:
        return self.inputs[position] if position < len(self.inputs) else None

    def value(self, position: int) -> Value:
        value = self.optional(position)
        if value is None:
            raise self.invalid(f"input {position} is missing")
        return value

    def constant(self, position: int, meaning: str) -> Constant:
        """An input that the normal form needs to be known."""
        value = self.value(position)
        if isinstance(value, Affine):
            raise self.unsupported(f"{meaning} depends on the network's input; it must be constant")
        return value

    def floats(self, position: int, meaning: str) -> Constant:
        """A constant input, as finite float64."""
        return self.finite(self.constant(position, meaning), meaning)

    def finite(self, constant: Constant, meaning: str) -> Constant:
        array = constant.array.astype(np.float64, copy=False)
        if not np.isfinite(array).all():
            raise self.invalid(f"{meaning} holds NaN or infinite numbers")
        return Constant(array, constant.error)

    def integers(self, position: int, meaning: str) -> NDArray[np.int64]:
        """A constant input of integers, in its own shape."""
        array = self.constant(position, meaning).array
        if array.dtype.kind != "i":
            raise self.invalid(f"{meaning} must be integers, got {array.dtype}")
        return array.astype(np.int64, copy=False)

    def integer_list(
        self, position: int, attribute: str, default: Sequence[int] | None = None
    ) -> tuple[int, ...] | None:
        """Integers that were an attribute in old opsets and are an input in new ones."""
        if self.optional(position) is not None:
            return tuple(int(i) for i in self.integers(position, f"'{attribute}'").reshape(-1))
        return self.ints(attribute, default)

    # attributes

    def integer(self, name: str, default: int) -> int:
        attribute = self._attribute(name, AttributeProto.INT)
        return default if attribute is None else int(attribute.i)

    def real(self, name: str, default: float) -> float:
        """A finite real number; ONNX's own defaults are float32, too."""
        value = self.number(name, float(np.float32(default)))
        if not isfinite(value):
            raise self.invalid(f"attribute '{name}' is {value}")
        return value

    def number(self, name: str, default: float) -> float:
        """A real number, perhaps infinite or NaN."""
        attribute = self._attribute(name, AttributeProto.FLOAT)
        return default if attribute is None else float(attribute.f)

    def text(self, name: str, default: str) -> str:
        attribute = self._attribute(name, AttributeProto.STRING)
        return default if attribute is None else attribute.s.decode("utf-8", "replace")

    def ints(self, name: str, default: Sequence[int] | None = None) -> tuple[int, ...] | None:
        attribute = self._attribute(name, AttributeProto.INTS)
        if attribute is None:
            return None if default is None else tuple(default)
        return tuple(int(i) for i in attribute.ints)

    def reals(self, name: str) -> tuple[float, ...]:
        attribute = self._attribute(name, AttributeProto.FLOATS)
        return () if attribute is None else tuple(attribute.floats)

    def counts(self, name: str, rank: int) -> tuple[int, ...]:
        """A positive integer per spatial axis, 1 by default."""
        counts = self.ints(name, (1,) * rank) or ()
        if len(counts) != rank or min(counts) < 1:
            raise self.invalid(f"{name} {counts} must be {rank} positive integers")
        return counts

    def pads(self, rank: int) -> tuple[tuple[int, int], ...]:
        """(before, after) per spatial axis, from ONNX's list of all befores and then all afters."""
        pads = self.ints("pads", (0,) * (2 * rank)) or ()
        if len(pads) != 2 * rank or min(pads) < 0:
            raise self.invalid(f"pads {pads} must be {2 * rank} nonnegative integers")
        return tuple(zip(pads[:rank], pads[rank:], strict=True))

    def tensor(self, name: str) -> TensorProto | None:
        attribute = self._attribute(name, AttributeProto.TENSOR)
        return None if attribute is None else attribute.t

    def _attribute(self, name: str, kind: int) -> AttributeProto | None:
        attribute = self.attributes.get(name)
        if attribute is not None and attribute.type != kind:
            expected = AttributeProto.AttributeType.Name(kind)
            raise self.invalid(f"attribute '{name}' must be of type {expected}")
        return attribute

    # shapes

    def axis(self, axis: int, rank: int) -> int:
        """A possibly negative axis as one of 0 … rank−1."""
        if not -rank <= axis < rank:
            raise self.invalid(f"axis {axis} is outside a tensor of {rank} axes")
        return axis % rank

    def axes(self, axes: Sequence[int], rank: int) -> tuple[int, ...]:
        """Several axes, each named once."""
        found = tuple(self.axis(axis, rank) for axis in axes)
        if len(set(found)) != len(found):
            raise self.invalid(f"axes {tuple(axes)} repeat")
        return found

    def room(self, shape: Shape) -> Shape:
        """`shape`, if a tensor of it may be computed at all."""
        if any(extent < 0 for extent in shape):
            raise self.invalid(f"computes a tensor of impossible shape {shape}")
        if prod(shape) > MAX_ELEMENTS:
            raise self.invalid(
                f"computes a tensor of shape {shape}; the limit is {MAX_ELEMENTS} elements"
            )
        return shape

    def broadcast(self, *shapes: Shape) -> Shape:
        try:
            return self.room(np.broadcast_shapes(*shapes))
        except ValueError:
            raise self.invalid(
                f"shapes {' and '.join(map(str, shapes))} do not broadcast"
            ) from None
