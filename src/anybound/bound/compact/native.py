"""Machine code: kept in files, loaded, and called with its arguments as a row of 64-bit words.

    array      where its numbers begin, and its extents; C-contiguous, of the kind that the code was compiled for
    number     itself: an int64, or a float64's bits
    record     its entries, one after the other

A file is a line with the code's entry and its checksum, then the code. One that is damaged is made anew.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from ctypes import CFUNCTYPE, c_int32, c_int64, c_void_p
from functools import cache
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any, Generic, TypeVar

import llvmlite
import llvmlite.binding as llvm
import numpy as np

Record = TypeVar("Record", bound=Sequence[object])
Kind = type[int] | type[float] | tuple[np.dtype[Any], int]  # of a number, or of an array
# What Numba's code returns, and takes: where a result and an exception would go, then the arguments.
_ENTRY = CFUNCTYPE(c_int32, c_void_p, c_void_p, c_void_p)


class Fixed(Generic[Record]):
    """A record that serves many calls: its words are found once. Its numbers may change, its arrays may not."""

    def __init__(self, record: Record) -> None:
        self.record = record
        self.kinds = tuple(_kinds(record))
        self.words = _words(_leaves(record), self.kinds)


class Words:
    """The row of words for arguments like those of an example."""

    def __init__(self, example: Sequence[object]) -> None:
        self.kinds = tuple(_kinds(example))

    def of(self, arguments: Sequence[object]) -> Any:
        """The row; the arguments have to live as long as it is in use."""
        words: list[int] = []
        at = 0  # in kinds
        for argument in arguments:
            if isinstance(argument, Fixed):
                end = at + len(argument.kinds)
                if argument.kinds != self.kinds[at:end]:
                    raise TypeError(f"got a record of {argument.kinds}; expected {self.kinds[at:]}")
                words += argument.words
            else:
                values = _leaves((argument,))
                end = at + len(values)
                words += _words(values, self.kinds[at:end])
            at = end
        if at != len(self.kinds):
            raise TypeError(f"got {at} arrays and numbers; expected {len(self.kinds)}")
        return (c_int64 * len(words))(*words)


class Native:
    """A function in machine code."""

    def __init__(self, entry: str, code: bytes) -> None:
        self._engine = _engine()
        self._engine.add_object_file(llvm.ObjectFileRef.from_data(code))
        self._engine.finalize_object()
        self._function = _ENTRY(self._engine.get_function_address(entry))

    def __call__(self, words: Any) -> None:
        nothing = (c_int64 * 2)()
        if self._function(nothing, nothing, words):
            raise RuntimeError("a compiled kernel has failed; it never should")


def stored(folder: Path, name: str, make: Callable[[], tuple[str, bytes]]) -> tuple[str, bytes]:
    """The entry and the code of a name, from its file; made, and kept there, if there is none."""
    path = folder / f"{name}-{_machine()}.kernel"
    try:
        head, _, code = path.read_bytes().partition(b"\n")
        entry, _, check = head.decode().partition(" ")
        if check == sha256(code).hexdigest():
            return entry, code
    except (OSError, UnicodeDecodeError):
        pass
    entry, code = make()
    _write(path, f"{entry} {sha256(code).hexdigest()}\n".encode() + code)
    return entry, code


def _write(path: Path, content: bytes) -> None:
    """All or nothing, whoever else writes it; a disk that is full costs the next process a compilation."""
    beside = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        beside.write_bytes(content)
        beside.replace(path)
    except OSError:
        with suppress(OSError):
            beside.unlink(missing_ok=True)


@cache
def _machine() -> str:
    """A stamp of the processor and of the compiler."""
    processor = llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()
    compiler = version("numba"), llvmlite.__version__
    return sha256(repr((processor, compiler)).encode()).hexdigest()[:12]


def _engine() -> Any:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine()
    return llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)


def _leaves(values: Sequence[object]) -> list[object]:
    """The arrays and numbers of records."""
    found: list[object] = []
    for value in values:
        if isinstance(value, tuple):
            found += _leaves(value)
        else:
            found.append(value)
    return found


def _words(values: Sequence[object], kinds: Sequence[Kind]) -> list[int]:
    if len(values) != len(kinds):
        raise TypeError(f"got {len(values)} arrays and numbers; expected {len(kinds)}")
    words: list[int] = []
    for value, kind in zip(values, kinds, strict=True):
        if isinstance(kind, type):
            words.append(_word(value, kind))
        else:
            words += _array(value, *kind)
    return words


def _kinds(example: Sequence[object]) -> Iterator[Kind]:
    """What each has to be: an array's dtype and number of axes, or a number's type."""
    for value in _leaves(example):
        if isinstance(value, np.ndarray):
            yield value.dtype, value.ndim
        else:
            yield float if isinstance(value, float) else int


def _word(value: Any, kind: type[int] | type[float]) -> int:
    if isinstance(value, np.ndarray) or kind(value) != value:
        raise TypeError(f"got {value!r}; expected a number, {kind.__name__}")
    if kind is int:
        return int(value)
    word: int = struct.unpack("=q", struct.pack("=d", value))[0]
    return word


def _array(value: Any, dtype: np.dtype[Any], axes: int) -> tuple[int, ...]:
    if not isinstance(value, np.ndarray):
        raise TypeError(f"got {value!r}; expected an array of {dtype}")
    if value.dtype != dtype or value.ndim != axes or not value.flags.carray:
        raise TypeError(
            f"got {value.dtype} of {value.shape} with {value.strides}; expected {dtype} with {axes} axes, "
            "contiguous and writable"
        )
    return value.__array_interface__["data"][0], *value.shape
