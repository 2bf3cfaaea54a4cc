"""Compiled kernels are kept where the user says, and one look tells whether they are there."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from anybound import kernel_cache


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    kernel_cache.directory.cache_clear()
    yield
    kernel_cache.directory.cache_clear()


def test_an_empty_cache_is_cold_until_this_version_has_left_a_kernel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "kernels"))
    assert kernel_cache.directory() == tmp_path / "kernels"
    assert kernel_cache.is_cold()
    (tmp_path / "kernels" / "solve-0123456789abcdef.kernel").touch()
    assert kernel_cache.is_cold(), "a kernel of another version does not help"
    (tmp_path / "kernels" / f"solve-{kernel_cache.digest()}.kernel").touch()
    assert not kernel_cache.is_cold()


def test_a_place_that_cannot_be_written_is_no_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "file"))
    assert kernel_cache.directory() is None
    assert kernel_cache.is_cold()


def test_the_stamp_tells_sources_apart(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x = 1\n")
    before = kernel_cache.digest(tmp_path)
    kernel_cache.digest.cache_clear()
    (tmp_path / "a.py").write_text("x = 2\n")
    assert kernel_cache.digest(tmp_path) != before != kernel_cache.digest()
