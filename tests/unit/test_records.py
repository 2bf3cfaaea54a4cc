"""Files of records: whole lines, also after a crash."""

import json
import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from anybound.errors import InvalidInput
from anybound.io.competition import write_result
from anybound.io.records import RecordFile, outcome_record, read_records, to_line
from anybound.outcome import ClauseBounds, Outcome, Progress, Verdict, Witness


def test_appending_and_reading(tmp_path: Path) -> None:
    path = tmp_path / "sub" / "run.jsonl"
    with RecordFile(path) as file:
        assert file.records == []
        file.append({"a": 1, "text": "é\n\u2028", "inf": math.inf, "nan": [math.nan, -math.inf]})
        file.append({"a": 2})
    expected = [{"a": 1, "text": "é\n\u2028", "inf": None, "nan": [None, None]}, {"a": 2}]
    assert read_records(path) == expected
    assert path.read_text().count("\n") == 2
    with RecordFile(path) as file:
        assert file.records == expected
        file.append({"a": 3})
    assert [record["a"] for record in read_records(path)] == [1, 2, 3]


@pytest.mark.parametrize("torn", ["{", '{"a": 2', '{"a": 2}', '{"a": "\xe9'])
def test_a_torn_last_line_is_dropped(torn: str, tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    path.write_bytes(b'{"a": 1}\n' + torn.encode("latin-1"))
    assert read_records(path) == [{"a": 1}]
    with RecordFile(path) as file:
        assert file.records == [{"a": 1}]
        file.append({"a": 3})
    assert path.read_text() == '{"a": 1}\n{"a": 3}\n'


@pytest.mark.parametrize("line", ["not json", "[1]", '{"a": ', "\x00\x00"])
def test_damage_elsewhere_is_refused_and_nothing_is_lost(line: str, tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    content = f'{{"a": 1}}\n{line}\n{{"a": 2}}\n{{"a"'
    path.write_text(content)
    with pytest.raises(InvalidInput, match="line 2 is no JSON object"):
        RecordFile(path)
    assert path.read_text() == content


def test_two_runs_do_not_write_to_one_file(tmp_path: Path) -> None:
    pytest.importorskip("fcntl")
    path = tmp_path / "run.jsonl"
    with RecordFile(path) as file:
        file.append({"a": 1})
        with pytest.raises(InvalidInput, match="another run is writing to it"):
            RecordFile(path)
    with RecordFile(path) as file:
        assert file.records == [{"a": 1}]


def test_a_writer_that_is_killed_leaves_whole_lines(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    program = """
import sys
from anybound.io.records import RecordFile
with RecordFile(sys.argv[1]) as file:
    for i in range(10**9):
        file.append({"i": i, "filling": "x" * 20000})
        print(i, flush=True)
"""
    with subprocess.Popen(
        [sys.executable, "-c", program, str(path)], stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        told = [int(child.stdout.readline()) for _ in range(20)]
        child.kill()
    with RecordFile(path) as file:
        found = [record["i"] for record in file.records]
    assert found == list(range(len(found)))
    assert len(found) >= len(told)
    assert all(json.loads(line) for line in path.read_text().splitlines())


def test_a_full_disk_leaves_whole_lines(tmp_path: Path) -> None:
    """A limit on the size of files is to a process what a full disk is: a write that falls short."""
    pytest.importorskip("resource")
    path = tmp_path / "run.jsonl"
    program = """
import resource, sys
from anybound.io.records import RecordFile
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
with RecordFile(sys.argv[1]) as file:
    for i in range(100):
        file.append({"i": i, "filling": "x" * 70})
"""
    done = subprocess.run(
        [sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=False
    )
    assert "OSError" in done.stderr
    assert [record["i"] for record in read_records(path)] == list(range(10))
    assert path.read_bytes().endswith(b"}\n")


def test_an_outcome_as_a_record() -> None:
    witness = Witness(np.array([0.1, -0.0]), np.array([1e-300]), 1)
    trace = tuple(Progress(float(i), -1.0 / (i + 1), i, 2 * i) for i in range(1234))
    outcome = Outcome(
        Verdict.VIOLATED,
        (ClauseBounds(0, -math.inf, 2.0), ClauseBounds(1, -1.0, -0.5)),
        1.5,
        1.25,
        7,
        witness,
        phases={"read": 0.5},
        trace=trace,
    )
    record = json.loads(to_line(outcome_record(outcome)))
    assert record["verdict"] == "violated"
    assert record["witness"] == {"input": [0.1, -0.0], "output": [1e-300], "clause": 1}
    assert record["clauses"] == [
        {"clause": 0, "lower": None, "upper": 2.0},
        {"clause": 1, "lower": -1.0, "upper": -0.5},
    ]
    seconds = [point["seconds"] for point in record["trace"]]
    assert len(seconds) <= 500
    assert seconds == sorted(seconds)
    assert seconds[-1] == 1233
    assert record["certified"] is None


def test_results_are_there_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "result.txt"
    path.write_text("older")
    write_result(path, {"verdict": "holds"})
    assert path.read_text() == "unsat\n"
    assert os.listdir(tmp_path) == ["result.txt"]  # noqa: PTH208  (names, not paths)
    with pytest.raises(InvalidInput, match="cannot be written"):
        write_result(tmp_path / "no" / "result.txt", None)


def test_a_name_that_cannot_be_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="cannot be written"):
        RecordFile(tmp_path / "a\0b.jsonl")
