"""The benchmarks run: their short forms on bundled networks, with numbers that make sense."""

from __future__ import annotations

import json
import shlex
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import complete
import corpus
import iteration
import peers
import run
import scaling
import search


@pytest.fixture(autouse=True)
def threads_as_before() -> Iterator[None]:
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


def records_of(
    main: Any, name: str, arguments: list[str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> list[dict[str, Any]]:
    """What a benchmark writes when it is run like this."""
    monkeypatch.setattr(sys, "argv", [name, *arguments, "-o", str(folder)])
    main()
    lines = (folder / f"{name}.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def test_iterations_cost_more_than_their_floor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--networks", "digits_conv", "digits_sigmoid", "--batches", "2", "--runs", "1"]
    records = records_of(iteration.main, "iteration", arguments, tmp_path, monkeypatch)
    methods = [(r["network"], r["method"]) for r in records]
    portable = ["slopes", "supergradient", "proximal", "dsg"]
    assert methods == [
        *(("digits_conv", m) for m in [*portable, "compact"]),
        *(("digits_sigmoid", m) for m in portable),
    ]
    for record in records:
        assert 0 < record["floor_ms"] < record["ms"]
        assert record["ratio"] == pytest.approx(record["ms"] / record["floor_ms"])
    assert "floor ms" in capsys.readouterr().out


def test_searches_tell_rate_and_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = ["--instances", "digits_dense", "--timeout", "60"]
    (record,) = records_of(search.main, "search", arguments, tmp_path, monkeypatch)
    assert record["verdict"] == "holds"
    assert record["subproblems"] > 0
    assert 0 < record["search"] < record["cpu"]
    assert record["rate"] == pytest.approx(record["subproblems"] / record["search"])
    assert record["bounding"] > record["rate"]
    assert 0 < record["memory"] < 1 << 31


def test_a_pool_holds_as_many_open_problems_as_are_asked_for() -> None:
    filled = search.filled("digits_dense", 2000)
    assert filled["open"] >= 2000
    assert filled["rate"] > 0
    assert filled["pool_MiB"] < filled["memory_MiB"]


def test_exponents_are_those_of_the_powers_that_are_fitted() -> None:
    x = [1.0, 2.0, 5.0]
    assert scaling.exponent(x, [3 * v**1.5 for v in x]) == pytest.approx(1.5)


def test_scaling_fits_every_cost_along_its_axes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ["--axes", "width", "open", "--widths", "2", "4", "--opens", "100", "1000"]
    records = records_of(scaling.main, "scaling", arguments, tmp_path, monkeypatch)
    costs = ["root bounds", "slopes, portable", "ascent, compact", "a round of the pool"]
    assert [record["cost"] for record in records] == costs
    for record in records:
        assert all(seconds > 0 for seconds in record["seconds"])
        assert record["exponent"] == pytest.approx(scaling.exponent(record["x"], record["seconds"]))


def python(code: str, *arguments: str) -> str:
    """A tool that is a line of Python."""
    return shlex.join([sys.executable, "-c", code, *arguments])


def test_peers_are_compared_on_verdicts_and_cost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    liar = python(
        "import time; time.sleep(0.1); print('# sat?\\nSAT (X_0 1)')", "{onnx}", "{vnnlib}"
    )
    writer = python(
        "import sys; open(sys.argv[1], 'w').write('unsat')", "{result}", "{onnx}", "{vnnlib}"
    )
    arguments = ["--contains", "digits_dense_image0", "--timeout", "60"]
    arguments += ["--tool", f"liar={liar}", "--tool", f"writer={writer}"]
    records = records_of(peers.main, "peers", arguments, tmp_path, monkeypatch)
    verdicts = {record["tool"]: record["verdict"] for record in records}
    assert verdicts == {"anybound": "unsat", "liar": "sat", "writer": "unsat"}
    assert all(record["expected"] == "unsat" for record in records)
    assert {record["tool"]: record["wall"] for record in records}["liar"] > 0.1
    against = {line[0]: line[-2:] for line in peers.summary(records)}
    assert against == {"anybound": [0, 0], "liar": [1, 1], "writer": [0, 0]}
    assert "CPU / ours" in capsys.readouterr().out


def test_peers_that_hang_are_killed_with_all_they_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peers, "GRACE", 0.2)
    peers.adopt_orphans()
    burn = "import time\nwhile time.process_time() < 0.3: pass\ntime.sleep(60)"
    code = f"import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', {burn!r}]); time.sleep(60)"
    tool = peers.Tool.parse(f"hangs={python(code, '{onnx}', '{vnnlib}')}")
    start = time.monotonic()
    values = {"onnx": "n", "vnnlib": "p", "timeout": "3"}
    record = peers.run(tool, values, tmp_path, 3.0, 1)
    assert record["verdict"] == "timeout"
    assert record["cpu"] > 0.05
    assert time.monotonic() - start < 20


@pytest.mark.parametrize(
    ("said", "verdict"),
    [
        ("unsat\n", "unsat"),
        ("sat\n((X_0 1)", "sat"),
        ("[0.1] open=1/1\ntimed-out", "timeout"),
        ("Holds", "unsat"),
        ("Traceback", "error"),
        ("", "error"),
    ],
)
def test_a_verdict_is_the_first_line_that_is_one(said: str, verdict: str) -> None:
    assert peers.verdict(said) == verdict


@pytest.mark.parametrize("text", ["nothing", "=x {onnx} {vnnlib}", "name=command {onnx}"])
def test_a_tool_has_a_name_and_a_command_with_both_files(text: str) -> None:
    with pytest.raises(peers.ArgumentTypeError):
        peers.Tool.parse(text)


def test_all_benchmarks_run_or_say_what_they_lack(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ANYBOUND_BENCHMARKS", str(tmp_path / "nowhere"))
    monkeypatch.setattr(sys, "argv", ["run", "--short", "--only", "compact", "affine"])
    run.main()
    out = capfd.readouterr().out
    assert "# compact: left out" in out
    assert "5x5, stride 3" in out


def test_every_benchmark_has_its_script() -> None:
    folder = Path(run.__file__).parent
    scripts = {path.stem for path in folder.glob("*.py")}
    assert {benchmark.name for benchmark in run.ALL} == scripts - {
        "cases",
        "corpus",
        "records",
        "run",
    }


def has_corpus() -> bool:
    try:
        corpus.root()
    except SystemExit:
        return False
    return True


@pytest.mark.corpus
@pytest.mark.skipif(not has_corpus(), reason="no benchmarks: set ANYBOUND_BENCHMARKS")
def test_rows_of_complete_verification_are_told_when_they_are_new_and_when_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--count", "1", "--timeout", "60", "--networks", "base", "--rows", "anybound"]
    monkeypatch.setattr(sys, "argv", ["complete", *arguments, "-o", str(tmp_path)])
    told = []
    for _ in range(2):
        complete.main()
        (line,) = (l for l in capsys.readouterr().out.splitlines() if l.startswith("anybound"))
        told.append(line)
    assert told[0] == told[1]
    assert told[0].endswith("0/1")
