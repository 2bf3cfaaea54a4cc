"""Table base-model: the same for the base network, by the properties' difficulty."""

from __future__ import annotations

from anybound.experiments.decided import Decided, split
from anybound.experiments.table import Table
from anybound.experiments.tables.models import make

__all__ = ["table"]


def table(base: Decided) -> Table:
    """Three columns per level."""
    return make(split(base), f"Complete verification of {base.network}, by difficulty")
