"""Proofs of clauses by splits of the input box, for networks of which few inputs vary.

    take boxes → bounds by the search's own kernels, which also say what of a box is left and where to cut
    → what they close, or nearly do, is bounded by the checker; what that closes is a leaf
    → of the rest, what the kernels clip away is cut off input by input, each slab being a leaf if the checker closes it
    → what is left is cut in two, or bounded again if little is

The checker bounds all layers of a leaf anew, so its bounds are often better than those of the kernels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from anybound.budget import Budget
from anybound.certificate import ClauseProof, Index, Step
from anybound.certifying.input_set import CLEARANCE, InputSet, Vector
from anybound.search.input_split.splitter import Bounded, Boxes, InputSplitter
from anybound.search.input_split.tree import BoxTree
from anybound.spec.problems import ClauseRows
from anybound_check.bounds import Splits

SPARES = (
    1e-6,
    1e-3,
)  # ends move outwards by so much: leaves need a margin, those that rest on ends before a larger one
THIN = 0.05  # of a box's width
HALF = 0.5


class _Open(NamedTuple):
    """N boxes of the varying inputs, their nodes in the tree, and their parents' bounds."""

    lower: Vector
    upper: Vector
    node: Index
    before: Vector

    def take(self, at: Index | slice) -> _Open:
        return _Open._make(column[at] for column in self)


class _End(NamedTuple):
    """Where an input's interval ends from now on."""

    input: int
    cut: float
    is_upper: bool


class _Slab(NamedTuple):
    """What of a box is beyond an end."""

    lower: Vector
    upper: Vector
    end: _End


def _slab(low: Vector, high: Vector, end: _End) -> _Slab:
    low, high = low.copy(), high.copy()
    (low if end.is_upper else high)[end.input] = end.cut
    return _Slab(low, high, end)


def _chain(low: Vector, high: Vector, ends: Sequence[_End]) -> list[_Slab]:
    """Slabs of a box, each of what those before leave of it."""
    low, high, slabs = low.copy(), high.copy(), list[_Slab]()
    for end in ends:
        slabs.append(_slab(low, high, end))
        (high if end.is_upper else low)[end.input] = end.cut
    return slabs


def _sides(slabs: Sequence[_Slab]) -> tuple[Vector, Vector]:
    return np.array([slab.lower for slab in slabs]), np.array([slab.upper for slab in slabs])


def _beyond(low: Vector, high: Vector, lower: Vector, upper: Vector, spare: float) -> list[_End]:
    """The ends `lower` and `upper` that are well inside a box, moved outwards a little."""
    width = high - low
    tops, bottoms = upper + spare, lower - spare
    above = np.flatnonzero((high - tops > THIN * width) & (low < tops))
    below = np.flatnonzero((bottoms - low > THIN * width) & (bottoms < high))
    return [
        *(_End(int(i), float(tops[i]), is_upper=True) for i in above),
        *(_End(int(i), float(bottoms[i]), is_upper=False) for i in below),
    ]


def _whole(lower: Vector, upper: Vector) -> Boxes:
    """Boxes in which the only clause is open."""
    return Boxes(lower.copy(), upper.copy(), np.ones((len(lower), 1), np.bool_))


