"""The benchmarks run: their short forms on bundled networks, with numbers that make sense."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

import iteration


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
