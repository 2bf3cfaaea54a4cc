"""The certificate file: a zip of `manifest.json` and raw little-endian arrays, nothing else."""

from __future__ import annotations

import io
import json
import zipfile
import zlib
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from anybound_check.arithmetic import Array, Index, Unreadable

TYPES = {name: np.dtype(name) for name in ("|u1", "<u2", "<i4", "<f2", "<f4", "<f8")}
_DAMAGED = (zipfile.BadZipFile, zlib.error, ValueError, NotImplementedError, RuntimeError, OSError)


class Record(NamedTuple):
    """A JSON object whose arrays are looked up by name."""

    fields: Mapping[str, Any]
    arrays: Mapping[str, NDArray[Any]]

    def list(self, key: str) -> list[Record]:
        """A list of objects, empty if absent."""
        values = self.fields.get(key, [])
        if not isinstance(values, list) or not all(isinstance(value, dict) for value in values):
            raise Unreadable(f"'{key}' is not a list of objects")
        return [Record(value, self.arrays) for value in values]

    def record(self, key: str) -> Record | None:
        if key not in self.fields:
            return None
        [own] = Record({key: [self.fields[key]]}, self.arrays).list(key)
        return own

    def integer(self, key: str, below: int) -> int:
        value = self.fields.get(key)
        if type(value) is not int or not 0 <= value < below:
            raise Unreadable(f"'{key}' is {str(value)[:40]}; expected 0 to {below - 1}")
        return value

    def array(self, key: str, kinds: str, shape: tuple[int | None, ...]) -> NDArray[Any] | None:
        """The array of this name; None in the shape stands for any length."""
        if key not in self.fields:
            return None
        name = self.fields[key]
        array = self.arrays.get(name) if isinstance(name, str) else None
        if array is None or array.dtype.kind not in kinds or array.ndim != len(shape):
            raise Unreadable(f"'{key}' names no array of kind {kinds} with {len(shape)} axes")
        if any(n is not None and n != m for n, m in zip(shape, array.shape, strict=True)):
            raise Unreadable(f"'{key}' has shape {array.shape}; expected {shape}")
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise Unreadable(f"'{key}' holds NaN or infinite numbers")
        return array

    def floats(self, key: str, shape: tuple[int | None, ...]) -> Array | None:
        array = self.array(key, "f", shape)
        return None if array is None else array.astype(np.float64)

    def indices(self, key: str, below: int) -> Index:
        """Integers from 0 to below - 1, [n]; none if absent."""
        array = self.array(key, "iu", (None,))
        values = np.zeros(0, np.int64) if array is None else array.astype(np.int64)
        if ((values < 0) | (values >= below)).any():
            raise Unreadable(f"'{key}' holds integers outside 0 to {below - 1}")
        return values


def read_archive(content: bytes, limit: int) -> Record:
    """The manifest of a certificate that unpacks to at most `limit` bytes."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as file:
            entries = file.infolist()
            if sum(entry.file_size for entry in entries) > limit:
                raise Unreadable(f"the certificate unpacks to more than {limit} bytes")
            if len({entry.filename for entry in entries}) != len(entries):
                raise Unreadable("the certificate holds two entries of the same name")
            unpacked = {entry.filename: _read(file, entry) for entry in entries}
        manifest = json.loads(
            unpacked.pop("manifest.json", b""), object_pairs_hook=_object, parse_constant=_refuse
        )
    except (*_DAMAGED, RecursionError) as error:
        raise Unreadable(f"the certificate is damaged: {str(error)[:80]}") from error
    described = manifest.get("arrays") if isinstance(manifest, dict) else None
    if not isinstance(described, dict) or set(described) != set(unpacked):
        raise Unreadable("the certificate's entries are not those that its manifest lists")
    arrays = {name: _array(name, described[name], unpacked[name]) for name in unpacked}
    return Record(manifest, arrays)


def _read(file: zipfile.ZipFile, entry: zipfile.ZipInfo) -> bytes:
    if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise Unreadable("the certificate uses an unknown compression")
    with file.open(entry) as stream:
        data = stream.read(entry.file_size + 1)
    if len(data) != entry.file_size:
        raise Unreadable(
            f"the certificate's entry {entry.filename[:40]} has another length than stated"
        )
    return data


def _array(name: str, described: Any, data: bytes) -> NDArray[Any]:
    match described:
        case [str(kind), [*shape]] if kind in TYPES and all(type(n) is int for n in shape):
            size = TYPES[kind].itemsize
            for n in shape:
                size *= n
            if len(shape) <= 2 and min(shape, default=0) >= 0 and size == len(data):
                return np.frombuffer(data, TYPES[kind]).reshape(shape)
    raise Unreadable(f"the array {name[:40]} is not as the manifest describes it")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len({key for key, _ in pairs}) != len(pairs):
        raise ValueError("a name occurs twice in an object")
    return dict(pairs)


def _refuse(text: str) -> None:
    raise ValueError(f"{text} is not a number")
