"""MIPplanet: complete verification by one mixed-integer program (the paper's baseline).

The relaxation's linear program with a binary δ for every ambiguous ReLU makes the network exact:

    z <= u δ,   z <= ẑ − l (1 − δ)        (z >= ẑ and z >= 0 are facets already)

A clause of rows f_m is minimised as its largest row: t >= f_m, min t. Solvers compute with a
tolerance of about 1e-6, so that the lower bound is no proof; the point is a candidate for a witness.

Variables are the linear program's, then the δ, then t.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix, hstack, vstack

from anybound.bound.bounds import Bounds
from anybound.bound.hull import Hull
from anybound.bound.linear_program import LinearProgram, Rows, Vector
from anybound.bound.lp_solver import Backend
from anybound.budget import Budget
from anybound.errors import InvalidConfig, MissingDependency
from anybound.model.activations.relu import ReLU
from anybound.spec.problem import Problem


class MIPStatus(Enum):
    """How a solver ended."""

    OPTIMAL = "solved"
    TIMEOUT = "out of time; the bounds are the best so far"
    FAILED = "the solver failed"


@dataclass(frozen=True, eq=False)
class MIPResult:
    """lower <= min over x of max_m f_m(x) <= upper, to the solver's tolerance; `point` attains `upper`."""

    status: MIPStatus
    lower: float
    upper: float
    point: NDArray[np.float64] | None
    nodes: int


class MixedProgram(NamedTuple):
    """min t over row_lower <= A x <= row_upper within limits, the variables of `binary` being 0 or 1."""

    rows: Rows
    lower: Vector
    upper: Vector
    binary: NDArray[np.int64]

    @property
    def variables(self) -> int:
        return len(self.lower)


@dataclass(frozen=True)
class MIPplanet:
    """HiGHS, or Gurobi where a licence allows."""

    backend: Backend = Backend.HIGHS
    threads: int = 1

    def minimise(self, problem: Problem, bounds: Bounds, rows: range, budget: Budget) -> MIPResult:
        """The least value of the largest of the objective's `rows`, for one sub-problem."""
        program = mixed_program(problem, bounds, rows)
        solve = _highs if self.backend is Backend.HIGHS else _gurobi
        seconds = min(max(budget.left(), 0.0), 1e9)
        result = solve(program, seconds, self.threads)
        if result.point is None:
            return result
        size = problem.network.input_size
        return MIPResult(
            result.status, result.lower, result.upper, result.point[:size], result.nodes
        )


def mixed_program(problem: Problem, bounds: Bounds, rows: range) -> MixedProgram:
    """The exact network between bounds of its hidden layers."""
    relaxed = LinearProgram(Hull(problem.network, problem.domain, bounds))
    pre, post, l, u = _ambiguous(relaxed)
    base, count = relaxed.rows, len(pre)
    size = relaxed.variables + count + 1
    t = size - 1
    objective = problem.objective
    cost = np.stack([relaxed.cost(objective.coefficients, row) for row in rows])
    constant = objective.constant[0, list(rows)].double().numpy()
    switches = _switches(pre, post, l, u, relaxed.variables, size)
    above = hstack([csr_matrix(-cost), csr_matrix((len(rows), count)), np.ones((len(rows), 1))])
    matrix = vstack(
        [hstack([base.matrix, csr_matrix((len(base.lower), count + 1))]), switches.matrix, above],
        format="csr",
    )
    lower = np.concatenate([base.lower, switches.lower, constant])
    upper = np.concatenate([base.upper, switches.upper, np.full(len(rows), np.inf)])
    low, high = relaxed.limits
    return MixedProgram(
        Rows(matrix, lower, upper),
        np.concatenate([low, np.zeros(count), [-np.inf]]),
        np.concatenate([high, np.ones(count), [np.inf]]),
        np.arange(relaxed.variables, t),
    )


def _ambiguous(
    relaxed: LinearProgram,
) -> tuple[NDArray[np.int64], NDArray[np.int64], Vector, Vector]:
    """Columns of ẑ and of z of all ambiguous neurons, and their bounds."""
    hull, parts = relaxed.hull, []
    for k, activation in hull.network.activations():
        if not isinstance(activation, ReLU):
            raise InvalidConfig(
                f"layer {k} is a {type(activation).__name__}; the mixed-integer program is for ReLU "
                "networks, use another method"
            )
        l, u = (
            side.flat(k)[0, 0].double().numpy() for side in (hull.bounds.lower, hull.bounds.upper)
        )
        at = np.flatnonzero((l < 0) & (u > 0))
        parts.append((relaxed.offsets[k] + at, relaxed.post(k) + at, l[at], u[at]))
    if not parts:
        nothing = np.zeros(0, np.int64)
        return nothing, nothing, np.zeros(0), np.zeros(0)
    pre, post, lower, upper = (np.concatenate(column) for column in zip(*parts, strict=True))
    return pre, post, lower, upper


