"""What a tensor of the ONNX graph is while it is being read: known numbers, or an affine
expression.

    Constant:  an array, with |exact − array| <= error entrywise
    Affine:    Σ_i M_i z_{j_i}   of nodes' activations z_j; constant parts are biases of the M_i

A value's `shape` is ONNX's. The maps live on row-major memory: `M_i.out_shape` has as many elements
as `shape` but may be grouped differently, so that reshaping a value costs nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import Any

from numpy.typing import NDArray

from anybound.model.affine.map import AffineMap, Shape

# float64 for every float of the file, int64 for every integer, or bool.
# Which of them is known at run time only, hence Any.
Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Constant:
    """Numbers known on reading: weights, shapes, indices; floats are float64, integers int64."""

    array: Array
    error: float = 0.0

    @property
    def shape(self) -> Shape:
        return self.array.shape

    @property
    def size(self) -> int:
        return self.array.size

    @property
    def is_float(self) -> bool:
        return self.array.dtype.kind == "f"


@dataclass(frozen=True, eq=False)
class Term:
    """M z_source."""

    source: int
    map: AffineMap


@dataclass(frozen=True, eq=False)
class Affine:
    """The sum of its terms, at least one."""

    terms: tuple[Term, ...]
    shape: Shape

    @property
    def size(self) -> int:
        return prod(self.shape)

    @property
    def layout(self) -> Shape:
        """The shape of the node that this value would become."""
        return self.terms[0].map.out_shape

    def reshaped(self, shape: Shape) -> Affine:
        """The same row-major elements under another shape."""
        return replace(self, shape=shape)


Value = Constant | Affine
