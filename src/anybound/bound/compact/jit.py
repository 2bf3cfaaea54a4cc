"""How kernels are compiled: once per machine, then loaded from the user's cache.

`inner` functions are compiled into the `kernel` that calls them; a `kernel` has one signature, that
of its example arguments, so that it is compiled exactly once. What is cached is stamped with a
digest of the sources of this package and of the kernel's own, where its inner functions are: a
changed one never leaves a stale kernel behind, as modification times might. The directory is
`$NUMBA_CACHE_DIR`, else `$XDG_CACHE_HOME/anybound`, else `~/.cache/anybound`; an installation may
be read-only. Where none can be written, kernels are compiled anew by each process.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from functools import cache, wraps
from hashlib import sha256
from pathlib import Path
from typing import Any, Self, TypeVar, cast

from numba import njit, typeof
from numba.core.caching import CompileResultCacheImpl, FunctionCache

F = TypeVar("F", bound=Callable[..., Any])

_SOURCES = Path(__file__).parent

# No nnan, no ninf: a NaN must stay one. Any order of summation is covered by the error bounds.
_NUMPY = {"error_model": "numpy"}  # a division by zero is an infinity, not an exception
REORDER = ("reassoc", "contract", "nsz", "arcp")


def inner(function: F) -> F:
    """A function that kernels call; floating-point operations may be reordered and fused."""
    return cast(F, njit(fastmath=set(REORDER), boundscheck=False, **_NUMPY)(function))


def exact(function: F) -> F:
    """A function that kernels call, every operation of which is rounded as written."""
    return cast(F, njit(boundscheck=False, **_NUMPY)(function))


def kernel(*example: object) -> Callable[[F], F]:
    """A compiled function for arguments like those of the example; it releases the GIL.

    It is compiled, or loaded, when first called: importing a module of kernels costs nothing."""

    def compiled(function: F) -> F:
        @cache
        def ready() -> F:
            dispatcher = njit(fastmath=set(REORDER), boundscheck=False, nogil=True, **_NUMPY)(
                function
            )
            if _directory() is not None:
                dispatcher._cache = _SourceCache(function)  # noqa: SLF001 (there is no public hook)
            dispatcher.compile(tuple(typeof(value) for value in example))
            dispatcher.disable_compile()
            return cast(F, dispatcher)

        @wraps(function)
        def call(*arguments: object) -> object:
            return ready()(*arguments)

        return cast(F, call)

    return compiled


@cache
def _directory() -> Path | None:
    """The cache directory, made if need be; None if it cannot be written."""
    chosen = os.environ.get("NUMBA_CACHE_DIR")
    home = os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()
    path = Path(chosen) if chosen else Path(home) / "anybound"
    try:
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path):
            return path
    except OSError:
        return None


@cache
def _digest(folder: Path) -> str:
    """Of all that a kernel in this folder may call."""
    digest = sha256()
    for package in (_SOURCES, folder):
        for source in sorted(package.glob("*.py")):
            digest.update(source.read_bytes())
    return digest.hexdigest()


class _Locator:
    """Where a function's compiled form lies, and the stamp that says whether it is fresh."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._line = function.__code__.co_firstlineno
        self._folder = Path(function.__code__.co_filename).parent

    @classmethod
    def from_function(cls, function: Callable[..., Any], file: str) -> Self:
        del file
        return cls(function)

    def ensure_cache_path(self) -> None:
        """The directory exists since `_directory` found it."""

    def get_cache_path(self) -> str:
        return str(_directory())

    def get_source_stamp(self) -> str:
        return _digest(self._folder)

    def get_disambiguator(self) -> str:
        return f"{self._line}-{_digest(self._folder)[:12]}"


class _SourceImpl(CompileResultCacheImpl):  # type: ignore[misc]  # numba is untyped
    _locator_classes = (_Locator,)


class _SourceCache(FunctionCache):  # type: ignore[misc]  # numba is untyped
    _impl_class = _SourceImpl
