"""The figures and tables of incomplete verification, from its measurements alone."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from anybound.experiments.cases import ROLES
from anybound.experiments.figures import additional_pointwise, distribution, pointwise
from anybound.experiments.gaps import Margins
from anybound.experiments.measurement import Measurement
from anybound.experiments.results import Results
from anybound.experiments.tables import orderings, summary

__all__ = ["NAMES", "results"]

# role: the paper's labels of the distribution, the pointwise and the additional pointwise figure
NAMES = {
    "madry": ("madry8", "madry8-pointwise", "madry-add-pointwise"),
    "sgd": ("sgd8", "sgd-pointwise", "sgd-add-pointwise"),
}


def results(measurements: Sequence[Measurement], folder: Path) -> Results:
    """Everything, in `folder`."""
    made = Results(folder, "Incomplete verification")
    found = [m for m in (Margins.of(measurements, role) for role in ROLES) if m is not None]
    for margins in found:
        made.say(f"## {margins.network}", _what_was_run(margins))
        names = NAMES[margins.role]
        made.figure(names[0], partial(distribution.draw, margins))
        made.figure(names[1], partial(pointwise.draw, margins))
        made.figure(names[2], partial(additional_pointwise.draw, margins))
        made.table(f"summary-{margins.role}", summary.table(margins))
    if found:
        made.say("## Orderings")
        made.table("orderings", orderings.table(found))
    return made


def _what_was_run(margins: Margins) -> str:
    ambiguous = [m.ambiguous for m in next(iter(margins.by_row.values()))]
    seconds = sum(float(margins.seconds(row).sum()) for row in margins.by_row)
    images = ", ".join(map(str, margins.images))
    return (
        f"Images {images}; ε = {margins.epsilon}; on average {sum(ambiguous) / len(ambiguous):.0f} ambiguous neurons. "
        f"The last layers took {seconds:,.0f} CPU seconds of one thread in all."
    )
