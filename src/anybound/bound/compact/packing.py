"""A sparse matrix as blocks of four rows that share their columns.

    (A x)[rows[g, q]] = Σ_{start[g] <= p < start[g+1]} weight[p, q] · x[column[p]]

Rows of a convolution at one pixel read the same columns, and so do columns' transposes; such rows
are put in one block, so that one load of x serves four rows. What is left of each pixel (one to
three rows) is joined with a neighbour where the union of the columns is shorter than both together;
absent entries are stored as 0. Blocks never mix layers.

Everything is one pass over the entries, compiled. The kernels neither allocate nor assign slices: what
Numba needs for that takes longer to load than the rest of the engine.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from anybound.bound.compact.jit import inner, kernel
from anybound.bound.compact.machine import ROWS
from anybound.model.affine.csr import Csr

Float = NDArray[np.float32] | NDArray[np.float64]
_WINDOW = 24  # open blocks that a short one is compared with


class Blocks(NamedTuple):
    """G blocks with P entries of four weights; `layer[k] : layer[k + 1]` are the blocks of layer k.

    `rows[g, q]` is the number of rows of the matrix where block g has fewer than four."""

    rows: NDArray[np.int32]  # [G, 4]
    start: NDArray[np.int64]  # [G + 1]
    column: NDArray[np.int32]  # [P]
    weight: Float  # [P, 4]
    layer: NDArray[np.int64]  # [layers + 1]

    @property
    def products(self) -> int:
        """Multiplications of one product with one vector, absent entries included."""
        return int(self.weight.size)

    def single(self) -> Blocks:
        """With weights in float32."""
        return self._replace(weight=self.weight.astype(np.float32))


def empty_blocks() -> Blocks:
    """No rows, in float64: an example of the kernels' argument."""
    return Blocks(
        np.zeros((0, ROWS), np.int32),
        np.zeros(1, np.int64),
        np.zeros(0, np.int32),
        np.zeros((0, ROWS)),
        np.zeros(1, np.int64),
    )


def pack(matrix: Csr, layer: NDArray[np.int64], main: NDArray[np.bool_] | None) -> Blocks:
    """Blocks of the rows `layer[0] : layer[-1]` of a float64 matrix with sorted indices.

    `main[p]` tells which entries decide on what rows go together (all of them if None): in a
    residual network the convolution's, not those of the skip edge, which differ from row to row."""
    if not is_sorted(matrix):
        raise ValueError(
            "the indices of a row are not sorted: they would be written beyond the end of blocks"
        )
    order, group = _groups(matrix, layer, main)
    indptr, indices = matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32)
    source = _Rows(indptr, indices, matrix.data, order, group, layer - layer[0])
    plan = _empty_plan(len(order), len(layer), len(indices), matrix.shape[1])
    made = np.zeros(2, np.int64)
    _make_plan(source, plan, made)
    count, entries = made.tolist()
    blocks = Blocks(
        np.full((count, ROWS), matrix.shape[0], np.int32),
        np.zeros(count + 1, np.int64),
        np.zeros(entries, np.int32),
        np.zeros((entries, ROWS)),
        plan.layer,
    )
    _fill(source, plan, blocks)
    return blocks


def is_sorted(matrix: Csr) -> bool:
    """Whether the indices of each row ascend."""
    ascends = np.ones(len(matrix.indices) + 1, np.bool_)
    ascends[1:-1] = matrix.indices[1:] > matrix.indices[:-1]
    ascends[matrix.indptr] = True  # where rows begin and end
    return bool(ascends.all())


def _empty_plan(rows: int, layers: int, entries: int, columns: int) -> _Plan:
    """Room for as many blocks as rows; a row's columns are copied at most four times as blocks
    grow."""
    pool = np.empty(ROWS * entries + columns, np.int32)
    return _Plan(
        np.empty((rows, ROWS), np.int32),
        np.zeros(rows, np.int64),
        np.zeros(rows, np.int64),
        np.zeros(rows, np.int64),
        np.zeros(layers, np.int64),
        pool,
        np.empty(columns, np.int32),
        np.empty(_WINDOW, np.int64),
    )


