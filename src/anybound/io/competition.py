"""The result file of the verification competition (VNN-COMP).

The first word is `sat` (violated), `unsat` (holds), `unknown`, `timeout` or `error`; after `sat`
comes the witness, one value a line:

    sat
    ((X_0 0.125)
    (X_1 0.5)
    (Y_0 -1.25))
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from anybound.errors import InvalidInput

__all__ = ["WORDS", "result_text", "write_result"]

# verdict -> the competition's word
WORDS: Mapping[str, str] = MappingProxyType(
    {"holds": "unsat", "violated": "sat", "unknown": "unknown", "timeout": "timeout"}
)


def result_text(record: Mapping[str, Any] | None) -> str:
    """The content for a record of `verify`, or for an instance that failed (None)."""
    if record is None:
        return "error\n"
    word = WORDS[record["verdict"]]
    witness = record.get("witness")
    if witness is None:
        return f"{word}\n"
    values = [*_assignments("X", witness["input"]), *_assignments("Y", witness["output"])]
    return f"{word}\n(" + "\n".join(values) + ")\n"


def write_result(path: str | Path, record: Mapping[str, Any] | None) -> None:
    """Write the file in one step: it is there whole, or not at all."""
    path = Path(path)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        draft.write_text(result_text(record), encoding="ascii")
        draft.replace(path)
    except OSError as error:
        draft.unlink(missing_ok=True)
        reason = error.strerror or str(error)
        raise InvalidInput(f"{path}: the result cannot be written: {reason}") from None


def _assignments(letter: str, values: Sequence[float]) -> list[str]:
    return [f"({letter}_{i} {float(value)!r})" for i, value in enumerate(values)]
