"""The figures and tables of the study, from its records alone."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from anybound.experiments.cases import ROLES
from anybound.experiments.curve import curves, tightened
from anybound.experiments.decided import Decided
from anybound.experiments.figures import cactus, gap_against_time, intermediate_bounds
from anybound.experiments.progress import Risen
from anybound.experiments.properties import ROLES as SEARCH_ROLES
from anybound.experiments.results import Results
from anybound.experiments.tables import gap_against_time as ends
from anybound.experiments.tables import intermediate_bounds as strategies
from anybound.experiments.tables import models
from anybound.io.records import Record

__all__ = ["results"]


def results(records: Sequence[Record], searched: Sequence[Record], folder: Path) -> Results:
    """Everything, in `folder`."""
    made = Results(folder, "A study: slopes, combinations, intermediate bounds, branch and bound")
    found = [r for r in (Risen.of(curves(list(records)), role) for role in ROLES) if r is not None]
    made.say("## Gap against time")
    made.figure("same-start", partial(gap_against_time.draw_same_start, found))
    made.figure("combinations", partial(gap_against_time.draw_combined, found))
    for risen in found:
        made.table(f"gap-against-time-{risen.role}", ends.table(risen))
    known = tightened(list(records))
    kinds = [(role, strategies.Strategies.of(known, role)) for role in ROLES]
    made.say("## Intermediate bounds")
    made.figure(
        "intermediate-bounds",
        partial(intermediate_bounds.draw, [kind for _, kind in kinds if kind is not None]),
    )
    for role, kind in kinds:
        if kind is not None:
            made.table(f"intermediate-bounds-{role}", strategies.table(kind))
    decided = [d for d in (Decided.of(searched, role) for role in SEARCH_ROLES) if d is not None]
    if decided:
        made.say("## Branch and bound")
        made.figure("search", partial(cactus.draw, decided))
        made.table("search", models.table(decided))
    return made
