"""What a certificate has to show, and whether it does.

For every clause: intermediate bounds, each computed here from the slopes proposed; and a tree of
splits whose leaves all have a positive lower bound of sum_m w_m (A y - b)_m, w >= 0. As every child
pair is (x >= a, x <= a), the leaves cover the box; and where the sum is positive, some row of
A y <= b is violated: y is not in the clause. Nothing is taken from the certificate but proposals.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice

import numpy as np

from anybound_check.archive import Record
from anybound_check.arithmetic import HUGE, Array, Index, Invalid, Unreadable, gamma
from anybound_check.bounds import NONE, Problems, Region, Splits
from anybound_check.network import Network
from anybound_check.vnnlib import Clause

CHUNK = 2**19  # numbers of a node in a batch of problems
MAX_REGION = 2**24  # of all nodes together, where each problem has intervals of its own
MAX_DEPTH = 2_000


class Checker:
    """One network and its clauses; `single` for the network executed in float32."""

    def __init__(self, network: Network, clauses: list[Clause], single: bool = False) -> None:
        self.network, self.clauses, self.single = network, clauses, single
        self.neurons = int(network.first[-1])
        if single and (
            network.real_only or not {n.activation for n in network.nodes} <= {"", "relu"}
        ):
            raise Unreadable("float32 semantics is for sums and products of float32, and ReLUs")
        sizes = [node.size for node in network.nodes]
        self.batch = max(1, min(256, CHUNK // max(sizes), MAX_REGION // sum(sizes)))

    def prove(self, manifest: Record) -> None:
        """Raise `Invalid` unless every clause is proved."""
        left = set(range(len(self.clauses)))
        for group in manifest.list("groups"):
            proofs = group.list("proofs")
            numbers = [proof.integer("clause", len(self.clauses)) for proof in proofs]
            boxes = [self.clauses[number][:2] for number in numbers]
            if not boxes or not all(np.array_equal(boxes[0], box) for box in boxes):
                raise Invalid("a group needs clauses, all over the same box")
            region = self.region(numbers[0])
            for step in group.list("steps"):
                self.improve(region, step)
            for number, proof in zip(numbers, proofs, strict=True):
                if number not in left:
                    raise Invalid(f"clause {number} is proved twice")
                self._prove_clause(region.copy(), number, proof)
                left.remove(number)
        if left:
            raise Invalid(f"clause {min(left)} is not proved")

    def region(self, clause: int) -> Region:
        """A clause's box, with interval bounds."""
        return Region(self.network, *self.clauses[clause][:2], self.single)

    def _prove_clause(self, region: Region, number: int, proof: Record) -> None:
        for step in proof.list("steps"):
            self.improve(region, step, self.clauses[number])
            if region.empty[0]:  # no input of the box violates the property
                return
        first = 0
        for lower in self.leaves(region, self.clauses[number], proof):
            worst = int(np.argmin(lower))
            if not lower[worst] > 0:
                where = f"leaf {first + worst} of clause {number}"
                raise Invalid(f"{where}: the bound {lower[worst]:.6g} is not positive")
            first += len(lower)

    def improve(self, region: Region, step: Record, clause: Clause | None = None) -> None:
        """Lower bounds of the neurons `lower` of an activation's input and upper ones of `upper`,
        and what follows from them; with weights, on all inputs that violate the property by the
        clause: there w.(A y - b) <= 0, so adding it makes nothing larger."""
        node = self.network.acts[step.integer("layer", len(self.network.acts))]
        sides = [step.indices(key, self.network.nodes[node].size) for key in ("lower", "upper")]
        if any(len(np.unique(side)) < len(side) for side in sides):
            raise Invalid("a neuron is to be bounded twice in a step")
        neuron, sign = np.concatenate(sides), np.repeat([1.0, -1.0], [len(side) for side in sides])
        split = self._split(step, len(neuron), self.neurons)
        columns, slopes = self._slopes(step, int((split < 0).sum()))
        rows = 0 if clause is None else len(clause.offset)
        weights = step.floats("weights", (len(neuron), rows))
        found = np.full(len(neuron), np.inf)  # the lowest of a tree's leaves
        for tree, leaf, splits in self._leaves(step, split, len(neuron)):
            problems = _nothing(tree * 0)
            if clause is not None and weights is not None:
                problems = self.goal(region, clause, weights[tree], tree * 0)
            problems = problems._replace(columns=columns, slopes=slopes(leaf), splits=splits)
            lower = self._lowest(region, node, neuron[tree], sign[tree], problems)
            np.minimum.at(found, tree, lower)
        region.improve(node, neuron, sign, neuron * 0, found)
        region.propagate(node)

    def _lowest(
        self, region: Region, node: int, neuron: Index, sign: Array, problems: Problems
    ) -> Array:
        """Lower bounds of sign times a neuron's x."""
        aim = np.zeros((self.network.nodes[node].size, len(neuron)))
        aim[neuron, np.arange(len(neuron))] = sign
        return region.bound(problems._replace(node=node, aim=aim))

    def goal(self, region: Region, clause: Clause, w: Array, which: Index) -> Problems:
        """w.(A y - b) for weights [R, m]."""
        if not ((w >= 0) & (w <= HUGE)).all():
            raise Invalid("a row weight is negative or too large")
        reach = np.maximum(*map(np.abs, region.out[self.network.output])).max(1)
        size = np.abs(clause.matrix) @ reach + np.abs(clause.offset)
        goal = np.ascontiguousarray((w @ clause.matrix).T)
        error = 4 * (self.network.gamma + gamma(len(size)))  # the rows are no part of the network
        return Problems(which, -(w @ clause.offset), error * (w @ size), goal)

    def leaves(self, root: Region, clause: Clause, proof: Record) -> Iterator[Array]:
        """Lower bounds of all leaves of a clause's tree, in batches."""
        split = self._split(proof, 1, self.neurons + self.network.nodes[0].size)
        count, rows = int((split < 0).sum()), len(clause.offset)
        columns, slopes = self._slopes(proof, count)
        weights = proof.floats("weights", (count, rows))
        if weights is None and rows != 1:
            raise Unreadable("a clause of several rows without row weights")
        renew = proof.indices("renew", len(self.network.acts))
        if len(np.unique(renew)) < len(renew):
            raise Unreadable("a layer is to be renewed twice")
        for _, leaf, splits in self._leaves(proof, split, 1):
            region, which = root, np.arange(len(leaf))
            if len(renew) or (split >= self.neurons).any():
                region = self.renewed(root.divided(len(leaf), splits), renew)
            w = np.ones((len(leaf), 1)) if weights is None else weights[leaf]
            problems = self.goal(region, clause, w, which)._replace(splits=splits)
            lower = region.bound(problems._replace(columns=columns, slopes=slopes(leaf)))
            yield np.where(region.empty, np.inf, lower)

    @staticmethod
    def _split(record: Record, trees: int, below: int) -> Index:
        """Where the nodes of trees are split, -1 for leaves; by default each tree is a leaf."""
        split = record.indices("split", below, least=-1)
        return split if len(split) else np.full(trees, -1)

    def _leaves(
        self, record: Record, split: Index, trees: int
    ) -> Iterator[tuple[Index, Index, Splits]]:
        """In batches, the trees' leaves: which tree, which leaf, and the splits above.

        Each tree is given in preorder: `split` is -1 for a leaf, else a neuron or, behind all
        neurons, an input that is split into x >= at and x <= at; the first child and all below it
        come next, then the second. So the leaves cover the box whatever the entries are. `beta` has
        an entry for each leaf and split above it, leaf by leaf from the root."""
        at, beta = record.floats("at", (len(split),)), record.floats("beta", (None,))
        at = np.zeros(len(split)) if at is None else at
        leaf, used, walk = 0, 0, paths(split.tolist(), trees)
        while batch := list(islice(walk, self.batch)):
            steps = [step for _, path in batch for step in path]
            node, sign = np.array(steps, int).reshape(-1, 2).T
            owner = np.repeat(np.arange(len(batch)), [len(path) for _, path in batch])
            own = np.zeros(len(node)) if beta is None else beta[used : used + len(node)]
            if len(own) != len(node):
                raise Unreadable("too few multipliers of splits")
            splits = Splits(split[node], owner, sign.astype(float), at[node], own)
            yield np.array([tree for tree, _ in batch]), leaf + np.arange(len(batch)), splits
            leaf, used = leaf + len(batch), used + len(node)

    def renewed(self, region: Region, layers: Index) -> Region:
        """Bounds of these activations' inputs where they may be positive and negative."""
        for node in (self.network.acts[layer] for layer in layers):
            place = np.argwhere((region.lower[node] < 0) & (region.upper[node] > 0))
            for part in _parts(len(place), self.batch):
                neuron, which = place[part].T
                for sign in (np.ones(len(part)), -np.ones(len(part))):
                    lower = self._lowest(region, node, neuron, sign, _nothing(which))
                    region.improve(node, neuron, sign, which, lower)
            region.propagate(node)
        return region

    def _slopes(self, record: Record, count: int) -> tuple[Index, Callable[[Index], Array]]:
        """Row `of[j]` of `table` times 2^-bits are problem j's slopes at the neurons `columns`."""
        columns = record.indices("columns", self.neurons)
        if not len(columns):
            return NONE, lambda _: np.zeros((0, 1))
        table = record.array("table", "u", (None, len(columns)))
        if table is None or len(np.unique(columns)) != len(columns):
            raise Unreadable("slopes without a table, or for a neuron twice")
        of = record.indices("of", len(table)) if "of" in record.fields else np.zeros(count, int)
        if len(of) != count or not len(table):
            raise Unreadable(f"slopes of {len(of)} problems; expected {count}")
        unit = np.float64(2.0 ** -record.integer("bits", 17))
        return columns, lambda part: unit * table[of[part]].T


def _parts(count: int, size: int) -> Iterator[Index]:
    return (np.arange(i, min(i + size, count)) for i in range(0, count, size))


def _nothing(which: Index) -> Problems:
    return Problems(which, np.zeros(len(which)), np.zeros(len(which)))


def paths(split: list[int], trees: int = 1) -> Iterator[tuple[int, list[tuple[int, int]]]]:
    """Of each leaf its tree, and the nodes above it from the root with the side taken there."""
    path, tree = list[tuple[int, int]](), 0
    for node, code in enumerate(split):
        if tree == trees or len(path) > MAX_DEPTH:
            raise Unreadable("the last tree goes on behind its last leaf, or one is too deep")
        if code >= 0:
            path.append((node, 1))
            continue
        yield tree, path[:]
        while path and path[-1][1] < 0:
            path.pop()
        if path:
            path[-1] = (path[-1][0], -1)
        else:
            tree += 1
    if tree < trees:
        raise Unreadable("a tree lacks a leaf")
