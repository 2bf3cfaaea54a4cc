"""`anybound bench`: one record per instance, whatever happens to an instance or to the run."""

import csv
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from anybound.benching import Instance, Run, completed, read_expected, read_instances
from anybound.cli import main as module
from anybound.cli.main import main
from anybound.io.records import RecordFile, read_records
from anybound.report.summary import contradictions, summarise
from anybound.runtime.job import Ending, Finished, Job

DATA = Path(module.__file__).parents[1] / "data"
FIELDS = {"onnx", "vnnlib", "verdict", "seconds", "cpu_seconds", "subproblems", "clauses"}
FIELDS |= {"witness", "certified", "phases"}
ENDLESS = ("--method", "supergradient(iterations=1000000000)", "--no-search")
QUICK = ("networks/digits_sigmoid.onnx", "properties/digits_sigmoid_image2_eps0.1.vnnlib")
SLOW = ("networks/digits_conv.onnx", "properties/digits_conv_image11_and3_and8_eps0.15.vnnlib")

Capture = pytest.CaptureFixture[str]

torch.set_num_threads(1)  # with torch loaded, all runs of this process share one warm server


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A benchmark: the bundled files, and no list yet."""
    for name in ("networks", "properties"):
        (tmp_path / name).symlink_to(DATA / name)
    return tmp_path


def listed(folder: Path, *rows: tuple[object, ...], name: str = "instances.csv") -> Path:
    path = folder / name
    path.write_text("".join(",".join(map(str, row)) + "\n" for row in rows))
    return path


def renamed(folder: Path, pair: tuple[str, str], count: int) -> list[tuple[str, str]]:
    """The same instance under several names."""
    for i in range(count):
        (folder / f"p{i}.vnnlib").symlink_to(folder / pair[1])
    return [(pair[0], f"p{i}.vnnlib") for i in range(count)]


def run(capsys: Capture, *arguments: object) -> tuple[int, str, str]:
    code = main(["bench", *map(str, arguments)])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def process(*arguments: object, own_session: bool = False) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "anybound", "bench", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        start_new_session=own_session,
    )


def lines(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines() if path.exists() else []


def until(condition: Any, seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def descendants(pid: int) -> Iterator[int]:
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return
    for child in map(int, children):
        yield child
        yield from descendants(child)


def is_there(pid: int) -> bool:
    """Whether a process lives."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return False
    return fields[0] != "Z"


# Runs


def test_a_run_and_its_repetition(capsys: Capture, tmp_path: Path) -> None:
    out = tmp_path / "deep" / "run.jsonl"
    arguments = (DATA / "instances.csv", "--filter", "dense", "--timeout", 20, "-o", out)
    code, text, err = run(capsys, *arguments, "--jobs", 2)
    assert code == 0
    with (DATA / "expected.csv").open() as file:
        expected = {(r["onnx"], r["vnnlib"]): r["expected"] for r in csv.DictReader(file)}
    records = read_records(out)
    assert {(r["onnx"], r["vnnlib"]) for r in records} == {k for k in expected if "dense" in k[0]}
    for record in records:
        assert record.keys() >= FIELDS
        assert record["error"] is None
        verdict = expected[str(record["onnx"]), str(record["vnnlib"])]
        assert record["verdict"] != {"sat": "holds", "unsat": "violated"}[verdict]
    assert "[3/3] " in err
    assert text.splitlines()[1].split()[:3] == ["data", "3", "2"]
    before = out.read_bytes()
    code, again, err = run(capsys, *arguments)
    assert code == 0
    assert out.read_bytes() == before
    assert again == text
    assert err == "3 of 3 instances are done already\n"
    code, text, err = run(capsys, *arguments, "--json", "--quiet")
    assert not err
    summary = json.loads(text)
    assert (summary["instances"], summary["contradictions"]) == (3, 0)


def test_timeouts_are_those_of_the_list_or_of_the_option(folder: Path, capsys: Capture) -> None:
    rows = [(*pair, limit) for pair, limit in zip(renamed(folder, SLOW, 2), (0.5, 1), strict=True)]
    path = listed(folder, *rows)
    assert run(capsys, path, "-o", folder / "a.jsonl", *ENDLESS, "--jobs", 2)[0] == 0
    found = {str(r["vnnlib"]): r for r in read_records(folder / "a.jsonl")}
    for name, limit in (("p0.vnnlib", 0.5), ("p1.vnnlib", 1.0)):
        assert found[name]["verdict"] == "timeout"
        assert abs(float(str(found[name]["seconds"])) - limit) < 0.5
    options = (*ENDLESS, "--timeout", 0.25, "--filter", "p0")
    assert run(capsys, path, "-o", folder / "b.jsonl", *options)[0] == 0
    (record,) = read_records(folder / "b.jsonl")
    assert abs(float(str(record["seconds"])) - 0.25) < 0.5


