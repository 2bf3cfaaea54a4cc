"""Input sets of a property become domains of the network's input shape that contain them."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from anybound.errors import InvalidProperty
from anybound.model.domains.box import Box
from anybound.model.domains.clipped_ball import ClippedBall
from anybound.model.domains.domain import Domain
from anybound.model.domains.l1_ball import L1Ball
from anybound.model.domains.l2_ball import L2Ball
from anybound.spec.domains import from_input_set
from anybound.spec.input_sets import BallSet, BoxSet, InputSet

RNG = np.random.default_rng(3)
CENTER = RNG.random(6)
UNIT = BoxSet(np.zeros(6), np.ones(6))
SETS: list[tuple[InputSet, type[Domain]]] = [
    (BoxSet(CENTER - 0.1, CENTER + 0.1), Box),
    (BallSet(CENTER, 0.3, 1), L1Ball),
    (BallSet(CENTER, 0.3, 2), L2Ball),
    (BallSet(CENTER, 0.3, 1, UNIT), ClippedBall),
    (BallSet(CENTER, 0.3, 2, UNIT), ClippedBall),
]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("input_set", "kind"), SETS)
def test_the_domain_contains_the_set(
    input_set: InputSet, kind: type[Domain], dtype: torch.dtype
) -> None:
    domain = from_input_set(input_set, (2, 3), dtype)
    assert isinstance(domain, kind)
    assert domain.shape == (2, 3)
    assert domain.count == 1
    assert domain.box()[0].dtype == dtype
    for _ in range(50):
        x = input_set.closest(CENTER + RNG.normal(size=6))
        assert bool(domain.contains(torch.tensor(x).reshape(1, 1, 2, 3)).all())


@pytest.mark.parametrize(("input_set", "kind"), SETS)
def test_points_of_the_domain_are_in_the_set(input_set: InputSet, kind: type[Domain]) -> None:
    domain = from_input_set(input_set, (6,))
    for x in domain.sample(20, torch.Generator().manual_seed(0))[0]:
        assert input_set.contains(x.numpy())


def test_another_number_of_inputs_is_refused() -> None:
    with pytest.raises(InvalidProperty, match="6 inputs"):
        from_input_set(UNIT, (7,))
