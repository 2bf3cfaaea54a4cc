"""Arithmetic on constants in float64, with a bound of its rounding:  |exact − computed| <= error.

With |a* − a| <= e and |b* − b| <= f, and u half an ulp of 1:

    a + b:  e + f + (the exact remainder of the sum)     a·b:  |a|f + |b|e + ef + u|a·b|
    a / b:  (e + |a/b| f) / (|b| − f) + u|a/b|
"""

from __future__ import annotations

import numpy as np

from anybound.io.onnx_ops.algebra import tensor
from anybound.io.onnx_ops.op import Op
from anybound.io.onnx_ops.value import Array, Constant
from anybound.model.affine.rounding import largest, rounded_product, two_sum
from anybound.model.affine.weight_error import TINY, UNIT, plus, times


def sum_of_constants(a: Constant, b: Constant) -> Constant:
    if not (a.is_float or b.is_float):
        return Constant(np.add(a.array, b.array))
    total, lost = two_sum(tensor(a.array), tensor(b.array))
    return Constant(total.numpy(), plus(a.error, b.error, largest(lost)))


def product_of_constants(a: Constant, b: Constant) -> Constant:
    if not (a.is_float or b.is_float):
        return Constant(np.multiply(a.array, b.array))
    x, y = tensor(a.array), tensor(b.array)
    product, relative, absolute = rounded_product(x, y)
    return Constant(
        product.numpy(),
        plus(
            times(largest(x), b.error),
            times(largest(y), a.error),
            times(a.error, b.error),
            times(relative, largest(product)),
            absolute,
        ),
    )


def quotient_of_constants(op: Op, a: Constant, b: Constant) -> Constant:
    if not np.asarray(b.array).all():
        raise op.invalid("divides by zero")
    if not (a.is_float or b.is_float):
        # ONNX divides integers towards zero.
        quotient = np.abs(a.array) // np.abs(b.array)
        return Constant(quotient * np.sign(a.array) * np.sign(b.array))
    x, y = np.broadcast_arrays(a.array.astype(np.float64), b.array.astype(np.float64))
    quotient = x / y
    smallest = float(np.abs(y).min(initial=np.inf)) - b.error
    if smallest <= 0.0:
        raise op.unsupported("divides by a constant that rounding cannot tell from zero")
    top = float(np.abs(quotient).max(initial=0.0))
    spread = plus(a.error, times(top, b.error)) / smallest
    rounding = 0.0 if exact_quotient(x, y) else plus(times(UNIT, top), TINY)
    return Constant(quotient, plus(np.nextafter(spread, np.inf) if spread else 0.0, rounding))


def exact_quotient(x: Array, y: Array) -> bool:
    """Whether no quotient can round: every divisor is a power of two (and nothing underflows)."""
    mantissa, _ = np.frexp(np.asarray(y, dtype=np.float64))
    quotient = np.abs(np.asarray(x, dtype=np.float64) / y)
    return bool(
        (np.abs(mantissa) == 0.5).all() and ((quotient == 0.0) | (quotient > 2.0**-960)).all()
    )


def root_of_constant(op: Op, a: Constant) -> Constant:
    """√a; with a >= m > e,  |√a* − √a| <= e / √m, and the root itself rounds by u."""
    array = a.array.astype(np.float64)
    if (array < 0.0).any():
        raise op.invalid("takes the root of a negative number")
    root = np.sqrt(array)
    if a.error >= float(array.min(initial=np.inf)):
        raise op.unsupported("takes the root of a constant that rounding cannot tell from zero")
    spread = times(a.error, 2.0 / float(root.min(initial=np.inf))) if a.error else 0.0
    return Constant(root, plus(spread, times(UNIT, float(root.max(initial=0.0)))))
