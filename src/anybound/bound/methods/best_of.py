"""Several methods side by side, each from its own start; every problem keeps the best: `best_of(wk, crown)`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from anybound.bound.decomposition import Decomposition
from anybound.bound.method import Method, Proposal
from anybound.budget import Budget
from anybound.errors import InvalidConfig
from anybound.layers import Layers


@dataclass(eq=False)
class BestOfState:
    """Which method is at work, its state, its steps left, and the warm start all of them may use."""

    at: int
    state: Any
    left: int
    warm: Layers | None


@dataclass(frozen=True, init=False)
class BestOf(Method[BestOfState]):
    """The methods one after the other; the loop keeps the best proposal of each problem."""

    methods: tuple[Method[Any], ...]

    def __init__(self, *methods: Method[Any]) -> None:
        if len(methods) < 2:
            raise InvalidConfig(f"best_of needs at least two methods, not {len(methods)}")
        object.__setattr__(self, "methods", methods)

    def steps(self, dual: Decomposition) -> int:
        return sum(method.steps(dual) for method in self.methods) + len(self.methods) - 1

    def within(self, budget: Budget) -> BestOf:
        return BestOf(*(method.within(budget) for method in self.methods))

    def init(self, dual: Decomposition, warm: Layers | None) -> BestOfState:
        return self._start(0, dual, warm)

    def step(self, dual: Decomposition, state: BestOfState) -> BestOfState:
        method = self.methods[state.at]
        if state.left > 0:
            return replace(state, state=method.step(dual, state.state), left=state.left - 1)
        return self._start(state.at + 1, dual, state.warm)

    def _start(self, at: int, dual: Decomposition, warm: Layers | None) -> BestOfState:
        method = self.methods[at]
        return BestOfState(at, method.init(dual, warm), method.steps(dual), warm)

    def propose(self, dual: Decomposition, state: BestOfState) -> Proposal:
        return self.methods[state.at].propose(dual, state.state)
