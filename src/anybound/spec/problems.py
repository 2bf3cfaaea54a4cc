"""From a property to what has to be bounded: per unsafe clause, the rows of which one must stay positive.

Clause i is unreachable over its input set X_i if for every x in X_i some row of A_i f(x) − b_i is positive. So a clause
of one half-space holds if its row's minimum is positive, and one of several if min over x of wᵀ(A_i f(x) − b_i) > 0
for some weights w >= 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from anybound.errors import InvalidProperty
from anybound.model.network import Network
from anybound.spec.domains import from_input_set
from anybound.spec.problem import Objective, Problem
from anybound.spec.property import Property


@dataclass(frozen=True, eq=False)
class ClauseRows:
    """A clause of the property and its rows in the problem's objective."""

    clause: int
    rows: slice


@dataclass(frozen=True, eq=False)
class SafetyProblem:
    """All clauses over one input set: row r of the objective is (a_rᵀ f(x) − b_r)."""

    problem: Problem
    clauses: tuple[ClauseRows, ...]


def problems(network: Network, prop: Property) -> Iterator[SafetyProblem]:
    """One problem per distinct input set, with the rows of all clauses over it."""
    check_sizes(network, prop)
    for input_set, members in prop.groups():
        domain = from_input_set(input_set, network.input_shape)
        rows, offsets, clauses, at = [], [], [], 0
        for index in members:
            outputs = prop.clauses[index].outputs
            rows.append(torch.from_numpy(outputs.matrix.copy()))
            offsets.append(-torch.from_numpy(outputs.offset.copy()))
            count = len(outputs.offset)
            clauses.append(ClauseRows(index, slice(at, at + count)))
            at += count
        matrix = torch.cat(rows).reshape(-1, *network.output_shape)
        objective = Objective.rows(network, matrix, torch.cat(offsets))
        yield SafetyProblem(Problem(network, domain, objective), tuple(clauses))


def check_sizes(network: Network, prop: Property) -> None:
    """Refuse a property of another network."""
    have = (network.input_size, network.output_size)
    want = (prop.input_size, prop.output_size)
    if have != want:
        raise InvalidProperty(
            f"the property has {want[0]} inputs and {want[1]} outputs, the network {have[0]} and {have[1]}; "
            "is it the property of another network?"
        )