def _groups(
    matrix: Csr, layer: NDArray[np.int64], main: NDArray[np.bool_] | None
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The rows in an order that puts equal column patterns of a layer side by side, and each one's
    group.

    Patterns are told apart by a sum of hashes; were two to collide, a block would only be longer
    than need be."""
    with np.errstate(over="ignore"):
        key = _mix(np.arange(1, matrix.shape[1] + 1, dtype=np.uint64))[matrix.indices]
        if main is not None:
            key *= main
        total = np.concatenate([np.zeros(1, np.uint64), np.cumsum(key, dtype=np.uint64)])
    first, last = int(layer[0]), int(layer[-1])
    pattern = (total[matrix.indptr[1:]] - total[matrix.indptr[:-1]])[first:last]
    number = np.repeat(np.arange(len(layer) - 1), np.diff(layer))
    order = np.lexsort((pattern, number))
    new = np.ones(len(order), bool)
    new[1:] = (np.diff(number[order]) != 0) | (pattern[order][1:] != pattern[order][:-1])
    group = np.cumsum(new) - 1
    # Groups in the order of their first rows: neighbours in the list are neighbours in the image.
    rank = np.empty(int(group[-1]) + 1 if len(group) else 0, np.int64)
    rank[np.argsort(order[new], kind="stable")] = np.arange(len(rank))
    placed = np.argsort(rank[group], kind="stable")
    return (order[placed] + first).astype(np.int64), rank[group][placed]


def _mix(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The finaliser of splitmix64."""
    x = x * np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


class _Rows(NamedTuple):
    """The matrix, and the order of its rows; `layer` are positions in that order."""

    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    data: NDArray[np.float64]
    order: NDArray[np.int64]
    group: NDArray[np.int64]
    layer: NDArray[np.int64]


class _Plan(NamedTuple):
    """Blocks in the making: their rows, how many, and their columns `pool[first : first +
    length]`."""

    rows: NDArray[np.int32]  # [most blocks, 4]
    size: NDArray[np.int64]
    first: NDArray[np.int64]
    length: NDArray[np.int64]
    layer: NDArray[np.int64]
    pool: NDArray[np.int32]
    scratch: NDArray[np.int32]
    opened: NDArray[np.int64]


@inner
def _merge(a: Any, b: Any, out: Any) -> Any:
    """The sorted union of two sorted arrays, in `out`; how long it is."""
    i, j, m = 0, 0, 0
    while i < len(a) and j < len(b):
        x, y = a[i], b[j]
        out[m] = min(x, y)
        i += x <= y
        j += y <= x
        m += 1
    while i < len(a):
        out[m] = a[i]
        i, m = i + 1, m + 1
    while j < len(b):
        out[m] = b[j]
        j, m = j + 1, m + 1
    return m


@inner
def _union_length(a: Any, b: Any) -> Any:
    """How long the sorted union of two sorted arrays is."""
    i, j, m = 0, 0, 0
    while i < len(a) and j < len(b):
        x, y = a[i], b[j]
        i += x <= y
        j += y <= x
        m += 1
    return m + (len(a) - i) + (len(b) - j)


@inner
def _columns(source: Any, first: Any, last: Any, plan: Any, used: Any) -> Any:
    """Append the union of the columns of the rows at positions first … last − 1 to the pool; its
    length."""
    pool, scratch = plan.pool, plan.scratch
    length = 0
    for position in range(first, last):
        row = source.order[position]
        own = source.indices[source.indptr[row] : source.indptr[row + 1]]
        if position == first:
            length = len(own)
            _copy(own, pool, used, length)
        else:
            length = _merge(pool[used : used + length], own, scratch)
            _copy(scratch, pool, used, length)
    return length


@inner
def _copy(entries: Any, out: Any, first: Any, length: Any) -> Any:
    """The first entries to `out[first : first + length]`."""
    for i in range(length):
        out[first + i] = entries[i]


@inner
def _partner(plan: Any, opened: Any, missing: Any, own: Any) -> Any:
    """The open block that gains most by taking in `missing` more rows with the columns `own`; −1 if
    none does."""
    best, gain = -1, 0
    for b in opened:
        if b >= 0 and plan.size[b] + missing <= ROWS:
            there = plan.pool[plan.first[b] : plan.first[b] + plan.length[b]]
            saved = len(there) + len(own) - _union_length(there, own)
            if saved > gain:
                best, gain = b, saved
    return best


@inner
def _add_rows(source: Any, plan: Any, b: Any, first: Any, last: Any) -> Any:
    for position in range(first, last):
        plan.rows[b, plan.size[b]] = source.order[position]
        plan.size[b] += 1


@inner
def _plan_layer(source: Any, plan: Any, count: Any, used: Any, first: Any, last: Any) -> Any:
    """Distribute the rows at positions first … last − 1 over blocks; the blocks and the pool used
    so far."""
    opened, turn = plan.opened, 0
    for i in range(_WINDOW):
        opened[i] = -1
    position = first
    while position < last:
        stop = position
        while (
            stop < last and stop < position + ROWS and source.group[stop] == source.group[position]
        ):
            stop += 1
        length = _columns(source, position, stop, plan, used)
        own = plan.pool[used : used + length]
        full = stop - position == ROWS
        b = -1 if full else _partner(plan, opened, stop - position, own)
        if b < 0:
            b, count = count, count + 1
            plan.size[b], plan.first[b], plan.length[b] = 0, used, length
            used += length
            if not full:
                opened[turn] = b
                turn = (turn + 1) % _WINDOW
        else:
            there = plan.pool[plan.first[b] : plan.first[b] + plan.length[b]]
            length = _merge(there, own, plan.scratch)
            _copy(plan.scratch, plan.pool, used, length)
            plan.first[b], plan.length[b] = used, length
            used += length
        _add_rows(source, plan, b, position, stop)
        position = stop
    return count, used


def _plan_example() -> tuple[object, ...]:
    wide, narrow = np.zeros(1, np.int64), np.zeros(1, np.int32)
    rows = _Rows(wide, narrow, np.zeros(1), wide, wide, wide)
    block = np.zeros((1, ROWS), np.int32)
    return rows, _Plan(block, wide, wide, wide, wide, narrow, narrow, wide)


@kernel(*_plan_example(), np.zeros(2, np.int64))
def _make_plan(source: Any, plan: Any, made: Any) -> Any:
    """Fill the plan; `made` says how many blocks it has and how many entries they have together."""
    count, used = 0, 0
    plan.layer[0] = 0
    for k in range(len(source.layer) - 1):
        count, used = _plan_layer(source, plan, count, used, source.layer[k], source.layer[k + 1])
        plan.layer[k + 1] = count
    entries = 0
    for b in range(count):
        entries += plan.length[b]
    made[0], made[1] = count, entries


@kernel(*_plan_example(), empty_blocks())
def _fill(source: Any, plan: Any, blocks: Any) -> Any:
    """Copy the columns and the weights of the planned blocks to where they belong."""
    p = 0
    for b in range(len(blocks.rows)):
        blocks.start[b] = p
        length = plan.length[b]
        _copy(plan.pool[plan.first[b] :], blocks.column, p, length)
        for q in range(plan.size[b]):
            row = plan.rows[b, q]
            blocks.rows[b, q] = row
            at = p
            for entry in range(source.indptr[row], source.indptr[row + 1]):
                while blocks.column[at] != source.indices[entry]:
                    at += 1
                blocks.weight[at, q] = source.data[entry]
        p += length
    blocks.start[len(blocks.rows)] = p
