"""Trees of splits in preorder, and what the certificate proposes for their leaves.

`split` has one entry per node: -1 is a leaf, j < N splits neuron j (of all N) into x >= 0 and
x <= 0, N + i splits input i at the next number of `at`, into x >= a and x <= a. The first child and
all below it come next, then the second. So the leaves cover the box whatever the entries are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from anybound_check.archive import Record
from anybound_check.arithmetic import Array, Unreadable
from anybound_check.dual import Hints, Index
from anybound_check.network import Network

MAX_DEPTH = 2_000


class Slopes(NamedTuple):
    """Row `of[j]` of `table` times 2^-bits are the slopes of problem j at the neurons `columns`."""

    columns: Index
    table: NDArray[np.integer]
    bits: int
    of: Index

    @classmethod
    def read(cls, record: Record | None, count: int, network: Network) -> Slopes:
        """For `count` problems; none without a record."""
        if record is None:
            return cls(
                np.zeros(0, np.int64), np.zeros((1, 0), np.uint8), 0, np.zeros(count, np.int64)
            )
        columns = record.indices("columns", int(network.offsets[-1]))
        table = record.array("table", "u", (None, len(columns)))
        if table is None or len(np.unique(columns)) != len(columns):
            raise Unreadable("slopes without a table, or for a neuron twice")
        of = record.indices("of", len(table))
        if record.fields.get("of") is None:
            of = np.arange(count) if len(table) == count else np.zeros(count, np.int64)
        if len(of) != count or len(table) < 1:
            raise Unreadable(f"{len(of)} slopes; expected {count}")
        return cls(columns, table, record.integer("bits", 17), of)

    def rows(self, index: Index) -> Hints:
        return Hints(self.columns, self.table[self.of[index]].T * 2.0**-self.bits)


class Leaves(NamedTuple):
    """Consecutive leaves and their splits: of `index` (as in `split`), by the leaf `owner`."""

    number: Index
    owner: Index
    index: Index
    sign: Index
    at: Array


@dataclass(frozen=True, eq=False)
class Tree:
    """The tree of one clause."""

    split: Index
    at: Array
    neurons: int
    slopes: Slopes
    beta: Array | None  # one per leaf and neuron split above it, leaf by leaf from the root
    weights: Array  # [leaves, m]
    layers: Index  # activations whose bounds are computed anew in every leaf

    @classmethod
    def read(cls, record: Record, network: Network, rows: int) -> Tree:
        """The tree of a clause with so many rows."""
        neurons, inputs = int(network.offsets[-1]), network.nodes[0].size
        codes = record.array("split", "i", (None,))
        split = np.full(1, -1) if codes is None else codes.astype(np.int64)
        leaves = int((split < 0).sum())
        at = _floats(record, "at", (int((split >= neurons).sum()),))
        if split.min(initial=-1) < -1 or split.max(initial=-1) >= neurons + inputs:
            raise Unreadable("a split of what does not exist")
        slopes = Slopes.read(record.record("slopes"), leaves, network)
        weights = _floats(record, "weights", (leaves, rows))
        if at is None and (split >= neurons).any() or weights is None and rows != 1:
            raise Unreadable("splits of inputs without places, or no row weights")
        return cls(
            split,
            np.zeros(0) if at is None else at,
            neurons,
            slopes,
            _floats(record, "beta", (None,)),
            np.ones((leaves, 1)) if weights is None else weights,
            record.indices("layers", len(network.pre)),
        )

    @property
    def has_boxes(self) -> bool:
        """Whether the leaves need intervals of their own."""
        return len(self.layers) > 0 or bool((self.split >= self.neurons).any())

    def batches(self, size: int) -> Iterator[tuple[Leaves, Hints]]:
        """All leaves, up to `size` at once, with what is proposed for them."""
        used = first = 0
        for count, index, sign, depth, at in self._walk(size):
            number, owner = np.arange(first, first + count), np.repeat(np.arange(count), depth)
            leaves = Leaves(number, owner, np.array(index), np.array(sign), np.array(at))
            neuron = leaves.index < self.neurons
            beta = np.zeros(int(neuron.sum()))
            if self.beta is not None:
                beta = self.beta[used : used + len(beta)]
            if len(beta) != neuron.sum():
                raise Unreadable("too few multipliers of splits")
            used, first = used + len(beta), first + count
            split = (x[neuron] for x in (leaves.index, leaves.owner, leaves.sign))
            columns, slopes, *_ = self.slopes.rows(number)
            yield leaves, Hints(columns, slopes, *split, beta)
        if self.beta is not None and used != len(self.beta):
            raise Unreadable("too many multipliers of splits")

    def _walk(
        self, size: int
    ) -> Iterator[tuple[int, list[int], list[int], list[int], list[float]]]:
        places = iter(self.at.tolist())
        path: list[int] = []
        signs: list[int] = []
        ats: list[float] = []
        index, sign, at, depth = [], [], [], []
        ended = False
        for code in self.split.tolist():
            if ended or len(path) > MAX_DEPTH:
                raise Unreadable("the tree goes on behind its last leaf, or is too deep")
            if code >= 0:
                path.append(code)
                signs.append(1)
                ats.append(next(places) if code >= self.neurons else 0.0)
                continue
            index += path
            sign += signs
            at += ats
            depth.append(len(path))
            while signs and signs[-1] < 0:
                path.pop(), signs.pop(), ats.pop()
            ended = not signs
            if signs:
                signs[-1] = -1
            if len(depth) == size or ended:
                yield len(depth), index, sign, depth, at
                index, sign, at, depth = [], [], [], []
        if not ended:
            raise Unreadable("the tree lacks a leaf")


def _floats(record: Record, key: str, shape: tuple[int | None, ...]) -> Array | None:
    array = record.array(key, "f", shape)
    return None if array is None else array.astype(np.float64)
