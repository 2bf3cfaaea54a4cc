"""The look of every figure: one colour per method wherever it appears, told apart by colour-blind eyes too.

The colours are Okabe and Ito's; the spare ones were chosen to be far from them, and from each other, in any kind of
colour vision. Of several rows of one family the last is drawn full, the others pale.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

__all__ = ["COLOURS", "FAMILIES", "SPARE", "Look", "Style"]

COLOURS: Mapping[str, str] = MappingProxyType(
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
FAMILIES = tuple(COLOURS)  # of the paper's rows, and of ours
SPARE = ("#4400aa", "#88cc66", "#aa44ee", "#442200", "#004444", "#884400")
_PALE = 0.45


@dataclass(frozen=True)
class Look:
    """How a row is drawn."""

    colour: str
    alpha: float


@dataclass(frozen=True)
class Style:
    """The look of rows, by label, in the order in which they are drawn."""

    looks: Mapping[str, Look]

    @staticmethod
    def of(rows: Iterable[tuple[str, str]]) -> Style:
        """For (label, family) pairs; families of the project's own keep their colours, others get the spare ones."""
        pairs = list(dict.fromkeys(rows))
        families = list(COLOURS)
        families += [f for f in dict.fromkeys(family for _, family in pairs) if f not in COLOURS]
        spare = families[len(COLOURS) :]
        looks: dict[str, Look] = {}
        for label, family in sorted(pairs, key=lambda pair: families.index(pair[1])):
            colour = COLOURS.get(family) or SPARE[spare.index(family) % len(SPARE)]
            same = [other for other, name in pairs if name == family]
            looks[label] = Look(colour, 1.0 if label == same[-1] else _PALE)
        return Style(looks)

    @property
    def labels(self) -> tuple[str, ...]:
        """The rows, in order."""
        return tuple(self.looks)
