"""Figure verification-appendix: cactus plots of the base network, by the properties' difficulty."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anybound.experiments.decided import Decided, split
from anybound.experiments.figures.cactus import draw_panels

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["draw"]


def draw(base: Decided) -> Figure | None:
    """Easy, medium and hard."""
    return draw_panels(
        split(base), f"Properties solved within a time, by difficulty: {base.network}"
    )
