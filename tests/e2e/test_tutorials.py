"""Every tutorial can be followed as printed, from top to bottom, in an empty folder."""

from pathlib import Path

import pytest
from documents import follow, pages

TUTORIALS = [page for page in pages() if page.parent.name == "tutorials"]


@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.stem)
def test_a_tutorial_can_be_followed(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    follow(page)


def test_there_are_tutorials() -> None:
    assert len(TUTORIALS) >= 5
