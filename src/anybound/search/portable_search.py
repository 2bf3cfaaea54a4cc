"""Branch and bound on neurons with the portable engine: any network, input set and bounding method.

The paper's rows of complete verification are plans: BaBSR, worst first, 300 sub-problems at once for
its base network and 200 for the others, each started from its parent's dual point.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from anybound.bound.bounds import Bounds
from anybound.bound.intermediates.crown import BestOfIntervalAndCrown
from anybound.bound.intermediates.strategy import IntermediateStrategy
from anybound.bound.intermediates.wk import BestOfIntervalAndWK
from anybound.bound.method import Method
from anybound.bound.methods.dsg import DSG
from anybound.bound.methods.lp import LP
from anybound.bound.methods.proximal import Proximal
from anybound.bound.methods.supergradient import Supergradient
from anybound.bound.schedules import Linear
from anybound.budget import Budget
from anybound.search.branchings.babsr import BaBSR
from anybound.search.branchings.filtered import Filtered
from anybound.search.clauses import Clauses
from anybound.search.duals import Duals
from anybound.search.engine import Advance, Inspect, SearchPlan, SearchResult, search
from anybound.search.portable_bounder import (
    CHILD,
    LAST,
    ROOT,
    Effort,
    PortableBounder,
    WeightAscent,
)
from anybound.search.rule import BranchingRule
from anybound.search.tightening import Inherit, Retighten, Tightening
from anybound.spec.problem import Problem


@dataclass(frozen=True)
class PortablePlan:
    """The numbers of the search. `intermediate` is for the root; `tightening` for sub-problems."""

    rule: BranchingRule = field(default_factory=Filtered)
    root: Effort = ROOT
    child: Effort = CHILD
    last: Effort = LAST
    intermediate: IntermediateStrategy = field(default_factory=BestOfIntervalAndCrown)
    tightening: Tightening = field(default_factory=Inherit)
    batch: int = 256
    margin: float = 1e-4
    worst_first: bool = False
    memory: int = 2 << 30
    subproblems: int | None = None
    seed: int = 0

    def bounder(
        self, problem: Problem, bounds: Bounds, clauses: Sequence[slice], budget: Budget
    ) -> PortableBounder:
        """Of a float64 problem between float64 bounds; clauses are slices of its rows."""
        ranges = [range(rows.start, rows.stop) for rows in clauses]
        duals = Duals(problem, bounds, Clauses.of(problem.objective, ranges))
        return PortableBounder(duals, self.root, self.child, self.last, self.tightening, budget)

    @property
    def search(self) -> SearchPlan:
        return SearchPlan(
            self.rule,
            self.batch,
            self.margin,
            worst_first=self.worst_first,
            memory=self.memory,
            subproblems=self.subproblems,
            seed=self.seed,
        )


def search_clauses(
    problem: Problem,
    clauses: Sequence[slice],
    plan: PortablePlan,
    budget: Budget,
    bounds: Bounds | None = None,
    inspect: Inspect | None = None,
    advance: Advance | None = None,
) -> SearchResult:
    """Prove of every clause that some of its rows is positive at any input, or say how far it
    came; `bounds` of the hidden layers, if they are known, replace the plan's strategy."""
    known = bounds or plan.intermediate.bounds(problem.network, problem.domain, budget)
    bounder = plan.bounder(problem, known, clauses, budget)
    every = np.arange(len(clauses))
    return search(bounder, every, plan.search, budget, inspect, advance=advance)


def paper_plans(batch: int = 300, *, retighten: bool = False) -> Mapping[str, PortablePlan]:
    """The paper's rows, by name. `retighten` bounds the hidden layers anew in every sub-problem, as
    the paper does."""
    methods: dict[str, Method[Any]] = {
        "supergradient": Supergradient(160, Linear(1e-3, 1e-4)),
        "proximal": Proximal(100, momentum=0.0, eta=Linear(1e2, 1e2)),
        "dsg": DSG(260, Linear(1e-3, 1e-4)),
        "lp": LP(),
    }
    return {name: _paper_plan(method, batch, retighten) for name, method in methods.items()}


def _paper_plan(method: Method[Any], batch: int, retighten: bool) -> PortablePlan:
    effort = Effort(method, WeightAscent(3, method))
    return PortablePlan(
        BaBSR(),
        root=effort,
        child=effort,
        intermediate=BestOfIntervalAndWK(),
        tightening=Retighten() if retighten else Inherit(),
        batch=batch,
        worst_first=True,
    )