def _switches(
    pre: NDArray[np.int64], post: NDArray[np.int64], l: Vector, u: Vector, first: int, size: int
) -> Rows:
    """z − u δ <= 0 and z − ẑ − l δ <= −l, for δ from column `first` on."""
    count = len(pre)
    row, one, delta = np.arange(count), np.ones(count), first + np.arange(count)
    shape = (count, size)
    off = csr_matrix(
        (np.concatenate([one, -u]), (np.tile(row, 2), np.concatenate([post, delta]))), shape
    )
    on = csr_matrix(
        (np.concatenate([one, -one, -l]), (np.tile(row, 3), np.concatenate([post, pre, delta]))),
        shape,
    )
    matrix = vstack([off, on], format="csr")
    return Rows(matrix, np.full(2 * count, -np.inf), np.concatenate([np.zeros(count), -l]))


def _highs(program: MixedProgram, seconds: float, threads: int) -> MIPResult:
    try:
        import highspy
    except ImportError:
        raise MissingDependency("MIPplanet needs HiGHS: pip install 'anybound[lp]'") from None
    solver: Any = highspy.Highs()  # highspy ships no types
    solver.setOptionValue("output_flag", False)
    solver.setOptionValue("threads", threads)
    solver.setOptionValue("time_limit", seconds)
    solver.setOptionValue("mip_rel_gap", 0.0)
    solver.passModel(_highs_model(highspy, program))
    solver.run()
    info, status = solver.getInfo(), solver.getModelStatus()
    found = info.primal_solution_status == 2  # feasible
    point = np.asarray(solver.getSolution().col_value) if found else None
    ended = {
        highspy.HighsModelStatus.kOptimal: MIPStatus.OPTIMAL,
        highspy.HighsModelStatus.kTimeLimit: MIPStatus.TIMEOUT,
    }.get(status, MIPStatus.FAILED)
    upper = float(info.objective_function_value) if found else float("inf")
    mixed = len(program.binary) > 0
    dual = float(info.mip_dual_bound) if mixed else upper
    lower = dual if ended is not MIPStatus.FAILED and np.isfinite(dual) else float("-inf")
    return MIPResult(ended, lower, upper, point, int(info.mip_node_count))


def _highs_model(api: Any, program: MixedProgram) -> Any:
    lp, infinity = api.HighsLp(), api.kHighsInf
    columns = program.rows.matrix.tocsc()
    lp.num_col_, lp.num_row_ = program.variables, len(program.rows.lower)
    lp.col_cost_ = _last_one(program.variables)
    lp.col_lower_, lp.col_upper_ = (
        np.clip(side, -infinity, infinity) for side in (program.lower, program.upper)
    )
    lp.row_lower_, lp.row_upper_ = (
        np.clip(side, -infinity, infinity) for side in (program.rows.lower, program.rows.upper)
    )
    lp.a_matrix_.format_ = api.MatrixFormat.kColwise
    lp.a_matrix_.start_, lp.a_matrix_.index_ = columns.indptr, columns.indices
    lp.a_matrix_.value_ = columns.data
    if len(program.binary):
        kinds = [api.HighsVarType.kContinuous] * program.variables
        for i in program.binary:
            kinds[i] = api.HighsVarType.kInteger
        lp.integrality_ = kinds
    return lp


def _gurobi(program: MixedProgram, seconds: float, threads: int) -> MIPResult:
    try:
        import gurobipy
    except ImportError:
        raise MissingDependency("Gurobi is not installed: pip install 'anybound[gurobi]'") from None
    api: Any = gurobipy
    environment = api.Env(params={"OutputFlag": 0, "Threads": threads, "TimeLimit": seconds})
    model = api.Model(env=environment)
    kinds = np.full(program.variables, api.GRB.CONTINUOUS)
    kinds[program.binary] = api.GRB.BINARY
    x = model.addMVar(program.variables, lb=program.lower, ub=program.upper, vtype=kinds)
    rows = program.rows
    for side, sign in ((rows.lower, 1), (rows.upper, -1)):
        finite = np.isfinite(side)
        model.addConstr(sign * rows.matrix[finite] @ x >= sign * side[finite])
    model.setObjective(_last_one(program.variables) @ x, api.GRB.MINIMIZE)
    model.Params.MIPGap = 0
    model.optimize()
    ended = {
        api.GRB.OPTIMAL: MIPStatus.OPTIMAL,
        api.GRB.TIME_LIMIT: MIPStatus.TIMEOUT,
    }.get(model.Status, MIPStatus.FAILED)
    point = np.asarray(x.X) if model.SolCount else None
    upper = float(model.ObjVal) if model.SolCount else float("inf")
    return MIPResult(ended, float(model.ObjBound), upper, point, int(model.NodeCount))


def _last_one(count: int) -> Vector:
    cost = np.zeros(count)
    cost[-1] = 1.0
    return cost
