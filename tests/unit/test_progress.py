"""Progress: honest numbers, on terminals only, and nothing of it left behind."""

import io
import os
import pty
import subprocess
import sys
from importlib.resources import files
from typing import Any

import pytest
from rich.console import Console

from anybound.cli.live import amount, clock, display
from anybound.cli.output import Output
from anybound.cli.progress import BenchProgress, bracket_so_far, decision_so_far, estimate


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def text_of(renderable: Any) -> str:
    console = Console(file=io.StringIO(), width=100)
    with console.capture() as capture:
        console.print(renderable)
    return capture.get()


def record(**changes: Any) -> dict[str, Any]:
    return {
        "phases": {"read": 0.5, "search": 0.5},
        "clauses": [{"lower": 0.5, "upper": 2.0}, {"lower": None, "upper": None}],
        "trace": [
            {"seconds": 1.0, "lower": None, "open": 1, "closed": 1},
            {"seconds": 3.5, "lower": -1.0, "open": 30, "closed": 1001},
        ],
        "memory": 500_000_000,
        **changes,
    }


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.2, "0 s"), (59.4, "59 s"), (59.6, "1:00"), (3725, "1:02:05"), (-3, "0 s")],
)
def test_clock(seconds: float, text: str) -> None:
    assert clock(seconds) == text


def test_amount() -> None:
    assert (amount(12e6), amount(1.44e9)) == ("12 MB", "1.4 GB")


def test_a_decision_shows_bounds_tree_rate_memory_and_time() -> None:
    text = text_of(decision_so_far(record(), 4.0, 60.0))
    for shown in (
        "search",
        "4 s, 56 s left",
        "? to 2",
        "1 of 2 proved",
        "30 open, 1,001 closed",
    ):
        assert shown in text
    assert "(400 per second)" in text
    assert "500 MB" in text


def test_the_last_phase_is_named() -> None:
    text = text_of(decision_so_far(record(trace=[], clauses=[], phases={"root": 1.0}), 1.0, None))
    assert "root" in text
    assert "left" not in text


def test_a_radius_shows_its_bracket() -> None:
    known = {"holds": 0.125, "violated_or_unknown": None, "steps": [1, 2]}
    assert "holds at 0.125, no more known at ?" in text_of(bracket_so_far(known, 2.0, 10.0))


def test_an_estimate_is_the_mean_of_the_benchmark_and_never_above_the_limits() -> None:
    done = {"a": [1.0, 3.0], "b": [10.0]}
    left = [("a", 60.0), ("b", 5.0), ("c", 60.0)]
    found = estimate(done, left, 1)
    assert found.probably == pytest.approx(2.0 + 5.0 + 14.0 / 3)
    assert found.most == 125.0
    assert estimate(done, left, 2).probably == pytest.approx((7.0 + 14.0 / 3) / 2)


def test_an_estimate_says_what_it_does_not_know() -> None:
    assert str(estimate({}, [("a", None)], 1)) == "no estimate yet"
    assert str(estimate({}, [("a", 60.0), ("a", 60.0)], 2)) == "at most 1:00"
    assert estimate({"a": [1.0]}, [("a", 50.0)], 8).most == 50.0
    assert estimate({"a": [1.0]}, [], 1).most == 0.0


def test_a_run_shows_every_benchmark() -> None:
    left = [("a", "x/n p1", 9.0), ("a", "n p2", 9.0), ("[red]b", "n p3", 9.0)]
    progress = BenchProgress(list(left), 1)
    progress.add("a", "x/n p1", {"error": None, "verdict": "holds", "seconds": 2.0})
    text = text_of(progress.draw(3.0))
    for shown in ("1 of 2", "0 of 1", "[red]b", "n p2", "about 4 s left, at most 18 s"):
        assert shown in text


@pytest.mark.parametrize("quiet", [False, True])
@pytest.mark.parametrize("stream", [io.StringIO, Terminal])
def test_only_terminals_are_drawn_on(quiet: bool, stream: type[io.StringIO]) -> None:
    errors = stream()
    with display(Output(io.StringIO(), errors, quiet=quiet), started=-100.0) as shown:
        shown.show(lambda seconds: f"{seconds:.0f} here")
        assert (shown.live is not None) == (stream is Terminal and not quiet)
    assert ("here" in errors.getvalue()) == (stream is Terminal and not quiet)


def test_notes_stay_and_the_display_goes() -> None:
    errors = Terminal()
    with display(Output(None, errors), started=-100.0) as shown:
        shown.show(lambda _: "redrawn")
        shown.note("a note with \x1b[2J in it")
    assert shown.live is None
    assert "a note with \\x1b[2J in it" in errors.getvalue()
    assert errors.getvalue().rstrip().endswith(("\x1b[2K", "\x1b[?25h"))  # erased; cursor shown


@pytest.mark.parametrize("variable", [{}, {"TERM": "dumb"}])
def test_a_real_terminal_gets_its_result_and_its_cursor_back(variable: dict[str, str]) -> None:
    data = files("anybound") / "data"
    arguments = [str(data / "networks/digits_conv.onnx")]
    arguments += [str(data / "properties/digits_conv_image11_and3_and8_eps0.15.vnnlib")]
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", **variable}
    done = subprocess.run(
        [sys.executable, "-m", "anybound", "verify", *arguments],
        stdout=subprocess.PIPE,
        stderr=theirs,
        env=environment,
        timeout=120,
        check=True,
    )
    os.close(theirs)
    seen = os.read(ours, 1 << 16)
    os.close(ours)
    assert done.stdout == b"holds\n"
    assert b"the clause is unreachable" in seen
    assert seen.count(b"\x1b[?25l") == seen.count(b"\x1b[?25h") == (0 if variable else 1)
