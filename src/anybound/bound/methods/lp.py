"""LP: the convex relaxation solved by an off-the-shelf solver (the paper's Gurobi rows), reported
through ρ.

With a time limit per problem (the paper's Gurobi-TL) the multipliers of the interrupted solver are
still a valid ρ; where it has none, WK's ρ stands in.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from anybound.bound.backward import Start
from anybound.bound.decomposition import Decomposition
from anybound.bound.hull import Hull
from anybound.bound.linear_program import LinearProgram
from anybound.bound.lp_solver import Algorithm, Backend, Solver
from anybound.bound.method import Method, Proposal
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
        solution = state.solver.minimise(
            state.program.cost(objective.coefficients, r), self.seconds
        )
        solved, rho = state.solved.clone(), state.rho.data.clone()
        solved[d, r] = True
        if solution.row_dual is not None:
            rho[d, r] = state.program.rho(solution.row_dual, rho)
        layers = state.rho.like(rho)
        return replace(state, rho=layers, value=dual.value(layers), solved=solved)

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
