"""What a command is: words for its help, its arguments, and a function to run.

`run` returns the exit code of work that was done: 0, or 1 when a check failed. Whatever prevents
the work is an exception, which `anybound.cli.main` turns into one line and exit code 2.
"""

from argparse import Namespace
from collections.abc import Callable
from dataclasses import dataclass

from anybound.cli.output import Output
from anybound.cli.parser import Parser

__all__ = ["Command", "Example"]


@dataclass(frozen=True)
class Example:
    """A command line that works as it stands, and what it does."""

    line: str
    purpose: str


@dataclass(frozen=True)
class Command:
    """`anybound NAME`; its module must not import torch, onnx or the like at the top."""

    name: str
    summary: str
    examples: tuple[Example, ...]
    configure: Callable[[Parser], None]
    run: Callable[[Namespace, Output], int]
