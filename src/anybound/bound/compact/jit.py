"""How kernels are compiled: once per machine, then loaded from the user's cache.

`inner` and `exact` functions are compiled into the `kernel` that calls them; a `kernel` has one signature, that of its
example arguments, so that it is compiled exactly once. What is cached is stamped with a digest of the sources of this
package and of the kernel's own, where its inner functions are: a changed one never leaves a stale kernel behind, as
modification times might. Where no directory can be written (see `anybound.kernel_cache`), kernels are compiled anew by
each process.

Nothing here needs the compiler: importing a module of kernels costs nothing, and a kernel from the cache is called as
the machine code it is (`native`). Numba, in `compiling`, is loaded when a kernel is not in the cache.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, wraps
from pathlib import Path
from typing import Any, TypeVar, cast

from anybound.bound.compact.native import Native, Words, stored
from anybound.kernel_cache import digest, directory

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class Part:
    """A function that kernels call; called from Python, it is that function."""

    function: Callable[..., Any]
    reorders: bool

    def __call__(self, *arguments: Any) -> Any:
        return self.function(*arguments)


def inner(function: F) -> F:
    """A function that kernels call; floating-point operations may be reordered and fused."""
    return cast(F, Part(function, reorders=True))


def exact(function: F) -> F:
    """A function that kernels call, every operation of which is rounded as written."""
    return cast(F, Part(function, reorders=False))


def kernel(*example: object) -> Callable[[F], F]:
    """A compiled function for arguments like those of the example, without a result; it releases the GIL.

    It is compiled, or loaded, when first called."""

    def compiled(function: F) -> F:
        words = Words(example)

        @cache
        def ready() -> Native:
            return _ready(function, example)

        @wraps(function)
        def call(*arguments: object) -> None:
            ready()(words.of(arguments))

        return cast(F, call)

    return compiled


def _ready(function: Callable[..., Any], example: tuple[object, ...]) -> Native:
    """From the cache, or by the compiler."""

    def compiled() -> tuple[str, bytes]:
        from anybound.bound.compact.compiling import object_code

        return object_code(function, example)

    folder, source = directory(), Path(function.__code__.co_filename)
    name = f"{source.stem}.{function.__name__}-{digest(source.parent)}"
    return Native(*(compiled() if folder is None else stored(folder, name, compiled)))
