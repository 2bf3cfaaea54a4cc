"""What the README shows runs as printed, in a folder that has the checkout's `src` in it."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from documents import ROOT, blocks, run

README = blocks(ROOT / "README.md")
PYTHON = [block.text for block in README if block.language == "python"]
COMMANDS = [words for block in README for words in block.commands]


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where a reader is who went from top to bottom: the Python code has left its files."""
    folder = tmp_path_factory.mktemp("checkout")
    (folder / "src").symlink_to(ROOT / "src")
    for code in PYTHON:
        done = subprocess.run(
            [sys.executable, "-c", code],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stderr
    return folder


def test_the_readme_shows_both_ways() -> None:
    assert PYTHON
    assert COMMANDS


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: shlex.join(words)[:60])
def test_command_runs_as_printed(
    words: list[str], checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(checkout)
    code, out, err = run(words)
    assert code == 0, err
    assert out.strip()


def test_python_runs_as_printed(checkout: Path) -> None:
    assert (checkout / "image.npy").is_file()


def test_the_make_targets_it_names_exist() -> None:
    makefile = (ROOT / "Makefile").read_text()
    shown = re.findall(r"^make (\w+)", (ROOT / "README.md").read_text(), re.M)
    assert {"demo", "test"} <= set(shown)
    assert all(re.search(rf"^{target}:", makefile, re.M) for target in shown)


def test_the_pages_it_names_exist() -> None:
    named = re.findall(r"\]\((?!https?:)([^)#]+)[^)]*\)", (ROOT / "README.md").read_text())
    assert named
    assert all((ROOT / name).is_file() for name in named)
