"""Composing maps into fewer maps, where the result is exact or cheaper.

`compose(second, first)` is z ↦ second(first(z)). A pair merges into one map when one multiplication
per weight does it (a scale into a dense map, a convolution or another scale), when only indices or
pads are involved, or when a dense product saves multiplications; otherwise the maps stay a `Chain`.
A scale before a reshape moves behind it, where it may meet a dense map.

For one product per weight, p = fl(w_2 w_1) with |w_2 w_1 − p| ≤ u|p| + t, and factors known up to
|w_i* − w_i| ≤ r_i |w_i| + a_i, let r = (1 + r_2)(1 + r_1) − 1. Then

    |w_2* w_1* − p| ≤ r|w_2 w_1| + (1 + r_1) a_2 |w_1| + (1 + r_2) a_1 |w_2| + a_1 a_2 + u|p| + t
    |w_2 w_1| ≤ (1 + u)|p| + t

where u = t = 0 when every product is found to be exact.
"""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from typing import TypeVar

import torch
from torch import Tensor

from anybound.model.affine.chain import (
    Chain,
    check_composable,
    composed_bias,
    composed_error,
    parts_of,
)
from anybound.model.affine.conv import Conv, Pads
from anybound.model.affine.conv_transpose import ConvTranspose
from anybound.model.affine.dense import Dense
from anybound.model.affine.map import AffineMap, Shape, Weighted, WeightError
from anybound.model.affine.rounding import largest, rounded_product
from anybound.model.affine.scale import Scale
from anybound.model.affine.sparse_matrix import (
    SparseMatrix,
    merged_into_dense,
    merged_sparse,
)
from anybound.model.affine.structural import Gather, Identity, Pad, Permute, Reshape
from anybound.model.affine.weight_error import EXACT, combined, plus, times
from anybound.rounding import gamma, underflow

Parts = tuple[AffineMap, ...]  # applied one after the other, the first one first
Move = Reshape | Permute | Gather
Weights = TypeVar("Weights", bound=Weighted)


def compose(second: AffineMap, first: AffineMap) -> AffineMap:
    """z ↦ second(first(z)) for float64 maps."""
    check_composable(second, first)
    if isinstance(second, Identity) and second.bias is None:
        return first
    bias, lost = first.bias, first.error.bias
    if isinstance(second, Identity) and bias is None:
        return first.with_bias(second.bias, second.error.bias)
    bias, lost = composed_bias(second, bias, lost)
    parts: Parts = parts_of(first.without_bias())
    parts = reduce(_push, parts_of(second.without_bias()), parts)
    linear = parts[0] if len(parts) == 1 else Chain.linear_of(parts)
    return linear.with_bias(bias, lost)


def _push(parts: Parts, second: AffineMap) -> Parts:
    """`parts` followed by `second`, merged as far as it goes."""
    if not parts:
        return (second,)
    merged = fuse(second, parts[-1])
    return (*parts, second) if merged is None else reduce(_push, merged, parts[:-1])


def fuse(second: AffineMap, first: AffineMap) -> Parts | None:  # noqa: C901  (a table of cases)
    """What replaces two maps without biases, or None where nothing is better than both."""
    match second, first:
        case Identity(), _:
            return (first,)
        case _, Identity():
            return (second,)
        case Reshape() | Permute() | Gather(), Reshape() | Permute() | Gather():
            return _one(_merge_moves(second, first))
        case Reshape() | Permute(), Scale():
            factor = second.linear(first.weight.expand(first.in_shape))
            return second, Scale.of(second.out_shape, factor, error=first.error)
        case Pad(), Pad():
            return _one(_merge_pads(second, first))
        case Conv(), Pad():
            return _one(_pad_into_conv(second, first))
        case Dense(), Dense():
            return _one(_merge_dense(second, first))
        case SparseMatrix(), Dense():
            return _one(merged_into_dense(second, first))
        case SparseMatrix(), SparseMatrix():
            return _one(merged_sparse(second, first))
        case Scale(), Scale():
            return _one(_multiplied(second, first.weight, first.error))
        case Scale(), _:
            return _one(_scale_outputs(first, second))
        case _, Scale():
            return _one(_scale_inputs(second, first))
    return None


def _one(m: AffineMap | None) -> Parts | None:
    return None if m is None else (m,)


def _multiplied(m: Weights, factor: Tensor, error: WeightError) -> Weights | None:
    """`m` with each weight multiplied by its entry of `factor`, which has that `error`."""
    product, unit, tiny = rounded_product(m.weight, factor)
    if not bool(product.isfinite().all()):
        return None
    relative = combined(m.error.relative, error.relative)
    absolute = plus(
        times(m.error.absolute, 1.0 + 2.0 * error.relative, largest(factor)),
        times(error.absolute, 1.0 + 2.0 * m.error.relative, largest(m.weight)),
        times(m.error.absolute, error.absolute),
        times(tiny, 1.0 + relative),
    )
    lost = WeightError(plus(times(relative, 1.0 + 2.0 * unit), unit), absolute)
    return replace(m, weight=product, error=lost)


