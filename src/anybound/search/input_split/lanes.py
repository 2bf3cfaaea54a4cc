"""What these kernels need of a vector beside `machine`: a fused multiply-add, the sum of its entries, and |·|.

Their float64 sums may be formed in any order and with or without fusing: the error bounds of `folded` cover both.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import cgutils
from numba.extending import intrinsic


@intrinsic  # type: ignore[untyped-decorator]  # numba is untyped
def multiply_add(_context: Any, a: Any, b: Any, c: Any) -> Any:
    """a·b + c, entry by entry."""

    def generate(_context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        kind = sig.return_type.llvm
        name = f"llvm.fmuladd.v{kind.count}f{sig.return_type.dtype.bitwidth}"
        shape = ir.FunctionType(kind, [kind] * 3)
        function = cgutils.get_or_insert_function(builder.module, shape, name)
        return builder.call(function, arguments)

    return a(a, b, c), generate


@intrinsic  # type: ignore[untyped-decorator]  # numba is untyped
def total(_context: Any, a: Any) -> Any:
    """The sum of a vector's entries, halves first."""

    def generate(_context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        kind, vector = sig.args[0].llvm, arguments[0]
        count = kind.count
        while count > 1:
            count //= 2
            vector = builder.fadd(
                _part(builder, vector, 0, count), _part(builder, vector, count, count)
            )
        return builder.extract_element(vector, ir.Constant(ir.IntType(32), 0))

    return a.dtype(a), generate


def _part(builder: Any, vector: Any, start: int, count: int) -> Any:
    mask = ir.Constant(ir.VectorType(ir.IntType(32), count), list(range(start, start + count)))
    return builder.shuffle_vector(vector, ir.Constant(vector.type, ir.Undefined), mask)
