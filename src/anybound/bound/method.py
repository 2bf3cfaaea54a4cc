"""The protocol of a bounding method, and the one loop that runs them all.

A method proposes ρ; it is a frozen record of hyper-parameters, and what changes lives in a state of
its own. The loop counts, keeps the best proposal of every problem, drops problems that are decided,
and can be stopped anywhere.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

import torch
from torch import Tensor

from anybound.bound.decomposition import Decomposition
from anybound.bound.kernels import fits
from anybound.budget import Budget
from anybound.errors import InvalidConfig, InvalidInput
from anybound.host import looks_freely
from anybound.layers import Layers

State = TypeVar("State")


class Proposal(NamedTuple):
    """ρ, and a lower bound on q(ρ) that the method knows of (None: not evaluated at this step)."""

    rho: Layers
    value: Tensor | None


class Method(ABC, Generic[State]):
    """A frozen record of hyper-parameters that proposes better and better ρ."""

    reports_own: ClassVar[bool] = (
        False  # its bound is its own formula's, which q(ρ) may beat (DSG+)
    )

    @abstractmethod
    def steps(self, dual: Decomposition) -> int:
        """How many times `step` is called when nothing stops it; 0 for a method in one shot."""

    def within(self, budget: Budget) -> Method[State]:
        """The same method for a run with this budget: for those whose single steps are long."""
        del budget
        return self

    @abstractmethod
    def init(self, dual: Decomposition, warm: Layers | None) -> State:
        """The state before the first step, from a given ρ or from the method's own start."""

    @abstractmethod
    def step(self, dual: Decomposition, state: State) -> State:
        """One iteration. Tensors of the old state may be reused, but not those of a ρ it has proposed."""

    @abstractmethod
    def propose(self, dual: Decomposition, state: State) -> Proposal:
        """The state's ρ and its value."""


class OneShot(Method[None]):
    """A method that chooses ρ without iterating: a sub-class says which."""

    def steps(self, dual: Decomposition) -> int:
        return 0

    def init(self, dual: Decomposition, warm: Layers | None) -> None:
        return None

    def step(self, dual: Decomposition, state: None) -> None:
        return None

    def propose(self, dual: Decomposition, state: None) -> Proposal:
        rho = self.rho(dual)
        return Proposal(rho, dual.value(rho))

    @abstractmethod
    def rho(self, dual: Decomposition) -> Layers:
        """The dual point, `[D, R, total]`."""


class Stopped(Enum):
    """Why the loop ended."""

    FINISHED = "all iterations were done"
    DECIDED = "every bound is above what was asked for"
    BUDGET = "the budget was spent; more seconds or iterations may tighten the bounds"
    INTERRUPTED = "interrupted; the bounds are the best so far"
    OVERFLOW = "numbers overflowed; the bounds are the best so far"


class TracePoint(NamedTuple):
    """The best bounds `[D, R]` after some time."""

    seconds: float
    iteration: int
    value: Tensor


@dataclass(frozen=True, eq=False)
class DualResult:
    """The best ρ of every problem and the method's own bound there, `[D, R]`, in the search's
    dtype: a proposal, not yet a proof (that is `Decomposition.rigorous`)."""

    rho: Layers
    value: Tensor
    iterations: int
    seconds: float
    stopped: Stopped
    trace: Sequence[TracePoint] = field(default=())


def check_steps(method: object, count: int) -> None:
    """Refuse a method without iterations when it is built."""
    if count < 1:
        raise InvalidConfig(f"{method!r}: iterations is {count}; expected at least 1")


CHECK_EVERY = 8  # iterations between looks at the clock and at decided problems


def maximise(
    dual: Decomposition,
    method: Method[Any],
    budget: Budget | None = None,
    *,
    stop_above: float | None = None,
    warm: Layers | None = None,
    trace: bool = False,
) -> DualResult:
    """Run a method on every problem of a dual, and return the best it found whatever ends it."""
    limit = budget or Budget()
    run = _Run(dual, method.within(limit), limit, stop_above, warm, trace)
    with torch.inference_mode():
        stopped = run.loop()
    return run.result(stopped)


