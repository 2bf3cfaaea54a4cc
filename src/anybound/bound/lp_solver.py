"""Solvers of linear programs behind one interface: HiGHS (`highspy`) and, where a licence allows, Gurobi."""

from __future__ import annotations

from enum import Enum
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from anybound.bound.linear_program import LinearProgram, Vector
from anybound.errors import MissingDependency


class Algorithm(Enum):
    """How the linear program is solved."""

    INTERIOR_POINT = "interior_point"
    DUAL_SIMPLEX = "dual_simplex"


class Solution(NamedTuple):
    """The optimum's value (without the objective's constant), the rows' multipliers, the point, and whether solved."""

    value: float
    row_dual: Vector | None
    point: Vector | None
    optimal: bool


class Solver(Protocol):
    """One relaxation, many objectives."""

    def minimise(self, cost: Vector, seconds: float) -> Solution: ...


class HighsSolver:
    """HiGHS: the model is passed once, objectives are exchanged, the simplex starts from the last basis."""

    def __init__(self, program: LinearProgram, algorithm: Algorithm, threads: int = 1) -> None:
        try:
            import highspy
        except ImportError:
            raise MissingDependency(
                "the LP methods need HiGHS: pip install 'anybound[lp]'"
            ) from None
        self.api: Any = highspy  # highspy ships no types
        self.highs: Any = highspy.Highs()
        self.highs.setOptionValue("output_flag", False)
        self.highs.setOptionValue("threads", threads)
        interior = algorithm is Algorithm.INTERIOR_POINT
        self.highs.setOptionValue("solver", "ipm" if interior else "simplex")
        if interior:
            self.highs.setOptionValue("run_crossover", "off")
            self.highs.setOptionValue("ipm_optimality_tolerance", 1e-9)
        self.highs.passModel(self._model(program))

    def _model(self, program: LinearProgram) -> Any:
        lp, rows, columns = self.api.HighsLp(), program.rows, program.columns()
        lower, upper = program.limits
        infinity = self.api.kHighsInf
        lp.num_col_, lp.num_row_ = program.variables, len(rows.lower)
        lp.col_cost_ = np.zeros(program.variables)
        lp.col_lower_, lp.col_upper_ = _finite(lower, infinity), _finite(upper, infinity)
        lp.row_lower_, lp.row_upper_ = _finite(rows.lower, infinity), _finite(rows.upper, infinity)
        lp.a_matrix_.format_ = self.api.MatrixFormat.kColwise
        lp.a_matrix_.start_, lp.a_matrix_.index_ = columns.indptr, columns.indices
        lp.a_matrix_.value_ = columns.data
        return lp

    def minimise(self, cost: Vector, seconds: float) -> Solution:
        index: NDArray[np.int32] = np.arange(len(cost), dtype=np.int32)
        self.highs.changeColsCost(len(cost), index, cost)
        self.highs.setOptionValue(
            "time_limit", min(max(seconds, 0.0) + self.highs.getRunTime(), 1e30)
        )
        self.highs.run()
        status, solution = self.highs.getModelStatus(), self.highs.getSolution()
        point = np.asarray(solution.col_value) if solution.value_valid else None
        # an interrupted solver's multipliers are not flagged as valid, but any are a valid ρ
        dual = np.asarray(solution.row_dual) if len(solution.row_dual) else None
        optimal = status == self.api.HighsModelStatus.kOptimal
        value = float(cost @ point) if point is not None else float("nan")
        return Solution(value, dual, point, optimal)


class GurobiSolver:
    """Gurobi, with the same interface; needs `gurobipy` and a licence for models of this size."""

    def __init__(self, program: LinearProgram, algorithm: Algorithm, threads: int = 1) -> None:
        try:
            import gurobipy
        except ImportError:
            raise MissingDependency(
                "Gurobi is not installed: pip install 'anybound[gurobi]'"
            ) from None
        self.api: Any = gurobipy
        try:
            environment = gurobipy.Env(params={"OutputFlag": 0, "Threads": threads})
        except gurobipy.GurobiError as error:
            raise _unlicensed(error) from None
        self.model: Any = gurobipy.Model(env=environment)
        lower, upper = program.limits
        rows = program.rows
        self.x = self.model.addMVar(program.variables, lb=lower, ub=upper)
        equal = rows.lower == rows.upper
        self.equalities = self.model.addConstr(rows.matrix[equal] @ self.x == rows.lower[equal])
        self.inequalities = self.model.addConstr(rows.matrix[~equal] @ self.x >= rows.lower[~equal])
        self.equal = equal
        interior = algorithm is Algorithm.INTERIOR_POINT
        self.model.Params.Method = 2 if interior else 1
        if interior:
            self.model.Params.Crossover = 0

    def minimise(self, cost: Vector, seconds: float) -> Solution:
        self.model.setObjective(cost @ self.x, self.api.GRB.MINIMIZE)
        self.model.Params.TimeLimit = max(seconds, 1e-3)
        try:
            self.model.optimize()
        except self.api.GurobiError as error:
            raise _unlicensed(error) from None
        optimal = self.model.Status == self.api.GRB.OPTIMAL
        try:
            dual = np.zeros(len(self.equal))
            dual[self.equal], dual[~self.equal] = self.equalities.Pi, self.inequalities.Pi
            return Solution(float(self.model.ObjVal), dual, np.asarray(self.x.X), optimal)
        except (self.api.GurobiError, AttributeError):  # stopped before it had a solution
            return Solution(float("nan"), None, None, optimal=False)


def _unlicensed(error: Exception) -> MissingDependency:
    reason = " ".join(str(error).split())
    return MissingDependency(
        f"Gurobi: {reason}; get a licence for models of this size, or use highs"
    )


class Backend(Enum):
    """Which solver."""

    HIGHS = "highs"
    GUROBI = "gurobi"

    def open(self, program: LinearProgram, algorithm: Algorithm, threads: int = 1) -> Solver:
        solver = HighsSolver if self is Backend.HIGHS else GurobiSolver
        return solver(program, algorithm, threads)


def _finite(values: Vector, infinity: float) -> Vector:
    return np.clip(values, -infinity, infinity)
