"""What a certificate has to show, and whether it does.

For every clause: intermediate bounds, each computed here from the slopes proposed; and a tree of
splits whose leaves all have a positive lower bound of sum_m w_m (A y - b)_m, w >= 0. As every child
pair is (x >= a, x <= a), the leaves cover the box; and where the sum is positive, some row of
A y <= b is violated: y is not in the clause. Nothing is taken from the certificate but proposals.
"""

from __future__ import annotations

import gzip
import hashlib
import time
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from anybound_check.archive import Record, read_archive
from anybound_check.arithmetic import HUGE, Array, Index, Invalid, Unreadable
from anybound_check.dual import Hints, Region
from anybound_check.network import Network, read_network
from anybound_check.tree import Leaves, Slopes, Tree
from anybound_check.vnnlib import Clause, read_property

MAX_FILE = 2**31
CHUNK = 2**22  # numbers of a node in a batch of problems


@dataclass(frozen=True)
class Report:
    """`unreadable`: a file cannot be understood, so nothing is said about the proof."""

    valid: bool
    reason: str
    semantics: str
    seconds: float
    unreadable: bool = False


def check(network: str | Path, prop: str | Path, certificate: str | Path) -> Report:
    """Whether the certificate proves that the network has the property."""
    begun = time.perf_counter()
    semantics, reason, unreadable = "", "", False
    try:
        model, spec, proof = (_content(Path(path)) for path in (network, prop, certificate))
        manifest = read_archive(proof, 4 * (len(model) + len(spec) + len(proof)) + 2**20)
        semantics = _header(manifest, model, spec)
        with np.errstate(all="ignore"):  # what is not finite is refused where it matters
            net = read_network(model)
            clauses = read_property(spec, net.nodes[0].size, net.nodes[net.output].size)
            Checker(net, clauses, semantics == "float32").prove(manifest)
    except Invalid as error:
        reason = str(error)
    except (Unreadable, MemoryError, RecursionError) as error:
        reason, unreadable = str(error) or type(error).__name__, True
    return Report(not reason, reason, semantics, time.perf_counter() - begun, unreadable)


def _content(path: Path) -> bytes:
    """A file's bytes, unpacked if they are gzip'd."""
    try:
        with path.open("rb") as plain, gzip.open(path) as packed:
            is_packed = plain.peek(2)[:2] == b"\x1f\x8b"
            content = (packed if is_packed else plain).read(MAX_FILE + 1)
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise Unreadable(f"{path.name}: {error}") from error
    if len(content) > MAX_FILE:
        raise Unreadable(f"{path.name} has more than {MAX_FILE} bytes")
    return content


def _header(manifest: Record, model: bytes, spec: bytes) -> str:
    fields = manifest.fields
    if (fields.get("format"), fields.get("version")) != ("anybound certificate", 1):
        raise Unreadable("not a certificate of version 1")
    for key, content in (("network", model), ("property", spec)):
        if fields.get(key) != hashlib.sha256(content).hexdigest():
            raise Invalid(f"the certificate is about another {key}")
    if fields.get("semantics") not in ("real", "float32"):
        raise Unreadable("semantics is neither real nor float32")
    return str(fields["semantics"])


class Goal(NamedTuple):
    """start.t + value for R problems, within `loss`; `start` by node."""

    start: dict[int, Array]
    value: Array
    loss: Array

    @classmethod
    def nothing(cls, count: int) -> Goal:
        return cls({}, np.zeros(count), np.zeros(count))


