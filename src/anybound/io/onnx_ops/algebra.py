"""Arithmetic on values: what an affine map, a constant, a sum and a rearrangement make of them.

through(M, Σ M_i z_i)     = Σ (M M_i) z_i                     shifted(v, b)   = v + b
added(v, w)               = v + w, terms of one source merged where that is cheap
rearranged(v, f)          = f(v) for any f that only picks, repeats or reorders entries
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import prod
from typing import overload

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from anybound.io.onnx_ops.value import Affine, Array, Constant, Term, Value
from anybound.model.affine.add import add
from anybound.model.affine.chain import composed_bias
from anybound.model.affine.fuse import compose
from anybound.model.affine.map import AffineMap, Shape
from anybound.model.affine.rounding import largest, two_sum
from anybound.model.affine.scale import Scale
from anybound.model.affine.structural import Gather, Pad, Permute, Reshape
from anybound.model.affine.weight_error import WeightError, plus


def tensor(array: Array) -> Tensor:
    """A constant's numbers as a float64 tensor."""
    wide = np.asarray(array, dtype=np.float64)  # numpy's arithmetic makes scalars of 0-d arrays
    # PyTorch can share memory with an array only if it may write to it and strides are positive.
    shareable = wide.flags.writeable and min(wide.strides, default=0) >= 0
    return torch.from_numpy(wide if shareable else wide.copy())


def core(shape: Shape) -> Shape:
    """The shape without its batch axis, as convolutions see it: maps that agree on it compose."""
    return shape[1:] if len(shape) > 1 and shape[0] == 1 else shape


def regrouped(map_: AffineMap, shape: Shape) -> AffineMap:
    """The same map with its result in another shape of the same size."""
    return map_ if map_.out_shape == shape else compose(Reshape(map_.out_shape, shape), map_)


def applied(map_: AffineMap, value: Value, shape: Shape) -> Value:
    """The map's result, called `shape`; the map's own shapes need only have the right sizes."""
    if isinstance(value, Constant):
        return evaluated(map_, value, shape)
    return through(map_, value, shape)


def through(map_: AffineMap, value: Affine, shape: Shape) -> Affine:
    """M Σ_i M_i z_i, with the bias of M counted once."""
    first, *others = value.terms
    linear = map_ if map_.bias is None else map_.without_bias()
    terms = [Term(first.source, compose(map_, regrouped(first.map, map_.in_shape)))]
    terms += (Term(t.source, compose(linear, regrouped(t.map, map_.in_shape))) for t in others)
    return Affine(tuple(terms), shape)


def evaluated(map_: AffineMap, value: Constant, shape: Shape) -> Constant:
    """The map at known numbers: what it would make of a bias."""
    x = tensor(value.array).reshape(map_.in_shape)
    result, error = composed_bias(map_, x, value.error)
    if result is None:
        raise AssertionError("a bias that is given stays one")
    return Constant(result.expand(map_.out_shape).reshape(shape).numpy(), error)


def shifted(value: Affine, offset: Constant) -> Affine:
    """value + offset, where the offset broadcasts to the value's shape."""
    if not offset.array.any() and offset.error == 0.0:
        return value
    first, *others = value.terms
    wanted = tensor(np.broadcast_to(offset.array, value.shape)).reshape(first.map.out_shape)
    old, error = first.map.bias, plus(first.map.error.bias, offset.error)
    if old is None:
        return replace(
            value, terms=(Term(first.source, first.map.with_bias(wanted, error)), *others)
        )
    total, lost = two_sum(old.expand(wanted.shape), wanted)
    # The remainder of two_sum is the exact error of every entry's sum.
    moved = Term(first.source, first.map.with_bias(total, plus(error, largest(lost))))
    return replace(value, terms=(moved, *others))


def added(left: Affine, right: Affine) -> Affine:
    """The sum of two values of the same shape."""
    maps: dict[int, list[AffineMap]] = {}
    for term in (*left.terms, *right.terms):
        maps.setdefault(term.source, []).append(regrouped(term.map, left.layout))
    terms = (Term(source, total) for source, found in maps.items() for total in add(found))
    return Affine(tuple(terms), left.shape)


def rearranged(value: Value, pick: Callable[[Array], Array]) -> Value:
    """What `pick` makes of a value; `pick` uses the entries it is given, and nothing else."""
    if isinstance(value, Constant):
        return Constant(np.array(pick(value.array)), value.error)
    index = np.array(pick(np.arange(value.size, dtype=np.int64).reshape(value.shape)))
    if index.size == value.size and bool((index.reshape(-1) == np.arange(value.size)).all()):
        return value.reshaped(index.shape)
    return gathered(value, index.astype(np.int64))


