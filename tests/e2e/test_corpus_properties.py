"""Every property of the development corpus is read rightly, or refused for the right reason.

The oracle is a reader of a few lines: borders and output rows by regular expressions, in rationals.
"""

import csv
import gzip
import os
import re
import sys
import time
from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from anybound.errors import AnyboundError, UnsupportedProperty
from anybound.io.vnnlib import read_vnnlib
from anybound.spec.property import BoxSet, Property

ROOT = Path(__file__).parents[2]
BENCHMARKS = Path(os.environ.get("ANYBOUND_BENCHMARKS", ROOT / "../shared/benchmarks"))
DEV = BENCHMARKS / "dev"
VERSION_2 = {"acasxu_v2_2026", "isomorphic_acasxu_2026"}

pytestmark = [
    pytest.mark.corpus,
    pytest.mark.skipif(not DEV.is_dir(), reason=f"no benchmarks in {DEV}: set ANYBOUND_BENCHMARKS"),
]


def paths(benchmark: str) -> list[Path]:
    return sorted((DEV / benchmark).rglob("*.vnnlib*"))


def text_of(path: Path) -> str:
    raw = path.read_bytes()
    return (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode()


BOUND = re.compile(r"\(\s*assert\s*\(\s*([<>])=\s+X_(\d+)\s+([^\s()]+)\s*\)\s*\)")
ROW = re.compile(r"\(\s*([<>])=\s+(Y_\d+|[-+.\deE]+)\s+(Y_\d+|[-+.\deE]+)\s*\)")


class Simple:
    """A property whose inputs are bounded one by one, by a reader that shares no code with ours."""

    def __init__(self, text: str) -> None:
        text = re.sub(r";.*", "", text)
        self.n_in = len(re.findall(r"declare-const\s+X_", text))
        self.n_out = len(re.findall(r"declare-const\s+Y_", text))
        self.borders: dict[str, dict[int, Fraction]] = {"<": {}, ">": {}}
        for relation, index, value in BOUND.findall(text):
            assert int(index) not in self.borders[relation]
            self.borders[relation][int(index)] = Fraction(value)
        start = text.find("(assert (or")
        disjunction = text[start:] if start >= 0 else ""
        # What follows the opening of `or`, one `(and ...)` per clause.
        self.clauses = [
            [self._row(*row) for row in ROW.findall(part)] for part in disjunction.split("(and")[1:]
        ]
        if not self.clauses:
            self.clauses = [
                [self._row(*row) for row in ROW.findall(text) if "Y" in row[1] + row[2]]
            ]
        else:
            assert not ROW.search(BOUND.sub("", text[:start]))

    def _row(self, relation: str, left: str, right: str) -> tuple[tuple[Fraction, ...], Fraction]:
        """left <= right as sum of c_j Y_j <= b."""
        if relation == ">":
            left, right = right, left
        row, bound = [Fraction(0)] * self.n_out, Fraction(0)
        for side, sign in ((left, 1), (right, -1)):
            if side.startswith("Y_"):
                row[int(side[2:])] += sign
            else:
                bound -= sign * Fraction(side)
        return tuple(row), bound


def check(prop: Property, simple: Simple) -> None:
    """Equal clauses, and borders that are the float64 next to the decimals."""
    assert (prop.input_size, prop.output_size) == (simple.n_in, simple.n_out)
    assert len({id(clause.input_set) for clause in prop.clauses}) == 1
    for clause, rows in zip(prop.clauses, simple.clauses, strict=True):
        found = [
            (tuple(map(Fraction, row)), exact)
            for row, exact in zip(clause.matrix.tolist(), clause.outputs.exact, strict=True)
        ]
        assert found == rows
        for offset, (_, bound) in zip(clause.offset.tolist(), rows, strict=True):
            assert Fraction(np.nextafter(offset, -np.inf)) < bound <= Fraction(offset)
    box = prop.clauses[0].input_set
    assert isinstance(box, BoxSet)
    below = np.nextafter(box.upper, -np.inf).tolist()
    above = np.nextafter(box.lower, np.inf).tolist()
    for i in range(simple.n_in):
        low, high = simple.borders[">"][i], simple.borders["<"][i]
        assert Fraction(float(box.lower[i])) <= low < Fraction(above[i])
        assert Fraction(below[i]) < high <= Fraction(float(box.upper[i]))
        inner = (Fraction(float(box.inner_lower[i])), Fraction(float(box.inner_upper[i])))
        nearest = (Fraction(float(low)), Fraction(float(high)))
        assert (low <= inner[0] <= inner[1] <= high) or inner == nearest


@dataclass(frozen=True)
class Reading:
    """What became of one file."""

    path: Path
    result: Property | AnyboundError
    seconds: float


def reading(path: Path) -> Reading:
    start = time.process_time()
    result: Property | AnyboundError
    try:
        result = read_vnnlib(path)
    except AnyboundError as error:
        result = error
    return Reading(path, result, time.process_time() - start)


@pytest.fixture(scope="module")
def readings() -> dict[str, list[Reading]]:
    """Every file, by benchmark."""
    folders = sorted(folder.name for folder in DEV.iterdir() if (folder / "vnnlib").is_dir())
    return {folder: [reading(path) for path in paths(folder)] for folder in folders}


def test_every_property_is_read_or_refused_for_the_right_reason(
    readings: dict[str, list[Reading]], capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [f"{'benchmark':24}{'files':>6}{'refused':>9}{'slowest':>10}  inputs -> outputs"]
    for folder, files in readings.items():
        assert files, folder
        shapes, refused = Counter[str](), 0
        for result in (file.result for file in files):
            if isinstance(result, Property):
                about = result.describe()
                shapes[f"{about['inputs']} -> {about['outputs']}, {about['clauses']} clauses"] += 1
            else:
                assert isinstance(result, UnsupportedProperty), result
                assert "VNN-LIB 2.0" in str(result)
                refused += 1
        assert refused == (len(files) if folder in VERSION_2 else 0)
        about_all = "; ".join(f"{n} x {s}" for s, n in shapes.most_common(2)) or "VNN-LIB 2.0"
        slowest = max(file.seconds for file in files)
        lines.append(f"{folder:24}{len(files):6d}{refused:9d}{slowest:8.3f} s  {about_all}")
    with capsys.disabled():
        sys.stdout.write("\n" + "\n".join(lines) + "\n")


def test_borders_and_rows_agree_with_an_independent_reader(
    readings: dict[str, list[Reading]],
) -> None:
    for folder in readings.keys() - VERSION_2:
        for file in readings[folder][:: 1 if folder == "acasxu" else 8]:
            assert isinstance(file.result, Property)
            check(file.result, Simple(text_of(file.path)))


@pytest.mark.parametrize("benchmark", ["oval21", "acasxu"])
def test_instances_are_read_well_below_a_third_of_a_second(benchmark: str) -> None:
    with (DEV / benchmark / "instances.csv").open(encoding="utf-8") as file:
        names = sorted({row[1] for row in csv.reader(file)})
    assert names
    for name in names:
        found = next(
            p for p in (DEV / benchmark / name, DEV / benchmark / f"{name}.gz") if p.exists()
        )
        # Other work on the machine may slow down one attempt, hardly three.
        assert any(reading(found).seconds < 0.3 for _ in range(3))
