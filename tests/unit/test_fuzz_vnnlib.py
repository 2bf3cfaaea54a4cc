"""Damaged VNN-LIB files give a property or one of the project's errors, in one line, and quickly.

One file is written here in the styles of the real benchmarks; where the benchmarks are at hand
(`ANYBOUND_BENCHMARKS`), small real ones are damaged too.
"""

import gzip
import os
import random
import re
import time
from collections import Counter
from pathlib import Path

import pytest

from anybound.errors import AnyboundError
from anybound.io.vnnlib import read_vnnlib

ROOT = Path(__file__).parents[2]
BENCHMARKS = Path(os.environ.get("ANYBOUND_BENCHMARKS", ROOT / "../shared/benchmarks"))
REAL = [
    "dev/acasxu/vnnlib/prop_7.vnnlib",
    "dev/safenlp_2024/vnnlib/medical/hyperrectangle_1037.vnnlib",
    "dev/tllverifybench_2023/vnnlib/property_N=16_1.vnnlib",
    "dev/sat_relu/vnnlib/sat_v10_c26.vnnlib",
    "dev/acasxu_v2_2026/vnnlib/prop_1.vnnlib",
    "dev/isomorphic_acasxu_2026/vnnlib/instance_0.vnnlib",
]
WRITTEN = """; a property in many styles
(declare-const X_0 Real)
(declare-const X_1 Real)
(declare-const Y_0 Real)(declare-const Y_1 Real)
(assert (<= X_0 0.30611765933036805))
(assert (>= X_0 -1e-05)) ; comment
(assert (or (and (>= X_1 0.25) (<= X_1 (- 1.5 0.5)) (<= Y_0 Y_1))
            (and (<= X_1 -0.1) (>= X_1 (/ 1 -3)) (not (< (+ (* 2.5 Y_0) Y_1 -4) (- Y_1))))))
(assert (or (= Y_0 3.99) (=> (>= Y_1 0) (> Y_0 1E3))))
"""
SPICE = [
    "(",
    ")",
    "nan",
    "1e999",
    "X_99",
    "or",
    "not",
    "Y_0",
    "-",
    "[",
    '"',
    "|",
    ";",
    "\0",
    "<=",
    "0",
]


def contents() -> list[bytes]:
    real = [(BENCHMARKS / name) for name in REAL]
    return [WRITTEN.encode(), *(path.read_bytes() for path in real if path.exists())]


def damaged(content: bytes, rng: random.Random) -> bytes:
    """One or two mutations of bytes or of words."""
    for _ in range(rng.randint(1, 2)):
        content = rng.choice([_flip, _truncate, _delete, _double, _swap, _season, _splice])(
            content, rng
        )
    return content


def _flip(content: bytes, rng: random.Random) -> bytes:
    flipped = bytearray(content)
    for _ in range(rng.randint(1, 4)):
        if flipped:
            flipped[rng.randrange(len(flipped))] ^= 1 << rng.randrange(8)
    return bytes(flipped)


def _truncate(content: bytes, rng: random.Random) -> bytes:
    return content[: rng.randrange(len(content) + 1)]


def _words(content: bytes) -> list[bytes]:
    return re.findall(rb"[()]|\s+|[^()\s]+", content) or [b" "]


def _delete(content: bytes, rng: random.Random) -> bytes:
    words = _words(content)
    del words[rng.randrange(len(words))]
    return b"".join(words)


def _double(content: bytes, rng: random.Random) -> bytes:
    words = _words(content)
    i = rng.randrange(len(words))
    words[i] *= rng.choice([2, 3, 2000])
    return b"".join(words)


def _swap(content: bytes, rng: random.Random) -> bytes:
    words = _words(content)
    i, j = rng.randrange(len(words)), rng.randrange(len(words))
    words[i], words[j] = words[j], words[i]
    return b"".join(words)


def _season(content: bytes, rng: random.Random) -> bytes:
    words = _words(content)
    words.insert(rng.randrange(len(words)), f" {rng.choice(SPICE)} ".encode())
    return b"".join(words)


def _splice(content: bytes, rng: random.Random) -> bytes:
    i, j = sorted(rng.randrange(len(content) + 1) for _ in range(2))
    at = rng.randrange(len(content) + 1)
    return content[:at] + content[i:j] + content[at:]


def outcome(path: Path) -> str:
    start = time.process_time()
    result, message = "read", ""
    try:
        prop = read_vnnlib(path)
        message = repr(prop)
    except AnyboundError as error:
        result, message = type(error).__name__, str(error)
    assert "\n" not in message
    assert time.process_time() - start < 5
    return result


def test_damaged_files_are_read_or_refused(tmp_path: Path) -> None:
    rng = random.Random(0)
    files = contents()
    outcomes = Counter()
    for case in range(600):
        content = damaged(rng.choice(files), rng)
        if case % 6 == 0:
            content = gzip.compress(content)
            content = _flip(content, rng) if case % 12 else _truncate(content, rng)
        path = tmp_path / rng.choice(["p.vnnlib", "p.vnnlib", "p.vnnlib.gz"])
        path.write_bytes(content)
        outcomes[outcome(path)] += 1
    # All ways to end are met, and not just now and then.
    assert set(outcomes) == {"read", "InvalidProperty", "UnsupportedProperty", "InvalidInput"}
    assert min(outcomes.values()) > 20, outcomes


def test_random_bytes_are_refused(tmp_path: Path) -> None:
    rng = random.Random(0)
    path = tmp_path / "noise.vnnlib"
    for size in (0, 1, 2, 10, 1000, 100_000):
        path.write_bytes(rng.randbytes(size))
        assert outcome(path) == "InvalidProperty"


@pytest.mark.parametrize(
    "piece", ["(", "(assert ", "(and ", "; \n", " ", "[", '"', "|", "((((", "- "]
)
def test_endless_repetition_is_refused_quickly(piece: str, tmp_path: Path) -> None:
    path = tmp_path / "long.vnnlib"
    for head in ("", "(declare-const X_0 Real)", "(assert (<= X_0 "):
        path.write_text(head + piece * 30_000, encoding="utf-8")
        assert outcome(path) == "InvalidProperty"
