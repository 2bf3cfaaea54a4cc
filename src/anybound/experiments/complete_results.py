"""The figures and tables of complete verification, from its records alone."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from anybound.experiments.decided import Decided
from anybound.experiments.figures import cactus, cactus_by_difficulty
from anybound.experiments.properties import ROLES
from anybound.experiments.results import Results
from anybound.experiments.tables import base_model, models
from anybound.io.records import Record

__all__ = ["results"]


def results(records: Sequence[Record], folder: Path) -> Results:
    """Everything, in `folder`."""
    made = Results(folder, "Complete verification")
    found = [d for d in (Decided.of(records, role) for role in ROLES) if d is not None]
    if not found:
        return made
    made.say(*map(_what_was_run, found))
    made.figure("verification-main", partial(cactus.draw, found))
    made.table("models", models.table(found))
    base = found[0]
    made.say(f"## {base.network} by difficulty")
    made.say(
        "Where times are recorded, easy is below 800 s of LP BaBSR as recorded, hard above 2,400 s; elsewhere they are "
        "thirds of what it took here."
    )
    made.figure("verification-appendix", partial(cactus_by_difficulty.draw, base))
    made.table("base-model", base_model.table(base))
    return made


def _what_was_run(decided: Decided) -> str:
    told = f"{decided.network}: {decided.count} properties, one thread"
    return f"{told}; {decided.limits_told}."
