"""The bracket of an image: the radius up to which bounds prove it, and the one at which an attack breaks it.

    0 <= holds <= the largest radius that holds <= violated

Both ends are found by bisection, and by a fixed amount of work, so that the same image gives the same
bracket on any machine that computes alike.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from anybound.bound.intermediates.strategy import IntermediateStrategy
from anybound.bound.method import Method
from anybound.budget import Budget
from anybound.decision import Decision, Settings
from anybound.generating.question import Question
from anybound.model.network import Network
from anybound.outcome import Outcome
from anybound.search.attack import Attack
from anybound.search.attacks.mi_fgsm import MIFGSM
from anybound.search.attacks.minimiser import Minimiser
from anybound.search.attacks.pgd import PGD
from anybound.search.attacks.sampling import Sampling
from anybound.search.witness import OriginalModel, find_witness
from anybound.spec.problems import problems

__all__ = ["ATTACKS", "Bracket", "Prober"]

ATTACKS: tuple[Attack, ...] = (
    Minimiser(steps=20, decay=0.87),
    Sampling(points=64, rounds=2),
    PGD(restarts=16, steps=40, decay=0.9, rounds=1),
    MIFGSM(restarts=16, steps=40, decay=0.9, rounds=1),
)
_FIRST = 1 / 128  # the first radius that is attacked, as a share of the largest
_MOST_STEPS = 60


@dataclass(frozen=True)
class Bracket:
    """`violated` is None if the attack breaks it at no radius."""

    holds: float
    violated: float | None


@dataclass(frozen=True, eq=False)
class Prober:
    """Proves and attacks. `precision` is how narrow either bisection gets, as a share of its upper end."""

    network: Network
    original: OriginalModel
    method: Method[Any]
    intermediate: IntermediateStrategy
    precision: float
    seed: int = 0

    def bracket(self, question: Question) -> Bracket:
        """Both ends."""
        violated = self._violated(question)
        return Bracket(0.0 if violated is None else self._holds(question, violated), violated)

    def decided(self, prop: Any) -> Outcome:
        """What bounds and the attack say of a property."""
        return self._decision(prop, ATTACKS)

    def _violated(self, question: Question) -> float | None:
        low, high = 0.0, None
        epsilon = _FIRST * question.largest
        for _ in range(_MOST_STEPS):
            distance = self._broken(question, epsilon)
            if distance is None:
                low = epsilon
            else:
                high = min(distance, epsilon)
            if high is None:
                if epsilon >= question.largest:
                    return None
                epsilon = min(2 * epsilon, question.largest)
            elif high - low <= self.precision * high:
                return high
            else:
                epsilon = (low + high) / 2
        return high

    def _holds(self, question: Question, violated: float) -> float:
        low, high = 0.0, violated
        for _ in range(_MOST_STEPS):
            if high - low <= self.precision * high:
                break
            epsilon = (low + high) / 2
            outcome = self._decision(question.prop(epsilon), ())
            if all(clause.lower > 0 for clause in outcome.clauses):
                low = epsilon
            else:
                high = epsilon
        return low

    def _broken(self, question: Question, epsilon: float) -> float | None:
        """How far away a witness in the ball is, if the attack finds one."""
        prop = question.prop(epsilon).in_precision(self.original.dtype)
        generator = torch.Generator().manual_seed(self.seed)
        safety = list(problems(self.network, prop))
        found = find_witness(prop, safety, self.original, ATTACKS, Budget(), generator)
        if found.witness is None:
            return None
        return float(np.abs(found.witness.input - question.center).max())

    def _decision(self, prop: Any, attacks: tuple[Attack, ...]) -> Outcome:
        settings = Settings(self.method, self.intermediate, attacks, None, self.seed)
        decision = Decision(self.network, prop, self.original, settings, Budget())
        outcome = decision.run()
        if decision.interrupted:
            raise KeyboardInterrupt
        return outcome