def _scale_outputs(first: AffineMap, scale: Scale) -> AffineMap | None:
    """scale ∘ first as one map."""
    match first:
        case Dense() if (factor := _vector(scale, -1)) is not None:
            return _multiplied(first, factor[:, None], scale.error)
        case Conv() if (factor := _vector(scale, 0)) is not None:
            return _multiplied(first, _of_outputs(first, factor), scale.error)
        case ConvTranspose() if (factor := _vector(scale, 0)) is not None:
            return _twin_multiplied(first, _of_inputs(first.twin, factor), scale.error)
    return None


def _scale_inputs(second: AffineMap, scale: Scale) -> AffineMap | None:
    """second ∘ scale as one map."""
    match second:
        case Dense() if (factor := _vector(scale, -1)) is not None:
            return _multiplied(second, factor, scale.error)
        case Conv() if (factor := _vector(scale, 0)) is not None:
            return _multiplied(second, _of_inputs(second, factor), scale.error)
        case ConvTranspose() if (factor := _vector(scale, 0)) is not None:
            return _twin_multiplied(second, _of_outputs(second.twin, factor), scale.error)
    return None


def _twin_multiplied(m: ConvTranspose, factor: Tensor, error: WeightError) -> AffineMap | None:
    twin = _multiplied(replace(m.twin, error=m.error), factor, error)
    return None if twin is None else replace(m, twin=replace(twin, error=EXACT), error=twin.error)


def _vector(scale: Scale, axis: int) -> Tensor | None:
    """The factors along an axis, if they do not depend on the others."""
    rank, size = len(scale.in_shape), scale.in_shape[axis]
    shape = [1] * (rank - scale.weight.ndim) + list(scale.weight.shape)
    others = [length for k, length in enumerate(shape) if k != axis % rank]
    return scale.weight.reshape(-1).expand(size) if all(n == 1 for n in others) else None


def _of_outputs(conv: Conv, factor: Tensor) -> Tensor:
    """A factor per output channel, as it meets the kernel `[O, C/groups, *K]`."""
    return factor.reshape(-1, *(1,) * (conv.weight.ndim - 1))


def _of_inputs(conv: Conv, factor: Tensor) -> Tensor:
    """A factor per input channel, as it meets the kernel `[O, C/groups, *K]`."""
    per_group = factor.reshape(conv.groups, -1)
    per_output = per_group.repeat_interleave(len(conv.weight) // conv.groups, 0)
    return per_output.reshape(*per_output.shape, *(1,) * len(conv.kernel))


def _merge_moves(second: Move, first: Move) -> AffineMap | None:
    in_shape, out_shape = first.in_shape, second.out_shape
    match second, first:
        case Reshape(), Reshape():
            return _reshape(in_shape, out_shape)
        case Permute(), Permute():
            axes = tuple(first.axes[axis] for axis in second.axes)
            straight = axes == tuple(range(len(axes)))
            return Identity.of(in_shape) if straight else Permute.of(in_shape, axes)
        case (Gather(), _) | (_, Gather()):
            index = _index(first)[_index(second)]
            return Gather.of(in_shape, index.reshape(out_shape))
    return None  # a reshape and a permutation: neither moves data by itself


def _reshape(in_shape: Shape, out_shape: Shape) -> Reshape:
    return Identity.of(in_shape) if in_shape == out_shape else Reshape(in_shape, out_shape)


def _index(m: Move) -> Tensor:
    if isinstance(m, Gather):
        return m.index
    return m.linear(torch.arange(m.in_size).reshape(m.in_shape)).reshape(-1)


def _merge_pads(second: Pad, first: Pad) -> Pad | None:
    pads = _added_pads(first.in_shape, second.pads, first.pads)
    return None if pads is None else Pad.of(first.in_shape, pads)


def _pad_into_conv(conv: Conv, pad: Pad) -> Conv | None:
    pads = _added_pads(pad.in_shape, ((0, 0), *conv.pads), pad.pads)
    if pads is None or pads[0] != (0, 0):
        return None
    return replace(conv, in_shape=pad.in_shape, pads=pads[1:])


def _added_pads(shape: Shape, outer: Pads, inner: Pads) -> Pads | None:
    """Pads that do what `inner`, then `outer` do; what was cropped cannot come back as zeros."""
    both = [(*o, *i) for o, i in zip(outer, inner, strict=True)]
    if any((i0 < 0 < o0) or (i1 < 0 < o1) for o0, o1, i0, i1 in both):
        return None
    pads = tuple((o0 + i0, o1 + i1) for o0, o1, i0, i1 in both)
    kept = [n + min(0, a) + min(0, b) for n, (a, b) in zip(shape, pads, strict=True)]
    return pads if min(kept) > 0 else None


def _merge_dense(second: Dense, first: Dense) -> Dense | None:
    """The product of two matrices, if applying it is cheaper than applying both."""
    hidden, inputs = first.weight.shape
    outputs = len(second.weight)
    if outputs * inputs > hidden * (outputs + inputs):
        return None
    weight = second.weight @ first.weight
    bound = times(
        largest(second.weight.abs() @ first.weight.abs()), 1.0 + gamma(hidden + 1, torch.float64)
    )
    both = composed_error(second, first)
    # The sums may cancel, so what is relative to |W_2||W_1| is absolute for the product.
    absolute = plus(
        both.absolute,
        times(plus(both.relative, gamma(hidden, torch.float64)), bound),
        underflow(hidden, torch.float64),
    )
    error = WeightError(absolute=absolute)
    return replace(first, out_shape=second.out_shape, weight=weight, error=error)
