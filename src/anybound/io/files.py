"""Reading files that may be missing, damaged or hostile, and writing where that is possible.

`read_bytes` returns the content of a plain or gzip'd file. Compression is recognised by the first
bytes, not by the name, so `model.onnx` and `model.onnx.gz` are read alike. Unpacking stops as soon
as the content exceeds `limit` bytes, or grows beyond `MAX_RATIO` times the file (a zip bomb): the
memory used is bounded by these limits and never by what the file claims.
"""

import gzip
import os
import stat
import zlib
from pathlib import Path

from anybound.errors import InvalidInput

__all__ = ["DEFAULT_LIMIT", "MAX_RATIO", "read_bytes", "writable"]

DEFAULT_LIMIT = 2 * 2**30
# Deflate cannot exceed 1032:1 and bombs sit there; real networks full of zeros reach about 300:1.
MAX_RATIO = 600
_RATIO_FREE = 16 * 2**20  # below this size no ratio is suspicious
_CHUNK = 2**20
_GZIP_MAGIC = b"\x1f\x8b"


def read_bytes(path: str | Path, limit: int = DEFAULT_LIMIT) -> bytes:
    """The content of a regular file, unpacked if it is gzip'd; at most `limit` bytes."""
    path = Path(path)
    try:
        size = _regular_size(path, limit)
        with path.open("rb") as file:
            packed = file.read(len(_GZIP_MAGIC)) == _GZIP_MAGIC
        if packed:
            return _unpack(path, size, limit)
        if path.suffix == ".gz":
            raise InvalidInput(f"{path}: the name says gzip, the content is not; rename it")
        return path.read_bytes()
    except FileNotFoundError:
        raise InvalidInput(f"{path}: no such file") from None
    except EOFError:
        raise InvalidInput(f"{path}: truncated gzip file; fetch it again") from None
    except (gzip.BadGzipFile, zlib.error) as error:
        raise InvalidInput(f"{path}: damaged gzip file: {error}") from None
    except (OSError, ValueError) as error:  # ValueError: a NUL character in the name
        reason = getattr(error, "strerror", None) or str(error)
        raise InvalidInput(f"{str(path)!r}: cannot be read: {reason}") from None


def writable(path: str | Path) -> Path:
    """The path, if a file can be written or replaced there: to be asked before long work, not after."""
    path = Path(path)
    try:
        if path.is_dir():
            raise InvalidInput(f"{path}: cannot be written: is a folder")
        if path.exists() and not path.is_file():  # a device is not to be replaced by a file
            raise InvalidInput(f"{path}: cannot be written: is not a regular file")
        if not path.parent.is_dir():
            raise InvalidInput(f"{path}: cannot be written: there is no folder '{path.parent}'")
        trial = path.with_name(f".{path.name}.{os.getpid()}")
        trial.touch()
        trial.unlink()
    except (OSError, ValueError) as error:  # ValueError: a NUL character in the name
        reason = getattr(error, "strerror", None) or str(error)
        raise InvalidInput(f"{str(path)!r}: cannot be written: {reason}") from None
    return path


def _regular_size(path: Path, limit: int) -> int:
    status = path.stat()
    if stat.S_ISDIR(status.st_mode):
        raise InvalidInput(f"{path}: is a directory, expected a file")
    if not stat.S_ISREG(status.st_mode):
        raise InvalidInput(f"{path}: is not a regular file")
    if status.st_size > limit:
        raise InvalidInput(f"{path}: has {status.st_size} bytes, the limit is {limit}")
    return status.st_size


def _unpack(path: Path, size: int, limit: int) -> bytes:
    """Unpack every member, holding at most one chunk beyond the limits."""
    by_ratio = max(_RATIO_FREE, MAX_RATIO * size)
    content = bytearray()
    with gzip.open(path, "rb") as stream:
        while piece := stream.read(_CHUNK):
            content += piece
            if len(content) > limit:
                raise InvalidInput(f"{path}: unpacks to more than the limit of {limit} bytes")
            if len(content) > by_ratio:
                raise InvalidInput(
                    f"{path}: unpacks to more than {MAX_RATIO} times its {size} bytes: a zip bomb?"
                )
    return bytes(content)
