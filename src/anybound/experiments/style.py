"""The look of every figure: one colour per method wherever it appears, told apart by colour-blind eyes too.

The colours are Okabe and Ito's. Of several rows of one family the last is drawn full, the others pale.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

__all__ = ["FAMILIES", "Look", "Style"]

_COLOURS: Mapping[str, str] = MappingProxyType(
    {
        "IP": "#a6a6a6",
        "WK": "#56b4e9",
        "DSG+": "#e69f00",
        "Dec-DSG+": "#cc79a7",
        "Supergradient": "#0072b2",
        "Proximal": "#d55e00",
        "LP time-limited": "#707070",
        "LP": "#000000",
        "MIPplanet": "#8c6d46",
        "Slopes": "#009e73",
        "anybound": "#009e73",
    }
)
FAMILIES = tuple(_COLOURS)  # of the paper's rows, and of ours
_OTHERS = ("#7a3b9a", "#c5b000", "#00a6a6", "#7f1d1d", "#5b7f00", "#f781bf")
_PALE = 0.45
_LINES = ("-", (0, (6, 1.5)), (0, (3, 1.2)), (0, (1, 1)), (0, (6, 1, 1, 1)))


@dataclass(frozen=True)
class Look:
    """How a row is drawn. `line` is matplotlib's dash pattern."""

    colour: str
    alpha: float
    line: str | tuple[int, tuple[float, ...]]


@dataclass(frozen=True)
class Style:
    """The look of rows, by label, in the order in which they are drawn."""

    looks: Mapping[str, Look]

    @staticmethod
    def of(rows: Iterable[tuple[str, str]]) -> Style:
        """For (label, family) pairs; families of the project's own keep their colours, others get the spare ones."""
        pairs = list(dict.fromkeys(rows))
        families = list(_COLOURS)
        families += [f for f in dict.fromkeys(family for _, family in pairs) if f not in _COLOURS]
        spare = families[len(_COLOURS) :]
        looks: dict[str, Look] = {}
        for label, family in sorted(pairs, key=lambda pair: families.index(pair[1])):
            colour = _COLOURS.get(family) or _OTHERS[spare.index(family) % len(_OTHERS)]
            same = [other for other, name in pairs if name == family]
            place = len(same) - 1 - same.index(label)
            line = _LINES[place % len(_LINES)]
            looks[label] = Look(colour, 1.0 if place == 0 else _PALE, line)
        return Style(looks)

    @property
    def labels(self) -> tuple[str, ...]:
        """The rows, in order."""
        return tuple(self.looks)
