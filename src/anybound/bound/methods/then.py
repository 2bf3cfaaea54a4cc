"""One method after the other, each warm-started by the ρ of the one before: `then(slopes, supergradient)`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from anybound.bound.decomposition import Decomposition
from anybound.bound.method import Method, Proposal
from anybound.budget import Budget
from anybound.errors import InvalidConfig
from anybound.layers import Layers


@dataclass(eq=False)
class ThenState:
    """Which method is at work, its state, and how many steps it has left."""

    at: int
    state: Any
    left: int


@dataclass(frozen=True, init=False)
class Then(Method[ThenState]):
    """The methods in turn. The step that passes from one to the next counts as one."""

    methods: tuple[Method[Any], ...]

    def __init__(self, *methods: Method[Any]) -> None:
        if len(methods) < 2:
            raise InvalidConfig(f"then needs at least two methods, not {len(methods)}")
        object.__setattr__(self, "methods", methods)

    def steps(self, dual: Decomposition) -> int:
        return sum(method.steps(dual) for method in self.methods) + len(self.methods) - 1

    def within(self, budget: Budget) -> Then:
        return Then(*(method.within(budget) for method in self.methods))

    def init(self, dual: Decomposition, warm: Layers | None) -> ThenState:
        return self._start(0, dual, warm)

    def step(self, dual: Decomposition, state: ThenState) -> ThenState:
        method = self.methods[state.at]
        if state.left > 0:
            return ThenState(state.at, method.step(dual, state.state), state.left - 1)
        return self._start(state.at + 1, dual, method.propose(dual, state.state).rho)

    def _start(self, at: int, dual: Decomposition, warm: Layers | None) -> ThenState:
        method = self.methods[at]
        return ThenState(at, method.init(dual, warm), method.steps(dual))

    def propose(self, dual: Decomposition, state: ThenState) -> Proposal:
        return self.methods[state.at].propose(dual, state.state)
