"""`anybound methods`: every plug-in that has a name, with its parameters and their defaults."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping
from typing import TYPE_CHECKING

from anybound.cli.command import Command, Example
from anybound.cli.output import Output, Record
from anybound.cli.parser import Parser
from anybound.cli.text import suggestion
from anybound.errors import InvalidConfig

if TYPE_CHECKING:
    from anybound.registry import Entry

__all__ = ["COMMAND"]


def _configure(parser: Parser) -> None:
    parser.add_argument("name", metavar="NAME", nargs="?", help="only the plug-ins of this name")


def _run(options: Namespace, output: Output) -> int:
    from anybound import registry

    kinds = [found for found in vars(registry).values() if isinstance(found, registry.Registry)]
    record = {_key(kind.kind): _entries(kind.entries()) for kind in kinds}
    if options.name is not None:
        record = _named(record, options.name)
    from anybound.cli.views import methods_view

    output.result(record, lambda: methods_view(record))
    return 0


def _key(kind: str) -> str:
    """`intermediate strategy` as a field's name."""
    return kind.replace(" ", "_")


def _entries(entries: list[Entry]) -> list[Record]:
    return [
        {
            "name": entry.name,
            "summary": entry.summary,
            "parameters": [
                {"name": p.name, "type": p.type, "default": p.default} for p in entry.parameters
            ],
        }
        for entry in entries
    ]


def _named(kinds: Mapping[str, list[Record]], name: str) -> dict[str, list[Record]]:
    """The plug-ins of this name, of whatever kind."""
    found = {kind: [e for e in entries if e["name"] == name] for kind, entries in kinds.items()}
    if not any(found.values()):
        known = sorted({str(entry["name"]) for entries in kinds.values() for entry in entries})
        hint = suggestion(name, known) or f" (choose from {', '.join(known)})"
        raise InvalidConfig(f"nothing is called {name!r}{hint}")
    return {kind: entries for kind, entries in found.items() if entries}


COMMAND = Command(
    name="methods",
    summary="list methods, strategies, rules, searches, activations, input sets and attacks",
    examples=(
        Example("anybound methods", "everything that a name stands for"),
        Example("anybound methods proximal", "one of them"),
        Example("anybound methods --json", "the same for a script"),
    ),
    configure=_configure,
    run=_run,
)