def gathered(value: Affine, index: NDArray[np.int64]) -> Affine:
    """The entries with these row-major positions."""
    flat = torch.from_numpy(index.reshape(core(index.shape)))
    return through(Gather.of((value.size,), flat), value, index.shape)


@overload
def expanded(value: Affine, shape: Shape) -> Affine: ...
@overload
def expanded(value: Value, shape: Shape) -> Value: ...
def expanded(value: Value, shape: Shape) -> Value:
    """The value repeated along axes of length 1 until it has `shape`."""
    if value.shape == shape:
        return value
    if isinstance(value, Constant):
        return Constant(np.broadcast_to(value.array, shape), value.error)
    if value.size == prod(shape):
        return value.reshaped(shape)
    index = np.arange(value.size, dtype=np.int64).reshape(value.shape)
    return gathered(value, np.broadcast_to(index, shape).copy())


def permuted(value: Value, axes: Sequence[int]) -> Value:
    """The value with its axes in another order."""
    shape = tuple(value.shape[axis] for axis in axes)
    if isinstance(value, Constant):
        return Constant(value.array.transpose(axes), value.error)
    moving = [axis for axis in axes if value.shape[axis] != 1]
    if moving == sorted(moving):  # axes of length 1 do not move memory
        return value.reshaped(shape)
    if axes[0] == 0 and len(core(value.shape)) < len(axes):
        return through(Permute.of(value.shape[1:], [axis - 1 for axis in axes[1:]]), value, shape)
    return through(Permute.of(value.shape, axes), value, shape)


def reshaped(value: Value, shape: Shape) -> Value:
    """The same row-major entries in another shape."""
    if isinstance(value, Constant):
        return Constant(value.array.reshape(shape), value.error)
    return value.reshaped(shape)


def scaled(value: Affine, weight: Constant, relative: float = 0.0) -> Affine:
    """weight ∘ value; the weight broadcasts, and may carry a relative error besides its own."""
    inner = core(value.shape)
    rank = len(inner)
    factor = tensor(weight.array)
    if factor.ndim > rank:  # a batch axis of the weight is 1 like the value's
        factor = factor.reshape(factor.shape[-rank:] if rank else ())
    else:
        factor = factor.reshape((1,) * (rank - factor.ndim) + tuple(factor.shape))
    error = WeightError(relative=relative, absolute=weight.error)
    return through(Scale.of(inner, factor, error=error), value, value.shape)


@overload
def negated(value: Affine) -> Affine: ...
@overload
def negated(value: Value) -> Value: ...
def negated(value: Value) -> Value:
    if isinstance(value, Constant):
        return Constant(-value.array, value.error)
    return scaled(value, Constant(np.array(-1.0)))


def padded(value: Value, pads: Sequence[tuple[int, int]], fill: float) -> Value:
    """The value amid `fill`; negative pads crop."""
    if isinstance(value, Constant):
        kept = tuple(
            slice(max(0, -before), size - max(0, -after))
            for size, (before, after) in zip(value.shape, pads, strict=True)
        )
        width = [(max(0, before), max(0, after)) for before, after in pads]
        return Constant(np.pad(value.array[kept], width, constant_values=fill), value.error)
    shape = tuple(
        size + before + after for size, (before, after) in zip(value.shape, pads, strict=True)
    )
    inner = core(value.shape) if pads[:1] == [(0, 0)] else value.shape
    return through(Pad.of(inner, pads[-len(inner) :], fill), value, shape)


def concatenated(values: Sequence[Value], axis: int) -> Value:
    """The values one after the other along an axis."""
    total = sum(value.shape[axis] for value in values)
    known = np.concatenate(
        [value.array if isinstance(value, Constant) else np.zeros(value.shape) for value in values],
        axis,
    )
    error = max((value.error for value in values if isinstance(value, Constant)), default=0.0)
    terms: list[Term] = []
    offset = 0
    for value in values:
        if isinstance(value, Affine):
            inner = core(value.shape) if axis > 0 else value.shape
            place = axis - len(value.shape) + len(inner)
            terms += through(Pad.embed(inner, place, offset, total), value, known.shape).terms
        offset += value.shape[axis]
    if not terms:
        return Constant(known, error)
    return shifted(Affine(tuple(terms), known.shape), Constant(known, error))