def test_a_killed_run_goes_on_where_it_was(folder: Path) -> None:
    (first, second, last), out = renamed(folder, QUICK, 3), folder / "run.jsonl"
    path = listed(folder, (*first, 20), (*second, 20), (*SLOW, 3), (*last, 20))
    with process(path, "-o", out, *ENDLESS) as child:
        until(lambda: len(lines(out)) == 2)
        workers = list(descendants(child.pid))
        assert workers
        child.kill()
    assert len(lines(out)) == 2
    before = out.read_bytes()
    with out.open("ab") as file:
        file.write(b'{"onnx": "networks/digits_conv.onnx", "vnn')  # torn by the kill
    until(lambda: not any(map(is_there, workers)), 20)
    with process(path, "-o", out, *ENDLESS) as child:
        _, err = child.communicate(timeout=100)
    assert child.returncode == 0, err
    assert "2 of 4 instances are done already" in err
    assert out.read_bytes().startswith(before)
    records = read_records(out)
    assert [(r["onnx"], r["vnnlib"]) for r in records] == [first, second, SLOW, last]
    assert [r["verdict"] for r in records] == ["violated", "violated", "timeout", "violated"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda n: n.name)
def test_a_signal_ends_the_run_and_its_workers(number: signal.Signals, folder: Path) -> None:
    (quick,), out = renamed(folder, QUICK, 1), folder / "run.jsonl"
    path = listed(folder, (*quick, 20), (*SLOW, 100))
    with process(path, "-o", out, *ENDLESS) as child:
        until(lambda: len(lines(out)) == 1)
        workers = list(descendants(child.pid))
        child.send_signal(number)
        sent = time.monotonic()
        child.wait(60)
        assert time.monotonic() - sent < 0.5
        _, err = child.communicate(timeout=60)
    assert child.returncode == 130
    assert err.splitlines()[-1] == "anybound: interrupted"
    assert [r["verdict"] for r in read_records(out)] == ["violated"]
    until(lambda: not any(map(is_there, workers)), 20)


@pytest.mark.parametrize("seconds", [0.05, 0.5])
def test_a_terminals_interrupt_at_the_start_leaves_one_line(seconds: float, folder: Path) -> None:
    """It goes to all processes, also to the one that is importing what the jobs will need."""
    path = listed(folder, (*SLOW, 100))
    with process(path, "-o", folder / "run.jsonl", *ENDLESS, own_session=True) as child:
        until(lambda: any(map(is_server, descendants(child.pid))))
        time.sleep(seconds)
        os.killpg(child.pid, signal.SIGINT)
        _, err = child.communicate(timeout=120)
    assert child.returncode == 130
    assert err == "anybound: interrupted\n"


def is_server(pid: int) -> bool:
    """Whether a process is the one that others are forked from."""
    try:
        return b"forkserver" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def test_a_crash_is_recorded_and_the_run_goes_on(folder: Path) -> None:
    (quick,), out = renamed(folder, QUICK, 1), folder / "run.jsonl"
    path = listed(folder, (*SLOW, 100), ("missing.onnx", quick[1], 10), (*quick, 20))

    def busy() -> list[int]:
        return [pid for pid in descendants(child.pid) if is_busy_worker(pid)]

    with process(path, "-o", out, *ENDLESS) as child:
        until(lambda: busy() != [])
        os.kill(busy()[0], signal.SIGKILL)
        text, _ = child.communicate(timeout=60)
    assert child.returncode == 0
    crashed, refused, good = read_records(out)
    assert crashed["verdict"] == refused["verdict"] == "unknown"
    assert crashed["error"] == "the process ended with signal 9"
    assert str(refused["error"]).endswith("missing.onnx: no such file")
    assert (good["verdict"], good["error"]) == ("violated", None)
    assert text.splitlines()[1].split()[:7] == [folder.name, "3", "0", "1", "2", "0", "2"]


