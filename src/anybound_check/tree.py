"""Trees of splits in preorder, and what the certificate proposes for their leaves.

`split` has one entry per node: -1 is a leaf, j < N splits neuron j (of all N) into x >= 0 and
x <= 0, N + i splits input i at the next number of `at`, into x >= a and x <= a. The first child and
all below it come next, then the second. So the leaves cover the box whatever the entries are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from anybound_check.archive import Record
from anybound_check.arithmetic import Array, Index, Unreadable
from anybound_check.dual import Hints
from anybound_check.network import Network

MAX_DEPTH = 2_000
_Split = tuple[int, int, float]  # what, the side, where


class Slopes(NamedTuple):
    """Row `of[j]` of `table` times 2^-bits are the slopes of problem j at the neurons `columns`."""

    columns: Index
    table: NDArray[Any]
    bits: int
    of: Index

    @classmethod
    def read(cls, record: Record | None, count: int, network: Network) -> Slopes:
        """For `count` problems; none without a record."""
        if record is None:
            return cls.none(count)
        columns = record.indices("columns", int(network.offsets[-1]))
        table = record.array("table", "u", (None, len(columns)))
        if table is None or len(table) == 0 or len(np.unique(columns)) != len(columns):
            raise Unreadable("slopes without a table, or for a neuron twice")
        of = (
            record.indices("of", len(table)) if "of" in record.fields else np.zeros(count, np.int64)
        )
        if len(of) != count:
            raise Unreadable(f"slopes of {len(of)} problems; expected {count}")
        return cls(columns, table, record.integer("bits", 17), of)

    @classmethod
    def none(cls, count: int) -> Slopes:
        return cls(np.zeros(0, np.int64), np.zeros((1, 0)), 0, np.zeros(count, np.int64))

    def rows(self, index: Index) -> Hints:
        return Hints(self.columns, np.float64(2.0**-self.bits) * self.table[self.of[index]].T)


class Leaves(NamedTuple):
    """Consecutive leaves, and the splits above them: each the leaf, and what is split where."""

    number: Index
    owner: Index
    split: Index
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
        if split.min(initial=-1) < -1 or split.max(initial=-1) >= neurons + inputs:
            raise Unreadable("a split of what does not exist")
        leaves, places = int((split < 0).sum()), int((split >= neurons).sum())
        at, weights = record.floats("at", (places,)), record.floats("weights", (leaves, rows))
        if (at is None and places) or (weights is None and rows != 1):
            raise Unreadable("splits of inputs without places, or no row weights")
        at = np.zeros(0) if at is None else at
        slopes = Slopes.read(record.record("slopes"), leaves, network)
        weights = np.ones((leaves, 1)) if weights is None else weights
        layers = record.indices("layers", len(network.pre))
        return cls(split, at, neurons, slopes, record.floats("beta", (None,)), weights, layers)

    @property
    def has_boxes(self) -> bool:
        """Whether the leaves need intervals of their own."""
        return len(self.layers) > 0 or len(self.at) > 0

    def batches(self, size: int) -> Iterator[tuple[Leaves, Hints]]:
        """All leaves, up to `size` at once, with what is proposed for them."""
        used = first = 0
        for depth, path in self._walk(size):
            code, sign, at = np.array(path, np.float64).reshape(-1, 3).T
            number, owner = first + np.arange(len(depth)), np.repeat(np.arange(len(depth)), depth)
            leaves = Leaves(number, owner, code.astype(np.int64), sign.astype(np.int64), at)
            split = np.flatnonzero(leaves.split < self.neurons)
            used, first = used + len(split), first + len(depth)
            beta = (
                np.zeros(len(split)) if self.beta is None else self.beta[used - len(split) : used]
            )
            if len(beta) != len(split):
                raise Unreadable("too few multipliers of splits")
            yield (
                leaves,
                self.slopes.rows(number)._replace(
                    split=leaves.split[split],
                    owner=owner[split],
                    sign=leaves.sign[split],
                    beta=beta,
                ),
            )
        if self.beta is not None and used != len(self.beta):
            raise Unreadable("too many multipliers of splits")

    def _walk(self, size: int) -> Iterator[tuple[list[int], list[_Split]]]:
        """For up to `size` leaves at once: their depths, and the splits above each."""
        places, path, ended = iter(self.at.tolist()), list[_Split](), False
        depth, above = list[int](), list[_Split]()
        for code in self.split.tolist():
            if ended or len(path) > MAX_DEPTH:
                raise Unreadable("the tree goes on behind its last leaf, or is too deep")
            if code >= 0:
                path.append((code, 1, next(places) if code >= self.neurons else 0.0))
                continue
            depth.append(len(path))
            above += path
            while path and path[-1][1] < 0:
                path.pop()
            ended = not path
            if path:
                path[-1] = (path[-1][0], -1, path[-1][2])
            if len(depth) == size or ended:
                yield depth, above
                depth, above = [], []
        if not ended:
            raise Unreadable("the tree lacks a leaf")
