"""The benchmarks run: their short forms on bundled networks, with numbers that make sense."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import iteration
import scaling
import search


@pytest.fixture(autouse=True)
def threads_as_before() -> Iterator[None]:
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


def records_of(
    main: Any, name: str, arguments: list[str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> list[dict[str, Any]]:
    """What a benchmark writes when it is run like this."""
    monkeypatch.setattr(sys, "argv", [name, *arguments, "-o", str(folder)])
    main()
    lines = (folder / f"{name}.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def test_iterations_cost_more_than_their_floor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--networks", "digits_conv", "digits_sigmoid", "--batches", "2", "--runs", "1"]
    records = records_of(iteration.main, "iteration", arguments, tmp_path, monkeypatch)
    methods = [(r["network"], r["method"]) for r in records]
    portable = ["slopes", "supergradient", "proximal", "dsg"]
    assert methods == [
        *(("digits_conv", m) for m in [*portable, "compact"]),
        *(("digits_sigmoid", m) for m in portable),
    ]
    for record in records:
        assert 0 < record["floor_ms"] < record["ms"]
        assert record["ratio"] == pytest.approx(record["ms"] / record["floor_ms"])
    assert "floor ms" in capsys.readouterr().out


def test_searches_tell_rate_and_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = ["--instances", "digits_dense", "--timeout", "60"]
    (record,) = records_of(search.main, "search", arguments, tmp_path, monkeypatch)
    assert record["verdict"] == "holds"
    assert record["subproblems"] > 0
    assert 0 < record["search"] < record["cpu"]
    assert record["rate"] == pytest.approx(record["subproblems"] / record["search"])
    assert record["bounding"] > record["rate"]
    assert 0 < record["memory"] < 1 << 31


def test_a_pool_holds_as_many_open_problems_as_are_asked_for() -> None:
    filled = search.filled("digits_dense", 2000)
    assert filled["open"] >= 2000
    assert filled["rate"] > 0
    assert filled["pool_MiB"] < filled["memory_MiB"]


def test_exponents_are_those_of_the_powers_that_are_fitted() -> None:
    x = [1.0, 2.0, 5.0]
    assert scaling.exponent(x, [3 * v**1.5 for v in x]) == pytest.approx(1.5)


def test_scaling_fits_every_cost_along_its_axes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ["--axes", "width", "open", "--widths", "2", "4", "--opens", "100", "1000"]
    records = records_of(scaling.main, "scaling", arguments, tmp_path, monkeypatch)
    costs = ["root bounds", "slopes, portable", "ascent, compact", "a round of the pool"]
    assert [record["cost"] for record in records] == costs
    for record in records:
        assert all(seconds > 0 for seconds in record["seconds"])
        assert record["exponent"] == pytest.approx(scaling.exponent(record["x"], record["seconds"]))
