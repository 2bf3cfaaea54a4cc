"""Laws of affine maps, for every kind.

Oracle: the matrix that `torch.nn.functional` gives column by column in float64. Weights are
multiples of 1/64, so that this matrix is exact.
"""

from __future__ import annotations

from collections.abc import Callable
from time import sleep

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests_affine_kinds import KINDS, Case, Draw, conv
from torch import Tensor

from anybound.errors import InvalidModel
from anybound.model.affine import AffineMap, Chain, Conv, ConvTranspose, Dense, Pad, Reshape, Scale
from anybound.model.affine.forms import adjoint_forms
from anybound.model.affine.race import Race

DTYPES = (torch.float64, torch.float32)
SLACK = {torch.float64: 1e-12, torch.float32: 1e-5}
seeds = st.integers(0, 2**32 - 1)
every_kind = pytest.mark.parametrize("kind", sorted(KINDS))
quick = settings(max_examples=12, deadline=None)


def drawn(kind: str, seed: int) -> tuple[Case, Draw]:
    draw = Draw(seed)
    return KINDS[kind](draw), draw


def random(draw: Draw, *shape: int) -> Tensor:
    return torch.from_numpy(np.asarray(draw.rng.normal(size=shape)))


def lead(draw: Draw) -> tuple[int, ...]:
    return ((), (1,), (5,), (2, 3))[draw.int(0, 3)]


def assert_close(got: Tensor, wanted: Tensor, size: Tensor, slack: float) -> None:
    """|got − wanted| ≤ slack · size entry by entry, `size` being the sum of absolute values."""
    assert got.shape == wanted.shape
    excess = (got.double() - wanted).abs() - slack * size
    assert not (excess > 0).any(), f"off by {(got.double() - wanted).abs().max():.3g}"


def stored_size(m: AffineMap, wanted: Tensor) -> Tensor:
    """|W| as the map's `abs` means it: a chain's is the product of its maps'."""
    return torch.from_numpy(m.abs().sparse().toarray()) if isinstance(m, Chain) else wanted.abs()


@every_kind
@quick
@given(seed=seeds)
def test_linear_and_transpose_are_the_matrix(kind: str, seed: int) -> None:
    case, draw = drawn(kind, seed)
    matrix, bias = case.matrix()
    size = stored_size(case.map, matrix)
    for dtype in DTYPES:
        m, axes = case.map.to(dtype), lead(draw)
        z, rho = random(draw, *axes, *m.in_shape), random(draw, *axes, *m.out_shape)
        z, rho = z.to(dtype), rho.to(dtype)
        flat_z, flat_rho = z.double().reshape(*axes, -1), rho.double().reshape(*axes, -1)
        out, back = flat_z @ matrix.T, flat_rho @ matrix
        reach, back_reach = flat_z.abs() @ size.T, flat_rho.abs() @ size
        assert m.linear(z).shape == (*axes, *m.out_shape)
        assert m.transpose(rho).shape == (*axes, *m.in_shape)
        assert m.linear(z).dtype == m.transpose(rho).dtype == dtype
        assert_close(m.linear(z).reshape(*axes, -1), out, reach, SLACK[dtype])
        assert_close(m.transpose(rho).reshape(*axes, -1), back, back_reach, SLACK[dtype])
        assert_close(m.apply(z).reshape(*axes, -1), out + bias, reach + bias.abs(), SLACK[dtype])
        # ⟨W z, ρ⟩ = ⟨z, Wᵀ ρ⟩
        one_way = (m.linear(z) * rho).double().sum()
        other_way = (z * m.transpose(rho)).double().sum()
        assert abs(one_way - other_way) <= SLACK[dtype] * (reach * flat_rho.abs()).sum()


@every_kind
@quick
@given(seed=seeds)
def test_absolute_maps(kind: str, seed: int) -> None:
    case, draw = drawn(kind, seed)
    matrix, _ = case.matrix()
    m, size = case.map, stored_size(case.map, matrix)
    assert (size >= matrix.abs() - 1e-12 * size).all()
    z, rho = random(draw, 3, *m.in_shape), random(draw, 3, *m.out_shape)
    out, back = z.reshape(3, -1) @ size.T, rho.reshape(3, -1) @ size
    reach, back_reach = z.reshape(3, -1).abs() @ size.T, rho.reshape(3, -1).abs() @ size
    assert_close(m.abs_linear(z).reshape(3, -1), out, reach, 1e-12)
    assert_close(m.abs_transpose(rho).reshape(3, -1), back, back_reach, 1e-12)
    assert m.abs().bias is None


