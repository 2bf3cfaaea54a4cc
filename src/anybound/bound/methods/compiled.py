"""Another method whose steps torch compiles into few fused kernels: `compiled(slopes(iterations=200))`.

Compiling takes from seconds to a minute, once for each network and batch: for GPUs and for long runs of large batches.
What is computed is the same up to rounding.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch

from anybound.bound.decomposition import Decomposition
from anybound.bound.method import Method, Proposal
from anybound.budget import Budget
from anybound.layers import Layers


@dataclass(frozen=True)
class Compiled(Method[Any]):
    """A method with compiled steps; `backend` is one of `torch.compiler.list_backends()`."""

    method: Method[Any]
    backend: str = "inductor"

    def steps(self, dual: Decomposition) -> int:
        return self.method.steps(dual)

    def within(self, budget: Budget) -> Compiled:
        return Compiled(self.method.within(budget), self.backend)

    def init(self, dual: Decomposition, warm: Layers | None) -> Any:
        return self.method.init(dual, warm)

    def step(self, dual: Decomposition, state: Any) -> Any:
        return self._step(dual, state)

    def propose(self, dual: Decomposition, state: Any) -> Proposal:
        return self.method.propose(dual, state)

    @cached_property
    def _step(self) -> Callable[[Decomposition, Any], Any]:
        step: Callable[[Decomposition, Any], Any] = torch.compile(
            self.method.step, backend=self.backend
        )
        return step
