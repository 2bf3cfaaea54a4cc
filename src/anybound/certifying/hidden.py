"""Bounds of hidden neurons by small trees, as steps of a certificate: for deep networks, see `search.neuron_trees`.

Those trees are grown between the checker's bounds, and written down with the slopes of all their leaves. What a step
is worth the checker says; a layer is given up after its first group where that is little.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch

from anybound.bound.compact.network import CompactNetwork
from anybound.bound.compact.objective import CompactObjective
from anybound.bound.compact.sparse import SparseNetwork
from anybound.budget import Budget
from anybound.certificate import Index, Slopes, Step, preorder
from anybound.certifying.input_set import InputSet, Vector
from anybound.certifying.intermediate import SLOPE_BITS
from anybound.certifying.neurons import RoundedBounder
from anybound.search.bounder import Expansion
from anybound.search.neuron_trees import NeuronTrees, Trees
from anybound.search.relu_bounder import ReluBatch
from anybound.search.rule import Matrix
from anybound.search.tree import Tree
from anybound.spec.problem import Objective
from anybound_check.proof import paths


@dataclass(frozen=True, eq=False)
class _RecordingBounder(RoundedBounder):
    """Numbers the nodes of trees, and keeps what was bounded rigorously of each."""

    tree: Tree = field(default_factory=Tree)
    kept: list[ReluBatch] = field(default_factory=list)

    def roots(self, row: Index, node: Index) -> Expansion:
        return super().roots(row, self.tree.add_roots(len(node)))

    def children(
        self, parents: ReluBatch, neuron: Index, threshold: float, *, inputs: bool
    ) -> Expansion:
        found = super().children(parents, neuron, threshold, inputs=inputs)
        sign = np.tile(np.array([1, -1], np.int8), len(neuron))
        node = self.tree.add_children(np.repeat(parents.node, 2), np.repeat(neuron, 2), sign)
        return found._replace(batch=found.batch._replace(node=node))

    def certify(self, batch: ReluBatch) -> Vector:
        self.kept.append(batch)
        return super().certify(batch)


def bound_neurons(task: InputSet, plan: NeuronTrees, budget: Budget) -> float:
    """Take the steps of all layers; the largest gain of a layer's first group, as a share of its width."""
    sparse, largest = SparseNetwork(task.network), 0.0
    for k, activation in sorted(task.numbering.activation.items()):
        neuron = task.bent(task.region, activation)
        if len(neuron) == 0 or all(edge.source == 0 for edge in task.network.nodes[k].edges):
            continue
        bounds = task.bounds(task.region)
        lower = {j: bounds.lower[j][0, 0] for j in range(1, k)}
        upper = {j: bounds.upper[j][0, 0] for j in range(1, k)}
        network = CompactNetwork.between(sparse, lower, upper, task.box)
        for number, group in enumerate(np.array_split(neuron, -(-len(neuron) // plan.group))):
            if budget.is_spent() or len(network.ambiguous) == 0:
                return largest
            before = _width(task, activation, group)
            task.take(_grown(task, network, k, group, plan, budget))
            gain = 1 - _width(task, activation, group) / before
            if number == 0:
                largest = max(largest, gain)
                if gain < plan.least_gain:
                    break
    return largest


def _width(task: InputSet, activation: int, neuron: Index) -> float:
    """What is bent of some neurons' intervals, all together."""
    v = task.checker.network.acts[activation]
    low, high = task.region.lower[v][neuron, 0], task.region.upper[v][neuron, 0]
    return float(np.where((low < 0) & (high > 0), high - low, 0.0).sum())


def _grown(
    task: InputSet,
    network: CompactNetwork,
    k: int,
    neuron: Index,
    plan: NeuronTrees,
    budget: Budget,
) -> Step:
    """The trees for lower bounds of some neurons of layer k, then those for upper ones."""
    sign = torch.tensor([1.0, -1.0], dtype=torch.float64).repeat(len(neuron))
    at = torch.from_numpy(neuron).repeat_interleave(2)
    objective = CompactObjective.of(Objective.neurons(task.network.upto(k), at, sign), network)
    bounder = _RecordingBounder(network, objective, programs=plan.programs)
    Trees(bounder, plan, 2 * len(neuron)).grow(budget)
    batch = ReluBatch(*(np.concatenate(columns) for columns in zip(*bounder.kept, strict=True)))
    place = np.full(len(bounder.tree), -1)
    place[batch.node] = np.arange(len(batch.node))  # the last of each node
    tree = bounder.tree
    rows = [*range(0, 2 * len(neuron), 2), *range(1, 2 * len(neuron), 2)]
    orders = [preorder(tree.parent, tree.split, row) for row in rows]
    columns = task.numbering.neuron[network.neuron]
    own = batch.take(place[np.concatenate([order.leaf for order in orders])])
    split = np.concatenate([order.split for order in orders])
    above = [split[[node for node, _ in path]] for _, path in paths(split.tolist(), len(rows))]
    beta = [own.slope[leaf, cut] for leaf, cut in enumerate(above)]
    values: Matrix = np.where(own.sign == 0, own.slope, 0).clip(0, 1)
    return Step(
        task.numbering.activation[k],
        neuron,
        neuron,
        Slopes(columns, values, SLOPE_BITS),
        split=np.where(split < 0, -1, columns[split]),
        beta=np.concatenate(beta),
    )
