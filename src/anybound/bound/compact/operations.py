"""What the operations of `machine` compile to, by the same names: needed by the compiler alone.

Float32 vectors allow fused multiply-adds, float64 vectors round every operation as written. Only `block_product`,
`multiply_add` and `total` sum in any order in both.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.datamodel import models
from numba.core.datamodel.registry import register_default
from numba.core.imputils import lower_builtin
from numba.core.typing.templates import AbstractTemplate, infer_global, signature

from anybound.bound.compact.machine import BYTES, ROWS, WIDTH

_FUSED = ("contract", "reassoc", "nsz", "arcp")


class Address(types.Type):  # type: ignore[misc]  # numba is untyped
    """Where an array's numbers begin; no reference is counted."""

    def __init__(self, dtype: Any) -> None:
        self.dtype = dtype
        super().__init__(name=f"Address({dtype})")


class Vector(types.Type):  # type: ignore[misc]  # numba is untyped
    """64 bytes of numbers."""

    def __init__(self, dtype: Any) -> None:
        self.dtype = dtype
        super().__init__(name=f"Vector({dtype})")

    @property
    def llvm(self) -> Any:
        scalar = ir.FloatType() if self.dtype == types.float32 else ir.DoubleType()
        return ir.VectorType(scalar, BYTES * 8 // self.dtype.bitwidth)

    @property
    def flags(self) -> tuple[str, ...]:
        return _FUSED if self.dtype == types.float32 else ()


class _AddressModel(models.PrimitiveModel):  # type: ignore[misc]  # numba is untyped
    def __init__(self, manager: Any, kind: Address) -> None:
        super().__init__(manager, kind, manager.lookup(kind.dtype).get_data_type().as_pointer())


class _VectorModel(models.PrimitiveModel):  # type: ignore[misc]  # numba is untyped
    def __init__(self, manager: Any, kind: Vector) -> None:
        super().__init__(manager, kind, kind.llvm)


register_default(Address)(_AddressModel)
register_default(Vector)(_VectorModel)


# --- addresses


def _address_type(kind: Any) -> Any:
    """The type that stands for a record, an array or a number of this type."""
    if isinstance(kind, types.NamedTuple):
        return types.NamedTuple([_address_type(t) for t in kind.types], kind.instance_class)
    return Address(kind.dtype) if isinstance(kind, types.Array) else kind


def _to_address(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    if isinstance(kind, types.NamedTuple):
        parts = cgutils.unpack_tuple(builder, value, len(kind.types))
        made = [
            _to_address(context, builder, t, part)
            for t, part in zip(kind.types, parts, strict=True)
        ]
        return context.make_tuple(builder, _address_type(kind), made)
    if isinstance(kind, types.Array):
        return context.make_array(kind)(context, builder, value=value).data
    return value


def addresses(_context: Any, record: Any) -> Any:
    """A record of arrays as the same record of addresses, numbers and inner records included."""

    def generate(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        return _to_address(context, builder, sig.args[0], arguments[0])

    return _address_type(record)(record), generate


class _Read(AbstractTemplate):  # type: ignore[misc]  # numba is untyped
    """`address[i]`: one number."""

    def generic(self, args: Any, kws: Any) -> Any:
        del kws
        if isinstance(args[0], Address) and isinstance(args[1], types.Integer):
            return signature(args[0].dtype, args[0], types.int64)
        return None


def _read(_context: Any, builder: Any, _sig: Any, arguments: Any) -> Any:
    return builder.load(builder.gep(arguments[0], [arguments[1]]))


infer_global(operator.getitem)(_Read)
lower_builtin(operator.getitem, Address, types.int64)(_read)


class _Write(AbstractTemplate):  # type: ignore[misc]  # numba is untyped
    """`address[i] = x`: one number."""

    def generic(self, args: Any, kws: Any) -> Any:
        del kws
        if isinstance(args[0], Address) and isinstance(args[1], types.Integer):
            return signature(types.void, args[0], types.int64, args[0].dtype)
        return None


def _write(_context: Any, builder: Any, _sig: Any, arguments: Any) -> Any:
    builder.store(arguments[2], builder.gep(arguments[0], [arguments[1]]))


infer_global(operator.setitem)(_Write)
lower_builtin(operator.setitem, Address, types.int64, types.Any)(_write)


# --- vectors


def _place(builder: Any, arguments: Any, kind: Any) -> Any:
    """The address of a vector, from a matrix, a row and a lane."""
    address, row, lane = arguments[:3]
    offset = builder.add(builder.mul(row, ir.Constant(row.type, WIDTH)), lane)
    return builder.bitcast(builder.gep(address, [offset]), kind.as_pointer())


def load(_context: Any, address: Any, row: Any, lane: Any) -> Any:
    """matrix[row, lane : lane + LANES]."""
    del row, lane
    vector = Vector(address.dtype)

    def generate(_context: Any, builder: Any, _sig: Any, arguments: Any) -> Any:
        align = address.dtype.bitwidth // 8
        return builder.load(_place(builder, arguments, vector.llvm), align=align)

    return vector(address, types.int64, types.int64), generate


def store(_context: Any, address: Any, row: Any, lane: Any, value: Any) -> Any:
    """matrix[row, lane : lane + LANES] = value."""
    del row, lane

    def generate(context: Any, builder: Any, _sig: Any, arguments: Any) -> Any:
        align = address.dtype.bitwidth // 8
        place = _place(builder, arguments, Vector(address.dtype).llvm)
        builder.store(arguments[3], place, align=align)
        return context.get_dummy_value()

    return types.void(address, types.int64, types.int64, value), generate


def splat(_context: Any, number: Any) -> Any:
    """The vector whose entries are one number."""
    vector = Vector(number)

    def generate(_context: Any, builder: Any, _sig: Any, arguments: Any) -> Any:
        return _broadcast(builder, arguments[0], vector.llvm)

    return vector(number), generate


def _broadcast(builder: Any, value: Any, kind: Any) -> Any:
    undefined = ir.Constant(kind, ir.Undefined)
    first = builder.insert_element(undefined, value, ir.Constant(ir.IntType(32), 0))
    mask = ir.Constant(ir.VectorType(ir.IntType(32), kind.count), [0] * kind.count)
    return builder.shuffle_vector(first, undefined, mask)


def _arithmetic(symbol: Any, instruction: str) -> None:
    """`a ∘ b` of two vectors of a kind."""

    class Template(AbstractTemplate):  # type: ignore[misc]  # numba is untyped
        def generic(self, args: Any, kws: Any) -> Any:
            del kws
            if len(args) == 2 and isinstance(args[0], Vector) and args[0] == args[1]:
                return signature(args[0], *args)
            return None

    def generate(_context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        return getattr(builder, instruction)(*arguments, flags=sig.return_type.flags)

    infer_global(symbol)(Template)
    lower_builtin(symbol, Vector, Vector)(generate)


_arithmetic(operator.add, "fadd")
_arithmetic(operator.sub, "fsub")
_arithmetic(operator.mul, "fmul")
_arithmetic(operator.truediv, "fdiv")


def minimum(_context: Any, a: Any, b: Any) -> Any:
    """The smaller of each pair."""
    return a(a, b), _select("<", 0, 1)


def maximum(_context: Any, a: Any, b: Any) -> Any:
    """The larger of each pair."""
    return a(a, b), _select(">", 0, 1)


def where_less(_context: Any, a: Any, b: Any, then: Any, otherwise: Any) -> Any:
    """`then` where a < b, else `otherwise`."""
    return a(a, b, then, otherwise), _select("<", 2, 3)


def where_zero(_context: Any, a: Any, then: Any, otherwise: Any) -> Any:
    """`then` where a = 0, else `otherwise`."""

    def generate(_context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        zero = ir.Constant(sig.return_type.llvm, [0.0] * sig.return_type.llvm.count)
        same = builder.fcmp_ordered("==", arguments[0], zero)
        return builder.select(same, arguments[1], arguments[2])

    return a(a, then, otherwise), generate


def absolute(_context: Any, a: Any) -> Any:
    """|a|."""
    return a(a), _call("llvm.fabs")


def copysign(_context: Any, size: Any, sign: Any) -> Any:
    """|size| with the sign of `sign`, that of a zero included."""
    return size(size, sign), _call("llvm.copysign")


def square_root(_context: Any, a: Any) -> Any:
    """√a."""
    return a(a), _call("llvm.sqrt")


def smallest(_context: Any, a: Any) -> Any:
    """The smallest entry of a vector, as a number; NaN entries are skipped."""

    def generate(_context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        entries = [
            builder.extract_element(arguments[0], ir.Constant(ir.IntType(32), i))
            for i in range(sig.args[0].llvm.count)
        ]
        least = entries[0]
        for entry in entries[1:]:
            least = builder.select(builder.fcmp_ordered("<", entry, least), entry, least)
        return least

    return a.dtype(a), generate


def multiply_add(_context: Any, a: Any, b: Any, c: Any) -> Any:
    """a·b + c."""
    return a(a, b, c), _call("llvm.fmuladd")


def total(_context: Any, a: Any) -> Any:
    """The sum of a vector's entries, halves first."""

    def generate(_context: Any, builder: Any, _sig: Any, arguments: Any) -> Any:
        vector = arguments[0]
        count = vector.type.count
        while count > 1:
            count //= 2
            halves = (_part(builder, vector, start, count) for start in (0, count))
            vector = builder.fadd(*halves)
        return builder.extract_element(vector, ir.Constant(ir.IntType(32), 0))

    return a.dtype(a), generate


def _part(builder: Any, vector: Any, start: int, count: int) -> Any:
    mask = ir.Constant(ir.VectorType(ir.IntType(32), count), list(range(start, start + count)))
    return builder.shuffle_vector(vector, ir.Constant(vector.type, ir.Undefined), mask)


def _select(relation: str, then: int, otherwise: int) -> Callable[..., Any]:
    """The one argument where the first is in the relation to the second, else the other."""

    def generate(_context: Any, builder: Any, _sig: Any, arguments: Any) -> Any:
        holds = builder.fcmp_ordered(relation, arguments[0], arguments[1])
        return builder.select(holds, arguments[then], arguments[otherwise])

    return generate


def _call(name: str) -> Callable[..., Any]:
    """An operation that LLVM knows for vectors."""

    def generate(_context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        kind = sig.return_type.llvm
        full = f"{name}.v{kind.count}f{sig.return_type.dtype.bitwidth}"
        shape = ir.FunctionType(kind, [kind] * len(arguments))
        function = cgutils.get_or_insert_function(builder.module, shape, full)
        return builder.call(function, arguments)

    return generate


# --- the product


def block_product(
    _context: Any, column: Any, weight: Any, x: Any, out: Any, start: Any, stop: Any, width: Any
) -> Any:
    """One block of four sparse rows times a batch of columns, in registers:

    out[q, i] = Σ_p weight[p, q] · x[column[p], i]        p in [start, stop),  q in 0 … 3,  i in [0,
    width)
    """
    del start, stop, width
    index = types.int64
    return types.void(column, weight, x, out, index, index, index), _generate_product


def _generate_product(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
    column, weight, x, out, start, stop, width = arguments
    tile = _Tile(builder, Vector(sig.args[1].dtype))
    sums = tile.accumulators()
    zero, one, step = (tile.number(value) for value in (0, 1, tile.step))
    with cgutils.for_range_slice(builder, zero, width, step) as (lane, _):
        tile.clear(sums)
        with cgutils.for_range_slice(builder, start, stop, one) as (p, _):
            row = builder.sext(builder.load(builder.gep(column, [p])), tile.index)
            weights = builder.gep(weight, [builder.mul(p, tile.number(ROWS))])
            tile.multiply_add(sums, weights, x, row, lane)
        tile.store(sums, out, lane)
    return context.get_dummy_value()


class _Tile:
    """`ROWS` × `vectors` accumulators, in the instructions being built.

    LLVM keeps them in registers: on AVX-512 two vectors of 64 bytes fill them best, elsewhere one
    is several."""

    def __init__(self, builder: Any, vector: Vector) -> None:
        self.builder, self.index = builder, ir.IntType(64)
        self.vector, self.size = vector.llvm, vector.dtype.bitwidth // 8
        self.vectors = 2 if llvm.get_host_cpu_features().get("avx512f") else 1
        self.step = self.vector.count * self.vectors

    def number(self, value: int) -> Any:
        return ir.Constant(self.index, value)

    def accumulators(self) -> list[list[Any]]:
        return [
            [cgutils.alloca_once(self.builder, self.vector) for _ in range(self.vectors)]
            for _ in range(ROWS)
        ]

    def clear(self, sums: list[list[Any]]) -> None:
        zero = ir.Constant(self.vector, [0.0] * self.vector.count)
        for row in sums:
            for place in row:
                self.builder.store(zero, place)

    def multiply_add(
        self, sums: list[list[Any]], weights: Any, x: Any, row: Any, lane: Any
    ) -> None:
        """sums[q][v] += weights[q] · x[row, lane + v]."""
        builder = self.builder
        factors = [
            builder.load(self.at(x, row, lane, v), align=self.size) for v in range(self.vectors)
        ]
        for q, accumulated in enumerate(sums):
            number = builder.load(builder.gep(weights, [self.number(q)]))
            w = _broadcast(builder, number, self.vector)
            for place, factor in zip(accumulated, factors, strict=True):
                product = builder.fmul(w, factor, flags=_FUSED)
                builder.store(builder.fadd(builder.load(place), product, flags=_FUSED), place)

    def store(self, sums: list[list[Any]], out: Any, lane: Any) -> None:
        for q, accumulated in enumerate(sums):
            for v, place in enumerate(accumulated):
                target = self.at(out, self.number(q), lane, v)
                self.builder.store(self.builder.load(place), target, align=self.size)

    def at(self, matrix: Any, row: Any, lane: Any, v: int) -> Any:
        """The address of the v-th vector of a tile."""
        start = self.builder.add(lane, self.number(v * self.vector.count))
        return _place(self.builder, (matrix, row, start), self.vector)
