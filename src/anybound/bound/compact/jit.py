"""How kernels are compiled: once per machine, then loaded from the user's cache.

`inner` functions are compiled into the `kernel` that calls them; a `kernel` has one signature, that
of its example arguments, so that it is compiled exactly once. What is cached is stamped with a
digest of the sources of this package and of the kernel's own, where its inner functions are: a
changed one never leaves a stale kernel behind, as modification times might. Where no directory can be written (see
`anybound.kernel_cache`), kernels are compiled anew by each process.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, wraps
from pathlib import Path
from typing import Any, Self, TypeVar, cast

from numba import njit, typeof
from numba.core.caching import CompileResultCacheImpl, FunctionCache
from numba.core.runtime import rtsys
from numba.core.typing.typeof import typeof_impl

from anybound.kernel_cache import digest, directory

F = TypeVar("F", bound=Callable[..., Any])

# No nnan, no ninf: a NaN must stay one. Any order of summation is covered by the error bounds.
_NUMPY = {"error_model": "numpy"}  # a division by zero is an infinity, not an exception
REORDER = ("reassoc", "contract", "nsz", "arcp")


def inner(function: F) -> F:
    """A function that kernels call; floating-point operations may be reordered and fused."""
    return cast(F, njit(fastmath=set(REORDER), boundscheck=False, **_NUMPY)(function))


def exact(function: F) -> F:
    """A function that kernels call, every operation of which is rounded as written.

    Without a word on `fastmath` it would inherit the kernel's, and lose the parts that rounding took."""
    return cast(F, njit(fastmath=False, boundscheck=False, **_NUMPY)(function))


def kernel(*example: object) -> Callable[[F], F]:
    """A compiled function for arguments like those of the example; it releases the GIL.

    It is compiled, or loaded, when first called: importing a module of kernels costs nothing."""

    def compiled(function: F) -> F:
        @cache
        def ready() -> F:
            dispatcher = njit(fastmath=set(REORDER), boundscheck=False, nogil=True, **_NUMPY)(
                function
            )
            if directory() is not None:
                dispatcher._cache = _SourceCache(function)  # noqa: SLF001 (there is no public hook)
            for value in example:
                _register(value)
            dispatcher.compile(tuple(typeof(value) for value in example))
            dispatcher.disable_compile()
            return cast(F, dispatcher)

        @wraps(function)
        def call(*arguments: object) -> object:
            return ready()(*arguments)

        return cast(F, call)

    return compiled


def _register(value: object) -> None:
    """Tell Numba that named tuples are tuples: it would find out by asking hundreds of classes."""
    if not isinstance(value, tuple):
        return
    if type(value) not in typeof_impl.registry:
        typeof_impl.register(type(value), typeof_impl.dispatch(tuple))
    for entry in value:
        _register(entry)


class _Locator:
    """Where a function's compiled form lies, and the stamp that says whether it is fresh."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._line = function.__code__.co_firstlineno
        self._digest = digest(Path(function.__code__.co_filename).parent)

    @classmethod
    def from_function(cls, function: Callable[..., Any], file: str) -> Self:
        del file
        return cls(function)

    def ensure_cache_path(self) -> None:
        """The directory exists since it was found."""

    def get_cache_path(self) -> str:
        return str(directory())

    def get_source_stamp(self) -> str:
        return self._digest

    def get_disambiguator(self) -> str:
        return f"{self._line}-{self._digest}"


class _SourceImpl(CompileResultCacheImpl):  # type: ignore[misc]  # numba is untyped
    _locator_classes = (_Locator,)


class _SourceCache(FunctionCache):  # type: ignore[misc]  # numba is untyped
    _impl_class = _SourceImpl

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The compiled form, without what only a compiler needs.

        Numba would first load what it knows about Python and NumPy (0.25 s, SciPy's linear algebra
        included); code that is compiled refers to the run-time system alone. A compilation loads all
        of it by itself."""
        rtsys.initialize(target_context)
        with self._guard_against_spurious_io_errors():
            return self._load_overload(sig, target_context)
