"""Adding maps of the same source:  W = Σ W_i, b = Σ b_i, merged where one map does the work of two.

Identities and scales become one scale, dense maps of equal shapes one dense map, convolutions of
equal geometry one convolution. With |W_i* − W_i| ≤ r_i |W_i| + a_i and s = fl(w_1 + w_2),

    |w_1* + w_2* − s| ≤ r_1 |w_1| + a_1 + r_2 |w_2| + a_2 + |w_1 + w_2 − s|

which is absolute, as the sum may be smaller than its terms. The last summand is found exactly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from anybound.errors import InvalidModel
from anybound.model.affine.chain import check_float64
from anybound.model.affine.conv import Conv
from anybound.model.affine.dense import Dense
from anybound.model.affine.map import AffineMap, Weighted, WeightError
from anybound.model.affine.rounding import largest, two_sum
from anybound.model.affine.scale import Scale
from anybound.model.affine.structural import Identity
from anybound.model.affine.weight_error import plus, times


def add(maps: Sequence[AffineMap]) -> tuple[AffineMap, ...]:
    """Maps with the same sum as the given float64 ones, as few as merging makes them."""
    if len({(m.in_shape, m.out_shape) for m in maps}) > 1:
        shapes = ", ".join(f"{m.in_shape} to {m.out_shape}" for m in maps)
        raise InvalidModel(f"only maps between the same shapes can be added, not {shapes}")
    check_float64(*maps)
    merged: list[AffineMap] = []
    for m in maps:
        for place, other in enumerate(merged):
            total = _sum(other, m)
            if total is not None:
                merged[place] = total
                break
        else:
            merged.append(m)
    return tuple(merged)


def _sum(a: AffineMap, b: AffineMap) -> AffineMap | None:
    """a + b as one map, or None where two are no worse."""
    match a, b:
        case Scale() | Identity(), Scale() | Identity():
            return _with_sum(_as_scale(a), _as_scale(b))
        case Dense(), Dense():
            return _with_sum(a, b)
        case Conv(), Conv() if _geometry(a) == _geometry(b):
            return _with_sum(a, b)
    return None


def _with_sum(a: Weighted, b: Weighted) -> AffineMap:
    weight, rest = two_sum(a.weight, b.weight)
    bias, lost = _bias_sum(a, b)
    absolute = plus(_weight_error(a), _weight_error(b), largest(rest))
    return replace(a, weight=weight, bias=bias, error=WeightError(absolute=absolute, bias=lost))


def _weight_error(m: Weighted) -> float:
    return plus(m.error.absolute, times(m.error.relative, largest(m.weight)))


def _bias_sum(a: AffineMap, b: AffineMap) -> tuple[Tensor | None, float]:
    lost = plus(a.error.bias, b.error.bias)
    if a.bias is None or b.bias is None:
        return (b.bias if a.bias is None else a.bias), lost
    bias, rest = two_sum(a.bias, b.bias)
    return bias, plus(lost, largest(rest))


def _as_scale(m: Scale | Identity) -> Scale:
    if isinstance(m, Scale):
        return m
    one = torch.ones((), dtype=torch.float64)
    return Scale.of(m.in_shape, one, m.bias, error=m.error)


def _geometry(conv: Conv) -> tuple[object, ...]:
    return conv.kernel, conv.stride, conv.pads, conv.dilation, conv.groups
