"""The networks and properties that are installed with the package, by name."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches
from pathlib import Path

from anybound.errors import InvalidInput

__all__ = ["FOLDER", "bundled"]

FOLDER = Path(__file__).with_name("data")


def bundled(name: str) -> Path:
    """The path of a bundled file: a network, a property, or `instances.csv`, which lists them.

    >>> import anybound
    >>> anybound.load(anybound.bundled("digits_conv.onnx"))
    Network([1, 1, 8, 8] → ReLU [8, 4, 4] → ReLU [16, 2, 2] → ReLU [40] → [1, 10]; 232 hidden neurons)
    """
    files = {path.name: path for path in _files()}
    if name not in files:
        close = get_close_matches(name, files, n=1, cutoff=0.4)
        hint = f"did you mean {close[0]!r}? " if close else ""
        raise InvalidInput(f"no bundled file {name!r}: {hint}there are {', '.join(sorted(files))}")
    return files[name]


def _files() -> Iterator[Path]:
    return (path for path in FOLDER.rglob("*") if path.suffix in (".onnx", ".vnnlib", ".csv"))
