"""The certificate file: a zip of arrays as numpy writes them (format 1.0), and a `manifest.json`."""

from __future__ import annotations

import io
import json
import re
import struct
import zipfile
import zlib
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from anybound_check.arithmetic import Array, Index, Unreadable

_DAMAGED = (  # what zipfile, numpy and json say of damaged content
    zipfile.BadZipFile, zlib.error, struct.error, ValueError, NotImplementedError, RuntimeError,
    OSError, EOFError, LookupError, TypeError, OverflowError,
)  # fmt: skip
_HEADER = re.compile(
    rb"\x93NUMPY\x01\x00..\{'descr': '(\|u1|<[fiu][248])', 'fortran_order': False, "
    rb"'shape': \((\d{1,9}),( \d{1,9})?\), \} *\n",
    re.DOTALL,
)


class Record(NamedTuple):
    """A JSON object of the manifest; its arrays are given by name."""

    fields: Mapping[str, Any]
    arrays: Mapping[str, Any]

    def list(self, key: str) -> list[Record]:
        """A list of objects, empty if absent."""
        values = self.fields.get(key, [])
        if not isinstance(values, list) or not all(isinstance(value, dict) for value in values):
            raise Unreadable(f"'{key}' is not a list of objects")
        return [Record(value, self.arrays) for value in values]

    def integer(self, key: str, below: int) -> int:
        value = self.fields.get(key)
        if type(value) is not int or not 0 <= value < below:
            raise Unreadable(f"'{key}' is {value!r:.40}; expected 0 to {below - 1}")
        return value

    def array(self, key: str, kinds: str, shape: tuple[int | None, ...]) -> NDArray[Any] | None:
        """The array of this name, if any; None in the shape stands for any length."""
        if key not in self.fields:
            return None
        name = self.fields[key]
        array = self.arrays.get(name) if isinstance(name, str) else None
        if not isinstance(array, np.ndarray) or array.dtype.kind not in kinds:
            raise Unreadable(f"'{key}' names no array of kind {kinds}")
        if len(shape) != array.ndim or not all(
            n in (None, m) for n, m in zip(shape, array.shape, strict=True)
        ):
            raise Unreadable(f"'{key}' has shape {array.shape}; expected {shape}")
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise Unreadable(f"'{key}' holds NaN or infinite numbers")
        return array

    def floats(self, key: str, shape: tuple[int | None, ...]) -> Array | None:
        array = self.array(key, "f", shape)
        return None if array is None else array.astype(np.float64)

    def indices(self, key: str, below: int, least: int = 0) -> Index:
        """Integers from `least` to below - 1, [n]; none if absent."""
        array = self.array(key, "iu", (None,))
        values = np.zeros(0, np.int64) if array is None else array
        if ((values < least) | (values >= below)).any():  # exact: before anything is converted
            raise Unreadable(f"'{key}' holds integers outside {least} to {below - 1}")
        return values.astype(np.int64)


def read_archive(content: bytes, limit: int) -> Record:
    """The manifest of a certificate that unpacks to at most `limit` bytes."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as file:
            entries = file.infolist()
            if not {entry.compress_type for entry in entries} <= {0, 8}:
                raise Unreadable("the certificate is neither stored nor deflated")
            if sum(entry.file_size for entry in entries) > limit:
                raise Unreadable(f"the certificate unpacks to more than {limit} bytes")
            unpacked = {entry.filename: _unpacked(file, entry) for entry in entries}
        if len(unpacked) != len(entries):
            raise Unreadable("the certificate holds two entries of the same name")
        text = unpacked.pop("manifest.json")
        if len(text) > limit // 4:  # what is made of it takes more memory than arrays do
            raise Unreadable(f"the certificate's manifest has more than {limit // 4} bytes")
        manifest = json.loads(text, object_pairs_hook=_object, parse_constant=_refuse)
        if not all(name.endswith(".npy") for name in unpacked):
            raise Unreadable("the certificate holds an entry that is no array")
        arrays = {name.removesuffix(".npy"): _array(data) for name, data in unpacked.items()}
    except _DAMAGED as error:
        raise Unreadable(f"the certificate is damaged: {str(error)[:80]}") from error
    if not isinstance(manifest, dict):
        raise Unreadable("the certificate's manifest is not an object")
    return Record(manifest, arrays)


def _unpacked(file: zipfile.ZipFile, entry: zipfile.ZipInfo) -> bytes:
    """As much as the entry is said to be; `ZipFile.read` first unpacks all there is."""
    with file.open(entry) as packed:
        content = packed.read(entry.file_size)
    if len(content) < entry.file_size:
        raise ValueError("an entry is shorter than it says")
    return content


def _array(content: bytes) -> NDArray[Any]:
    """As many numbers as there are bytes for; the header has to say so."""
    header = _HEADER.match(content)
    if header is None or int.from_bytes(content[8:10], "little") != header.end() - 10:
        raise ValueError("an entry is no array of one or two axes")
    shape = [int(header[2]), *([int(header[3])] if header[3] else [])]
    return np.frombuffer(content, header[1].decode(), offset=header.end()).reshape(shape)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len({key for key, _ in pairs}) != len(pairs):
        raise ValueError("a name occurs twice in an object")
    return dict(pairs)


def _refuse(text: str) -> None:
    raise ValueError(f"{text} is not a number")
