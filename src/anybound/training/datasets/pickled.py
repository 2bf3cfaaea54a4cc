"""Plain data out of a pickle, without unpickling: nothing that the file names is imported or called.

A pickle is a program for a small stack machine that can call any function it names. This is such a
machine without that ability: it builds numbers, strings, lists and dictionaries, and where the
program reconstructs a numpy array of numbers, it makes that array from the bytes given. Whatever
else the program asks for is refused, by name.
"""

from __future__ import annotations

import math
import pickletools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np

from anybound.errors import InvalidInput

__all__ = ["read_pickled"]

# The machine's values are of any plain type, and checked where they are used.
Value = Any
_MOST_OPERATIONS = 5_000_000


class _Refused(Exception):
    pass


@dataclass(frozen=True)
class _Name:
    """A function or class that the program names: only compared, never looked up."""

    module: str
    name: str


@dataclass
class _Dtype:
    """`numpy.dtype(code)`, whose byte order comes in a state later."""

    code: str
    order: str = "="


@dataclass
class _Array:
    """An array to be, until its state comes."""

    value: np.ndarray | None = None


class _Mark:
    """Where on the stack a collection begins."""


def read_pickled(content: bytes, where: str) -> Value:
    """What a pickle of plain data and arrays of numbers holds."""
    try:
        return _plain(_run(content))
    except _Refused as error:
        raise InvalidInput(
            f"{where}: refused: {error}; expected a pickle of plain data and numpy arrays only"
        ) from None
    # Whatever a broken program makes pickletools or the stack stumble over.
    except (
        ArithmeticError,
        AttributeError,
        IndexError,
        KeyError,
        RecursionError,
        TypeError,
        ValueError,
    ) as error:
        raise InvalidInput(
            f"{where}: truncated or damaged pickle ({error}); fetch it again"
        ) from None


@dataclass
class _Machine:
    stack: list[Value] = field(default_factory=list)
    memo: dict[int, Value] = field(default_factory=dict)

    def pop_mark(self) -> list[Value]:
        """All above the last mark."""
        for i in range(len(self.stack) - 1, -1, -1):
            if isinstance(self.stack[i], _Mark):
                items = self.stack[i + 1 :]
                del self.stack[i:]
                return items
        raise _Refused("no mark on the stack")


def _run(content: bytes) -> Value:
    machine = _Machine()
    for count, (operation, argument, _) in enumerate(pickletools.genops(content)):
        if count > _MOST_OPERATIONS:
            raise _Refused(f"more than {_MOST_OPERATIONS} operations")
        if operation.name == "STOP":
            (value,) = machine.stack
            return value
        try:
            run = _OPERATIONS[operation.name]
        except KeyError:
            raise _Refused(f"the operation {operation.name}") from None
        run(machine, argument)
    raise _Refused("it has no end")


def _plain(value: Value) -> Value:
    """Arrays for arrays to be, in a dictionary's values and at the top."""
    if isinstance(value, dict):
        return {key: _plain(entry) for key, entry in value.items()}
    if isinstance(value, _Array):
        if value.value is None:
            raise _Refused("an array without content")
        return value.value
    return value


def _push(machine: _Machine, argument: Value) -> None:
    machine.stack.append(argument)


def _pushed(make: Callable[[], Value]) -> Callable[[_Machine, Value], None]:
    return lambda machine, _: machine.stack.append(make())


def _byte_string(machine: _Machine, argument: Value) -> None:
    """A string of Python 2 is one of bytes; pickletools hands it over as text."""
    machine.stack.append(argument.encode("latin-1") if isinstance(argument, str) else argument)


def _name(machine: _Machine, argument: str) -> None:
    module, _, name = argument.partition(" ")
    machine.stack.append(_Name(module, name))


def _stack_name(machine: _Machine, _: Value) -> None:
    name, module = machine.stack.pop(), machine.stack.pop()
    if not isinstance(name, str) or not isinstance(module, str):
        raise _Refused("a name that is no text")
    machine.stack.append(_Name(module, name))


def _memoize(machine: _Machine, argument: int | None) -> None:
    machine.memo[len(machine.memo) if argument is None else argument] = machine.stack[-1]


def _tuple(size: int) -> Callable[[_Machine, Value], None]:
    def run(machine: _Machine, _: Value) -> None:
        if len(machine.stack) < size:
            raise _Refused("the stack is too short")
        items = tuple(machine.stack[len(machine.stack) - size :])
        del machine.stack[len(machine.stack) - size :]
        machine.stack.append(items)

    return run


def _collect(make: Callable[[list[Value]], Value]) -> Callable[[_Machine, Value], None]:
    return lambda machine, _: machine.stack.append(make(machine.pop_mark()))


def _pairs(items: list[Value]) -> dict[Value, Value]:
    """Keys are text or numbers: hashing tuples inside tuples inside … would exhaust the stack."""
    if not all(isinstance(key, str | bytes | int) for key in items[::2]):
        raise _Refused("a key that is neither text nor a number")
    return dict(zip(items[::2], items[1::2], strict=True))


def _append(machine: _Machine, _: Value) -> None:
    value = machine.stack.pop()
    _top(machine, list).append(value)


def _extend(machine: _Machine, _: Value) -> None:
    items = machine.pop_mark()
    _top(machine, list).extend(items)


def _set_item(machine: _Machine, _: Value) -> None:
    value, key = machine.stack.pop(), machine.stack.pop()
    _top(machine, dict).update(_pairs([key, value]))


def _set_items(machine: _Machine, _: Value) -> None:
    items = machine.pop_mark()
    _top(machine, dict).update(_pairs(items))