def is_busy_worker(pid: int) -> bool:
    """Whether a process is a fork of the server that has used the processor for a while."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        parent = Path(f"/proc/{fields[1]}/cmdline").read_text()
    except OSError:
        return False
    return "forkserver" in parent and int(fields[11]) > 10  # ticks


def test_a_traceback_is_in_the_record(folder: Path) -> None:
    instances = read_instances(listed(folder, (*QUICK, 10)))
    run = Run(instances, folder, options={"complete": True, "nonsense": 1})
    with RecordFile(folder / "run.jsonl") as file:
        (record,) = run.records(file)
    assert record["verdict"] == "unknown"
    assert "TypeError" in str(record["error"])
    assert "Traceback (most recent call last)" in str(record["traceback"])
    assert read_records(folder / "run.jsonl") == [record]


def test_a_contradiction_is_shouted(folder: Path, capsys: Capture) -> None:
    listed(folder, ("onnx", "vnnlib", "expected"), (*QUICK, "unsat"), name="expected.csv")
    path = listed(folder, (*QUICK, 10))
    code, out, err = run(capsys, path, "-o", folder / "run.jsonl", "--quiet")
    assert code == 1
    assert err == f"CONTRADICTION: {QUICK[0]} {QUICK[1]}: found violated, expected unsat\n"
    assert out.splitlines()[1].split()[7] == "1"


# Parts


def finished(ending: Ending, record: dict[str, object] | None) -> Finished:
    return Finished(Job("m:f"), ending, record, 12.5, 3.5)


def test_what_was_proved_before_the_end_stands() -> None:
    proved = {"verdict": "holds", "seconds": 1.0, "reason": ""}
    assert completed(finished(Ending.TIMEOUT, proved)) == proved
    open_ = {"verdict": "unknown", "seconds": 1.0, "reason": "", "clauses": [{"lower": -1.0}]}
    late = completed(finished(Ending.TIMEOUT, open_))
    assert (late["verdict"], late["seconds"], late["cpu_seconds"]) == ("timeout", 12.5, 3.5)
    assert late["clauses"] == [{"lower": -1.0}]
    for ending in (Ending.CRASHED, Ending.MEMORY, Ending.REFUSED, Ending.INTERRUPTED):
        assert completed(finished(ending, None))["verdict"] == "unknown"


def test_summaries_by_benchmark() -> None:
    records = [
        {"onnx": onnx, "vnnlib": "p", "verdict": verdict, "seconds": 1.0, "cpu_seconds": 0.5}
        for onnx, verdict in [
            ("./acasxu/onnx/1.onnx", "holds"),
            ("./acasxu/onnx/2.onnx", "violated"),
            ("/data/oval21/onnx/3.onnx", "timeout"),
            ("onnx/4.onnx", "unknown"),
        ]
    ]
    expected = {(r["onnx"], "p"): label for r, label in zip(records, ["sat", "sat"], strict=False)}
    rows = {row.benchmark: row for row in summarise(records, expected, "here")}
    assert rows.keys() == {"acasxu", "oval21", "here"}
    assert (rows["acasxu"].count, rows["acasxu"].contradicted) == (2, 1)
    assert rows["acasxu"].seconds == 2.0
    assert contradictions(records, expected) == records[:1]


def test_lists_as_people_write_them(folder: Path) -> None:
    path = folder / "instances.csv"
    path.write_text('\ufeffa.onnx , b.vnnlib,60\r\n\r\n"c,1.onnx",d.vnnlib\r\n', encoding="utf-8")
    assert read_instances(path) == [
        Instance("a.onnx", "b.vnnlib", 60.0),
        Instance("c,1.onnx", "d.vnnlib", None),
    ]
    assert read_expected(path) == {}


# Bad input


BAD = [
    ("a.onnx", [], "line 1 is 'a.onnx'; expected onnx,vnnlib,timeout"),
    ("a,b,c,d", [], "line 1 is 'a,b,c,d'; expected"),
    ("a,b,10\n,b,10", [], "line 2 is ',b,10'; expected"),
    ("a,b,soon", [], "line 1: the timeout is 'soon'"),
    ("a,b,-1", [], "line 1: the timeout is '-1'"),
    ("a,b,nan", [], "line 1: the timeout is 'nan'"),
    ("", [], "lists no instances"),
    ("a,b,10", ["--filter", "zzz"], "none of 1 instances contains 'zzz'"),
    ("a,b,10", ["--method", "nope"], "unknown method 'nope'"),
    ("a,b,10", ["--jobs", "0"], "'0' is not a whole number above 0"),
    ("a,b,10", ["--semantics", "int8"], "unknown --semantics 'int8'"),
    ("\x00\x01", [], "line 1"),
]


@pytest.mark.parametrize(("text", "options", "says"), BAD, ids=[repr(b[0])[:20] for b in BAD])
def test_bad_lists_and_options(
    text: str, options: list[str], says: str, tmp_path: Path, capsys: Capture
) -> None:
    path = tmp_path / "instances.csv"
    path.write_text(text)
    code, _, err = run(capsys, path, "-o", tmp_path / "run.jsonl", *options)
    assert code == 2
    assert err.startswith("anybound: error: ")
    assert err.count("\n") == 1
    assert says in err
    assert not (tmp_path / "run.jsonl").exists()


def test_bad_files(folder: Path, capsys: Capture) -> None:
    path, out = listed(folder, (*QUICK, 10)), folder / "run.jsonl"
    assert "no such file" in run(capsys, folder / "no.csv", "-o", out)[2]
    assert "required: -o/--output" in run(capsys, path)[2]
    out.write_text("no json\n")
    code, _, err = run(capsys, path, "-o", out)
    assert (code, "line 1 is no JSON object" in err) == (2, True)
    assert out.read_text() == "no json\n"


def test_other_settings_need_another_file(folder: Path, capsys: Capture) -> None:
    path, out = listed(folder, (*QUICK, 10)), folder / "run.jsonl"
    assert run(capsys, path, "-o", out)[0] == 0
    code, _, err = run(capsys, path, "-o", out, "--timeout", 20)
    assert code == 2
    assert "with other settings; choose another file" in err
