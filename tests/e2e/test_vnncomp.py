"""The competition's scripts, run as its harness does."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPTS = ROOT / "scripts" / "vnncomp"
DATA = ROOT / "src" / "anybound" / "data"
SAT = ("networks/digits_sigmoid.onnx", "properties/digits_sigmoid_image2_eps0.1.vnnlib")
UNSAT = ("networks/digits_dense.onnx", "properties/digits_dense_image0_eps0.05.vnnlib")
ENVIRONMENT = {
    **os.environ,
    "ANYBOUND_PYTHON": sys.executable,
    "PYTHONPATH": str(ROOT / "src"),
    "OMP_NUM_THREADS": "1",
}

pytestmark = pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")


def run(script: str, *arguments: object) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [SCRIPTS / script, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env=ENVIRONMENT,
    )


def test_an_installation_is_found() -> None:
    done = run("install_tool.sh", "v1")
    assert done.returncode == 0, done.stderr
    assert re.search(r"^anybound +\S", done.stdout, re.MULTILINE)


@pytest.mark.parametrize(("pair", "word"), [(SAT, "sat"), (UNSAT, "unsat")])
def test_an_instance(pair: tuple[str, str], word: str, tmp_path: Path) -> None:
    files = [DATA / name for name in pair]
    assert run("prepare_instance.sh", "v1", "digits", *files).returncode == 0
    result = tmp_path / "with space.txt"
    result.write_text("left over")
    started = time.monotonic()
    done = run("run_instance.sh", "v1", "digits", *files, result, 60)
    assert (done.returncode, done.stderr) == (0, "")
    assert time.monotonic() - started < 60
    first, *rest = result.read_text().splitlines()
    assert first == word
    assert len(rest) == (64 + 10 if word == "sat" else 0)
    assert list(tmp_path.iterdir()) == [result]


def test_what_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    noise = tmp_path / "noise.onnx"
    noise.write_bytes(b"\x08\x07 noise")
    prop = DATA / SAT[1]
    for network in (noise, tmp_path / "missing.onnx"):
        result = tmp_path / "result.txt"
        done = run("run_instance.sh", "v1", "digits", network, prop, result, 60)
        assert done.returncode == 0
        assert "anybound: error: " in done.stderr
        assert result.read_text() == "error\n"
    assert run("prepare_instance.sh", "v1", "x", tmp_path / "missing.onnx", prop).returncode == 1


@pytest.mark.parametrize(
    ("script", "arguments", "says"),
    [
        ("install_tool.sh", [], "expected the version v1"),
        ("prepare_instance.sh", ["v2", "c", "a", "b"], "the first argument is 'v2'"),
        ("run_instance.sh", ["v1", "c", "a", "b"], "usage: run_instance.sh v1 CATEGORY ONNX"),
    ],
)
def test_wrong_arguments(script: str, arguments: list[str], says: str) -> None:
    done = run(script, *arguments)
    assert done.returncode == 2
    assert says in done.stderr


def test_sigterm_ends_it_with_a_result(tmp_path: Path) -> None:
    files = [DATA / name for name in UNSAT]
    result = tmp_path / "result.txt"
    arguments = ["v1", "digits", *map(str, files), str(result), "100"]
    with subprocess.Popen([SCRIPTS / "run_instance.sh", *arguments], env=ENVIRONMENT) as child:
        time.sleep(0.6)  # while it imports
        child.send_signal(signal.SIGTERM)
        sent = time.monotonic()
        child.wait(60)
    assert time.monotonic() - sent < 1.0
    assert result.read_text() in ("unknown\n", "error\n")
