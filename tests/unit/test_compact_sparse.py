"""What the compact engine knows of its maps' errors, where several edges join the same two nodes."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import torch

from anybound.bound.compact.sparse import SparseNode
from anybound.model.affine.dense import Dense
from anybound.model.affine.map import WeightError
from anybound.model.network import Edge


def _edge(weight: float, bias: float | None = None, relative: float = 0.0) -> Edge:
    b = None if bias is None else torch.tensor([bias], dtype=torch.float64)
    error = WeightError(relative=relative)
    return Edge(0, Dense.of(torch.tensor([[weight]], dtype=torch.float64), b, error=error))


def test_the_errors_of_weights_that_cancel_are_kept() -> None:
    """1 ± 1e-3 and −1 add up to 0 ± 1e-3."""
    node = SparseNode.of([_edge(1.0, relative=1e-3), _edge(-1.0)], 1, [0, 1])
    assert node.matrix.toarray().item() == 0.0
    assert node.relative * node.magnitude.toarray().item() + node.absolute >= 1e-3


@pytest.mark.parametrize("seed", range(20))
def test_sums_of_weights_and_biases_are_within_their_errors(seed: int) -> None:
    rng = np.random.default_rng(seed)
    numbers = rng.normal(size=(5, 2)) * 10.0 ** rng.integers(-20, 20, (5, 2))
    numbers[-1] = -numbers[0]  # cancels, so that the rounding of the partial sums is what is left
    node = SparseNode.of([_edge(w, b) for w, b in numbers.tolist()], 1, [0, 1])
    weight, bias = (sum(map(Fraction, column)) for column in numbers.T.tolist())
    allowed = node.relative * node.magnitude.toarray().item() + node.absolute
    assert abs(Fraction(node.matrix.toarray().item()) - weight) <= Fraction(allowed)
    assert abs(Fraction(node.bias.item()) - bias) <= Fraction(float(node.bias_error))
