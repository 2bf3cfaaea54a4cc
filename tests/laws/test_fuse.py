"""Laws of composing and adding affine maps.

Oracle: the product of the matrices in exact arithmetic (decimals that may not round). The recorded
error has to cover what the stored map differs from the exact composition of *any* maps that the
parts' own errors allow; the law is tested at their corners.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from decimal import Context, Decimal, Inexact, localcontext
from functools import reduce

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from tests_affine_kinds import Draw
from torch import Tensor

from anybound.errors import InvalidModel
from anybound.model.affine import (
    AffineMap,
    Chain,
    Conv,
    ConvTranspose,
    Dense,
    Gather,
    Identity,
    Pad,
    Permute,
    Reshape,
    Scale,
    Sum,
    WeightError,
    add,
    compose,
)
from anybound.model.affine.weight_error import plus, times

Exact = NDArray[np.object_]
seeds = st.integers(0, 2**32 - 1)
exact_numbers = np.vectorize(Decimal, otypes=[object])


@pytest.fixture(autouse=True)
def exact_arithmetic() -> Iterator[None]:
    """Every float64 is a finite decimal; a sum or product that had to be rounded would raise."""
    with localcontext(Context(prec=5000, traps=[Inexact])):
        yield


class Rough(Draw):
    """Weights that products and sums round, with errors of their own now and then."""

    def weight(self, *shape: int) -> Tensor:
        values = self.rng.normal(size=shape) * 10.0 ** self.rng.integers(-3, 3)
        kind = self.int(0, 3)
        if kind == 0:
            values = values.astype(np.float32).astype(np.float64)
        elif kind == 1:
            values = np.exp2(self.rng.integers(-4, 5, size=shape)).astype(np.float64)
        return torch.from_numpy(np.asarray(values))

    def error(self) -> WeightError:
        kind = self.int(0, 3)
        relative = 2.0 ** -self.int(10, 52) if kind in (1, 3) else 0.0
        absolute = 2.0 ** -self.int(10, 52) if kind in (2, 3) else 0.0
        return WeightError(relative, absolute)

    def biased(self, m: AffineMap) -> AffineMap:
        if self.coin():
            return m
        shape = [size if self.coin() else 1 for size in m.out_shape]
        return m.with_bias(self.weight(*shape), 2.0**-40 if self.coin() else 0.0)


def dense(draw: Rough, shape: tuple[int, ...]) -> AffineMap:
    weight = draw.weight(draw.int(1, 5), shape[-1])
    return Dense.of(weight, lead=shape[:-1], error=draw.error())


def conv(draw: Rough, shape: tuple[int, ...]) -> AffineMap:
    groups = 2 if shape[0] % 2 == 0 and draw.coin() else 1
    kernel = [draw.int(1, min(2, size)) for size in shape[1:]]
    weight = draw.weight(groups * draw.int(1, 2), shape[0] // groups, *kernel)
    pads = [(draw.int(0, 1), draw.int(0, 1)) for _ in range(2)]
    stride = draw.int(1, 2)
    return Conv.of(shape, weight, stride=stride, pads=pads, groups=groups, error=draw.error())


def conv_transpose(draw: Rough, shape: tuple[int, ...]) -> AffineMap:
    groups = 2 if shape[0] % 2 == 0 and draw.coin() else 1
    weight = draw.weight(shape[0], draw.int(1, 2), *draw.ints(2, 1, 2))
    return ConvTranspose.of(shape, weight, stride=draw.int(1, 2), groups=groups, error=draw.error())


def scale(draw: Rough, shape: tuple[int, ...]) -> AffineMap:
    some = [1] * len(shape)
    for axis in draw.rng.permutation(len(shape))[: draw.int(0, 2)]:
        some[axis] = shape[axis]
    return Scale.of(shape, draw.weight(*some), error=draw.error())


def reshape(draw: Rough, shape: tuple[int, ...]) -> AffineMap:
    size = int(np.prod(shape))
    shapes = [(1, a, size // a) for a in range(1, size + 1) if size % a == 0]
    return Reshape(shape, shapes[draw.int(0, len(shapes) - 1)])


def permute(draw: Rough, shape: tuple[int, ...]) -> AffineMap:
    return Permute.of(shape, [int(axis) for axis in draw.rng.permutation(len(shape))])


def gather(draw: Rough, shape: tuple[int, ...]) -> AffineMap:
    axis = draw.int(0, len(shape) - 1)
    return Gather.along(shape, axis, draw.ints(draw.int(1, 3), 0, shape[axis] - 1))


def pad(draw: Rough, shape: tuple[int, ...]) -> AffineMap:
    pads = [(draw.int(-1 if n > 1 else 0, 1), draw.int(0, 1)) for n in shape]
    return Pad.of(shape, pads, value=draw.int(0, 1) / 2.0)


def total(draw: Rough, shape: tuple[int, ...]) -> AffineMap:
    return Sum.of(shape, [draw.int(0, 2)], keepdim=True)


def identity(draw: Rough, shape: tuple[int, ...]) -> AffineMap:
    return Identity.of(shape)


KINDS: list[Callable[[Rough, tuple[int, ...]], AffineMap]] = [
    dense,
    conv,
    conv_transpose,
    scale,
    scale,
    reshape,
    permute,
    gather,
    pad,
    total,
    identity,
]


def drawn(draw: Rough, count: int) -> list[AffineMap]:
    """Maps that can be applied one after the other, between shapes of three axes."""
    maps: list[AffineMap] = []
    shape: tuple[int, ...] = (draw.int(1, 2), draw.int(2, 3), draw.int(1, 3))
    while len(maps) < count:
        made = KINDS[draw.int(0, len(KINDS) - 1)](draw, shape)
        if made.out_size > 24:
            continue
        maps.append(made if made.bias is not None else draw.biased(made))
        shape = made.out_shape
    return maps


def exact_matrix(m: AffineMap) -> Exact:
    if isinstance(m, Chain):
        return reduce(
            lambda product, part: exact_matrix(part) @ product, m.maps[1:], exact_matrix(m.maps[0])
        )
    return exact_numbers(m.sparse().toarray())


def exact_bias(m: AffineMap) -> Exact:
    if m.bias is None:
        return exact_numbers(np.zeros(m.out_size))
    return exact_numbers(m.bias.expand(m.out_shape).reshape(-1).numpy())


def pattern(m: AffineMap) -> Exact:
    """Where the weights may be: 1, elsewhere 0."""
    match m:
        case Dense() | Conv() | Scale():
            m = replace(m, weight=torch.ones_like(m.weight))
        case ConvTranspose():
            m = replace(m, twin=replace(m.twin, weight=torch.ones_like(m.twin.weight)))
        case Chain():
            counts = reduce(
                lambda product, part: pattern(part) @ product, m.maps[1:], pattern(m.maps[0])
            )
            return exact_numbers((counts > 0).astype(float))
    return exact_numbers((m.sparse().toarray() != 0).astype(float))


def corner(m: AffineMap, draw: Rough) -> tuple[Exact, Exact]:
    """A matrix and a bias that the map's error allows, at random ends of every entry's interval."""
    matrix, bias, error = exact_matrix(m), exact_bias(m), m.error
    sides = exact_numbers(draw.rng.integers(0, 2, matrix.shape) * 2.0 - 1.0)
    if draw.coin():
        sides = exact_numbers(np.sign(matrix.astype(float)) + (matrix == 0))  # all outwards
    spread = Decimal(error.relative) * np.abs(matrix) + Decimal(error.absolute) * pattern(m)
    ends = exact_numbers(draw.rng.integers(0, 2, bias.shape) * 2.0 - 1.0)
    return matrix + sides * spread, bias + ends * Decimal(error.bias)


def assert_covers(m: AffineMap, matrix: Exact, bias: Exact) -> None:
    size = exact_matrix(m.abs())
    allowed = Decimal(m.error.relative) * size + Decimal(m.error.absolute) * pattern(m)
    assert (np.abs(exact_matrix(m) - matrix) <= allowed).all()
    assert (np.abs(exact_bias(m) - bias) <= Decimal(m.error.bias)).all()


@settings(max_examples=100, deadline=None)
@given(seed=seeds)
def test_composing_covers_the_exact_composition(seed: int) -> None:
    draw = Rough(seed)
    maps = drawn(draw, draw.int(2, 4))
    made = reduce(lambda first, second: compose(second, first), maps[1:], maps[0])
    matrix, bias = corner(maps[0], draw)
    for m in maps[1:]:
        outer, shift = corner(m, draw)
        matrix, bias = outer @ matrix, outer @ bias + shift
    assert_covers(made, matrix, bias)
    assert_covers(Chain.of(*maps), matrix, bias)


@settings(max_examples=100, deadline=None)
@given(seed=seeds)
def test_composing_keeps_the_function(seed: int) -> None:
    draw = Rough(seed)
    maps = drawn(draw, draw.int(2, 4))
    made = reduce(lambda first, second: compose(second, first), maps[1:], maps[0])
    z = torch.from_numpy(draw.rng.normal(size=(2, *maps[0].in_shape)))
    one_by_one, size = z, z.abs()
    for m in maps:
        one_by_one = m.apply(one_by_one)
        size = m.abs_linear(size) + (0.0 if m.bias is None else m.bias.abs())
    assert made.out_shape == maps[-1].out_shape
    assert ((made.apply(z) - one_by_one).abs() <= 1e-13 * size).all()


@settings(max_examples=80, deadline=None)
@given(seed=seeds)
def test_adding_covers_the_exact_sum(seed: int) -> None:
    draw = Rough(seed)
    shape = (2, 3, 2)
    kinds = [
        lambda: Identity.of(shape),
        lambda: scale(draw, shape),
        lambda: Dense.of(draw.weight(2, 2), lead=shape[:-1], error=draw.error()),
        lambda: Conv.of(shape, draw.weight(2, 2, 3, 1), pads=[(1, 1), (0, 0)], error=draw.error()),
    ]
    maps = [draw.biased(kinds[draw.int(0, 3)]()) for _ in range(draw.int(1, 5))]
    made = add(maps)
    assert len(made) <= 3
    corners = [corner(m, draw) for m in maps]
    matrix, bias = sum(w for w, _ in corners), sum(b for _, b in corners)
    stored = sum(exact_matrix(m) for m in made)
    allowed = sum(Decimal(m.error.relative) * np.abs(exact_matrix(m)) for m in made)
    allowed = allowed + sum(Decimal(m.error.absolute) * pattern(m) for m in made)
    assert (np.abs(stored - matrix) <= allowed).all()
    shift = np.abs(sum(exact_bias(m) for m in made) - bias)
    assert (shift <= sum(Decimal(m.error.bias) for m in made)).all()


def normal(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(3), dtype=torch.float64)


def floats(*shape: int) -> Tensor:
    return normal(*shape).float().double()


IMAGE = (4, 5, 3)
MERGED: dict[str, tuple[Sequence[AffineMap], type[AffineMap], bool]] = {
    "scale into conv": (
        [Conv.of(IMAGE, floats(2, 4, 3, 3)), Scale.of((2, 3, 1), floats(2, 1, 1))],
        Conv,
        True,
    ),
    "scale into grouped conv": (
        [Scale.of(IMAGE, floats(4, 1, 1)), Conv.of(IMAGE, floats(2, 2, 3, 3), groups=2)],
        Conv,
        True,
    ),
    "rounded scale into conv": (
        [Conv.of(IMAGE, normal(2, 4, 3, 3)), Scale.of((2, 3, 1), normal(2, 1, 1))],
        Conv,
        False,
    ),
    "power of two": (
        [Dense.of(normal(3, 4)), Scale.of((3,), torch.tensor([0.5, 4.0, -2.0]).double())],
        Dense,
        True,
    ),
    "scale into transposed conv": (
        [ConvTranspose.of(IMAGE, floats(4, 2, 3, 3)), Scale.of((2, 7, 5), floats(2, 1, 1))],
        ConvTranspose,
        True,
    ),
    "scale, flatten, dense": (
        [Scale.of(IMAGE, floats(4, 1, 1)), Reshape(IMAGE, (60,)), Dense.of(floats(2, 60))],
        Chain,
        True,
    ),
    "pad into conv": (
        [Pad.of(IMAGE, [(0, 0), (1, 2), (0, 1)]), Conv.of((4, 8, 4), floats(2, 4, 3, 3))],
        Conv,
        True,
    ),
    "narrow middle": ([Dense.of(normal(2, 9)), Dense.of(normal(8, 2))], Chain, True),
    "wide middle": ([Dense.of(normal(9, 2)), Dense.of(normal(3, 9))], Dense, False),
    "there and back": (
        [Permute.of(IMAGE, (1, 2, 0)), Permute.of((5, 3, 4), (2, 0, 1))],
        Identity,
        True,
    ),
    "reshapes": ([Reshape(IMAGE, (60,)), Reshape((60,), (6, 10))], Reshape, True),
    "slices": ([Gather.along(IMAGE, 1, [3, 1]), Gather.along((4, 2, 3), 1, [1])], Gather, True),
    "pads": ([Pad.embed(IMAGE, 0, 1, 7), Pad.embed((7, 5, 3), 0, 2, 9)], Pad, True),
    "crop, then pad": ([Pad.of((4,), [(-1, 0)]), Pad.of((3,), [(1, 0)])], Chain, True),
}


@pytest.mark.parametrize("name", sorted(MERGED))
def test_what_merges_into_what(name: str) -> None:
    maps, kind, exact = MERGED[name]
    made = reduce(lambda first, second: compose(second, first), maps[1:], maps[0])
    assert type(made) is kind
    assert made.error.is_exact == exact
    if isinstance(made, Chain):
        assert len(made.maps) == 2


@pytest.mark.parametrize("hidden", [2, 7, 40])
def test_a_dense_product_covers_its_roundings(hidden: int) -> None:
    first, second = Dense.of(normal(hidden, 3)), Dense.of(normal(2, hidden))
    made = compose(second, first)
    assert isinstance(made, Dense)
    exact = exact_matrix(second) @ exact_matrix(first)
    assert (exact_matrix(made) != exact).any()
    assert_covers(made, exact, exact_bias(made))


def test_zeros_around_a_bias_stay_zeros() -> None:
    shifted = Identity.of((1, 2, 2), torch.full((1, 1, 1), 2.0).double())
    made = compose(Conv.of((1, 2, 2), torch.ones(1, 1, 3, 3).double(), pads=1), shifted)
    z = torch.zeros(1, 2, 2, dtype=torch.float64)
    assert torch.equal(made.apply(z), torch.full((1, 2, 2), 8.0).double())
    inner = compose(
        Conv.of((1, 4, 4), torch.ones(1, 1, 3, 3).double()),
        Pad.of((1, 2, 2), [(0, 0), (1, 1), (1, 1)], 1.0),
    )
    assert isinstance(inner, Conv)
    assert torch.equal(inner.apply(z), torch.full((1, 2, 2), 5.0).double())


def test_shapes_have_to_meet() -> None:
    with pytest.raises(InvalidModel, match="followed"):
        compose(Identity.of((3,)), Identity.of((2,)))
    with pytest.raises(InvalidModel, match="added"):
        add([Identity.of((3,)), Identity.of((2,))])


def test_errors_beyond_float64_are_infinite() -> None:
    assert plus(1e308, 1e308) == math.inf
    assert times(1e308, 1e308) == math.inf
