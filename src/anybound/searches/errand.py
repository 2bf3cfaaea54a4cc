"""A search's task in its own terms: open clauses are numbered from 0, and a witness is kept."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from anybound.decision import SearchReport, SearchTask
from anybound.memory import resident
from anybound.outcome import Progress, Witness
from anybound.registry import text_of
from anybound.search.engine import Ended
from anybound.search.rule import Index, Vector


class Errand:
    """What every search has to do around the searching."""

    def __init__(self, task: SearchTask) -> None:
        self.task = task
        self.rows = [member.rows for member in task.open]
        self.numbers = [member.clause for member in task.open]
        self.found: Witness | None = None

    @property
    def everything(self) -> Index:
        """The numbers of all open clauses."""
        return np.arange(len(self.rows))

    def inspect(self, minimisers: NDArray[np.floating]) -> bool:
        """Whether one of some minimisers is a witness."""
        self.found = self.task.look(minimisers)
        return self.found is not None

    def advance(self, known: Index, lower: Vector, subproblems: int) -> None:
        """Keep what was proved of some clauses."""
        bounds = zip(known, lower, strict=True)
        self.task.advance({self.numbers[int(c)]: float(b) for c, b in bounds}, subproblems)

    def advance_all(self, lower: Vector, subproblems: int) -> None:
        """Keep what was proved of all clauses."""
        self.advance(self.everything, lower, subproblems)

    def pool_memory(self, planned: int) -> int:
        """Bytes for open sub-problems: as planned, or half of what is left, as what grows is copied."""
        given = self.task.budget.memory
        return (
            planned if given is None else min(planned, max(0, given - resident(os.getpid())) // 2)
        )

    def report(
        self,
        ended: Ended,
        lower: Vector,
        subproblems: int,
        trace: Sequence[Progress],
        search: object,
    ) -> SearchReport:
        """The answer; `search` is the record that would do it again."""
        bounds = dict(zip(self.numbers, lower.tolist(), strict=True))
        reason = "" if ended in (Ended.PROVED, Ended.WITNESS) else ended.value
        plan: Mapping[str, str] = {"search": text_of(search)}
        return SearchReport(bounds, subproblems, self.found, trace, plan, reason)
