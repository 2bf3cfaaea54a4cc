"""What the benchmarks share: records written as they come, and tables of them."""

from __future__ import annotations

import json
import os
from argparse import ArgumentParser
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self


def add_output(parser: ArgumentParser) -> None:
    """Where records go."""
    parser.add_argument("-o", "--output", type=Path, default=Path("build/benchmarks"))


def environment() -> dict[str, str]:
    """Of processes as users have them: they keep the bytecode of modules."""
    return {name: v for name, v in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


class Records:
    """A JSONL file that is written anew, line by line; `all` is what it holds."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("w")
        self.all: list[Mapping[str, Any]] = []

    def add(self, record: Mapping[str, Any]) -> None:
        self._file.write(json.dumps(record) + "\n")
        self._file.flush()
        self.all.append(record)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Columns of text: words to the left, numbers to the right with three digits that matter."""
    cells = [list(head), *([_text(value) for value in row] for row in rows)]
    width = [max(len(row[i]) for row in cells if i < len(row)) for i in range(len(head))]
    words = [any(isinstance(row[i], str) for row in rows if i < len(row)) for i in range(len(head))]
    return "\n".join(
        "  ".join(
            cell.ljust(size) if word else cell.rjust(size)
            for cell, size, word in zip(row, width, words, strict=False)
        ).rstrip()
        for row in cells
    )


def _text(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    return "" if value is None else str(value)
