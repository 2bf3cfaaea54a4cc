"""`anybound.bounds`: provable lower and upper bounds of linear functions of any layer, in one call.

    lower_r <= c_rᵀ ẑ_k(x) <= upper_r     for every x in the input set

The method searches in float32; what it proposes is evaluated in float64 with outward rounding, and
only that is reported. Upper bounds are lower bounds of the negated functions: one computation for
both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from anybound.bound.bounds import Bounds, LayerCount
from anybound.bound.decomposition import Decomposition
from anybound.bound.intermediates.iterative import Iterative
from anybound.bound.intermediates.strategy import IntermediateStrategy
from anybound.bound.method import Method, Stopped, TracePoint, maximise
from anybound.bound.methods.slopes import Slopes
from anybound.budget import Budget
from anybound.errors import InvalidConfig, InvalidInput
from anybound.layers import Layers
from anybound.model.domains.domain import Domain
from anybound.model.network import Network
from anybound.registry import INTERMEDIATES, METHODS
from anybound.spec.problem import Objective, Problem

MethodLike = str | Method[Any]
IntermediateLike = str | IntermediateStrategy | Bounds


@dataclass(frozen=True, eq=False)
class Trace:
    """The method's own bounds over time, in the search's precision: `lower[i]`, `upper[i]` `[R]` after `seconds[i]`."""

    seconds: tuple[float, ...]
    iterations: tuple[int, ...]
    lower: Tensor
    upper: Tensor


@dataclass(frozen=True, eq=False)
class BoundsResult:
    """Proved bounds `lower`, `upper` `[R]` (float64), and what is needed to go on from them or to
    prove them again.

    `rho` is the dual point behind them (rows for `lower` first, then those for `upper`): pass the
    result as `warm` to
    continue. `intermediate` are the bounds of the hidden layers that were used."""

    lower: Tensor
    upper: Tensor
    rho: Layers
    intermediate: Bounds
    ambiguous: tuple[LayerCount, ...]
    method: Method[Any]
    iterations: int
    seconds: float
    seconds_intermediate: float
    stopped: Stopped
    trace: Trace | None = None

    def __repr__(self) -> str:
        shown = ", ".join(
            f"[{low:.4g}, {high:.4g}]" for low, high in zip(self.lower, self.upper, strict=True)
        )
        shown = shown if len(shown) < 400 else shown[:400] + " …"
        return (
            f"BoundsResult({len(self.lower)} functions, {self.seconds:.2f} s, {self.iterations} iterations, "
            f"{self.stopped.name.lower()}: {shown})"
        )


def bounds(
    network: Network,
    domain: Domain,
    rows: ArrayLike | Tensor | None = None,
    *,
    layer: int | None = None,
    method: MethodLike = Slopes(),
    intermediate: IntermediateLike = Iterative(),
    timeout: float | None = None,
    iterations: int | None = None,
    warm: BoundsResult | None = None,
    search: torch.dtype = torch.float32,
    trace: bool = False,
) -> BoundsResult:
    """Bound `rows @ ẑ` of the output, or of hidden layer `layer`'s pre-activation, over the input
    set.

    `rows` is `[R, outputs]` (or `[R, *shape]`); by default every output is bounded. `method` is a
    record such as `Proximal(iterations=400)` or its text, `"proximal(iterations=400)"`;
    `intermediate` a strategy, its text, or bounds
    computed before. The call can be interrupted at any time and returns the best bounds so far."""
    method = METHODS.parse(method) if isinstance(method, str) else method
    budget = Budget(seconds=timeout, iterations=iterations)
    target = _target(network, layer)
    coefficients = _rows(target, rows)
    dtype, device = network.dtype, coefficients.device
    if warm is not None and isinstance(intermediate, Iterative):
        intermediate = warm.intermediate
    between = _intermediate(target, domain, intermediate, budget)
    seconds_intermediate = budget.elapsed()
    both = torch.cat([coefficients, -coefficients]).to(dtype=dtype, device=device)
    dual = Decomposition.between(Problem(target, domain, Objective.rows(target, both)), between)
    ascent = Decomposition.between(dual.problem.to(search), between.to(search))
    found = maximise(
        ascent, method, budget, warm=None if warm is None else warm.rho.to(search), trace=trace
    )
    proved = _proved(dual, found.rho.to(dtype), found.value if method.reports_own else None)
    lower, upper = proved[0, : len(coefficients)], -proved[0, len(coefficients) :]
    return BoundsResult(
        lower,
        upper,
        found.rho,
        between,
        tuple(between.counts(target)),
        method,
        found.iterations,
        budget.elapsed(),
        seconds_intermediate,
        found.stopped,
        _trace(found.trace, len(coefficients)) if trace else None,
    )


def _proved(dual: Decomposition, rho: Layers, own: Tensor | None) -> Tensor:
    """The rigorous q(ρ), or the method's own smaller bound where it reports that (and it is a number)."""
    with torch.no_grad():
        proved = dual.rigorous(rho)
    return proved if own is None else torch.fmin(proved, own.to(proved))


def _target(network: Network, layer: int | None) -> Network:
    if layer is None or layer == network.n:
        return network
    if layer not in network.hidden:
        raise InvalidInput(
            f"layer {layer} does not exist; the network's layers are 1 to {network.n}"
        )
    return network.upto(layer)


def _rows(network: Network, rows: ArrayLike | Tensor | None) -> Tensor:
    """`[R, *output_shape]`, float64."""
    shape, size = network.output_shape, network.output_size
    if rows is None:
        return torch.eye(size, dtype=torch.float64).reshape(size, *shape)
    given = (
        rows if isinstance(rows, Tensor) else torch.as_tensor(np.asarray(rows, dtype=np.float64))
    )
    given = given.detach().to(torch.float64)
    if given.ndim == 1 and size == given.numel() and len(shape) <= 1:
        given = given.unsqueeze(0)
    if given.ndim < 1 or given.shape[0] == 0 or given[0].numel() != size:
        raise InvalidInput(
            f"rows have shape {tuple(given.shape)}; expected [R, {size}]: one coefficient for each of the "
            f"{size} outputs of the layer"
        )
    if not bool(torch.isfinite(given).all()):
        raise InvalidInput(
            "rows contain NaN or infinite coefficients; every coefficient must be finite"
        )
    return given.reshape(-1, *shape)


def _intermediate(
    network: Network, domain: Domain, strategy: IntermediateLike, budget: Budget
) -> Bounds:
    if isinstance(strategy, str):
        strategy = INTERMEDIATES.parse(strategy)
    if isinstance(strategy, IntermediateStrategy):
        # half of the time at most, so that the method itself has its share
        return strategy.bounds(network, domain, budget.share(0.5))
    if strategy.layout.shapes[: len(network.layout.shapes)] != network.layout.shapes:
        raise InvalidConfig(
            "the intermediate bounds given belong to another network: their layers have other shapes"
        )
    return strategy.upto(network.n)


def _trace(points: Sequence[TracePoint], rows: int) -> Trace:
    values = torch.stack([point.value[0] for point in points])
    return Trace(
        tuple(point.seconds for point in points),
        tuple(point.iteration for point in points),
        values[:, :rows],
        -values[:, rows:],
    )
