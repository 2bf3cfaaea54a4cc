"""Proofs of clauses by splits of the input box, for networks of which few inputs vary.

    take boxes → bounds by the search's own kernels, which also say where to cut
    → what they close, or nearly do, is bounded by the checker; what that closes is a leaf
    → the rest is cut in two

The checker bounds all layers of a leaf anew, so its bounds are often better than those of the kernels.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from anybound.budget import Budget
from anybound.certificate import ClauseProof, Index, Step
from anybound.certifying.input_set import CLEARANCE, InputSet, Vector
from anybound.search.input_split.splitter import Bounded, Boxes, InputSplitter
from anybound.search.input_split.tree import BoxTree
from anybound.spec.problems import ClauseRows
from anybound_check.bounds import Splits


class _Open(NamedTuple):
    """N boxes of the varying inputs, their nodes in the tree, and their parents' bounds."""

    lower: Vector
    upper: Vector
    node: Index
    before: Vector

    def take(self, at: Index | slice) -> _Open:
        return _Open._make(column[at] for column in self)


@dataclass(frozen=True, eq=False)
class BoxBounder:
    """One clause: the kernels' bounds of boxes, and the checker's."""

    task: InputSet
    member: ClauseRows
    splitter: InputSplitter

    @classmethod
    def of(cls, task: InputSet, member: ClauseRows) -> BoxBounder:
        rows = range(member.rows.start, member.rows.stop)
        problem = task.safety.problem
        return cls(task, member, InputSplitter.of(problem, task.bounds(task.region), [rows]))

    @cached_property
    def renewed(self) -> tuple[int, ...]:
        """The activations whose bounds gain from another computation: not those right behind the
        input whose intervals are as good already."""
        return tuple(filter(self._gains, sorted(self.task.numbering.activation.values())))

    def _gains(self, activation: int) -> bool:
        task = self.task
        v = task.checker.network.acts[activation]
        if any(0 < w < v for w in task.checker.network.acts):
            return True
        root = task.checker.region(task.number[self.member.clause])
        neuron = np.arange(task.checker.network.nodes[v].size)
        return task.improve(root, Step(activation, neuron, neuron)) is not None

    def propose(self, boxes: _Open) -> Bounded:
        is_open = np.ones((len(boxes.node), 1), np.bool_)
        return self.splitter.bound(Boxes(boxes.lower.copy(), boxes.upper.copy(), is_open))

    def checked(self, boxes: _Open, weight: Vector) -> Vector:
        """The checker's bounds of as many boxes as it takes at once, for weights as they are kept."""
        checker, count = self.task.checker, len(boxes.node)
        inputs = checker.neurons + self.splitter.folded.inputs
        owner = np.repeat(np.arange(count), 2 * len(inputs))
        sign = np.tile([1.0, -1.0], count * len(inputs))
        root = self.splitter.root  # of which the checker has its own borders
        lower = np.where(boxes.lower > root.lower, boxes.lower, -np.inf)
        upper = np.where(boxes.upper < root.upper, boxes.upper, np.inf)
        at = np.stack([lower, upper], axis=2).reshape(-1)
        neuron = np.tile(np.repeat(inputs, 2), count)
        region = self.task.region.divided(count, Splits(neuron, owner, sign, at, np.zeros(len(at))))
        region = checker.renewed(region, np.array(self.renewed, np.int64))
        goal = checker.goal(region, self.task.clause(self.member), weight, np.arange(count))
        return np.where(region.empty, np.inf, region.bound(goal) - CLEARANCE)


class BoxProof:
    """The search for one clause, which can be interrupted and gone on with."""

    def __init__(self, bounder: BoxBounder) -> None:
        self.bounder, self.tree = bounder, BoxTree()
        root = bounder.splitter.root
        self.open = _Open(root.lower, root.upper, np.zeros(1, np.int64), np.full(1, -np.inf))
        self.weight: dict[int, Vector] = {}  # of leaves
        self.stuck = False

    def run(self, budget: Budget) -> ClauseProof | None:
        """The proof; None if there was no time for it, or something cannot be cut any further."""
        while len(self.open.node) and not self.stuck:
            if budget.is_spent():
                return None
            self._round()
        return None if self.stuck else self._proof()

    def _round(self) -> None:
        """One batch, from the end of the stack."""
        first = max(0, len(self.open.node) - self.bounder.task.checker.batch)
        boxes, self.open = self.open.take(slice(first, None)), self.open.take(slice(first))
        found = self.bounder.propose(boxes)
        bound = found.bound[:, 0]
        # worth a look by the checker: closed, or so if the next cut gained as much as the last one
        gained = np.where(boxes.before > -np.inf, bound - boxes.before, 0.0)
        at = np.flatnonzero((bound > 0) | (bound + gained > 0))
        weight = np.maximum(found.weight, 0).astype(np.float32).astype(np.float64)
        weight[~(weight > 0).any(1)] = 1.0
        closed = np.zeros(len(bound), np.bool_)
        if len(at):
            closed[at] = self.bounder.checked(boxes.take(at), weight[at]) > 0
        self.weight |= {int(boxes.node[i]): weight[i] for i in np.flatnonzero(closed)}
        self._cut(boxes, found, np.flatnonzero(~closed))

    def _cut(self, boxes: _Open, found: Bounded, at: Index) -> None:
        lower, upper, row = boxes.lower[at], boxes.upper[at], np.arange(len(at))
        root = self.bounder.splitter.root
        widest = ((upper - lower) / (root.upper - root.lower)).argmax(1)
        # the kernels do not say where to cut what they can close
        chosen = np.where(found.choice[at] >= 0, found.choice[at], widest)
        cut = 0.5 * lower[row, chosen] + 0.5 * upper[row, chosen]
        inside = (lower[row, chosen] < cut) & (cut < upper[row, chosen])
        self.stuck = not inside.all()
        if self.stuck or len(at) == 0:
            return
        lower, upper = np.repeat(lower, 2, axis=0), np.repeat(upper, 2, axis=0)
        upper[2 * row, chosen], lower[2 * row + 1, chosen] = cut, cut
        node = self.tree.add_children(boxes.node[at], chosen, cut)
        more = _Open(lower, upper, node, np.repeat(found.bound[at, 0], 2))
        self.open = _Open._make(
            np.concatenate(columns) for columns in zip(self.open, more, strict=True)
        )

    def _proof(self) -> ClauseProof:
        """The tree in preorder: first the part above the cut, which is the later child."""
        bounder, tree = self.bounder, self.tree
        inputs = bounder.task.checker.neurons + bounder.splitter.folded.inputs
        later = np.full(len(tree), -1)
        later[tree.parent[2::2]] = np.arange(2, len(tree), 2)
        split, at, weight, pending = list[int](), list[float](), list[Vector](), [0]
        while pending:
            node = pending.pop()
            child = int(later[node])
            split.append(-1 if child < 0 else int(inputs[tree.input[child]]))
            at.append(0.0 if child < 0 else float(tree.cut[child]))
            if child < 0:
                weight.append(self.weight[node])
            else:
                pending += [child - 1, child]
        member = bounder.member
        return ClauseProof(
            bounder.task.number[member.clause],
            split=np.array(split),
            at=np.array(at) if len(at) > 1 else None,
            weights=None if member.rows.stop - member.rows.start == 1 else np.array(weight),
            renew=bounder.renewed,
        )
