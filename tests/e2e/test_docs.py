"""Every command and every piece of Python in the documentation runs as printed.

Tutorials have a file of their own, `test_tutorials.py`. Blocks marked `sh` are to be read only: what
installs, or takes long.
"""

from pathlib import Path

import pytest
from documents import Block, blocks, can_be_followed, follow, pages

from anybound.cli.main import build_parser

TO_FOLLOW = [p for p in pages() if p.parent.name != "tutorials" and can_be_followed(p)]
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
    follow(page)


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
