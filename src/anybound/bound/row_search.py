"""One search for both sides of many functions, a part of them after the other as memory allows.

Every part holds its rows and their negatives, as upper bounds are lower bounds of the negated rows:
`[D, 2 R]`, the rows first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from anybound.bound.decomposition import Decomposition
from anybound.bound.hull import Hull
from anybound.bound.method import DualResult, Method, Stopped, maximise
from anybound.budget import Budget
from anybound.layers import Layers
from anybound.model.network import Network
from anybound.spec.problem import Objective, Problem

PART_BYTES = 64 << 20  # of one dual tensor; a search holds a dozen
_DONE = (Stopped.FINISHED, Stopped.DECIDED)


class Proof(NamedTuple):
    """ρ `[D, 2 R, total]`, and what it proves, `[D, 2 R]`."""

    rho: Layers
    value: Tensor

    def better_of(self, other: Proof) -> Proof:
        """Problem by problem."""
        mine = self.rho.data
        chosen = (other.value > self.value).unsqueeze(-1)
        rho = self.rho.like(torch.where(chosen, other.rho.data.to(mine), mine))
        return Proof(rho, self.value.maximum(other.value))


class PartResult(NamedTuple):
    """What a part's search found, and what that proves."""

    found: DualResult
    proof: Proof


@dataclass(frozen=True, eq=False)
class RowSearch:
    """A method in the dtype of `rough`, its proposals proved in that of `hull`.

    `rows` is `[R, *output_shape]`, None for every output (which needs no identity matrix)."""

    hull: Hull
    rough: Hull
    method: Method[Any]
    rows: Tensor | None

    @property
    def count(self) -> int:
        """R."""
        return self.hull.network.output_size if self.rows is None else len(self.rows)

    def parts(self) -> list[Tensor]:
        network, sets = self.hull.network, self.hull.domain.count
        row = 2 * 4 * sets * max(network.layout.total, network.input_size)
        size = max(1, PART_BYTES // row)
        return [torch.arange(i, min(i + size, self.count)) for i in range(0, self.count, size)]

    def run(self, budget: Budget, warm: Layers | None, *, trace: bool = False) -> list[PartResult]:
        """All parts, each with its share of the time that is left; a trace is of one part."""
        results, left = list[PartResult](), self.count
        for part in [torch.arange(self.count)] if trace else self.parts():
            start = None if warm is None else _of_rows(warm, part, self.count)
            share = budget.share(len(part) / left)
            results.append(self._run_part(part, share, start, trace=trace))
            left -= len(part)
        return results

    def _run_part(
        self, part: Tensor, budget: Budget, warm: Layers | None, *, trace: bool
    ) -> PartResult:
        objective = both_sides(self.hull.network, self.rows, part)
        dual, dtype = _dual(self.hull, objective), self.rough.bounds.lower.data.dtype
        ascent = _dual(self.rough, objective.to(dtype))
        start = None if warm is None else warm.to(dtype)
        found = maximise(ascent, self.method, budget, warm=start, trace=trace)
        proof = _proof(dual, found, self.method)
        if warm is not None:
            proof = proof.better_of(Proof(warm, dual.rigorous(warm.to(dual.dtype))))
        return PartResult(found, proof)


def both_sides(network: Network, rows: Tensor | None, part: Tensor) -> Objective:
    """These rows, or outputs, then their negatives."""
    if rows is not None:
        return Objective.rows(network, torch.cat([rows[part], -rows[part]]))
    sign = torch.ones(len(part), dtype=torch.float64)
    return Objective.neurons(network, torch.cat([part, part]), torch.cat([sign, -sign]))


def joined(results: Sequence[PartResult]) -> Proof:
    """The rows of all parts, then their negatives."""
    rhos = zip(*(result.proof.rho.data.chunk(2, dim=1) for result in results), strict=True)
    values = zip(*(result.proof.value.chunk(2, dim=1) for result in results), strict=True)
    rho, value = (torch.cat([torch.cat(side, 1) for side in x], 1) for x in (rhos, values))
    return Proof(results[0].proof.rho.like(rho), value)


def reason(results: Sequence[PartResult]) -> Stopped:
    """The first reason to stop early, if there is one."""
    reasons = [result.found.stopped for result in results]
    return next((early for early in reasons if early not in _DONE), reasons[0])


def _dual(hull: Hull, objective: Objective) -> Decomposition:
    return Decomposition(Problem(hull.network, hull.domain, objective), hull)


def _proof(dual: Decomposition, found: DualResult, method: Method[Any]) -> Proof:
    """The rigorous q(ρ), or the method's own smaller bound where it reports that, if a number."""
    proved = dual.rigorous(found.rho.to(dual.dtype))
    if method.reports_own:
        proved = torch.fmin(proved, found.value.to(proved))
    return Proof(found.rho, proved)


def _of_rows(rho: Layers, part: Tensor, count: int) -> Layers:
    """ρ of these rows and of their negatives; one that does not fit is left to be refused."""
    if rho.data.ndim != 3 or rho.data.shape[1] != 2 * count:
        return rho
    return rho.like(rho.data[:, torch.cat([part, part + count])])
