"""What compiled kernels must never do: reorder what is exact, come from a cache of other sources or a damaged one, or
take arrays of another kind for what they were compiled for."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from anybound.bound.compact.jit import exact, inner, kernel
from anybound.bound.compact.machine import load
from anybound.bound.compact.native import Fixed, stored

_KERNEL = """
import numpy as np
from anybound.bound.compact.jit import kernel
from parts import term

@kernel(np.zeros(1))
def fill(x):
    x[0] = term()
"""
_INNER = """
from anybound.bound.compact.jit import inner

@inner
def term():
    return {value}
"""


def _result(folder: Path) -> float:
    """What the kernel of the folder writes in a process of its own, with a cache beside it."""
    program = "import numpy as np, whole; x = np.zeros(1); whole.fill(x); print(x[0])"
    environment = {
        **os.environ,
        "NUMBA_CACHE_DIR": str(folder / "cache"),
        "PYTHONPATH": os.pathsep.join([str(folder), *sys.path]),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    run = subprocess.run(
        [sys.executable, "-c", program],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return float(run.stdout)


def test_a_changed_inner_function_of_another_package_is_compiled_anew(tmp_path: Path) -> None:
    (tmp_path / "whole.py").write_text(_KERNEL)
    (tmp_path / "parts.py").write_text(_INNER.format(value=1.0))
    assert _result(tmp_path) == 1.0
    assert len(list((tmp_path / "cache").glob("*.kernel"))) == 1
    (tmp_path / "parts.py").write_text(_INNER.format(value=2.0))
    assert _result(tmp_path) == 2.0
    (tmp_path / "numba").mkdir()
    (tmp_path / "numba" / "__init__.py").write_text("raise ImportError('no compiler is needed')\n")
    assert _result(tmp_path) == 2.0


def test_a_file_that_is_damaged_is_made_anew(tmp_path: Path) -> None:
    made = []

    def make() -> tuple[str, bytes]:
        made.append(1)
        return "entry", bytes(range(256))

    assert (
        stored(tmp_path, "f", make) == stored(tmp_path, "f", make) == ("entry", bytes(range(256)))
    )
    assert len(made) == 1
    (file,) = tmp_path.iterdir()
    content = file.read_bytes()
    for damaged in (b"", content[:-1], content[:100] + b"?" + content[101:], b"\xff" + content):
        file.write_bytes(damaged)
        assert stored(tmp_path, "f", make) == ("entry", bytes(range(256)))
        assert file.read_bytes() == content
    assert len(made) == 5
    assert stored(tmp_path / "absent", "f", make) == ("entry", bytes(range(256)))


@exact
def _lost(a: float, b: float) -> float:
    """What rounding takes from a + b (Knuth); 0 to a compiler that reorders."""
    total = a + b
    t = total - a
    return (a - (total - t)) + (b - t)


@exact
def _or_nothing(x: float) -> float:
    return x if np.isfinite(x) else -np.inf


@kernel(np.zeros(2), np.zeros(2))
def _both(x: np.ndarray, y: np.ndarray) -> None:
    y[0] = _lost(x[0], x[1])
    y[1] = _or_nothing(x[0] - x[1])


def test_exact_functions_are_rounded_as_written_in_kernels_that_reorder() -> None:
    y = np.zeros(2)
    _both(np.array([1.0, 2.0**-60]), y)
    assert y[0] == 2.0**-60
    for x in (np.inf, np.nan):
        _both(np.array([x, x]), y)
        assert y[1] == -np.inf


class Pair(NamedTuple):
    """A record in a record."""

    flags: np.ndarray
    inside: tuple[np.ndarray, float]


@inner
def _fold(words: np.ndarray, factor: float) -> float:
    total = 0.0
    for i in range(words.shape[0]):
        for j in range(words.shape[1]):
            total += words[i, j] * factor
    return total


@kernel(Pair(np.zeros(1, bool), (np.zeros((1, 1), np.float32), 0.0)), 1, True, np.zeros(1))
def _all_kinds(pair: Pair, count: int, negative: bool, out: np.ndarray) -> None:
    matrix, factor = pair.inside
    out[0] = _fold(matrix, factor) + count
    if negative:
        out[0] = -out[0]
    for i in range(len(pair.flags)):
        pair.flags[i] = not pair.flags[i]


def test_kernels_read_records_arrays_of_any_extent_and_numbers() -> None:
    rng = np.random.default_rng(0)
    for shape in ((3, 5), (1, 4), (4, 1), (0, 3), (2, 0)):
        matrix, flags, out = rng.normal(size=shape).astype(np.float32), np.ones(3, bool), np.ones(1)
        pair = Pair(flags, (matrix, 0.5))
        _all_kinds(Fixed(pair) if shape[0] > 1 else pair, 7, True, out)
        np.testing.assert_allclose(out[0], -(0.5 * matrix.astype(float).sum() + 7), rtol=1e-12)
        assert not flags.any()


def test_kernels_refuse_arrays_that_they_were_not_compiled_for() -> None:
    fine, out = np.zeros((4, 4), np.float32), np.zeros(1)
    frozen = fine.copy()
    frozen.flags.writeable = False
    for matrix in (fine.astype(float), fine[0], fine[:, ::2], fine.T[1:], frozen):
        with pytest.raises(TypeError, match="expected float32 with 2 axes, contiguous"):
            _all_kinds(Pair(np.ones(1, bool), (matrix, 1.0)), 1, False, out)
    for count in (1.5, np.zeros(1, np.int64)):
        with pytest.raises(TypeError, match="expected a number, int"):
            _all_kinds(Pair(np.ones(1, bool), (fine, 1.0)), count, False, out)
    with pytest.raises(TypeError, match="expected an array of float32"):
        _all_kinds(Pair(np.ones(1, bool), (0.0, 1.0)), 1, False, out)
    with pytest.raises(TypeError, match="expected bool with 1 axes"):
        _all_kinds(fine, 1, False, out)
    pair = Pair(np.ones(1, bool), (fine, 1.0))
    with pytest.raises(TypeError, match="got 5 arrays and numbers; expected 6"):
        _all_kinds(pair, 1, False)
    with pytest.raises(TypeError, match="got a record of"):
        _all_kinds(Fixed((fine, 1.0)), 1, False, out)
    assert out[0] == 0


def test_parts_of_kernels_are_functions_and_operations_are_not() -> None:
    assert _lost(1.0, 2.0**-60) == 2.0**-60
    with pytest.raises(TypeError, match="only compiled kernels have such an operation"):
        load(np.zeros(1), 0, 0)
