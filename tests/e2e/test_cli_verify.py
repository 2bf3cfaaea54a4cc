"""`anybound verify`: verdicts, records, result files, and that nothing outlasts its limits."""

import csv
import json
import os
import re
import signal
import subprocess
import sys
import time
from argparse import ArgumentTypeError
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch

from anybound.cli import main as module
from anybound.cli.main import main
from anybound.io.competition import result_text

DATA = Path(module.__file__).parents[1] / "data"
DENSE = DATA / "networks" / "digits_dense.onnx"
CONV = DATA / "networks" / "digits_conv.onnx"
HOLDS = DATA / "properties" / "digits_dense_image0_eps0.05.vnnlib"
VIOLATED = DATA / "properties" / "digits_conv_image11_eps0.15.vnnlib"
OPEN = DATA / "properties" / "digits_conv_image11_and3_and8_eps0.15.vnnlib"
ENDLESS = ("--method", "supergradient(iterations=1000000000)", "--no-search")
FIELDS = {
    "verdict",
    "seconds",
    "cpu_seconds",
    "subproblems",
    "clauses",
    "witness",
    "certified",
    "phases",
}

Capture = pytest.CaptureFixture[str]

# Where torch is loaded already, jobs are forks of a warm server; in `process` they are forks of it.
torch.set_num_threads(1)


def run(capsys: Capture, *arguments: object) -> tuple[int, str, str]:
    code = main(["verify", *map(str, arguments)])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def process(*arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "anybound", "verify", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


def wait_until_busy(child: subprocess.Popen[str]) -> None:
    """Until it has said (with -v) that only its endless ascent is left to do."""
    assert child.stderr is not None
    for line in child.stderr:
        if line.startswith("root: ") and "inf" not in line:
            return
    raise AssertionError("it ended before it was busy")


def children_of(pid: int) -> list[int]:
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(child) for child in text.split()]


# Verdicts


def test_the_verdict_alone_is_on_standard_output(capsys: Capture) -> None:
    code, out, err = run(capsys, DENSE, HOLDS)
    assert (code, out) == (0, "holds\n")
    assert "all 9 clauses are unreachable, margin >= " in err
    assert run(capsys, DENSE, HOLDS, "--quiet") == (0, "holds\n", "")
    code, out, err = run(capsys, DENSE, HOLDS, "--explain", "--quiet")
    assert (code, out) == (0, "holds\n")
    assert re.search(r"^  method: crown$", err, re.MULTILINE)
    assert re.search(r"^  intermediate: compact$", err, re.MULTILINE)
    assert re.search(r"^ +\d+\.\d\d s  root$", err, re.MULTILINE)


def test_the_record_is_the_contracts(capsys: Capture) -> None:
    code, out, err = run(capsys, DENSE, HOLDS, "--json", "--timeout", 50, "--method", "crown")
    assert (code, err.count("\n")) == (0, 0)
    record = json.loads(out)
    assert record.keys() >= FIELDS
    assert record["verdict"] == "holds"
    assert [clause["clause"] for clause in record["clauses"]] == list(range(9))
    assert all(0 < clause["lower"] <= clause["upper"] for clause in record["clauses"])
    assert record["witness"] is record["certified"] is None
    assert record["cpu_seconds"] > 0
    assert sum(record["phases"].values()) == pytest.approx(record["seconds"], abs=0.3)


def test_a_witness_is_written_and_true(tmp_path: Path, capsys: Capture) -> None:
    result = tmp_path / "result.txt"
    code, out, _ = run(capsys, CONV, VIOLATED, "--json", "--result", result)
    assert code == 0
    record = json.loads(out)
    assert record["verdict"] == "violated"
    text = result.read_text()
    first, _, rest = text.partition("\n")
    assert first == "sat"
    assert rest.startswith("((X_0 ")
    assert rest.endswith("))\n")
    values = re.findall(r"^\(*\(([XY])_(\d+) (\S+?)\)+$", rest, re.MULTILINE)
    assert [f"{letter}_{i}" for letter, i, _ in values] == [
        *(f"X_{i}" for i in range(64)),
        *(f"Y_{i}" for i in range(10)),
    ]
    x = np.array([float(value) for letter, _, value in values if letter == "X"])
    y = np.array([float(value) for letter, _, value in values if letter == "Y"])
    assert x.tolist() == record["witness"]["input"]
    borders = re.findall(r"\(assert \(([<>])= X_(\d+) (\S+?)\)\)", VIOLATED.read_text())
    assert len(borders) == 128
    for relation, index, border in borders:
        value = x[int(index)]
        assert value <= float(border) if relation == "<" else value >= float(border)
    session = onnxruntime.InferenceSession(CONV, providers=["CPUExecutionProvider"])
    (output,) = session.run(None, {"input": x.astype(np.float32).reshape(1, 1, 8, 8)})
    np.testing.assert_array_equal(output.ravel(), y.astype(np.float32))
    others = re.findall(r"\(>= Y_(\d+) Y_(\d+)\)", VIOLATED.read_text())
    assert len(others) == 9
    assert any(y[int(other)] >= y[int(label)] for other, label in others)


