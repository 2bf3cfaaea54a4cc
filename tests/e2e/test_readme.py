"""What the README shows runs as printed, in a folder that has the checkout's `src` in it."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```", (ROOT / "README.md").read_text(), re.DOTALL | re.M)
PYTHON = [text for language, text in BLOCKS if language == "python"]
COMMANDS = [
    line.split("#")[0].strip()
    for language, text in BLOCKS
    if language == "bash"
    for line in text.splitlines()
    if line.startswith("anybound ")
]


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where a reader is who went from top to bottom: the Python code has left its files."""
    folder = tmp_path_factory.mktemp("checkout")
    (folder / "src").symlink_to(ROOT / "src")
    for code in PYTHON:
        run(["-c", code], folder)
    return folder


def run(arguments: list[str], folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_readme_shows_both_ways() -> None:
    assert PYTHON
    assert COMMANDS


@pytest.mark.parametrize("command", COMMANDS)
def test_command_runs_as_printed(command: str, checkout: Path) -> None:
    assert run(["-m", "anybound", *shlex.split(command)[1:]], checkout)


def test_python_runs_as_printed(checkout: Path) -> None:
    assert (checkout / "image.npy").is_file()


def test_the_make_targets_it_names_exist() -> None:
    makefile = (ROOT / "Makefile").read_text()
    shown = re.findall(r"^make (\w+)", (ROOT / "README.md").read_text(), re.M)
    assert {"demo", "test"} <= set(shown)
    assert all(re.search(rf"^{target}:", makefile, re.M) for target in shown)
