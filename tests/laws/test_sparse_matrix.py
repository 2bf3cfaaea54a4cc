"""Laws of sparse matrices and of products with them; oracles: numpy, and exact decimals."""

from __future__ import annotations

from decimal import Context, Decimal, Inexact, localcontext

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from anybound.errors import InvalidModel
from anybound.model.affine.chain import Chain
from anybound.model.affine.dense import Dense
from anybound.model.affine.fuse import compose
from anybound.model.affine.map import AffineMap
from anybound.model.affine.sparse_matrix import SparseMatrix, matrix

seeds = st.integers(0, 2**32 - 1)
quick = settings(max_examples=20, deadline=None)


def sparse_weight(rng: np.random.Generator, rows: int, columns: int, share: float = 0.2) -> Tensor:
    weight = rng.normal(size=(rows, columns)) * (rng.random((rows, columns)) < share)
    return torch.from_numpy(weight)


@quick
@given(seed=seeds)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_every_form_is_the_matrix(seed: int, dtype: torch.dtype) -> None:
    rng = np.random.default_rng(seed)
    rows, columns = (int(n) for n in rng.integers(1, 12, 2))
    bias = torch.from_numpy(rng.normal(size=rows))
    weight = sparse_weight(rng, rows, columns).to(dtype)
    m = SparseMatrix.of(weight, bias.to(dtype))
    lead = ((), (1,), (5,), (2, 3))[rng.integers(4)]
    z = torch.from_numpy(rng.normal(size=(*lead, columns))).to(dtype)
    rho = torch.from_numpy(rng.normal(size=(*lead, rows))).to(dtype)
    close = (
        {"rtol": 1e-5, "atol": 1e-5} if dtype == torch.float32 else {"rtol": 1e-12, "atol": 1e-12}
    )
    torch.testing.assert_close(m.apply(z), z @ weight.T + bias.to(dtype), **close)
    torch.testing.assert_close(m.transpose(rho), rho @ weight, **close)
    torch.testing.assert_close(m.abs_linear(z), z @ weight.abs().T, **close)
    torch.testing.assert_close(m.abs_transpose(rho), rho @ weight.abs(), **close)
    index = torch.from_numpy(rng.integers(0, rows, 4))
    torch.testing.assert_close(m.rows(index), weight[index])
    np.testing.assert_array_equal(m.sparse().toarray(), weight.double().numpy())
    assert m.fan_in == int((weight != 0).sum(1).max())
    assert m.fan_out == int((weight != 0).sum(0).max())
    assert m.to(torch.float32).weight.dtype == m.to(torch.float32).linear(z.float()).dtype


@quick
@given(seed=seeds)
def test_products_are_bounded_by_their_error(seed: int) -> None:
    """The recorded error covers the distance to the exact product, for dense and sparse factors."""
    rng = np.random.default_rng(seed)
    n, k, m = (int(size) for size in rng.integers(1, 9, 3))
    outer, inner = sparse_weight(rng, n, k, 0.4), sparse_weight(rng, k, m, 0.4)
    with localcontext(Context(prec=400, traps=[Inexact])):
        exact = exactly(outer.numpy()) @ exactly(inner.numpy())
        for first in (SparseMatrix.of(inner), Dense.of(inner)):
            product = compose(SparseMatrix.of(outer), first)
            if isinstance(product, Chain):
                continue
            stored = exactly(product.sparse().toarray())
            assert (abs(stored - exact) <= Decimal(product.error.absolute)).all()
            assert product.error.relative == 0.0
            assert product.error.absolute < 1e-13


exactly = np.vectorize(Decimal, otypes=[object])


def parts(m: AffineMap) -> list[str]:
    return [type(part).__name__ for part in (m.maps if isinstance(m, Chain) else (m,))]


def test_what_is_merged() -> None:
    rng = np.random.default_rng(1)
    narrow = Dense.of(torch.from_numpy(rng.normal(size=(64, 2))))
    choice = torch.zeros(500, 64, dtype=torch.float64)
    choice[torch.arange(500), torch.arange(500) % 64] = 1.0
    assert parts(compose(SparseMatrix.of(choice), narrow)) == ["Dense"]
    assert compose(SparseMatrix.of(choice), narrow).error.is_exact
    wide = Dense.of(torch.from_numpy(rng.normal(size=(64, 300))))
    assert parts(compose(SparseMatrix.of(choice), wide)) == ["Dense", "SparseMatrix"]
    assert parts(compose(SparseMatrix.of(choice.T), SparseMatrix.of(choice))) == ["SparseMatrix"]
    full = SparseMatrix.of(torch.ones(8, 8, dtype=torch.float64))
    assert parts(compose(full, full)) == ["SparseMatrix"]


def test_which_form_is_chosen() -> None:
    few = torch.zeros(200, 200, dtype=torch.float64)
    few[0, 0] = 1.0
    assert isinstance(matrix(few), SparseMatrix)
    assert isinstance(matrix(few[:20, :20]), Dense)
    assert isinstance(matrix(few + 1.0), Dense)


def test_other_shapes_are_refused() -> None:
    with pytest.raises(InvalidModel, match="2 axes"):
        SparseMatrix.of(torch.zeros(2, 3, 4))
