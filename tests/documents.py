"""What the pages of the documentation show: their blocks, in order, and how a reader would run them."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from anybound.cli.main import main
from anybound_check.__main__ import main as check

ROOT = Path(__file__).parents[1]
_BLOCK = re.compile(r"^```(\w+)(?: title=\"(.*?)\")?\n(.*?)^```", re.DOTALL | re.M)
_PROGRAMS = {"anybound": main, "anybound-check": check}


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, its text, and the file that it is (or "")."""

    language: str
    text: str
    title: str = ""

    @property
    def is_file_of_the_project(self) -> bool:
        """Whether the block only says which file is shown in its place."""
        return self.text == f"# see {self.title}\n"

    @property
    def commands(self) -> list[list[str]]:
        """The words of every command line of this project's programs in a bash block."""
        if self.language != "bash":
            return []
        lines = self.text.replace("\\\n", " ").splitlines()
        words = [shlex.split(line, comments=True) for line in lines]
        return [line for line in words if line and line[0] in _PROGRAMS]


def blocks(page: Path) -> list[Block]:
    """All fenced blocks of a page."""
    found = _BLOCK.findall(page.read_text(encoding="utf-8"))
    return [Block(language, text, title) for language, title, text in found]


def pages() -> list[Path]:
    """The pages written by hand, in the order of the site's navigation."""
    nav = (ROOT / "mkdocs.yml").read_text().split("\nnav:\n")[1]
    named = [ROOT / "docs" / name for name in re.findall(r": ([\w/-]+\.md)$", nav, re.M)]
    return [page for page in named if page.is_file()]


def run(words: list[str]) -> tuple[int, str, str]:
    """The exit code, standard output and standard error of a command, run in this process."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = _PROGRAMS[words[0]](words[1:])
    return code, out.getvalue(), err.getvalue()


def can_be_followed(page: Path) -> bool:
    """Whether there is anything on a page to be run."""
    return any(b.language in ("bash", "python") for b in blocks(page))


def follow(page: Path) -> None:
    """Do what a page says, in the working directory: files that are shown have their name as the
    block's title, pieces of Python continue each other."""
    names: dict[str, Any] = {"__name__": page.stem}
    for block in blocks(page):
        if block.is_file_of_the_project:
            continue  # an example, which has a test of its own
        if block.title:
            Path(block.title).write_text(block.text, encoding="utf-8")
        elif block.language == "python":
            with contextlib.redirect_stdout(io.StringIO()):
                exec(compile(block.text, page.name, "exec"), names)
        for words in block.commands:
            code, out, err = run(words)
            assert code == 0, f"{shlex.join(words)}: {err}"
            assert out.strip()
