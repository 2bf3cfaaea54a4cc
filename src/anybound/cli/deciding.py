"""What `verify` and `bench` share: the options of a decision."""

from __future__ import annotations

import argparse
import re
from argparse import Namespace
from typing import Any

from anybound.cli.parser import Parser, whole
from anybound.cli.plugin_text import plugin_text

__all__ = ["add_deciding_options", "deciding_arguments", "size"]

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_BINARY = {"ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}
_LEAST = 10**6  # bytes: whoever asks for fewer has forgotten the unit


def add_deciding_options(parser: Parser) -> None:
    """How to decide."""
    parser.add_argument(
        "--method",
        metavar="M",
        type=plugin_text,
        help="what bounds clauses at the root and, if it iterates, the search's sub-problems; "
        "see 'anybound methods' (default: crown, then slopes); or a file, METHOD.toml",
    )
    parser.add_argument(
        "--intermediate",
        metavar="M",
        type=plugin_text,
        help="how hidden layers are bounded; see 'anybound methods' (default: auto)",
    )
    searching = parser.add_mutually_exclusive_group()
    searching.add_argument(
        "--search",
        metavar="S",
        type=plugin_text,
        help="what decides the clauses that are open then; see 'anybound methods' (default: auto)",
    )
    searching.add_argument(
        "--no-search", action="store_true", help="leave open what the bounds of the root leave open"
    )
    parser.add_argument("--seed", metavar="N", type=whole, default=0, help="of all that is random")
    parser.add_argument(
        "--memory", metavar="SIZE", type=size, help="at most, such as 4GB or 512MiB"
    )
    parser.add_argument(
        "--certify",
        action="store_true",
        help="have the proof or witness checked by the independent checker",
    )
    parser.add_argument(
        "--semantics",
        choices=("real", "float32"),
        default="real",
        help="what a certificate is about: the network over the reals, or in float32 as well",
    )


def deciding_arguments(options: Namespace) -> dict[str, Any]:
    """The options as arguments of `anybound.verify`."""
    names = ("method", "intermediate", "search", "seed", "memory", "threads")
    chosen = {name: getattr(options, name) for name in names}
    if options.certify:
        chosen["certify"] = True
    if options.semantics != "real":
        chosen["semantics"] = options.semantics
    return {**chosen, "complete": not options.no_search}


def size(text: str) -> int:
    """The type of an option that takes a number of bytes."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kmgt]?i?)b?", text.strip().lower())
    unit = None if match is None else {**_UNITS, **_BINARY}.get(match[2])
    if match is None or unit is None or float(match[1]) <= 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size such as 4GB or 512MiB")
    if (number := float(match[1]) * unit) < _LEAST:
        raise argparse.ArgumentTypeError(f"{text!r} is less than 1 MB; write a unit, as in 4GB")
    return int(number)
