"""The report in a real browser: made from a real run of bundled instances, and used.

Pictures of it are left in the folder that ANYBOUND_SCREENSHOTS names, if it does.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.resources import as_file, files
from pathlib import Path

import pytest
from web_driver import Browser, browser

BODIES = "return [...document.querySelectorAll('#instances > tbody')]"
SHOWN = f"{BODIES}.filter(r => !r.hidden).map(r => r.dataset.verdict)"
NAMES = f"{BODIES}.map(r => r.dataset.name)"
FOCUS = "return document.activeElement.closest('tbody')?.dataset.name ?? document.activeElement.id"


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of three networks in a folder with a nasty name, and its page."""
    folder = tmp_path_factory.mktemp("report") / "<b onclick='alert(1)'> & co"
    with as_file(files("anybound") / "data") as data:
        shutil.copytree(data, folder)
    lines = (folder / "instances.csv").read_text().splitlines()
    (folder / "instances.csv").write_text("\n".join(lines[k] for k in (0, 1, 5, 8)) + "\n")
    for command in (["bench", "instances.csv", "-o", "run.jsonl"], ["report", "run.jsonl"]):
        arguments = [sys.executable, "-m", "anybound", *command]
        done = subprocess.run(arguments, cwd=folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    return folder / "run.html"


@pytest.fixture(scope="module")
def window(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browser(tmp_path_factory.mktemp("browser")) as found:
        yield found


def picture(window: Browser, name: str) -> None:
    if folder := os.environ.get("ANYBOUND_SCREENSHOTS"):
        Path(folder).mkdir(parents=True, exist_ok=True)
        window.picture(Path(folder) / f"{name}.png")


def test_it_opens_without_a_complaint_and_asks_for_nothing(report: Path, window: Browser) -> None:
    window.open(report)
    assert window.run("return document.title") == "run – anybound"
    assert window.run("return performance.getEntriesByType('resource').map(e => e.name)") == []
    assert window.complaints() == []
    assert sorted(window.run(SHOWN)) == ["holds", "holds", "violated", "violated"]
    picture(window, "report")


def test_filters(report: Path, window: Browser) -> None:
    window.open(report)
    window.click("input[value=holds]")
    assert window.run(SHOWN) == ["violated", "violated"]
    window.press("/", "residual")
    assert window.run(SHOWN) == ["violated"]
    assert window.run("return document.getElementById('count').textContent") == "1 of 4 shown"
    window.press("Escape")
    window.click("input[value=holds]")
    assert len(window.run(SHOWN)) == 4


def test_sorts_by_numbers_up_and_down(report: Path, window: Browser) -> None:
    window.open(report)
    column = f"{BODIES}.map(r => Number(r.rows[0].cells[3].dataset.key))"
    window.click("button[data-column='3']")
    up = window.run(column)
    assert up == sorted(up)
    window.click("button[data-column='3']")
    assert window.run(column) == sorted(up, reverse=True)
    state = "return document.querySelector('button[data-column=\"3\"]').parentElement.ariaSort"
    assert window.run(state) == "descending"


def test_the_keyboard_alone_is_enough(report: Path, window: Browser) -> None:
    window.open(report)
    names = window.run(NAMES)
    window.press("Down")
    assert window.run(FOCUS) == names[0]
    window.press("Down", "Down", "Up")
    assert window.run(FOCUS) == names[1]
    window.press("Enter")
    shown = "return [...document.querySelectorAll('.detail')].map(r => !r.hidden)"
    assert window.run(shown) == [False, True, False, False]
    assert window.run("return document.activeElement.ariaExpanded") == "true"
    window.press("Enter")
    assert window.run(shown) == [False] * 4


def test_a_counterexample_is_drawn(report: Path, window: Browser) -> None:
    window.open(report)
    window.press("Down", "Down", "Enter")
    images = "return [...document.querySelectorAll('#detail1 img')]"
    names = window.run(f"{images}.map(i => i.alt.split(':')[0])")
    assert names == ["input", "counterexample", "difference"]
    assert window.run(f"{images}.map(i => [i.naturalWidth, i.naturalHeight])") == [[8, 8]] * 3
    assert window.run("return document.querySelectorAll('#detail1 svg[role=img]').length") >= 1
    picture(window, "detail")


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_it_fits_a_phone(report: Path, window: Browser, dark: bool) -> None:
    window.open(report, 390, 844, dark=dark)
    for place in range(4):
        window.run(f"document.querySelectorAll('.open')[{place}].click()")
    assert window.run("return document.documentElement.scrollWidth") <= 390
    paper = window.run("return getComputedStyle(document.documentElement).backgroundColor")
    assert paper == ("rgb(20, 23, 27)" if dark else "rgb(255, 255, 255)")
    picture(window, f"phone-{'dark' if dark else 'light'}")


def test_the_summary_is_not_cut_off(report: Path, window: Browser) -> None:
    window.open(report, 1000)
    wide = "const w = document.querySelector('main > section > .wide');"
    assert window.run(f"{wide} return w.scrollWidth - w.clientWidth") == 0


def test_names_do_not_become_markup(report: Path, window: Browser) -> None:
    window.open(report)
    assert window.run("return document.querySelectorAll('b[onclick]').length") == 0
    command = window.run("return document.querySelector('.command code').textContent")
    assert "<b onclick=" in command
