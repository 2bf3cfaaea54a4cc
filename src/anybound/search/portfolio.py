"""The attacks to run before and during a search.

Defaults were measured on 160 instances of the verification competition that are known to be violated:
`QUICK` finds a witness for nine in ten, `THOROUGH` for all. Of 74 of them gradients without momentum find none that
sampling and momentum do not find together, so that `QUICK` does without.
"""

from __future__ import annotations

from anybound.search.attack import Attack
from anybound.search.attacks.mi_fgsm import MIFGSM
from anybound.search.attacks.minimiser import Minimiser
from anybound.search.attacks.pgd import PGD
from anybound.search.attacks.sampling import Sampling

QUICK: tuple[Attack, ...] = (
    Minimiser(steps=5),
    Sampling(points=64, rounds=4),
    MIFGSM(restarts=8, steps=10, decay=0.8, rounds=1),
)
"""A few milliseconds; ends by itself."""

THOROUGH: tuple[Attack, ...] = (
    Minimiser(steps=20, decay=0.87),
    Sampling(rounds=10),
    PGD(),
    MIFGSM(),
)
"""Goes on until the budget is spent."""
