"""What `verify` and `bench` share: the options of a decision, and records of those cut short."""

from __future__ import annotations

import argparse
import re
from argparse import Namespace
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from anybound.cli.parser import Parser
from anybound.io.records import Record
from anybound.runtime.job import Ending, Finished

__all__ = [
    "EMPTY",
    "GRACE",
    "PRELOAD",
    "add_deciding_options",
    "completed",
    "deciding_arguments",
    "size",
]

GRACE = 0.25  # seconds after the timeout until the process that works is killed
PRELOAD = ("anybound.deciding", "onnxruntime")

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_BINARY = {"ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}

# What is known of an instance before anything was reported.
EMPTY: Mapping[str, Any] = MappingProxyType(
    {
        "verdict": "unknown",
        "seconds": 0.0,
        "cpu_seconds": 0.0,
        "subproblems": 0,
        "clauses": [],
        "witness": None,
        "certified": None,
        "phases": {},
        "plan": {},
        "trace": [],
        "reason": "",
    }
)
_REASONS = MappingProxyType(
    {
        Ending.TIMEOUT: ("timeout", "the time is spent"),
        Ending.MEMORY: ("unknown", "stopped at its memory limit"),
        Ending.INTERRUPTED: ("unknown", "interrupted"),
    }
)


def add_deciding_options(parser: Parser) -> None:
    """How to decide."""
    parser.add_argument(
        "--method",
        metavar="M",
        help="of the root's bounds; see 'anybound methods' (default: crown)",
    )
    parser.add_argument(
        "--intermediate",
        metavar="M",
        help="how hidden layers are bounded; see 'anybound methods' (default: auto)",
    )
    parser.add_argument(
        "--no-search", action="store_true", help="leave open what the bounds of the root leave open"
    )
    parser.add_argument("--seed", metavar="N", type=int, default=0, help="of all that is random")
    parser.add_argument(
        "--memory", metavar="SIZE", type=size, help="at most, such as 4GB or 512MiB"
    )


def deciding_arguments(options: Namespace) -> dict[str, Any]:
    """The options as arguments of `anybound.verify`."""
    names = ("method", "intermediate", "seed", "memory", "threads")
    chosen = {name: getattr(options, name) for name in names}
    return {**chosen, "complete": not options.no_search}


def completed(finished: Finished, record: Record) -> Record:
    """The record of a job that may have been stopped; what it proved before stands."""
    if finished.ending not in _REASONS or record["verdict"] in ("holds", "violated"):
        return record
    verdict, reason = _REASONS[finished.ending]
    measured = {"seconds": finished.seconds, "cpu_seconds": finished.cpu_seconds}
    return {**record, **measured, "verdict": verdict, "reason": reason}


def size(text: str) -> int:
    """The type of an option that takes a number of bytes."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kmgt]?i?)b?", text.strip().lower())
    unit = None if match is None else {**_UNITS, **_BINARY}.get(match[2])
    if match is None or unit is None or float(match[1]) <= 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size such as 4GB or 512MiB")
    return int(float(match[1]) * unit)
