"""MIPplanet: one mixed-integer program per clause (the paper's baseline).

A solver's word is no proof: it computes with tolerances of about 1e-6, and nothing of what it did can
be checked. So its lower bounds are told (`plan["solver"]`, and the reason), but they decide nothing; a
clause that it says to hold stays unknown. Its points are replayed, and a witness is a witness.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np

from anybound.bound.lp_solver import Backend
from anybound.decision import Search, SearchReport, SearchTask
from anybound.registry import text_of
from anybound.search.mip import MIPplanet, MIPResult, MIPStatus
from anybound.searches.errand import Errand


class Word(Enum):
    """What the solver says of all open clauses."""

    HOLDS = "holds"
    VIOLATED = "violated"
    TIMEOUT = "timeout"
    FAILED = "failed"


@dataclass(frozen=True)
class MIP(Search):
    """HiGHS, or Gurobi where a licence allows."""

    backend: Backend = Backend.HIGHS
    threads: int = 1

    def __call__(self, task: SearchTask) -> SearchReport:
        errand, solver = Errand(task), MIPplanet(self.backend, self.threads)
        word, nodes, lower = Word.HOLDS, 0, np.inf
        for done, rows in enumerate(errand.rows):
            share = task.budget.share(1 / (len(errand.rows) - done))
            clause = range(rows.start, rows.stop)
            result = solver.minimise(task.safety.problem, task.bounds, clause, share)
            nodes, lower = nodes + result.nodes, min(lower, result.lower)
            if result.point is not None:
                errand.found = task.confirm(result.point[None])
                if errand.found is not None:
                    break
            said = _word(result)
            word = said if word is Word.HOLDS else word
        # a solver's tree is its own: what it says is told, and decides nothing
        reason = f"the solver says: {word.value}, margin >= {lower:.6g} to its tolerance; no proof"
        plan = {"search": text_of(self), "solver": word.value, "solver bound": f"{lower:.9g}"}
        return SearchReport({}, nodes, errand.found, (), plan, reason)


def _word(result: MIPResult) -> Word:
    if result.status is MIPStatus.FAILED:
        return Word.FAILED
    if result.lower > 0:
        return Word.HOLDS
    return Word.VIOLATED if result.upper <= 0 else Word.TIMEOUT
