"""MatMul and Gemm with a constant operand.

x @ W  with x `[*lead, k]`, W `[k, n]` is a matrix on the last axis;    W @ x  =  (xᵀ @ Wᵀ)ᵀ;
a W that differs per batch `[B, k, n]` is one convolution of kernel 1 with B groups.
"""

from __future__ import annotations

from functools import partial
from math import prod

import numpy as np

from anybound.io.onnx_ops.algebra import (
    applied,
    expanded,
    permuted,
    reshaped,
    tensor,
)
from anybound.io.onnx_ops.elementwise import by_constant, sum_of
from anybound.io.onnx_ops.folding import product_of_constants
from anybound.io.onnx_ops.op import Op
from anybound.io.onnx_ops.value import Affine, Constant, Value
from anybound.model.affine.conv import Conv
from anybound.model.affine.dense import Dense
from anybound.model.affine.map import WeightError
from anybound.model.affine.sparse_matrix import matrix


def matmul(op: Op) -> Value:
    return product(op, op.value(0), op.value(1))


def gemm(op: Op) -> Value:
    """α·A'·B' + β·C."""
    a, b = op.value(0), op.value(1)
    if len(a.shape) != 2 or len(b.shape) != 2:
        raise op.invalid(f"needs two matrices, got shapes {a.shape} and {b.shape}")
    a = permuted(a, (1, 0)) if op.integer("transA", 0) else a
    b = permuted(b, (1, 0)) if op.integer("transB", 0) else b
    alpha, beta = op.real("alpha", 1.0), op.real("beta", 1.0)
    result = _times(op, product(op, a, b), alpha)
    c = op.optional(2)
    if c is None or beta == 0.0:
        return result
    if op.broadcast(result.shape, c.shape) != result.shape:
        raise op.invalid(f"C of shape {c.shape} does not broadcast to the product's {result.shape}")
    return sum_of(op, result, _times(op, c, beta))


def _times(op: Op, value: Value, factor: float) -> Value:
    if factor == 1.0:
        return value
    constant = Constant(np.array(factor))
    if isinstance(value, Constant):
        return product_of_constants(value, constant)
    return by_constant(op, value, constant)


def product(op: Op, a: Value, b: Value) -> Value:
    """numpy's a @ b, where one operand is constant."""
    if isinstance(a, Affine) and isinstance(b, Affine):
        raise op.unsupported(
            "multiplies two values that depend on the network's input (as attention does); "
            "the normal form has products with constants only"
        )
    if not a.shape or not b.shape:
        raise op.invalid(f"cannot multiply shapes {a.shape} and {b.shape}")
    rows, columns = a.shape[:-1][-1:], b.shape[1:][-1:] if len(b.shape) > 1 else ()
    a = reshaped(a, (1, *a.shape)) if len(a.shape) == 1 else a
    b = reshaped(b, (*b.shape, 1)) if len(b.shape) == 1 else b
    if a.shape[-1] != b.shape[-2]:
        raise op.invalid(
            f"cannot multiply shapes {a.shape} and {b.shape}: {a.shape[-1]} ≠ {b.shape[-2]}"
        )
    lead = op.broadcast(a.shape[:-2], b.shape[:-2])
    op.room((*lead, a.shape[-2], b.shape[-1]))
    if isinstance(b, Constant):
        result = _right(op, a, op.finite(b, "the matrix"))
    else:
        flipped = _right(op, _swapped(b), op.finite(_swapped_constant(a), "the matrix"))
        result = _swapped(flipped)
    return reshaped(result, (*lead, *rows, *columns))


def _swapped(value: Value) -> Value:
    """The value with its last two axes exchanged."""
    rank = len(value.shape)
    return permuted(value, (*range(rank - 2), rank - 1, rank - 2))


def _swapped_constant(value: Value) -> Constant:
    swapped = _swapped(value)
    if not isinstance(swapped, Constant):
        raise AssertionError("one operand of a product is constant")
    return swapped


def _right(op: Op, x: Value, weight: Constant) -> Value:
    """x @ W for x `[*lead, m, k]`."""
    lead = op.broadcast(x.shape[:-2], weight.shape[:-2])
    if prod(weight.shape[:-2]) > 1:
        return _batched(op, expanded(x, (*lead, *x.shape[-2:])), weight)
    rows, (k, n) = prod(lead) * x.shape[-2], weight.shape[-2:]
    transposed = tensor(weight.array.reshape(k, n).T)
    error = WeightError(absolute=weight.error)
    on_rows = partial(Dense.of, lead=(rows,))
    map_ = (matrix if rows == 1 else on_rows)(transposed, error=error)
    return applied(map_, x, (*lead, x.shape[-2], n))


def _batched(op: Op, x: Value, weight: Constant) -> Value:
    """x @ W where W differs per batch: channels (b, i) of xᵀ, one group of a convolution per b,

    out[(b, j), r] = Σ_i W[b, i, j] · x[b, r, i]
    """
    *lead, m, k = x.shape
    n, count = weight.shape[-1], prod(lead)
    op.room((*lead, k, n))
    weights = np.broadcast_to(weight.array, (*lead, k, n)).reshape(count, k, n)
    kernel = tensor(weights.transpose(0, 2, 1)).reshape(count * n, k, 1)
    error = WeightError(absolute=weight.error)
    map_ = Conv.of((count * k, m), kernel, groups=count, error=error)
    return _swapped(applied(map_, _swapped(x), (*lead, n, m)))
