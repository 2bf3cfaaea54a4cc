"""Text from outside (file names, node names, messages) made safe to show on a terminal."""

from collections.abc import Iterable
from difflib import get_close_matches

__all__ = ["plural", "printable", "suggestion"]


def printable(text: object) -> str:
    """`text` with control characters, line breaks and undecodable bytes written as escapes.

    A file name may hold line breaks and terminal escape sequences, and shown raw forge output.
    """
    return "".join(char if char.isprintable() else _escaped(char) for char in str(text))


def suggestion(word: str, known: Iterable[str]) -> str:
    """` (did you mean 'x'?)` with the closest known word, or nothing."""
    close = get_close_matches(word, list(known), n=1, cutoff=0.6)
    return f" (did you mean '{close[0]}'?)" if close else ""


def plural(count: int, noun: str, many: str | None = None) -> str:
    """`1 layer`, `2 layers`."""
    return f"{count:,} {noun if count == 1 else many or f'{noun}s'}"


def _escaped(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")
