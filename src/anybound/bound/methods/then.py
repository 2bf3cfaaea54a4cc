"""One method after the other, each warm-started by the ρ of the one before: `then(slopes, supergradient)`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from anybound.bound.decomposition import Decomposition
from anybound.bound.method import Method, Proposal
from anybound.errors import InvalidConfig
from anybound.layers import Layers


@dataclass(eq=False)
class ThenState:
    """Which method is at work, its state, and its steps so far."""

    at: int
    state: Any
    done: int = 0


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

    def init(self, dual: Decomposition, warm: Layers | None) -> ThenState:
        return ThenState(0, self.methods[0].init(dual, warm))

    def step(self, dual: Decomposition, state: ThenState) -> ThenState:
        method = self.methods[state.at]
        if state.done < method.steps(dual):
            return ThenState(state.at, method.step(dual, state.state), state.done + 1)
        rho = method.propose(dual, state.state).rho
        following = self.methods[state.at + 1]
        return ThenState(state.at + 1, following.init(dual, rho))

    def propose(self, dual: Decomposition, state: ThenState) -> Proposal:
        return self.methods[state.at].propose(dual, state.state)
