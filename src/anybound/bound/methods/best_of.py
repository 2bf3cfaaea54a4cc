"""Several methods side by side, each from its own start; every problem keeps the best: `best_of(wk, crown)`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from anybound.bound.decomposition import Decomposition
from anybound.bound.method import Method, Proposal
from anybound.errors import InvalidConfig
from anybound.layers import Layers


@dataclass(eq=False)
class BestOfState:
    """Which method is at work, its state, its steps so far, and the warm start all of them may use."""

    at: int
    state: Any
    warm: Layers | None
    done: int = 0


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

    def init(self, dual: Decomposition, warm: Layers | None) -> BestOfState:
        return BestOfState(0, self.methods[0].init(dual, warm), warm)

    def step(self, dual: Decomposition, state: BestOfState) -> BestOfState:
        method = self.methods[state.at]
        if state.done < method.steps(dual):
            return BestOfState(state.at, method.step(dual, state.state), state.warm, state.done + 1)
        following = self.methods[state.at + 1]
        return BestOfState(state.at + 1, following.init(dual, state.warm), state.warm)

    def propose(self, dual: Decomposition, state: BestOfState) -> Proposal:
        return self.methods[state.at].propose(dual, state.state)