class _Run:
    """The state of one ascent: the best so far of all problems, and the ascent on those still open."""

    def __init__(
        self,
        dual: Decomposition,
        method: Method[Any],
        budget: Budget,
        stop_above: float | None,
        warm: Layers | None,
        trace: bool,
    ) -> None:
        self.method, self.budget, self.stop_above = method, budget, stop_above
        self.started = budget.elapsed()
        self.best_rho = fitting(dual, warm) if warm is not None else dual.zeros()
        again = method.steps(dual) > 0 and fits(self.best_rho.data)
        self.dual = replace(dual, hull=replace(dual.hull, iterating=True)) if again else dual
        self.is_own = False  # whether nobody else may hold the tensors of the best
        self.best = torch.full(
            dual.batch, -torch.inf, dtype=dual.dtype, device=self.best_rho.data.device
        )
        self.iteration = 0
        self.keep_trace, self.trace = trace, list[TracePoint]()
        self.axis = 0 if dual.batch[0] > 1 else 1
        self.open = torch.arange(dual.batch[self.axis], device=self.best.device)
        self.warm = None if warm is None else self.best_rho

    def loop(self) -> Stopped:
        try:
            return self._ascend()
        except KeyboardInterrupt:
            self.budget.cancel()
            return Stopped.INTERRUPTED

    def _ascend(self) -> Stopped:
        dual, method = self.dual, self.method
        if self.warm is not None:  # it is never made worse
            self._record(Proposal(self.warm, dual.value(self.warm)))
        state, steps = method.init(dual, self.warm), method.steps(dual)
        proposal = method.propose(dual, state)
        self._record(proposal)
        while self.iteration < steps:
            if self.budget.is_spent(self.iteration):
                return Stopped.INTERRUPTED if self.budget.is_cancelled else Stopped.BUDGET
            if self.iteration % CHECK_EVERY == 0:
                keep = self._undecided()
                if keep.numel() == 0:
                    return Stopped.DECIDED
                if self.iteration > 0 and _is_lost(proposal):
                    return Stopped.OVERFLOW
                if keep.numel() < self.open.numel() // 2:
                    dual, state = take_dual(dual, self.axis, keep), take(state, self.axis, keep)
                    self.open = self.open[keep]
            state = method.step(dual, state)
            self.iteration += 1
            proposal = method.propose(dual, state)
            self._record(proposal)
        return Stopped.FINISHED if self._undecided().numel() else Stopped.DECIDED

    def _undecided(self) -> Tensor:
        """Indices, among the open ones along the axis, of those with a bound still too low."""
        if self.stop_above is None:
            return self.open
        best = self.best.index_select(self.axis, self.open)
        low = (best <= self.stop_above).any(1 - self.axis)
        return low.nonzero().squeeze(1)

    def _record(self, proposal: Proposal) -> None:
        """Keep a proposal where it is better; NaN and infinity never are."""
        if proposal.value is not None:
            value = proposal.value.nan_to_num(-torch.inf, posinf=-torch.inf, neginf=-torch.inf)
            self._keep_better(proposal.rho, value.expand(self._open_shape()))
        if self.keep_trace:
            seconds = self.budget.elapsed() - self.started
            self.trace.append(TracePoint(seconds, self.iteration, self.best.clone()))

    def _keep_better(self, rho: Layers, value: Tensor) -> None:
        old = self.best.index_select(self.axis, self.open)
        better = value > old
        if looks_freely(value):
            self._keep_these(rho, value, better)
            return
        self.best = self.best.index_copy(self.axis, self.open, torch.where(better, value, old))
        kept = self.best_rho.data.index_select(self.axis, self.open)
        new = torch.where(better.unsqueeze(-1), rho.data, kept)
        self.best_rho = rho.like(self.best_rho.data.index_copy(self.axis, self.open, new))

    def _keep_these(self, rho: Layers, value: Tensor, better: Tensor) -> None:
        """The same, where it is known which: nothing else is copied, and nothing at all if all are."""
        if self._everything_is_open() and bool(better.all()):
            self.best, self.best_rho, self.is_own = value, rho, False
            return
        which = better.nonzero(as_tuple=True)
        if len(which[0]) == 0:
            return
        if not self.is_own:
            best_rho = self.best_rho.data.clone()
            self.best, self.best_rho, self.is_own = self.best.clone(), rho.like(best_rho), True
        into = tuple(self.open[i] if axis == self.axis else i for axis, i in enumerate(which))
        self.best[into] = value[which]
        self.best_rho.data[into] = rho.data[which]

    def _everything_is_open(self) -> bool:
        return self.open.numel() == self.best.shape[self.axis]

    def _open_shape(self) -> tuple[int, int]:
        d, r = self.best.shape
        return (self.open.numel(), r) if self.axis == 0 else (d, self.open.numel())

    def result(self, stopped: Stopped) -> DualResult:
        seconds = self.budget.elapsed() - self.started
        rho = self.best_rho.like(self.best_rho.data.clone())  # autograd refuses inference tensors
        best, trace = self.best.clone(), tuple(self.trace)
        return DualResult(rho, best, self.iteration, seconds, stopped, trace)


def _is_lost(proposal: Proposal) -> bool:
    """Whether no problem has a number left to go on from."""
    return proposal.value is not None and not bool(proposal.value.isfinite().any())


def fitting(dual: Decomposition, rho: Layers) -> Layers:
    """A given ρ as `[D, R, total]` in the dual's dtype; D and R may be 1 in it."""
    expected, given = (*dual.batch, dual.net.layout.total), tuple(rho.data.shape)
    if len(given) != 3 or any(g not in (1, e) for g, e in zip(given, expected, strict=True)):
        raise InvalidInput(
            f"the warm start's ρ has shape {list(given)}, the problem's {list(expected)} "
            "(sub-problems, rows, hidden neurons); pass the ρ of a bound on the same functions"
        )
    if given[-1] != expected[-1]:
        raise InvalidInput(
            f"the warm start has {given[-1]} dual variables per problem, the network "
            f"{expected[-1]}; pass the ρ of a bound on the same network"
        )
    return rho.like(rho.data.to(dual.dtype).expand(expected).contiguous())


def take_dual(dual: Decomposition, axis: int, index: Tensor) -> Decomposition:
    """The dual of a part of the problems: sub-problems (axis 0) or objective rows (axis 1)."""
    problem = dual.problem
    if axis == 1:
        return replace(dual, problem=problem.select(index))
    picked = replace(
        problem, domain=problem.domain.pick(index), objective=problem.objective.pick(index)
    )
    return Decomposition(picked, dual.hull.pick(index))


def _is_frozen(record: Any) -> bool:
    return bool(type(record).__dataclass_params__.frozen)


def take(state: Any, axis: int, index: Tensor) -> Any:
    """The part of a state record that belongs to some problems: every tensor in it starts with `[D,
    R]`.

    States are records that change; frozen records inside them (a hull, a method) are shared by all problems."""
    if isinstance(state, Tensor):
        return state.index_select(axis, index) if state.shape[axis] > 1 else state
    if isinstance(state, Layers):
        return state.like(take(state.data, axis, index))
    if dataclasses.is_dataclass(state) and not isinstance(state, type) and not _is_frozen(state):
        return replace(
            state,
            **{
                f.name: take(getattr(state, f.name), axis, index) for f in dataclasses.fields(state)
            },
        )
    return state
