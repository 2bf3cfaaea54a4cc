"""Where the files of a data set are: in a folder, in an archive as it was fetched, or in one file.

A store lists its files by name and reads them whole. Archives are read in memory, nothing is
unpacked to the disk, and there are limits to all that a file may claim.
"""

from __future__ import annotations

import gzip
import io
import os
import tarfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from anybound.errors import InvalidInput
from anybound.io.files import read_bytes

__all__ = ["Store", "open_store"]

_MOST_FILES = 300_000
_MOST_BYTES = 2 * 2**30  # of an archive's files together
_DEEPEST = 5  # folders inside folders
_TAR_SUFFIXES = (".tar", ".tar.gz", ".tgz")


@dataclass(frozen=True)
class Store:
    """The files at a place: what reads them, by their path inside it."""

    place: str
    files: Mapping[str, Callable[[], bytes]]

    def read(self, name: str) -> bytes:
        """The content of a file, unpacked if it is gzip'd."""
        return self.files[name]()

    def where(self, name: str) -> str:
        """A file's name for a message."""
        return self.place if self.place.endswith(name) else f"{self.place}/{name}"

    def named(self, *names: str) -> str | None:
        """The path of the first file with one of these names, in whatever folder it is."""
        found = sorted(path for path in self.files if PurePosixPath(path).name in names)
        return found[0] if found else None

    def ending(self, suffix: str) -> list[str]:
        """The paths of all files whose names end so, in order."""
        return sorted(path for path in self.files if path.lower().endswith(suffix))


def open_store(place: str, address: str) -> Store:
    """The files of a folder, an archive or a single file; nothing is read of a folder's yet.

    `address` is where the data set can be fetched."""
    path = Path(place)
    try:
        if place and path.is_dir():
            return Store(place, {n: _reader(path / n) for n in _listed(path)})
        if place.lower().endswith(_TAR_SUFFIXES) and path.is_file():
            return Store(place, {n: _constant(c, place, n) for n, c in _unpacked(path)})
        if path.is_file():
            return Store(place, {path.name: _reader(path)})
    except ValueError:  # a NUL character in the name
        pass
    raise InvalidInput(
        f"{place or repr(place)}: no such folder or file; the data set is at {address}"
    )


def _listed(folder: Path) -> Iterator[str]:
    count = 0
    for root, folders, files in os.walk(folder):
        inside = Path(root).relative_to(folder)
        folders[:] = sorted(folders) if len(inside.parts) < _DEEPEST else []
        for name in files:
            count += 1
            if count > _MOST_FILES:
                raise InvalidInput(
                    f"{folder}: holds more than {_MOST_FILES:,} files; name the data set's own folder"
                )
            yield (inside / name).as_posix()


def _unpacked(path: Path) -> Iterator[tuple[str, bytes]]:
    left = _MOST_BYTES
    try:
        with tarfile.open(path, "r:*") as archive:
            for member in archive:
                stream = archive.extractfile(member) if member.isreg() else None
                if stream is None:
                    continue
                left -= member.size
                if left < 0:
                    raise InvalidInput(f"{path}: holds more than {_MOST_BYTES} bytes")
                yield member.name, stream.read()
    except (tarfile.TarError, EOFError, OSError, zlib.error) as error:
        raise InvalidInput(f"{path}: damaged archive: {error}; fetch it again") from None


def _reader(path: Path) -> Callable[[], bytes]:
    return lambda: read_bytes(path)


def _constant(content: bytes, place: str, name: str) -> Callable[[], bytes]:
    def read() -> bytes:
        if not content.startswith(b"\x1f\x8b"):
            return content
        try:
            with gzip.GzipFile(fileobj=io.BytesIO(content)) as stream:
                plain = stream.read(_MOST_BYTES + 1)
        except (EOFError, OSError, zlib.error) as error:
            raise InvalidInput(f"{place}/{name}: damaged gzip file: {error}") from None
        if len(plain) > _MOST_BYTES:
            raise InvalidInput(f"{place}/{name}: unpacks to more than {_MOST_BYTES} bytes")
        return plain

    return read
