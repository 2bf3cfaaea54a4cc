"""The compiler of kernels: Numba, which makes machine code of Python functions.

A kernel becomes a function of one address, of the words of its arguments (see `native`). It allocates and raises
nothing, so that its code needs nothing of Python.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from llvmlite import ir
from numba import njit, typeof, types
from numba.core import cgutils
from numba.core.compiler_lock import global_compiler_lock
from numba.core.typing.templates import make_intrinsic_template
from numba.core.typing.typeof import typeof_impl
from numba.extending import intrinsic
from numba.np.arrayobj import make_array, populate_array

from anybound.bound.compact import operations
from anybound.bound.compact.jit import Part
from anybound.bound.compact.machine import Operation

# No nnan, no ninf: a NaN must stay one. Any order of summation is covered by the error bounds.
REORDER = ("reassoc", "contract", "nsz", "arcp")
_OPTIONS = {
    "error_model": "numpy",  # a division by zero is an infinity, not an exception
    "boundscheck": False,
    "_nrt": False,  # no references are counted
    "no_cfunc_wrapper": True,
}
_WORDS = types.CPointer(types.int64)


@cache
def _dispatcher(part: Part) -> Any:
    """The function for Numba.

    Without a word on `fastmath` an exact one would inherit the kernel's, and lose the parts that rounding took."""
    return njit(fastmath=set(REORDER) if part.reorders else False, **_OPTIONS)(part.function)


@cache
def _template(operation: Operation) -> Any:
    build = getattr(operations, operation.name)
    return make_intrinsic_template(
        operation, build, operation.name, prefer_literal=False, kwargs={}
    )


@typeof_impl.register(Part)  # type: ignore[untyped-decorator]  # numba is untyped
def _type_of_part(part: Part, _: object) -> Any:
    return types.Dispatcher(_dispatcher(part))


@typeof_impl.register(Operation)  # type: ignore[untyped-decorator]  # numba is untyped
def _type_of_operation(operation: Operation, _: object) -> Any:
    return types.Function(_template(operation))


def object_code(function: Callable[..., Any], example: Sequence[object]) -> tuple[str, bytes]:
    """The entry of a kernel, and its code."""
    kind = types.Tuple([typeof(value) for value in example])
    whole = njit(fastmath=set(REORDER), **_OPTIONS)(function)
    arguments = intrinsic(lambda _context, _words: (kind(_WORDS), _generate_arguments))

    def entry(words: Any) -> None:
        whole(*arguments(words))

    dispatcher = njit(fastmath=set(REORDER), no_cpython_wrapper=True, **_OPTIONS)(entry)
    with global_compiler_lock:
        made = dispatcher._compiler.compile((_WORDS,), None)  # noqa: SLF001 (there is no public one)
    (code, _) = made.library.serialize_using_object_code()[-1]
    return made.fndesc.llvm_func_name, code


def _generate_arguments(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
    return _Reader(context, builder, arguments[0]).value(sig.return_type)


class _Reader:
    """Values from words, in the instructions being built."""

    def __init__(self, context: Any, builder: Any, words: Any) -> None:
        self.context, self.builder, self.words, self.at = context, builder, words, 0

    def word(self) -> Any:
        place = self.builder.gep(self.words, [ir.Constant(ir.IntType(64), self.at)])
        self.at += 1
        return self.builder.load(place)

    def value(self, kind: Any) -> Any:
        """A value of a type."""
        if isinstance(kind, types.BaseTuple):
            return self.context.make_tuple(self.builder, kind, [self.value(t) for t in kind])
        if isinstance(kind, types.Array):
            return self.array(kind)
        if isinstance(kind, types.Float):
            return self.builder.bitcast(self.word(), ir.DoubleType())
        return self.context.cast(self.builder, self.word(), types.int64, kind)

    def array(self, kind: Any) -> Any:
        array = make_array(kind)(self.context, self.builder)
        data = self.builder.inttoptr(self.word(), array.data.type)
        size = kind.dtype.bitwidth // 8 if hasattr(kind.dtype, "bitwidth") else 1
        extents = [self.word() for _ in range(kind.ndim)]
        itemsize = ir.Constant(ir.IntType(64), size)
        strides = [itemsize]
        for extent in extents[:0:-1]:
            strides.insert(0, self.builder.mul(strides[0], extent))
        populate_array(
            array,
            data=data,
            shape=cgutils.pack_array(self.builder, extents),
            strides=cgutils.pack_array(self.builder, strides),
            itemsize=itemsize,
            meminfo=None,
        )
        return array._getvalue()  # noqa: SLF001 (what Numba itself writes)
