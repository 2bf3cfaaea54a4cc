"""What compiled kernels must never do: reorder what is exact, or come from a cache of other sources."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np

from anybound.bound.compact.jit import exact, kernel

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
    assert len(list((tmp_path / "cache").glob("*.nbi"))) == 1
    (tmp_path / "parts.py").write_text(_INNER.format(value=2.0))
    assert _result(tmp_path) == 2.0


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
