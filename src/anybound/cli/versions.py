"""The versions that matter for a result, found without importing the packages."""

import platform

__all__ = ["PACKAGES", "versions"]

PACKAGES = ("anybound", "torch", "onnx", "onnxruntime", "numba", "numpy", "scipy", "highspy")


def versions() -> dict[str, str | None]:
    """Python's version and that of each package; None for one that is not installed."""
    first, *others = PACKAGES
    return {
        first: _installed(first),
        "python": platform.python_version(),
        **{name: _installed(name) for name in others},
    }


def _installed(name: str) -> str | None:
    from importlib.metadata import PackageNotFoundError, version  # slow to import

    try:
        return version(name)
    except PackageNotFoundError:
        return None
