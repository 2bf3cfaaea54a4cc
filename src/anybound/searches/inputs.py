"""The input box is split: for activations with one bend over a box of which few inputs vary."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from anybound.decision import Search, SearchReport, SearchTask
from anybound.search.input_split.engine import BoxPlan, BoxSearch
from anybound.search.input_split.folded import supports
from anybound.search.input_split.splitter import InputSplitter
from anybound.searches.errand import Errand


@dataclass(frozen=True)
class Inputs(BoxPlan, Search):
    """The plan is the record."""

    def __call__(self, task: SearchTask) -> SearchReport:
        problem, errand = task.safety.problem, Errand(task)
        why_not = supports(problem.network, problem.domain)
        if why_not:
            return SearchReport({}, 0, reason=f"splitting the input does not apply: {why_not}")
        run = self.begun(errand)
        result = run.result(run.run(task.budget))
        return errand.report(result.ended, result.lower, result.subproblems, result.trace, self)

    def begun(self, errand: Errand) -> BoxSearch:
        """The search, set up but not run."""
        task = errand.task
        splitter = InputSplitter.of(
            task.safety.problem,
            task.bounds,
            [range(rows.start, rows.stop) for rows in errand.rows],
            symbols=self.symbols,
            threads=torch.get_num_threads(),
            clips=self.clips,
        )
        return BoxSearch(
            splitter,
            replace(self, memory=errand.pool_memory(self.memory)),
            errand.inspect,
            errand.advance_all,
        )
