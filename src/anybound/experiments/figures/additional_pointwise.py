"""Figures madry-add-pointwise and sgd-add-pointwise: Theorem 1 at work, and what interval propagation loses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anybound.experiments.figures.pointwise import compare
from anybound.experiments.gaps import Margins

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["draw"]


def draw(margins: Margins) -> Figure | None:
    """DSG+ against Dec-DSG+, that against Supergradient, IP against WK, and that against a user's own."""
    wanted = [
        (margins.last("DSG+"), margins.last("Dec-DSG+")),
        (margins.last("Dec-DSG+"), margins.last("Supergradient")),
        (margins.last("IP"), margins.last("WK")),
        *((margins.last("WK"), row) for row in margins.own),
    ]
    chosen = [(a, b) for a, b in wanted if a is not None and b is not None]
    return compare(margins, chosen, "Additional pointwise comparison")