@pytest.mark.parametrize(
    ("verdict", "word"),
    [("holds", "unsat"), ("unknown", "unknown"), ("timeout", "timeout"), (None, "error")],
)
def test_result_words(verdict: str | None, word: str) -> None:
    assert result_text(None if verdict is None else {"verdict": verdict}) == f"{word}\n"


def test_no_verdict_contradicts_what_is_known(capsys: Capture) -> None:
    with (DATA / "expected.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if "dense" in row["onnx"]]
    for row in rows:
        code, out, _ = run(capsys, DATA / row["onnx"], DATA / row["vnnlib"], "--timeout", 20)
        wrong = {"sat": "holds", "unsat": "violated"}[row["expected"]]
        assert code == 0
        assert out.strip() != wrong


# Limits and interrupts


def test_the_timeout_is_kept_and_leaves_bounds() -> None:
    started = time.monotonic()
    with process(CONV, OPEN, *ENDLESS, "--json", "--timeout", 20, "-v") as child:
        wait_until_busy(child)
        child.kill()  # the processes of this test are on one core; what counts comes below
    patience = time.monotonic() - started
    started = time.monotonic()
    limit = round(patience + 2, 1)
    with process(CONV, OPEN, *ENDLESS, "--json", "--timeout", limit) as child:
        out, _ = child.communicate(timeout=60)
    assert abs(time.monotonic() - started - limit) < 0.7  # with the interpreter's own start
    record = json.loads(out)
    assert (child.returncode, record["verdict"]) == (0, "timeout")
    assert abs(record["seconds"] - limit) < 0.5
    (clause,) = record["clauses"]
    assert clause["lower"] < 0 < clause["upper"]


def test_a_timeout_before_anything_is_known(tmp_path: Path) -> None:
    """Not even the imports are done: the process is stopped from outside."""
    result = tmp_path / "result.txt"
    started = time.monotonic()
    with process(CONV, OPEN, "--json", "--timeout", 0.05, "--result", result) as child:
        out, _ = child.communicate(timeout=60)
    assert time.monotonic() - started < 1.5
    record = json.loads(out)
    assert record.keys() >= FIELDS
    assert (record["verdict"], record["clauses"]) == ("timeout", [])
    assert result.read_text() == "timeout\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda n: n.name)
def test_a_signal_ends_it_with_a_valid_record(number: signal.Signals, tmp_path: Path) -> None:
    result = tmp_path / "result.txt"
    arguments = (CONV, OPEN, *ENDLESS, "--json", "-v", "--result", result, "--timeout", 120)
    with process(*arguments) as child:
        wait_until_busy(child)
        workers = children_of(child.pid)
        child.send_signal(number)
        sent = time.monotonic()
        out, err = child.communicate(timeout=60)
    assert time.monotonic() - sent < 0.5
    assert child.returncode == 130
    assert "Traceback" not in err
    record = json.loads(out)
    assert (record["verdict"], record["reason"]) == ("unknown", "interrupted")
    assert record["clauses"][0]["lower"] < 0 < record["clauses"][0]["upper"]
    assert result.read_text() == "unknown\n"
    assert len(workers) == 1
    assert not Path(f"/proc/{workers[0]}").exists()


def test_no_worker_survives_the_command() -> None:
    with process(CONV, OPEN, *ENDLESS, "-v") as child:
        wait_until_busy(child)
        (worker,) = children_of(child.pid)
        child.kill()
        child.communicate(timeout=60)
    deadline = time.monotonic() + 5
    while Path(f"/proc/{worker}").exists() and _state(worker) != "Z":
        assert time.monotonic() < deadline
        time.sleep(0.05)


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "Z"


def test_a_worker_that_is_killed_is_a_crash() -> None:
    with process(CONV, OPEN, *ENDLESS, "-v", "--json") as child:
        wait_until_busy(child)
        (worker,) = children_of(child.pid)
        os.kill(worker, signal.SIGKILL)
        out, err = child.communicate(timeout=60)
    assert child.returncode == 2
    assert "the process ended with signal 9" in json.loads(out)["error"]
    assert err.splitlines()[-1].startswith("anybound: error: ")


def test_the_memory_limit_is_kept(capsys: Capture) -> None:
    """What Python and torch alone need is more than this."""
    code, out, err = run(capsys, CONV, OPEN, *ENDLESS, "--memory", "50MB")
    assert (code, out) == (0, "unknown\n")
    assert "stopped at its memory limit" in err


# Bad input


BAD = [
    ([DENSE], "the following arguments are required: PROP"),
    ([DENSE, "missing.vnnlib"], "missing.vnnlib: no such file"),
    (["missing.onnx", HOLDS], "missing.onnx: no such file"),
    ([HOLDS, DENSE], "is not an ONNX model"),
    ([DENSE, HOLDS, "--timeout", "-3"], "'-3' is not a number of seconds above 0"),
    ([DENSE, HOLDS, "--timeout", "soon"], "'soon' is not a finite number"),
    ([DENSE, HOLDS, "--memory", "lots"], "'lots' is not a size such as 4GB"),
    ([DENSE, HOLDS, "--seed", "9" * 30], "is not a whole number"),
    ([DENSE, HOLDS, "--memory", "0GB"], "'0GB' is not a size such as 4GB"),
    ([DENSE, HOLDS, "--method", "proxmal"], "did you mean 'proximal'?"),
    ([DENSE, HOLDS, "--intermediate", "??"], "is not a intermediate strategy"),
    ([DENSE, HOLDS, "--semantics", "int8"], "unknown --semantics 'int8'"),
    (
        [DENSE, HOLDS, "--certificate", "/nowhere/c.abc"],
        "/nowhere/c.abc: cannot be written: there is no folder '/nowhere'",
    ),
    (
        [DENSE, HOLDS, "--result", "/nowhere/r.txt"],
        "/nowhere/r.txt: cannot be written: there is no folder '/nowhere'",
    ),
    ([DENSE, HOLDS, "--certificate", "."], ".: cannot be written: is a folder"),
    ([DENSE, HOLDS, "--result", "/"], "/: cannot be written: is a folder"),
    ([DENSE, HOLDS, "--result", os.devnull], "cannot be written: is not a regular file"),
    ([DENSE, HOLDS, "--certificate", os.devnull], "cannot be written: is not a regular file"),
    ([DENSE, HOLDS, "--memory", "16"], "'16' is less than 1 MB; write a unit, as in 4GB"),
]


@pytest.mark.parametrize(("arguments", "says"), BAD, ids=[b[1][:30] for b in BAD])
def test_bad_input_is_one_line(arguments: list[object], says: str, capsys: Capture) -> None:
    code, _, err = run(capsys, *arguments, "--quiet")
    assert code == 2
    assert err.startswith("anybound: error: ")
    assert err.count("\n") == 1
    assert says in err
    assert "bug" not in err


def test_an_unusable_instance_leaves_error_in_the_result_file(
    tmp_path: Path, capsys: Capture
) -> None:
    result = tmp_path / "result.txt"
    code, out, err = run(capsys, DENSE, "missing.vnnlib", "--result", result, "--json")
    assert code == 2
    assert json.loads(out) == {"error": "missing.vnnlib: no such file"}
    assert result.read_text() == "error\n"
    assert err.count("\n") == 1


def test_sizes() -> None:
    from anybound.cli.deciding import size

    found = [size(text) for text in ("4GB", "512MiB", "1.5g", "2000000", "3000 kb", "1TiB")]
    assert found == [4 * 10**9, 512 * 2**20, 1_500_000_000, 2_000_000, 3_000_000, 2**40]
    with pytest.raises(ArgumentTypeError, match="write a unit"):
        size("16")  # gigabytes are meant
