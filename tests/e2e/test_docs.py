"""Every command and every piece of Python in the documentation runs as printed.

A page is followed from top to bottom in an empty folder. Blocks marked `sh` are to be read only:
what installs, or takes long. Files that are shown have their name as the block's title.
"""

import contextlib
import io
import shlex
from pathlib import Path
from typing import Any

import pytest
from documents import Block, blocks, pages, run

from anybound.cli.main import build_parser

RUN = ("bash", "python", "toml")
TO_FOLLOW = [page for page in pages() if any(b.language in RUN for b in blocks(page))]
SHOWN_ONLY = [
    pytest.param(words, id=" ".join(words)[:60])
    for page in pages()
    for block in blocks(page)
    if block.language == "sh"
    for words in Block("bash", block.text).commands
]


@pytest.mark.parametrize("page", TO_FOLLOW, ids=lambda page: page.stem)
def test_a_page_can_be_followed(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": page.stem}
    for block in blocks(page):
        if block.is_file_of_the_project:
            continue  # an example, which has a test of its own
        if block.title:
            Path(block.title).write_text(block.text)
        elif block.language == "python":
            with contextlib.redirect_stdout(io.StringIO()):
                exec(compile(block.text, f"{page.name}", "exec"), names)
        for words in block.commands:
            code, out, err = run(words)
            assert code == 0, f"{shlex.join(words)}: {err}"
            assert out.strip()


@pytest.mark.parametrize("words", SHOWN_ONLY)
def test_what_is_only_shown_has_arguments_that_exist(words: list[str]) -> None:
    build_parser().parse(words[1:])


def test_every_page_is_found_from_the_navigation() -> None:
    folder = pages()[0].parent
    written = {path for path in folder.rglob("*.md") if "hooks" not in path.parts}
    assert written == set(pages())


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.stem)
def test_a_block_of_commands_shows_this_projects(page: Path) -> None:
    for block in blocks(page):
        if block.language == "bash":
            lines = [line for line in block.text.splitlines() if line.strip()]
            assert len(block.commands) == len([line for line in lines if line[0] not in " #"])
