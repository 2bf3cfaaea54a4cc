"""Linear maps of few numbers give what the dense product gives, in both directions."""

import numpy as np
import pytest

from anybound_check.linear import Matrix, Sparse, linear


def few(rng: np.random.Generator, shape: tuple[int, int], most: int) -> np.ndarray:
    """At most so many numbers in each row, among them empty rows and columns."""
    weight = np.zeros(shape)
    for row in weight[1:]:
        at = rng.choice(shape[1] - 1, int(rng.integers(0, most + 1)), replace=False)
        row[at] = rng.integers(-8, 9, len(at))
    return weight


@pytest.mark.parametrize("shape", [(200, 300), (300, 200), (64, 500)])
def test_products_of_few_numbers(shape: tuple[int, int]) -> None:
    """Of small integers, so that all sums are exact."""
    rng = np.random.default_rng(0)
    weight = few(rng, shape, 2)
    op = linear(weight)
    assert isinstance(op, Sparse)
    used = weight != 0
    assert op.fan >= max(used.sum(0).max(), used.sum(1).max()) + 2  # a rounding of each, and of W
    for count in (1, 7):
        x = rng.integers(-9, 10, (shape[1], count)).astype(float)
        g = rng.integers(-9, 10, (shape[0], count)).astype(float)
        np.testing.assert_array_equal(op.forward(x), weight @ x)
        np.testing.assert_array_equal(op.forward(x, absolute=True), np.abs(weight) @ x)
        np.testing.assert_array_equal(op.adjoint(g), weight.T @ g)


@pytest.mark.parametrize("shape", [(1, 1), (40, 3), (64, 64)])
def test_other_products_stay_dense(shape: tuple[int, int]) -> None:
    assert isinstance(linear(np.ones(shape)), Matrix)
    assert isinstance(linear(np.zeros(shape)), Matrix)
