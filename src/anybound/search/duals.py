"""The duals of sub-problems on the portable engine, and how their dual points are written down.

A sub-problem is a box of pre-activations (`cells`) and a clause with weights of its rows (`clauses`). Of ρ only its
deviation from CROWN's is kept, for the neurons that were ambiguous at the root and in half precision:

    ρ_k = −s_k(g_k)·g_k + β_k,      β_k = 0 on all others, whose σ is affine

so that decoding is one backward sweep. Any β is valid.

Shapes: N sub-problems × 1 function; A ambiguous neurons at the root, M rows of the longest clause.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from anybound.bound.backward import Sweep, crown_slopes, lines_of, propagate
from anybound.bound.bounds import Bounds
from anybound.bound.decomposition import Decomposition
from anybound.bound.hull import Hull, Slopes
from anybound.layers import Layers
from anybound.memory import Pieces
from anybound.rounding import unit_roundoff
from anybound.search.cells import Cells, RootCell
from anybound.search.clauses import Clauses
from anybound.spec.problem import Problem

WORKING_COPIES = 48  # dual tensors that are alive at once while a batch is bounded, at most
HALF_LIMIT = 60_000.0


class Work(NamedTuple):
    """N sub-problems: their clause `[N]`, cells, and weights `[N, M]`."""

    clause: Tensor
    cells: Cells
    weight: Tensor

    def take(self, index: Tensor) -> Work:
        return Work(self.clause[index], self.cells.take(index), self.weight[index])


@dataclass(frozen=True, eq=False)
class Duals:
    """One problem's clauses between root bounds; `problem` and `bounds` are float64, D = 1."""

    problem: Problem
    bounds: Bounds
    clauses: Clauses

    @cached_property
    def root(self) -> RootCell:
        return RootCell(self.problem.network, self.bounds)

    @cached_property
    def narrow(self) -> tuple[Problem, Clauses]:
        """What the ascents compute with, in float32."""
        return self.problem.to(torch.float32), self.clauses.to(torch.float32)

    @cached_property
    def _bases(self) -> dict[torch.dtype, Hull]:
        """The root's hulls."""
        narrow = self.narrow[0]
        return {
            torch.float32: Hull(narrow.network, narrow.domain, self.root.narrow),
            torch.float64: Hull(self.problem.network, self.problem.domain, self.bounds),
        }

    def of(self, work: Work, dtype: torch.dtype = torch.float32) -> Decomposition:
        """The dual `[N, 1]` of some sub-problems."""
        problem, clauses = self.narrow if dtype == torch.float32 else (self.problem, self.clauses)
        net, domain = problem.network, problem.domain
        bounds = self.root.between(work.cells.nonempty(), dtype)
        branched = self.root.branched(work.cells)
        objective = clauses.combine(work.clause, work.weight)
        hull = Hull(net, domain, bounds, branched, self._bases[dtype])
        return Decomposition(Problem(net, domain, objective), hull)

    def encode(self, dual: Decomposition, rho: Layers, lines: Slopes) -> Tensor:
        """β `[N, A]` in half precision, for CROWN's `lines`."""
        g = dual.coefficients(rho).hidden.data
        passed = lines.lower * g.clamp(min=0) + lines.upper * g.clamp(max=0)
        return self.root.gather(rho.data + passed).clamp(-HALF_LIMIT, HALF_LIMIT).half()

    def decode(self, dual: Decomposition, beta: Tensor, lines: Slopes | None = None) -> Sweep:
        """ρ and all g; `lines` are CROWN's, if they are known."""
        nothing = torch.zeros(1, 1, dual.net.layout.total, dtype=dual.dtype)
        spread = self.root.spread(beta, nothing).data
        return propagate(dual, lines or crown_slopes(dual.hull), spread)

    def rigorous(self, work: Work, beta: Tensor) -> Tensor:
        """Proved lower bounds `[N]` of the largest f_m, in float64; ∞ where a sub-problem is empty.

        A lower bound of Σ w_m f_m, divided by Σ w_m, is one of the largest f_m."""
        dual = self.of(work, torch.float64)
        lower = dual.rigorous_at(*self.decode(dual, beta))[:, 0]
        if self.clauses.width > 1:
            lower = lower / work.weight.double().sum(1)
            terms = self.clauses.width + 4
            lower = lower - terms * unit_roundoff(torch.float64) * lower.abs()
        return torch.where(work.cells.empty, torch.inf, lower)

    def carried_over(self, dual: Decomposition, rho: Layers, other: Decomposition) -> Layers:
        """The ρ of another objective, with the same lines."""
        lines, beta = self.lines(dual, rho, dual.coefficients(rho).hidden)
        return propagate(other, lines, beta).rho

    def lines(self, dual: Decomposition, rho: Layers, g: Layers) -> tuple[Slopes, Tensor]:
        """The lines and multipliers closest to a ρ."""
        return lines_of(dual, rho, g.data, crown_slopes(dual.hull))

    def row_values(self, work: Work, dual: Decomposition, rho: Layers) -> Tensor:
        """f_m `[N, M]` along ρ's lines from its minimiser z_0: the derivative of the bound by w_m.

        Z_0 = z_0,  ẑ_k = Σ_j W_kj Z_j + b_k,  Z_k = σ(x_k) + s_k (ẑ_k − x_k), x_k the minimiser of P_k."""
        point, g = dual.inner_min(rho), dual.coefficients(rho).hidden
        (lower, upper), _ = self.lines(dual, rho, g)
        slope = torch.where(g.data < 0, upper, lower)
        z = dual.zeros()
        for k in dual.net.hidden:
            at = dual.net.layout.span(k)
            zhat = dual.net.affine(k, point.z0, z).flatten(2)
            x, s = point.zhat_b.data[..., at], point.z.data[..., at]
            z.data[..., at] = s + slope[..., at] * (zhat - x)
        sources = {j: z[j] if j else point.z0 for j in dual.problem.objective.coefficients}
        return self.narrow[1].values(work.clause, sources)

    def pieces(self, memory: int) -> Pieces:
        """Batches are worked on in pieces that fit into so many bytes."""
        values = max(self.problem.network.layout.total, self.problem.network.input_size, 1)
        return Pieces(8 * WORKING_COPIES * values, memory)
