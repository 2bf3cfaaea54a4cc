"""`anybound.attack`: is there an input that violates the property? Looks for one, proves nothing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch

from anybound.budget import Budget
from anybound.deciding import check_reading, opened, property_of
from anybound.errors import InvalidConfig
from anybound.model.network import Network
from anybound.search.attack import Attack
from anybound.search.portfolio import THOROUGH
from anybound.search.witness import AttackResult, find_witness
from anybound.spec.problems import problems
from anybound.spec.property import Property
from anybound.threads import at_most

__all__ = ["attack"]


def attack(
    network: str | Path | Network,
    prop: str | Path | Property,
    *,
    timeout: float = 60.0,
    attacks: Sequence[Attack] = THOROUGH,
    seed: int = 0,
    threads: int | None = None,
) -> AttackResult:
    """Look for a witness for `timeout` seconds at most; the first one found ends it.

    A witness was run through the original model (onnxruntime, for a file) and violates the property
    without tolerance. If there is none, `upper` says how close the points came, clause by clause.

    >>> import anybound
    >>> net = anybound.bundled("digits_dense.onnx")
    >>> found = anybound.attack(net, anybound.bundled("digits_dense_image4_eps0.1.vnnlib"))
    >>> found.witness.clause, int(found.witness.output.argmax())  # a 5 that is taken for a 7
    (6, 7)
    """
    if not 0 <= seed < 2**63:
        raise InvalidConfig(f"seed is {seed}; expected a whole number >= 0")
    budget = Budget(timeout)
    with at_most(threads):
        original, net = opened(network, check=False)
        unsafe = property_of(prop)
        safety = list(problems(net, unsafe))
        check_reading(original, net, unsafe)
        generator = torch.Generator().manual_seed(seed)
        return find_witness(unsafe, safety, original, attacks, budget, generator)
