"""`anybound radius`: the record, the text, and its limits."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from anybound.cli import main as module
from anybound.cli.main import main

CONV = Path(module.__file__).parents[1] / "data" / "networks" / "digits_conv.onnx"
Capture = pytest.CaptureFixture[str]

torch.set_num_threads(1)  # with torch loaded, all runs of this process share one warm server


@pytest.fixture
def center(tmp_path: Path) -> Path:
    path = tmp_path / "center.npy"
    np.save(path, np.full((1, 8, 8), 0.5))
    return path


def run(capsys: Capture, *arguments: object) -> tuple[int, str, str]:
    code = main(["radius", *map(str, arguments)])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_a_radius(center: Path, capsys: Capture) -> None:
    options = ("--label", 4, "--clip", 0, 1, "--precision", 0.1, "--timeout", 10)
    code, out, err = run(capsys, CONV, "--center", center, *options, "--json")
    assert (code, err) == (0, "")
    record = json.loads(out)
    assert 0 < record["holds"] < record["violated_or_unknown"] < 1
    assert 0 < record["seconds"] < 10.5
    assert record["steps"]
    code, out, _ = run(capsys, CONV, "--center", center, *options)
    assert code == 0
    assert out.splitlines()[-1].startswith("holds at ")


def test_the_time_is_kept(center: Path, capsys: Capture) -> None:
    started = time.monotonic()
    options = ("--label", 4, "--clip", 0, 1, "--precision", 1e-9, "--timeout", 2)
    code, out, _ = run(capsys, CONV, "--center", center, *options, "--json")
    assert time.monotonic() - started < 2.5
    assert code == 0
    assert json.loads(out).keys() >= {"holds", "violated_or_unknown", "seconds"}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda n: n.name)
def test_a_signal_leaves_the_bracket(number: signal.Signals, center: Path) -> None:
    arguments = ["--label", "4", "--clip", "0", "1", "--precision", "1e-12", "--json", "-v"]
    with subprocess.Popen(
        [sys.executable, "-m", "anybound", "radius", CONV, "--center", center, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    ) as child:
        assert child.stderr is not None
        for line in child.stderr:
            if line.startswith("so far: holds at ") and not line.startswith("so far: holds at 0,"):
                break
        child.send_signal(number)
        sent = time.monotonic()
        out, err = child.communicate(timeout=60)
    assert time.monotonic() - sent < 0.5
    assert child.returncode == 130
    assert "Traceback" not in err
    record = json.loads(out)
    assert record["holds"] > 0
    assert record["ended"] == "interrupted"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "required: --center, --label"),
        (["--center", "@", "--label", "ten"], "invalid int value: 'ten'"),
        (["--center", "@", "--label", "10"], "label: 10; expected 0 to 9"),
        (["--center", "no.npy", "--label", "4"], "no.npy: no such file"),
        (["--center", "@", "--label", "4", "--norm", "0"], "unknown --norm '0'"),
        (["--center", "@", "--label", "4", "--clip", "2", "3"], "outside the clipping range"),
        (["--center", "@", "--label", "4", "--precision", "2"], "precision is 2.0"),
    ],
)
def test_bad_input(arguments: list[str], says: str, center: Path, capsys: Capture) -> None:
    given = [str(center) if argument == "@" else argument for argument in arguments]
    code, out, err = run(capsys, CONV, *given)
    assert code == 2
    assert not out
    assert err.startswith("anybound: error: ")
    assert err.count("\n") == 1
    assert says in err