def _top(machine: _Machine, kind: type) -> Value:
    if not isinstance(machine.stack[-1], kind):
        raise _Refused(f"no {kind.__name__} to add to")
    return machine.stack[-1]


def _call(machine: _Machine, _: Value) -> None:
    arguments, function = machine.stack.pop(), machine.stack.pop()
    if not isinstance(function, _Name) or not isinstance(arguments, tuple):
        raise _Refused("a call of what is no function")
    try:
        make = _FUNCTIONS[function.module.replace("numpy._core", "numpy.core"), function.name]
    except KeyError:
        name = f"{function.module}.{function.name}"[:80]
        raise _Refused(f"a call of {name}") from None
    machine.stack.append(make(*arguments))


def _build(machine: _Machine, _: Value) -> None:
    state = machine.stack.pop()
    target = machine.stack[-1]
    if isinstance(target, _Dtype) and isinstance(state, tuple) and _text(state[1]) in _ORDERS:
        target.order = _text(state[1])
    elif isinstance(target, _Array) and isinstance(state, tuple):
        _, shape, dtype, in_columns, content = state
        target.value = _array(content, dtype, shape, "F" if in_columns else "C")
    else:
        raise _Refused("a state for what is no array")


def _array(content: Value, dtype: Value, shape: Value, order: str) -> np.ndarray:
    """The array of a shape in the bytes given, which are to be as many as that takes."""
    if not isinstance(content, bytes | bytearray) or not isinstance(dtype, _Dtype):
        raise _Refused("an array of something else than numbers")
    sizes = [size for size in shape if type(size) is int and size >= 0]
    kind = np.dtype(dtype.code).newbyteorder(dtype.order)  # type: ignore[arg-type]  # checked
    if len(sizes) != len(shape) or math.prod(sizes) * kind.itemsize != len(content):
        raise _Refused(f"an array whose shape is not that of its {len(content)} bytes")
    return np.frombuffer(bytes(content), kind).reshape(sizes, order="F" if order == "F" else "C")


def _make_dtype(code: Value, *_: Value) -> _Dtype:
    text = _text(code).lstrip("<>=|")
    if text not in _CODES:
        raise _Refused(f"an array of dtype {text[:20]!r}")
    return _Dtype(text)


def _text(value: Value) -> str:
    """Text, which Python 2 writes as bytes."""
    text = value.decode("latin-1") if isinstance(value, bytes) else value
    if not isinstance(text, str):
        raise _Refused("something else in the place of text")
    return text


def _encode(text: str, encoding: str) -> bytes:
    """How bytes are written for Python 2."""
    if encoding not in ("latin1", "latin-1"):
        raise _Refused("an encoding other than latin1")
    return text.encode("latin-1")


def _empty_bytes(*arguments: Value) -> bytes:
    if arguments:
        raise _Refused("a call of bytes")
    return b""


def _scalar(dtype: Value, content: Value) -> Value:
    return _array(content, dtype, (), "C").item()


_ORDERS = ("<", ">", "|", "=")
_CODES = ("u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f4", "f8", "b1")
_FUNCTIONS: Mapping[tuple[str, str], Callable[..., Value]] = MappingProxyType(
    {
        ("numpy.core.multiarray", "_reconstruct"): lambda *_: _Array(),
        ("numpy.core.numeric", "_frombuffer"): lambda *given: _Array(_array(*given)),
        ("numpy.core.multiarray", "scalar"): _scalar,
        ("numpy", "dtype"): _make_dtype,
        ("_codecs", "encode"): _encode,
        ("__builtin__", "bytes"): _empty_bytes,
        ("builtins", "bytes"): _empty_bytes,
    }
)
_VALUES = (
    "INT",
    "BININT",
    "BININT1",
    "BININT2",
    "LONG",
    "LONG1",
    "LONG4",
    "FLOAT",
    "BINFLOAT",
    "UNICODE",
    "SHORT_BINUNICODE",
    "BINUNICODE",
    "BINUNICODE8",
    "SHORT_BINBYTES",
    "BINBYTES",
    "BINBYTES8",
    "BYTEARRAY8",
)
_OPERATIONS: Mapping[str, Callable[[_Machine, Value], object]] = MappingProxyType(
    {
        **dict.fromkeys(_VALUES, _push),
        **dict.fromkeys(("STRING", "BINSTRING", "SHORT_BINSTRING"), _byte_string),
        **dict.fromkeys(("PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE"), _memoize),
        **dict.fromkeys(("GET", "BINGET", "LONG_BINGET"), lambda m, a: m.stack.append(m.memo[a])),
        **dict.fromkeys(("PROTO", "FRAME"), lambda *_: None),
        "NONE": _pushed(lambda: None),
        "NEWTRUE": _pushed(lambda: True),
        "NEWFALSE": _pushed(lambda: False),
        "MARK": _pushed(_Mark),
        "EMPTY_LIST": _pushed(list),
        "EMPTY_DICT": _pushed(dict),
        "EMPTY_TUPLE": _pushed(tuple),
        "LIST": _collect(list),
        "TUPLE": _collect(tuple),
        "DICT": _collect(_pairs),
        "TUPLE1": _tuple(1),
        "TUPLE2": _tuple(2),
        "TUPLE3": _tuple(3),
        "APPEND": _append,
        "APPENDS": _extend,
        "SETITEM": _set_item,
        "SETITEMS": _set_items,
        "POP": lambda machine, _: machine.stack.pop(),
        "POP_MARK": lambda machine, _: machine.pop_mark(),
        "GLOBAL": _name,
        "STACK_GLOBAL": _stack_name,
        "REDUCE": _call,
        "BUILD": _build,
    }
)