@every_kind
@quick
@given(seed=seeds)
def test_sparse_rows_and_fans(kind: str, seed: int) -> None:
    case, draw = drawn(kind, seed)
    matrix, _ = case.matrix()
    m, size = case.map, stored_size(case.map, matrix)
    sparse = m.sparse()
    assert sparse.shape == (m.out_size, m.in_size)
    assert sparse.data.dtype == np.float64
    assert_close(torch.from_numpy(sparse.toarray()), matrix, size, 1e-12)
    assert (np.diff(sparse.indices)[np.diff(sparse.row) == 0] > 0).all()
    entries = sparse.scipy()
    entries.eliminate_zeros()
    assert (entries.getnnz(axis=1) <= m.fan_in).all()
    assert (entries.getnnz(axis=0) <= m.fan_out).all()
    index = torch.from_numpy(draw.rng.integers(0, m.out_size, draw.int(1, 7)))
    rows, error = m.rows_and_error(index)
    assert rows.shape == error.shape == (len(index), *m.in_shape)
    slack = 1e-12 if rows.dtype == torch.float64 else 0.0  # without weights: 0 and 1, exactly
    assert_close(rows.reshape(len(index), -1), matrix[index], size[index], slack)
    lost = (rows.double().reshape(len(index), -1) - matrix[index]).abs()
    assert (lost <= error.reshape(len(index), -1)).all()


@every_kind
@quick
@given(seed=seeds)
def test_bias(kind: str, seed: int) -> None:
    case, draw = drawn(kind, seed)
    _, bias = case.matrix()
    axes = lead(draw)
    rho = random(draw, *axes, *case.map.out_shape)
    got = case.map.bias_dot(rho)
    flat = rho.reshape(*axes, -1)
    assert_close(got, flat @ bias, flat.abs() @ bias.abs(), 1e-12)


@every_kind
@quick
@given(seed=seeds)
def test_float32_is_exact_where_weights_fit(kind: str, seed: int) -> None:
    case, _ = drawn(kind, seed)
    narrow = case.map.to(torch.float32)
    assert narrow.to(torch.float64).error == narrow.error
    matrix, bias = case.matrix()
    if kind not in ("average_pool", "chain", "composed"):  # those fold; their weights may not fit
        assert narrow.error.is_exact
    if kind == "chain":
        return  # its |W| is not its matrix; see the laws of composing
    got = torch.from_numpy(narrow.sparse().toarray())
    error = narrow.error
    assert ((got - matrix).abs() <= error.relative * got.abs() + error.absolute + 1e-16).all()
    got_bias = torch.zeros(()) if narrow.bias is None else narrow.bias
    flat = got_bias.double().expand(narrow.out_shape).reshape(-1)
    assert ((flat - bias).abs() <= error.bias + 1e-16).all()


@pytest.mark.parametrize("weight", [1 / 3, 1e-40, 3e-46, -0.1])
def test_what_float32_loses_is_recorded(weight: float) -> None:
    dense = Dense.of(
        torch.tensor([[weight, 0.5]], dtype=torch.float64), torch.tensor([1 / 3]).double()
    )
    narrow = dense.to(torch.float32)
    lost = (narrow.weight.double() - dense.weight).abs()
    assert lost.max() > 0
    allowed = narrow.error.relative * narrow.weight.double().abs() + narrow.error.absolute
    assert (lost <= allowed).all()
    assert (allowed <= 2.0**-23 * dense.weight.abs() + 2.0**-149).all()
    again = narrow.to(torch.float64).to(torch.float32)
    assert again.error == narrow.error


def test_float32_refuses_what_it_cannot_hold() -> None:
    dense = Dense.of(torch.tensor([[1e39]], dtype=torch.float64))
    with pytest.raises(InvalidModel, match="range"):
        dense.to(torch.float32)


@settings(max_examples=120, deadline=None)
@given(seed=seeds)
def test_every_form_of_the_adjoint_is_the_same(seed: int) -> None:
    draw = Draw(seed)
    case = conv(draw)
    matrix, _ = case.matrix()
    batch = draw.int(0, 4)
    for dtype in DTYPES:
        m = case.map.to(dtype)
        assert isinstance(m, Conv)
        rho = random(draw, batch, *m.out_shape).to(dtype)
        flat = rho.double().reshape(batch, m.out_size)
        for form in adjoint_forms(m):
            out = form(rho)
            assert out.shape == (batch, *m.in_shape), form.name
            assert_close(
                out.reshape(batch, m.in_size),
                flat @ matrix,
                flat.abs() @ matrix.abs(),
                SLACK[dtype],
            )


