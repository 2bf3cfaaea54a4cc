"""Reading files: plain, packed, damaged, hostile."""

import gzip
import os
from pathlib import Path

import pytest

from anybound.errors import InvalidInput
from anybound.io.files import read_bytes

CONTENT = bytes(range(256)) * 50


def test_plain_and_packed_files_read_alike(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(CONTENT)
    (tmp_path / "b.gz").write_bytes(gzip.compress(CONTENT))
    (tmp_path / "c").write_bytes(gzip.compress(CONTENT[:99]) + gzip.compress(CONTENT[99:]))
    (tmp_path / "empty").write_bytes(b"")
    for name in ("a", "b.gz", "c"):
        assert read_bytes(tmp_path / name) == CONTENT
    assert read_bytes(str(tmp_path / "empty")) == b""


def refuses(path: Path, message: str, limit: int = 2**31) -> None:
    with pytest.raises(InvalidInput, match=message) as caught:
        read_bytes(path, limit)
    assert "\n" not in str(caught.value)


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    refuses(tmp_path / "absent", "no such file")
    refuses(tmp_path, "is a directory")
    refuses(tmp_path / "nul\0", "cannot be read")
    refuses(tmp_path / ("long" * 1000), "cannot be read")
    os.mkfifo(tmp_path / "pipe")
    refuses(tmp_path / "pipe", "not a regular file")
    (tmp_path / "a").write_bytes(CONTENT)
    refuses(tmp_path / "a" / "b", "cannot be read")
    refuses(tmp_path / "a", f"has {len(CONTENT)} bytes, the limit is 100", limit=100)


def test_damaged_packed_files_are_refused(tmp_path: Path) -> None:
    packed = gzip.compress(CONTENT)
    path = tmp_path / "x.gz"
    path.write_bytes(CONTENT)
    refuses(path, "the name says gzip")
    path.write_bytes(b"")
    refuses(path, "the name says gzip")
    for cut in (3, 12, len(packed) // 2, len(packed) - 1):
        path.write_bytes(packed[:cut])
        refuses(path, "truncated gzip file|damaged gzip file")
    path.write_bytes(packed[:-5] + b"\0" + packed[-4:])  # the checksum
    refuses(path, "damaged gzip file")
    path.write_bytes(packed + b"trailing")
    refuses(path, "damaged gzip file")


def test_a_bomb_is_defused_before_it_unpacks(tmp_path: Path) -> None:
    path = tmp_path / "bomb.gz"
    path.write_bytes(gzip.compress(bytes(64 * 2**20)))
    refuses(path, "a zip bomb")
    path.write_bytes(gzip.compress(bytes(2 * 2**20)))
    refuses(path, "more than the limit of 1048576 bytes", limit=2**20)
    assert read_bytes(path) == bytes(2 * 2**20)