@dataclass(frozen=True, eq=False)
class BoxBounder:
    """One clause: the kernels' bounds of boxes, and the checker's."""

    task: InputSet
    member: ClauseRows
    splitter: InputSplitter

    @classmethod
    def of(cls, task: InputSet, member: ClauseRows) -> BoxBounder:
        rows = range(member.rows.start, member.rows.stop)
        problem, bounds = task.safety.problem, task.bounds(task.region)
        return cls(task, member, InputSplitter.of(problem, bounds, [rows], clips=True))

    @cached_property
    def plain(self) -> InputSplitter:
        """The same without clipping: what it closes, a single bound does."""
        return replace(self.splitter, clips=False)

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
        return self.splitter.bound(_whole(boxes.lower, boxes.upper))

    def weights(self, found: Bounded) -> Vector:
        """Those of the rows, as they are kept; equal ones where none are known."""
        weight = np.maximum(found.weight, 0).astype(np.float32).astype(np.float64)
        weight[~(weight > 0).any(1)] = 1.0
        return weight

    def closes(self, lower: Vector, upper: Vector) -> tuple[NDArray[np.bool_], Vector]:
        """Which boxes the checker closes, and with which weights: the kernels', or each row alone."""
        weight = self.weights(self.plain.bound(_whole(lower, upper)))
        closed, size = np.zeros(len(lower), np.bool_), self.task.checker.batch
        rows = np.eye(weight.shape[1])
        for alone in (None, *(rows if len(rows) > 1 else ())):
            left = np.flatnonzero(~closed)
            for part in (left[first : first + size] for first in range(0, len(left), size)):
                own = weight[part] if alone is None else np.tile(alone, (len(part), 1))
                found = self.checked(lower[part], upper[part], own) > 0
                weight[part[found]], closed[part[found]] = own[found], True
        return closed, weight

    def checked(self, low: Vector, high: Vector, weight: Vector) -> Vector:
        """The checker's bounds of as many boxes as it takes at once, for weights as they are kept."""
        checker, count = self.task.checker, len(low)
        inputs = checker.neurons + self.splitter.folded.inputs
        owner = np.repeat(np.arange(count), 2 * len(inputs))
        sign = np.tile([1.0, -1.0], count * len(inputs))
        root = self.splitter.root  # of which the checker has its own borders
        lower = np.where(low > root.lower, low, -np.inf)
        upper = np.where(high < root.upper, high, np.inf)
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
        weight = self.bounder.weights(found)
        closed = np.zeros(len(bound), np.bool_)
        if len(at):
            lower, upper = boxes.lower[at], boxes.upper[at]
            closed[at] = self.bounder.checked(lower, upper, weight[at]) > 0
        self.weight |= {int(boxes.node[i]): weight[i] for i in np.flatnonzero(closed)}
        at = np.flatnonzero(~closed)
        left = boxes.take(at)._replace(before=bound[at])
        clipped, is_small = self._clip(left, found.lower[at], found.upper[at])
        self._push(clipped.take(np.flatnonzero(is_small)))
        whole = np.flatnonzero(~is_small)
        self._cut(clipped.take(whole), found.choice[at[whole]])

    def _clip(self, boxes: _Open, lower: Vector, upper: Vector) -> tuple[_Open, NDArray[np.bool_]]:
        """The boxes without the slabs beyond `lower` and `upper` that the checker closes, and which of them lost more
        than half. What was cut off may be what closes another slab, so that it takes turns."""
        low, high, node = boxes.lower.copy(), boxes.upper.copy(), boxes.node.copy()
        moving: set[int] = set(range(len(node)))
        while moving:
            moved = set[int]()
            for spare in SPARES:
                ends = [(i, _beyond(low[i], high[i], lower[i], upper[i], spare)) for i in moving]
                moved.update(self._cut_slabs(low, high, node, ends))
            moving = moved
        before, after = boxes.upper - boxes.lower, high - low
        share = np.divide(after, before, out=np.ones_like(after), where=before > 0).prod(1)
        return boxes._replace(lower=low, upper=high, node=node), share < HALF

    def _cut_slabs(
        self, low: Vector, high: Vector, node: Index, ends: Sequence[tuple[int, Sequence[_End]]]
    ) -> Sequence[int]:
        """Cut off, in place, what of each box is beyond its ends as far as the checker closes it; which boxes changed.

        Each slab is tried alone, and those that close once more, one cut off after the other."""
        alone = [_slab(low[i], high[i], end) for i, own in ends for end in own]
        if not alone:
            return ()
        closed = iter(self.bounder.closes(*_sides(alone))[0].tolist())
        ends = [(i, [end for end in own if next(closed)]) for i, own in ends]
        chains = [(i, _chain(low[i], high[i], own)) for i, own in ends if own]
        if not chains:
            return ()
        found, weight = self.bounder.closes(*_sides([slab for _, own in chains for slab in own]))
        place, moved = 0, list[int]()
        for i, own in chains:
            for at, slab in enumerate(own, start=place):
                if not found[at]:
                    break
                node[i] = self._cut_off(int(node[i]), slab.end, weight[at])
                (high if slab.end.is_upper else low)[i, slab.end.input] = slab.end.cut
                moved += [] if moved[-1:] == [i] else [i]
            place += len(own)
        return moved

    def _cut_off(self, node: int, end: _End, weight: Vector) -> int:
        """The number of what is left beside a slab that is a leaf."""
        below, above = self.tree.add_children(
            np.array([node]), np.array([end.input]), np.array([end.cut])
        ).tolist()
        self.weight[above if end.is_upper else below] = weight
        return int(below if end.is_upper else above)

    def _cut(self, boxes: _Open, choice: Index) -> None:
        lower, upper, row = boxes.lower, boxes.upper, np.arange(len(boxes.node))
        root = self.bounder.splitter.root
        widest = ((upper - lower) / (root.upper - root.lower)).argmax(1)
        # the kernels do not say where to cut what they can close
        chosen = np.where(choice >= 0, choice, widest)
        cut = 0.5 * lower[row, chosen] + 0.5 * upper[row, chosen]
        inside = (lower[row, chosen] < cut) & (cut < upper[row, chosen])
        self.stuck = not inside.all()
        if self.stuck or len(row) == 0:
            return
        lower, upper = np.repeat(lower, 2, axis=0), np.repeat(upper, 2, axis=0)
        upper[2 * row, chosen], lower[2 * row + 1, chosen] = cut, cut
        node = self.tree.add_children(boxes.node, chosen, cut)
        self._push(_Open(lower, upper, node, np.repeat(boxes.before, 2)))

    def _push(self, more: _Open) -> None:
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
