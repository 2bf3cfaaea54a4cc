"""A method or search of a user's own in an experiment: its text, and what figures and tables call it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from anybound.errors import InvalidConfig
from anybound.experiments.style import FAMILIES

__all__ = ["Named", "distinct"]


@dataclass(frozen=True)
class Named:
    """`text` is as of `anybound methods`; without a name of its own it is called that."""

    name: str
    text: str


def distinct(given: Iterable[Named], taken: Iterable[str]) -> Sequence[Named]:
    """Each once; no name may stand for two texts, nor be that of a row that is there without it."""
    found = list(dict.fromkeys(given))
    for one in found:
        others = [other.text for other in found if other.name == one.name and other != one]
        if others:
            raise InvalidConfig(f"{one.name!r} names both {one.text!r} and {others[0]!r}")
        if one.name in (*taken, *FAMILIES):
            raise InvalidConfig(f"{one.name!r} is a row already; choose another name")
    return found
