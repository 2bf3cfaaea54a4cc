"""The argument parser: argparse, with errors as exceptions and with the closest name suggested.

A parser can say which commands, options and positional arguments it has; completions are generated
from that.
"""

import argparse
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from anybound.cli.text import suggestion
from anybound.errors import InvalidConfig

__all__ = ["Argument", "Parser", "number", "positive_int", "seconds", "whole"]


@dataclass(frozen=True)
class Argument:
    """An option (with its flags) or a positional argument (without)."""

    flags: tuple[str, ...]
    help: str
    metavar: str
    choices: tuple[str, ...]
    takes_value: bool


class Parser(argparse.ArgumentParser):
    """An `ArgumentParser` that never exits by itself on an error and accepts no abbreviations."""

    def __init__(self, **options: Any) -> None:  # Any: handed on to argparse unseen
        options.setdefault("allow_abbrev", False)
        options.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        super().__init__(**options)

    def error(self, message: str) -> NoReturn:
        """Refuse the arguments in one line that says where the help is."""
        raise InvalidConfig(f"{message}; see '{self.prog} --help'")

    def parse(self, arguments: Sequence[str]) -> argparse.Namespace:
        """Parse all of `arguments`; for one that is unknown, suggest what may have been meant."""
        namespace, unknown = self.parse_known_args(arguments)
        if unknown:
            command = getattr(namespace, "command", None)
            parser = self if command is None else self.commands()[command]
            parser.refuse(unknown[0])
        return namespace

    def refuse(self, argument: str) -> NoReturn:
        """The error for an argument that this parser does not know."""
        if not argument.startswith("-"):
            self.error(f"unexpected argument {argument!r}")
        name = argument.split("=", 1)[0]
        known = (flag for option in self.options() for flag in option.flags)
        self.error(f"unknown option {name!r}{suggestion(name, known)}")

    def commands(self) -> Mapping[str, "Parser"]:
        """The parsers of the commands by name, in order."""
        for action in self._actions:
            if isinstance(action.choices, Mapping):
                return dict(action.choices)
        return {}

    def options(self) -> tuple[Argument, ...]:
        """The options, in order."""
        return tuple(_argument(action) for action in self._actions if action.option_strings)

    def positionals(self) -> tuple[Argument, ...]:
        """The positional arguments, in order."""
        return tuple(
            _argument(action)
            for action in self._actions
            if not action.option_strings and not isinstance(action.choices, Mapping)
        )

    def _check_value(self, action: argparse.Action, value: object) -> None:
        """argparse's own check, with the closest choice suggested."""
        if action.choices is None or value in action.choices:
            return
        known = [str(choice) for choice in action.choices]
        hint = suggestion(str(value), known) or f" (choose from {', '.join(known)})"
        what = "command" if isinstance(action.choices, Mapping) else _name(action)
        raise argparse.ArgumentError(None, f"unknown {what} {str(value)!r}{hint}")


def positive_int(text: str) -> int:
    """The type of an option that takes an integer above zero."""
    if not text.isascii() or not text.isdigit() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return int(text)


def whole(text: str) -> int:
    """The type of an option that takes an integer from zero on."""
    if not text.isascii() or not text.isdigit() or int(text) >= 2**63:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number")
    return int(text)


def number(text: str) -> float:
    """The type of an option that takes a finite number."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise argparse.ArgumentTypeError(f"{text!r} is not a finite number")
    return value


def seconds(text: str) -> float:
    """The type of an option that takes a time above zero."""
    value = number(text)
    if value <= 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds above 0")
    return value


def _argument(action: argparse.Action) -> Argument:
    metavar = action.metavar if isinstance(action.metavar, str) else action.dest.upper()
    choices = tuple(str(choice) for choice in action.choices or ())
    takes_value = action.nargs != 0
    return Argument(tuple(action.option_strings), action.help or "", metavar, choices, takes_value)


def _name(action: argparse.Action) -> str:
    return action.option_strings[-1] if action.option_strings else str(action.metavar).lower()
