"""Bounds of the hidden layers, as steps of a certificate.

For each layer: intervals; then, for the neurons that are still bent, CROWN on the compact engine to
see which need no more, and Adam's slopes for the others. Where that engine does not apply: CROWN for all of them or, if
it has to be tight, an ascent in their slopes on the portable one. What any of it is worth the checker says.
"""

from __future__ import annotations

import numpy as np
import torch

from anybound.bound.backward import crown_slopes, lines_of
from anybound.bound.compact.network import CompactNetwork, supports
from anybound.bound.compact.objective import Aim, CompactObjective
from anybound.bound.compact.problems import Children, Parents
from anybound.bound.compact.refine import Adam, refine
from anybound.bound.compact.roots import neuron_bounds
from anybound.bound.compact.sparse import SparseNetwork
from anybound.bound.decomposition import Decomposition
from anybound.bound.hull import Hull
from anybound.bound.intermediates.iterative import Iterative
from anybound.bound.intermediates.strategy import chunks
from anybound.bound.method import maximise
from anybound.bound.row_search import PART_BYTES
from anybound.budget import Budget
from anybound.certificate import Index, Slopes, Step
from anybound.certifying.input_set import InputSet
from anybound.spec.problem import Objective, Problem

SLOPE_BITS = 7
CURVED_BITS = 9  # of slopes that are at most 1/4
LARGEST_SLOPE = 8.0  # of no use beyond


def bound_layers(task: InputSet, budget: Budget, *, tight: bool) -> None:
    """Take the steps, as long as there is time; `tight` makes a difference on the portable engine."""
    compact = not supports(task.network, task.box)
    sparse = SparseNetwork(task.network) if compact else None
    for k, activation in sorted(task.numbering.activation.items()):
        neuron = task.bent(task.region, activation)
        if len(neuron) == 0 or budget.is_spent():
            continue
        if all(edge.source == 0 for edge in task.network.nodes[k].edges):
            # affine in the input; but the checker may see several maps, and have rounded between them
            task.take(Step(activation, neuron, neuron))
            continue
        if sparse is None:
            slopes = ascended_slopes(task, k, neuron, budget) if tight else None
            task.take(Step(activation, neuron, neuron, slopes))
            continue
        bounds = task.bounds(task.region)
        lower = {j: bounds.lower[j][0, 0] for j in range(1, k)}
        upper = {j: bounds.upper[j][0, 0] for j in range(1, k)}
        network = CompactNetwork.between(sparse, lower, upper, task.box)
        low, high = neuron_bounds(network, neuron, None)
        # one side is enough where it decides the sign
        task.take(Step(activation, neuron[low > 0], neuron[(high < 0) & ~(low > 0)]))
        neuron = task.bent(task.region, activation)
        if len(neuron):
            task.take(Step(activation, neuron, neuron, refined_slopes(task, network, neuron)))


def refined_slopes(task: InputSet, network: CompactNetwork, neuron: Index) -> Slopes:
    """Slopes by Adam for lower bounds of some neurons of the next layer, then for upper ones."""
    aimed = network.aiming(neuron)
    row = aimed.first[-2] + np.arange(len(neuron))
    weight = np.repeat(np.array([1, -1], np.float32), len(neuron))
    aim = Aim(np.zeros(2 * len(neuron), np.float32), np.tile(row, 2), weight)
    start = Parents.roots(aimed, np.zeros(1, np.int64))
    children = Children.of(np.zeros(2 * len(neuron), np.int64))
    found = refine(aimed, CompactObjective.none(aimed), start, children, Adam(), aim)
    # only where the coefficient is positive does a slope matter; zeros pack well
    values = np.where(found.coefficient > 0, found.slope, 0)
    return Slopes(task.numbering.neuron[aimed.neuron], values, SLOPE_BITS)


def ascended_slopes(task: InputSet, k: int, neuron: Index, budget: Budget) -> Slopes:
    """Slopes for lower bounds of some neurons of layer k, then for upper ones, by the portable engine."""
    network, bounds = task.network.upto(k), task.bounds(task.region)
    hull = Hull(network, task.box, bounds.upto(k))
    rough, method = hull.to(torch.float32), Iterative().method
    index = torch.from_numpy(np.concatenate([neuron, neuron]))
    sign = torch.ones(len(index), dtype=torch.float64)
    sign[len(neuron) :] = -1
    parts = []
    for part in chunks(torch.arange(len(index)), 8 * network.layout.total, PART_BYTES):
        objective = Objective.neurons(network, index[part], sign[part])
        problem = Problem(rough.network, rough.domain, objective.to(torch.float32))
        dual = Decomposition(problem, rough)
        rho = maximise(dual, method, budget).rho
        g = dual.coefficients(rho).hidden.data
        (lower, upper), _ = lines_of(dual, rho, g, crown_slopes(rough))
        parts.append(torch.where(g < 0, upper, lower)[0])
    own = task.numbering.neuron[: network.layout.total]
    values = np.nan_to_num(torch.cat(parts).numpy()).clip(0, LARGEST_SLOPE)
    return Slopes(own[own >= 0], values[:, own >= 0], CURVED_BITS)
