"""The exact minimum of a network with bent activations along a segment, in fractions, by its breakpoints.

Along p + t (q − p) every neuron is piecewise linear in t. Layer by layer the zeros of the pre-activations are added to
the breakpoints; between two of them all is linear, so a minimum is at a breakpoint, and one of a maximum of rows there
or where two rows cross. The numbers of the network and of p and q are taken as they are: nothing is rounded.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import combinations, pairwise
from math import prod

import torch

from anybound.model.activations.bent import Bent
from anybound.model.network import Network

Numbers = list[Fraction]


class Along:
    """The values of all neurons at the breakpoints; between two of these they are linear."""

    def __init__(self, network: Network, p: Sequence[float], q: Sequence[float]) -> None:
        ends = ([Fraction(x) for x in p], [Fraction(x) for x in q])
        self.places: Numbers = [Fraction(0), Fraction(1)]
        self.values: list[list[Numbers]] = [[end] for end in ends]  # of nodes, by breakpoint
        self.network = network
        for k in range(1, len(network.nodes)):
            self._extend(k)

    def minimum(self, rows: Sequence[Sequence[float]], offsets: Sequence[float]) -> Fraction:
        """The least of max_r (a_r f + d_r)."""
        y = [
            [_dot(row, at[-1]) + Fraction(d) for row, d in zip(rows, offsets, strict=True)]
            for at in self.values
        ]
        least = min(max(at) for at in y)
        for first, last in pairwise(y):
            for r, s in combinations(range(len(rows)), 2):
                t = _crossing(first[r] - first[s], last[r] - last[s])
                if t is not None:
                    least = min(least, max(_mixed(first, last, t)))
        return least

    def _extend(self, k: int) -> None:
        before = [self._affine(k, at) for at in self.values]
        activation = self.network.nodes[k].activation
        if isinstance(activation, Bent):
            before = self._bend(before)
            size = prod(self.network.nodes[k].shape)
            flat = activation.flattened(tuple(self.network.nodes[k].shape))
            assert isinstance(flat, Bent)
            own = flat.left(torch.zeros(size, dtype=torch.float64)).broadcast_to(size).tolist()
            left = [Fraction(alpha) for alpha in own]
            before = [
                [x if x > 0 else alpha * x for x, alpha in zip(at, left, strict=True)]
                for at in before
            ]
        for at, own_values in zip(self.values, before, strict=True):
            at.append(own_values)

    def _affine(self, k: int, at: list[Numbers]) -> Numbers:
        total = [Fraction(0)] * prod(self.network.nodes[k].shape)
        for edge in self.network.nodes[k].edges:
            matrix = edge.map.sparse().scipy().tocoo()
            for i, j, w in zip(matrix.row, matrix.col, matrix.data, strict=True):
                total[i] += Fraction(float(w)) * at[edge.source][j]
            if edge.map.bias is not None:
                bias = edge.map.bias.expand(edge.map.out_shape).reshape(-1).tolist()
                total = [x + Fraction(b) for x, b in zip(total, bias, strict=True)]
        return total

    def _bend(self, before: list[Numbers]) -> list[Numbers]:
        """Breakpoints at the zeros of a layer's pre-activations; those at all of them."""
        places, values, bent = [self.places[0]], [self.values[0]], [before[0]]
        for i in range(1, len(self.places)):
            found = (_crossing(a, b) for a, b in zip(before[i - 1], before[i], strict=True))
            for t in sorted({t for t in found if t is not None}):
                places.append(self.places[i - 1] + t * (self.places[i] - self.places[i - 1]))
                nodes = zip(self.values[i - 1], self.values[i], strict=True)
                values.append([_mixed(a, b, t) for a, b in nodes])
                bent.append(_mixed(before[i - 1], before[i], t))
            places.append(self.places[i])
            values.append(self.values[i])
            bent.append(before[i])
        self.places, self.values = places, values
        return bent


def _dot(row: Sequence[float], y: Numbers) -> Fraction:
    return sum((Fraction(a) * x for a, x in zip(row, y, strict=True)), Fraction(0))


def _crossing(first: Fraction, last: Fraction) -> Fraction | None:
    """Where between 0 and 1 a line from one value to another is 0."""
    return first / (first - last) if first * last < 0 else None


def _mixed(first: Numbers, last: Numbers, t: Fraction) -> Numbers:
    return [a + t * (b - a) for a, b in zip(first, last, strict=True)]
