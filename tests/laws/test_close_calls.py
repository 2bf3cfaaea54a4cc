"""No verdict is wrong, and no bound too high, where the threshold is next to the exact minimum.

Networks, regions and exact values are those of `small_networks` and `close_calls`; every search, rule, method and
bound of hidden layers takes part, each drawn by the seed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest
from close_calls import DISTANCES, Close, close, fault, wild

from anybound import Outcome, verify

RELU_IN_A_BOX = (
    "compact",
    "compact(tightening=None)",
    "compact(rule=babsr, batch=16)",
    "compact(rule=strong)",
    "compact(together=0)",
    "inputs",
    "inputs(symbols=0)",
    "inputs(cut=longest)",
    "turns",
    "mip",
)
ANYTHING = (
    "auto",
    "portable",
    "portable(rule=babsr, worst_first=True)",
    "portable(tightening=carry)",
    "portable(tightening=retighten(wk=False), rule=random)",
    "portable(method=supergradient(iterations=60))",
    "portable(method=proximal(iterations=40))",
    "paper(supergradient, batch=20)",
    "none",
)
INTERMEDIATE = ("auto", "interval", "wk", "crown")


def decide(call: Close, rng: np.random.Generator, seconds: float) -> tuple[str, Outcome]:
    """By a search, bounds of hidden layers and attacks drawn at random."""
    case = call.case
    special = case.region.norm == np.inf and case.layers[0].activation == "relu"
    names = (*RELU_IN_A_BOX, *ANYTHING) if special else ANYTHING
    search, intermediate = str(rng.choice(names)), str(rng.choice(INTERMEDIATE))
    options = {} if rng.random() < 0.5 else {"attacks": ()}
    outcome = verify(
        case.network,
        call.prop,
        search=None if search == "none" else search,
        intermediate=intermediate,
        timeout=seconds,
        threads=1,
        **options,  # type: ignore[arg-type]
    )
    return f"{search}, {intermediate}, {options}", outcome


def check(seeds: Sequence[int], calls: int, seconds: float) -> Counter[tuple[float, str]]:
    """Verdicts by distance, of so many calls for each seed; those that nothing can decide get a fifth of the time."""
    seen: Counter[tuple[float, str]] = Counter()
    for seed in seeds:
        rng = np.random.default_rng(seed)
        first = close(seed, 0.0)
        for distance in rng.choice(DISTANCES, calls, replace=False):
            call = first.at_distance(float(distance))
            how, outcome = decide(call, rng, seconds if abs(distance) > 1e-9 else seconds / 5)
            wrong = fault(call, outcome)
            assert not wrong, f"seed {seed} ({call.case.kind}), {distance:g}, {how}: {wrong}"
            seen[float(distance), outcome.verdict.value] += 1
    return seen


@pytest.mark.parametrize("part", range(5))
def test_no_close_call_is_wrong(part: int) -> None:
    seen = check(range(5000 + 10 * part, 5010 + 10 * part), 2, 1.0)
    assert seen.total() == 20


@pytest.mark.parametrize("part", range(2))
@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_no_scale_is_too_wild(part: int) -> None:
    """Whatever overflows or cancels proves nothing that is false, and says nothing."""
    verdicts: Counter[str] = Counter()
    for seed in range(30 * part, 30 * part + 30):
        rng = np.random.default_rng(seed)
        call = wild(seed, float(rng.choice(DISTANCES)))
        how, outcome = decide(call, rng, 0.5)
        wrong = fault(call, outcome)
        assert not wrong, f"seed {seed}, {how}: {wrong}"
        verdicts[outcome.verdict.value] += 1
    assert min(verdicts["holds"], verdicts["violated"]) > 0, verdicts


@pytest.mark.slow
@pytest.mark.parametrize("part", range(50))
def test_no_close_call_is_wrong_on_many_networks(part: int) -> None:
    """2,500 networks at three distances each."""
    seen = check(range(10_000 + 50 * part, 10_050 + 50 * part), 3, 2.0)
    assert seen.total() == 150
    assert sum(n for (_, verdict), n in seen.items() if verdict in ("holds", "violated")) >= 20
