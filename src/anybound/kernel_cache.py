"""Where compiled kernels are kept: `$NUMBA_CACHE_DIR`, else `$XDG_CACHE_HOME/anybound`, else
`~/.cache/anybound`, as an installation may be read-only.

Nothing here needs the compiler, so that a command can tell what the first run will take.
"""

from __future__ import annotations

import os
import tempfile
from functools import cache
from hashlib import sha256
from pathlib import Path

__all__ = ["digest", "directory", "is_cold"]

_ENGINE = Path(__file__).parent / "bound" / "compact"


@cache
def directory() -> Path | None:
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
def digest(folder: Path = _ENGINE) -> str:
    """A stamp of the sources in a folder and of the engine's, which its kernels are made of."""
    found = sha256()
    for place in dict.fromkeys((folder, _ENGINE)):
        for source in sorted(place.glob("*.py")):
            found.update(source.read_bytes())
    return found.hexdigest()[:24]


def is_cold() -> bool:
    """Whether the compact engine's kernels will have to be compiled first."""
    path = directory()
    return path is None or not any(path.glob(f"*{digest()}*"))
