"""Where a command's words go: its result to standard output, everything else to standard error.

With `--json` the result is exactly one JSON object; without it, text for people, coloured only on
a terminal. Text from outside is made printable before it gets here (`anybound.cli.text.printable`);
rich markup is never interpreted, as a node may be called `[red]`.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from io import StringIO
from typing import TYPE_CHECKING, TextIO

from anybound.cli.text import printable
from anybound.io.records import Json, Record, to_line

if TYPE_CHECKING:
    from rich.console import RenderableType

__all__ = ["Json", "Output", "Record"]

_PIPE_WIDTH = 10_000  # in a pipe nothing is wrapped or cut: lines are for grep


@dataclass(frozen=True)
class Output:
    """The streams of one run (None where the process has none) and how to write to them."""

    stdout: TextIO | None
    stderr: TextIO | None
    json: bool = False
    quiet: bool = False
    verbose: bool = False

    def result(self, record: Record, text: Callable[[], "list[RenderableType]"]) -> None:
        """The outcome of the command: `record`, or the same for people."""
        if self.json:
            self.object(record)
        else:
            self._write(self.stdout, "".join(self._rendered(part) for part in text()))

    def object(self, record: Record) -> None:
        """One JSON object on a line of its own."""
        self._write(self.stdout, to_line(record))

    def raw(self, text: str) -> None:
        """Text that is meant for a program, such as a script."""
        self._write(self.stdout, text)

    def note(self, message: str) -> None:
        """A line about the progress of the work, unless `--quiet`."""
        if not self.quiet:
            self.error(message)

    def detail(self, message: str) -> None:
        """A line that only `--verbose` shows."""
        if self.verbose:
            self.note(message)

    def error(self, message: str) -> None:
        """One line on standard error, whatever it holds."""
        self._write(self.stderr, printable(message) + "\n")
        if self.stderr is not None:
            self.stderr.flush()

    def trace(self, text: str) -> None:
        """Lines about a defect, for whoever asked to see them."""
        self._write(self.stderr, text)

    @staticmethod
    def _write(stream: TextIO | None, text: str) -> None:
        """Write `text`; characters that the stream's encoding lacks become escapes."""
        if stream is not None:
            encoding = getattr(stream, "encoding", None) or "utf-8"
            stream.write(text.encode(encoding, "backslashreplace").decode(encoding))

    def _rendered(self, part: "RenderableType") -> str:
        from rich.console import Console

        terminal = self.stdout is not None and self.stdout.isatty()
        console = Console(
            file=StringIO(),
            force_terminal=terminal,
            color_system="auto" if terminal and not _plain() else None,
            width=None if terminal else _PIPE_WIDTH,
            highlight=False,
            markup=False,
            emoji=False,
        )
        with console.capture() as capture:
            console.print(part, soft_wrap=not terminal)
        return "".join(line.rstrip() + "\n" for line in capture.get().splitlines())


def _plain() -> bool:
    """Whether the user wants no escape sequences at all, styles included (no-color.org)."""
    return bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb"
