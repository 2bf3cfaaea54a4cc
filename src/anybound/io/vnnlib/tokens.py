"""The words of an SMT-LIB like text, each with its place.

A word is a parenthesis, a string, a |quoted symbol|, or a run of other characters; `;` opens a
comment up to the end of the line. Brackets belong to the word they stand in, spaces and all, so
that the indexed variables and shapes of VNN-LIB 2.0 (`X[0, 1]`, `[1, 5]`) are single words.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from anybound.errors import InvalidProperty, UnsupportedProperty

__all__ = ["Source", "Token", "excerpt", "tokens"]

_TOKEN = re.compile(
    r"""
    (?P<blank> \s+ | ;[^\n\r]* )
  | (?P<word> [()] | "[^"]*" | \|[^|]*\| | (?: [^\s()\[\];"|] | \[[^\[\]()\n;]*\] )+ )
  | (?P<stray> . )
    """,
    re.ASCII | re.VERBOSE,
)
_EXCERPT = 40


class Token(NamedTuple):
    """A word, and the offsets of its first character and of the one after its last."""

    text: str
    start: int
    end: int


@dataclass(frozen=True)
class Source:
    """A text and the name to report it by."""

    text: str
    name: str

    def where(self, offset: int) -> str:
        """`name:line:column`, both counted from 1."""
        line = self.text.count("\n", 0, offset) + 1
        column = offset - (self.text.rfind("\n", 0, offset) + 1) + 1
        return f"{self.name}:{line}:{column}"

    def invalid(self, offset: int, message: str) -> InvalidProperty:
        """The error to raise for a text that means nothing."""
        return InvalidProperty(f"{self.where(offset)}: {message}")

    def unsupported(self, offset: int, message: str) -> UnsupportedProperty:
        """The error to raise for a text that is fine, but beyond this reader."""
        return UnsupportedProperty(f"{self.where(offset)}: {message}")


def tokens(source: Source, start: int = 0) -> Iterator[Token]:
    """The words from `start` on, without blanks and comments."""
    for match in _TOKEN.finditer(source.text, start):
        if match.lastgroup == "word":
            yield Token(match.group(), match.start(), match.end())
        elif match.lastgroup == "stray":
            raise source.invalid(match.start(), f"unexpected character {match.group()!r}")


def excerpt(text: str) -> str:
    """A word of the file, quoted and short enough for a message of one line."""
    return repr(text if len(text) <= _EXCERPT else text[: _EXCERPT - 3] + "...")
