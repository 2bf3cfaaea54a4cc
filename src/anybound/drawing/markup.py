"""HTML from values: whatever is not markup already is escaped, so nothing can forget to.

tag("a", "x < y", href="?a&b")  ->  <a href="?a&amp;b">x &lt; y</a>
"""

from __future__ import annotations

import re
from html import escape

__all__ = ["Child", "Html", "joined", "tag"]


class Html(str):
    """Text that is markup."""

    __slots__ = ()


Child = str | int | float | None
Attribute = str | int | float | bool | None

_VOID = frozenset({"br", "img", "input", "link", "meta"})
_NO_TEXT = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")


def tag(name: str, /, *children: Child, **attributes: Attribute) -> Html:
    """An element. `class_` stands for `class`, `data_key` for `data-key`; None leaves out."""
    given = "".join(_attribute(key, value) for key, value in attributes.items())
    if name in _VOID:
        return Html(f"<{name}{given}>")
    return Html(f"<{name}{given}>{joined(*children)}</{name}>")


def joined(*children: Child) -> Html:
    """Several pieces, one after the other."""
    return Html("".join(_markup(child) for child in children if child is not None))


def _markup(child: Child) -> str:
    return child if isinstance(child, Html) else escape(_shown(str(child)))


def _attribute(key: str, value: Attribute) -> str:
    name = key.rstrip("_").replace("_", "-")
    if value is None or value is False:
        return ""
    return f" {name}" if value is True else f' {name}="{escape(_shown(str(value)))}"'


def _shown(text: str) -> str:
    """Characters that no HTML document may hold, as escapes."""
    return _NO_TEXT.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)
