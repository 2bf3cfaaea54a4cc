"""LP: the convex relaxation solved by an off-the-shelf solver (the paper's Gurobi rows), through ρ.

With a time limit per problem (the paper's Gurobi-TL) the multipliers of the interrupted solver are
still a valid ρ, if often a poor one. The slopes s_k = −ρ_k/g_k that they imply, propagated anew,
are mostly a better one; the best of both and of WK's ρ is kept.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace

import torch
from torch import Tensor

from anybound.bound.backward import Start, crown_slopes, lines_of, propagate
from anybound.bound.decomposition import Decomposition
from anybound.bound.hull import Hull
from anybound.bound.linear_program import LinearProgram
from anybound.bound.lp_solver import Algorithm, Backend, Solver
from anybound.bound.method import Method, Proposal
from anybound.budget import Budget
from anybound.errors import InvalidConfig
from anybound.layers import Layers


@dataclass(eq=False)
class LPState:
    """The ρ and values found so far, which problems are solved, and the program of the sub-problem at work."""

    rho: Layers
    value: Tensor
    solved: Tensor
    hull: Hull | None = None
    subproblem: int = -1
    program: LinearProgram | None = None
    solver: Solver | None = None


@dataclass(frozen=True)
class LP(Method[LPState]):
    """One linear program after the other, D sub-problems × R rows: each is one step of the loop."""

    algorithm: Algorithm = Algorithm.INTERIOR_POINT
    backend: Backend = Backend.HIGHS
    seconds: float = float("inf")  # for each problem
    tolerance: float = 1e-3  # of smooth activations' facets
    threads: int = 1

    def __post_init__(self) -> None:
        if not self.seconds > 0 or not self.tolerance > 0 or self.threads < 1:
            raise InvalidConfig(
                f"{self!r}: seconds and tolerance must be positive, threads at least 1"
            )

    def steps(self, dual: Decomposition) -> int:
        d, r = dual.batch
        return d * r if dual.net.n > 1 else 0  # without hidden layers P_0 is all there is

    def init(self, dual: Decomposition, warm: Layers | None) -> LPState:
        rho = Start.WK.rho(dual) if warm is None else warm
        return LPState(rho, dual.value(rho), torch.zeros(dual.batch, dtype=torch.bool))

    def step(self, dual: Decomposition, state: LPState) -> LPState:
        left = (~state.solved).nonzero()
        if len(left) == 0:
            return state
        d, r = (int(i) for i in left[0])
        state = self._at(dual, state, d)
        if state.program is None or state.solver is None:
            return state
        objective = dual.problem.objective.pick(torch.tensor([d]))
        cost = state.program.cost(objective.coefficients, r)
        solution = state.solver.minimise(cost, self.time_limit())
        state.solved[d, r] = True
        if solution.row_dual is None:
            return state
        rho = state.rho.data.clone()
        rho[d, r] = state.program.rho(solution.row_dual, rho)
        state = _kept_where_better(dual, state, state.rho.like(rho))
        return state if solution.optimal else _along_its_lines(dual, state, state.rho.like(rho))

    def time_limit(self) -> float:
        """Seconds for the next problem."""
        return self.seconds

    def within(self, budget: Budget) -> LP:
        values = {f.name: getattr(self, f.name) for f in fields(LP)}
        return _TimedLP(**values, budget=budget)

    def _at(self, dual: Decomposition, state: LPState, d: int) -> LPState:
        """The state with the program of sub-problem d."""
        if state.hull is dual.hull and state.subproblem == d:
            return state
        hull = dual.hull.pick(torch.tensor([d]))
        program = LinearProgram(hull, self.tolerance)
        solver = self.backend.open(program, self.algorithm, self.threads)
        return replace(state, hull=dual.hull, subproblem=d, program=program, solver=solver)

    def propose(self, dual: Decomposition, state: LPState) -> Proposal:
        return Proposal(state.rho, state.value)


@dataclass(frozen=True)
class _TimedLP(LP):
    """The same in a run whose time is limited."""

    budget: Budget = field(default_factory=Budget)

    def time_limit(self) -> float:
        return min(self.seconds, self.budget.left())


def _kept_where_better(dual: Decomposition, state: LPState, rho: Layers) -> LPState:
    value = dual.value(rho)
    better = value > state.value
    kept = torch.where(better.unsqueeze(-1), rho.data, state.rho.data)
    return replace(state, rho=rho.like(kept), value=torch.where(better, value, state.value))


def _along_its_lines(dual: Decomposition, state: LPState, rho: Layers) -> LPState:
    """The multipliers of an interrupted solver do not fit together; the slopes that they imply do."""
    g = dual.coefficients(rho).hidden.data
    lines, beta = lines_of(dual, rho, g, crown_slopes(dual.hull))
    return _kept_where_better(dual, state, propagate(dual, lines, beta).rho)