@dataclass(eq=False)
class Checker:
    """One network and its clauses; `single` for the network executed in float32."""

    network: Network
    clauses: list[Clause]
    single: bool = False

    def __post_init__(self) -> None:
        kinds = {node.activation for node in self.network.nodes}
        if self.single and (self.network.double or not kinds <= {"", "relu"}):
            raise Unreadable("float32 semantics is for networks of float32 weights and ReLUs")
        self.batch = max(1, min(1024, CHUNK // max(node.size for node in self.network.nodes)))

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
                self._step(region, step, None)
            for number, proof in zip(numbers, proofs, strict=True):
                self._prove_clause(region.copy(), number, proof)
            left -= set(numbers)
        if left:
            raise Invalid(f"clause {min(left)} is not proved")

    def region(self, clause: int) -> Region:
        """A clause's box, with interval bounds."""
        box = self.clauses[clause]
        return Region.over(self.network, box.lower, box.upper, self.single)

    def _prove_clause(self, region: Region, number: int, proof: Record) -> None:
        clause = self.clauses[number]
        for step in proof.list("steps"):
            self._step(region, step, clause)
            if region.empty[0]:  # no input of the box violates the property
                return
        tree = Tree.read(proof, self.network, len(clause.offset))
        for leaves, hints in tree.batches(self.batch):
            lower = self.leaves(region, clause, tree, leaves, hints)
            worst = int(np.argmin(lower))
            if not lower[worst] > 0:
                where = f"leaf {leaves.number[worst]} of clause {number}"
                raise Invalid(f"{where}: the bound {lower[worst]:.6g} is not positive")

    def _step(self, region: Region, step: Record, clause: Clause | None) -> None:
        layer = step.integer("layer", len(self.network.pre))
        size = self.network.nodes[self.network.pre[layer]].size
        low, high = step.indices("lower", size), step.indices("upper", size)
        count, rows = len(low) + len(high), 0 if clause is None else len(clause.offset)
        slopes = Slopes.read(step.record("slopes"), count, self.network)
        self.improve(
            region, layer, low, high, slopes, clause, step.floats("weights", (count, rows))
        )

    def improve(
        self, region: Region, layer: int, low: Index, high: Index,
        slopes: Slopes, clause: Clause | None = None, weights: Array | None = None,
    ) -> None:  # fmt: skip
        """Lower bounds of the neurons `low` of a pre-activation, upper ones of `high`, and what
        follows from them. Under the negated property, if the clause has weights: on all inputs in
        question w.(A y - b) <= 0, so adding it makes nothing larger."""
        pre, count = self.network.pre[layer], len(low) + len(high)
        neuron, sign = np.concatenate([low, high]), np.repeat([1.0, -1.0], [len(low), len(high)])
        for first in range(0, count, self.batch):
            part = np.arange(first, min(first + self.batch, count))
            goal = Goal.nothing(len(part))
            if clause is not None and weights is not None:
                goal = self.goal(region, clause, weights[part])
            self._tighten(region, pre, neuron[part], sign[part], part * 0, goal, slopes.rows(part))
        region.propagate(pre + 1)

    def _tighten(
        self, region: Region, pre: int, neuron: Index, sign: Array, which: Index, goal: Goal, hints: Hints
    ) -> None:  # fmt: skip
        """Lower bounds of sign times a neuron of a pre-activation, in the boxes `which`."""
        start = np.zeros((self.network.nodes[pre].size, len(neuron)))
        start[neuron, np.arange(len(neuron))] = sign
        value = region.bound({**goal.start, pre: start}, goal.value, goal.loss, hints, which)
        region.improve(pre, neuron, sign, which, value)

    def goal(self, region: Region, clause: Clause, w: Array) -> Goal:
        """w.(A y - b) for weights [R, m]."""
        if (w < 0).any() or (w > HUGE).any():
            raise Invalid("a row weight is negative or too large")
        output = self.network.output
        size = np.abs(clause.matrix) @ region.magnitude(output).max(1) + np.abs(clause.offset)
        start = np.ascontiguousarray((w @ clause.matrix).T)
        return Goal({output: start}, -(w @ clause.offset), 4 * self.network.gamma * (w @ size))

    def leaves(
        self, region: Region, clause: Clause, tree: Tree, leaves: Leaves, hints: Hints
    ) -> Array:
        """Lower bounds of some leaves."""
        which = np.arange(len(leaves.number))
        if tree.has_boxes:
            region = region.divided(len(which), *leaves[1:])
            for layer in tree.layers:
                self._renew(region, self.network.pre[layer])
        goal = self.goal(region, clause, tree.weights[leaves.number])
        lower = region.bound(goal.start, goal.value, goal.loss, hints, which)
        return np.where(region.empty, np.inf, lower)

    def _renew(self, region: Region, pre: int) -> None:
        """Bounds of a pre-activation in every box, where it may be positive and negative."""
        place = np.argwhere((region.lower[pre] < 0) & (region.upper[pre] > 0))
        for first in range(0, len(place), self.batch):
            neuron, which = place[first : first + self.batch].T
            for sign in (1.0, -1.0):
                goal, signs = Goal.nothing(len(which)), np.full(len(which), sign)
                self._tighten(region, pre, neuron, signs, which, goal, Hints())
        region.propagate(pre + 1)
