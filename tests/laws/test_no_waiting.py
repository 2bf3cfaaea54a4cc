"""No step of any method waits for its device: nothing in an inner loop asks for a number that a tensor holds.

On a GPU every such question stops the queue until all that was asked for before is done. The operations that ask are
counted as PyTorch dispatches them, on a CPU that is taken for a GPU.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
import torch
from random_networks import ACTIVATIONS, DOMAINS, Case, case
from torch.utils._python_dispatch import TorchDispatchMode

from anybound.bound.decomposition import Decomposition
from anybound.bound.hull import Hull
from anybound.bound.method import CHECK_EVERY, Method, maximise
from anybound.registry import METHODS

aten = torch.ops.aten
WAITING = {
    aten._local_scalar_dense,  # float(x), int(x), bool(x), x.item(), x.tolist()
    aten.is_nonzero,
    aten.equal,
    aten.nonzero,
    aten.masked_select,
    aten._unique2,
    aten.unique_dim,
    aten.unique_consecutive,
}
STEPS = 3
ITERATING = (
    "slopes",
    "supergradient",
    "supergradient(start=crown)",
    "proximal(evaluate_every=1)",
    "proximal(sweeps=jacobi, evaluate_every=1)",
    "dsg",
    "dec_dsg(evaluate_every=1)",
)


@pytest.fixture(autouse=True)
def looks_are_dear(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a GPU."""
    for module in ("anybound.bound.method", "anybound.model.domains.l2_ball"):
        monkeypatch.setattr(f"{module}.looks_freely", lambda x: False)


class Waits(TorchDispatchMode):
    """Counts the operations whose result's shape or value the host has to know."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: Counter[str] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.overloadpacket in WAITING or _by_mask(func, args):
            self.seen[str(func)] += 1
        return func(*args, **(kwargs or {}))


def _by_mask(func: Any, args: Any) -> bool:
    """x[mask] and x[mask] = y, unless y is one number."""
    if func.overloadpacket not in (aten.index, aten.index_put, aten.index_put_):
        return False
    masks = [i for i in args[1] if i is not None and i.dtype is torch.bool]
    return bool(masks) and (func.overloadpacket is aten.index or args[2].numel() > 1)


def waits_of_steps(dual: Decomposition, method: Method[Any]) -> Counter[str]:
    """Of some steps and proposals, after the first, which prepares what the hull keeps."""
    with torch.inference_mode():
        state = method.init(dual, None)
        method.propose(dual, state)
        state = method.step(dual, state)
        with Waits() as waits:
            for _ in range(STEPS):
                state = method.step(dual, state)
                method.propose(dual, state)
    return waits.seen


def branched(given: Case) -> Decomposition:
    """Half of the neurons cut by branching."""
    middle = (given.bounds.lower.data + given.bounds.upper.data) / 2
    low = given.bounds.lower.data.clone()
    low[..., ::2] = middle[..., ::2]
    cut = torch.zeros_like(low, dtype=torch.bool)
    cut[..., ::2] = True
    bounds = replace(given.bounds, lower=given.bounds.lower.like(low))
    return Decomposition(given.problem, Hull(given.network, given.domain, bounds, cut))


def test_questions_are_counted() -> None:
    x = torch.arange(4.0)
    with Waits() as waits:
        assert bool((x >= 0).all())
        assert len((x > 1).nonzero()) == 2
        assert float(x[x > 2]) == 3
        x[x > 1] = 0
        torch.where(x > 0, x, -x).clamp(min=0)
    assert sum(waits.seen.values()) == 4


@pytest.mark.parametrize("text", ITERATING)
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_steps_of_every_method_ask_nothing(text: str, activation: str) -> None:
    method = METHODS.parse(text)
    for seed in range(3):
        given = case(seed, activations=(activation,), domains=("box", "l1"))
        assert not waits_of_steps(given.dual, method)


@pytest.mark.parametrize("text", ["slopes", "supergradient"])
@pytest.mark.parametrize("activation", ["relu", "abs", "sigmoid"])
def test_steps_between_cuts_ask_nothing(text: str, activation: str) -> None:
    for seed in range(3):
        given = case(seed, activations=(activation,), domains=("box",))
        assert not waits_of_steps(branched(given), METHODS.parse(text))


@pytest.mark.parametrize("domain", DOMAINS)
def test_steps_over_every_input_set_ask_nothing(domain: str) -> None:
    for seed in range(3):
        given = case(seed, domains=(domain,))
        assert not waits_of_steps(given.dual, METHODS.parse("slopes"))


def test_the_loop_asks_every_few_iterations_only() -> None:
    given, steps = case(1, activations=("relu",), domains=("box",), rows=3), 4 * CHECK_EVERY
    method = METHODS.parse(f"supergradient(iterations={steps})")
    with Waits() as first:
        maximise(given.dual, replace(method, iterations=1), stop_above=1e9)
    with Waits() as waits:
        maximise(given.dual, method, stop_above=1e9)
    looks = steps // CHECK_EVERY - 1
    each = {"aten.nonzero.default": 1, "aten.is_nonzero.default": 1}  # decided? lost?
    more = waits.seen - first.seen
    assert more == Counter({name: count * looks for name, count in each.items()})