def test_strided_convolutions_have_several_forms() -> None:
    conv_map = Conv.of((3, 8, 8), torch.randn(4, 3, 4, 4), stride=2, pads=1)
    names = [form.name for form in adjoint_forms(conv_map)]
    assert names == ["interleaved", "phases", "transposed", "columns"]


class Sleeper:
    """A form that takes its time."""

    def __init__(self, name: str, seconds: float) -> None:
        self.name, self.seconds, self.calls = name, seconds, 0

    def __call__(self, x: Tensor) -> Tensor:
        sleep(self.seconds)
        self.calls += 1
        return 2 * x


def test_a_race_answers_every_call_and_finds_the_fastest() -> None:
    forms = [Sleeper("slow", 0.02), Sleeper("fast", 0.0005), Sleeper("slower", 0.04)]
    race = Race(forms)
    x = torch.ones(4, 2)
    for _ in range(20):
        assert torch.equal(race(x), 2 * x)
    assert race.fastest(x).name == "fast"
    before = forms[0].calls
    assert before <= 3  # rounds, fewer where it is hopeless
    race(torch.ones(64, 2))  # another batch size is another race
    assert forms[0].calls == before + 1


def test_what_is_prepared_in_inference_mode_serves_autograd() -> None:
    conv_map = Conv.of((3, 9, 9), torch.randn(4, 3, 4, 4), stride=2, pads=1)
    with torch.inference_mode():
        conv_map.transpose(torch.randn(2, *conv_map.out_shape))
        conv_map.abs_transpose(torch.randn(2, *conv_map.out_shape))
    rho = torch.randn(2, *conv_map.out_shape, requires_grad=True)
    z = torch.randn(2, *conv_map.in_shape)
    (conv_map.transpose(rho) * z).sum().backward()
    assert rho.grad is not None
    torch.testing.assert_close(rho.grad, conv_map.linear(z))
    conv_map.abs_transpose(rho).sum().backward()


def test_sparse_of_a_large_convolution_is_quick(benchmark_seconds: Callable[..., float]) -> None:
    conv_map = Conv.of((3, 32, 32), torch.randn(16, 3, 4, 4), stride=2, pads=1)
    assert benchmark_seconds(conv_map.sparse) < 0.1


@pytest.fixture
def benchmark_seconds() -> Callable[..., float]:
    from time import perf_counter

    def best(run: Callable[[], object]) -> float:
        times = []
        for _ in range(5):
            start = perf_counter()
            run()
            times.append(perf_counter() - start)
        return min(times)

    return best


BAD = {
    "bias": lambda: Dense.of(torch.zeros(2, 3), torch.zeros(3)),
    "axes": lambda: Dense.of(torch.zeros(3)),
    "channels": lambda: Conv.of((3, 8, 8), torch.zeros(4, 2, 3, 3)),
    "groups": lambda: Conv.of((4, 8, 8), torch.zeros(3, 2, 3, 3), groups=2),
    "kernel": lambda: Conv.of((2, 3, 3), torch.zeros(4, 2, 5, 5)),
    "spatial": lambda: Conv.of((2,), torch.zeros(4, 2)),
    "stride": lambda: Conv.of((2, 8, 8), torch.zeros(4, 2, 3, 3), stride=0),
    "transposed": lambda: ConvTranspose.of((3, 8, 8), torch.zeros(4, 2, 3, 3)),
    "reshape": lambda: Reshape((2, 3), (5,)),
    "crop": lambda: Pad.of((2,), [(-3, 2)]),
    "scale": lambda: Scale.of((1, 3), torch.zeros(2, 3)),
    "chain": lambda: Chain.of(Reshape((2, 3), (6,)), Dense.of(torch.zeros(2, 5).double())),
    "precision": lambda: Chain.of(Reshape((2, 3), (6,)), Dense.of(torch.zeros(2, 6))),
}


@pytest.mark.parametrize("name", sorted(BAD))
def test_impossible_maps_are_refused_in_one_line(name: str) -> None:
    with pytest.raises(InvalidModel) as caught:
        BAD[name]()
    assert "\n" not in str(caught.value)
