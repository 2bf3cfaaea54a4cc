"""`anybound.bounds`: provable lower and upper bounds of linear functions of any layer, in one call.

    lower_r <= c_rᵀ ẑ_k(x) <= upper_r     for every x in the input set

The method searches in float32; what it proposes is evaluated in float64 with outward rounding, and
only that is reported. Upper bounds are lower bounds of the negated functions: one computation for
both.

`differentiable_bounds` evaluates the same ρ once more as an explicit function of the weights, for
training: q(ρ) is a valid bound whatever ρ is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from numpy.typing import ArrayLike
from torch import Tensor

from anybound.bound.bounds import Bounds
from anybound.bound.decomposition import Decomposition
from anybound.bound.hull import Hull
from anybound.bound.intermediates.auto import Auto
from anybound.bound.intermediates.strategy import IntermediateStrategy
from anybound.bound.interval import interval
from anybound.bound.method import Method, TracePoint, fitting
from anybound.bound.methods.slopes import Slopes
from anybound.bound.row_search import RowSearch, both_sides, joined, reason
from anybound.bounds_result import BoundsResult, Trace
from anybound.budget import Budget
from anybound.errors import InvalidConfig, InvalidInput
from anybound.model.domains.box import Box
from anybound.model.domains.domain import Domain
from anybound.model.network import Network
from anybound.registry import INTERMEDIATES, METHODS
from anybound.spec.arrays import as_array
from anybound.spec.domains import from_input_set
from anybound.spec.input_sets import BallSet, BoxSet, InputSet
from anybound.spec.problem import Problem

__all__ = [
    "BoundsResult",
    "DomainLike",
    "IntermediateLike",
    "MethodLike",
    "Trace",
    "bounds",
    "differentiable_bounds",
]

DomainLike = Domain | InputSet | tuple[ArrayLike | Tensor, ArrayLike | Tensor]
MethodLike = str | Method[Any]
IntermediateLike = str | IntermediateStrategy | Bounds

_SLOPES, _AUTO = Slopes(), Auto()


@torch.no_grad()
def bounds(  # noqa: PLR0913
    network: Network,
    domain: DomainLike,
    rows: ArrayLike | Tensor | None = None,
    *,
    layer: int | None = None,
    method: MethodLike = _SLOPES,
    intermediate: IntermediateLike = _AUTO,
    timeout: float | None = None,
    iterations: int | None = None,
    warm: BoundsResult | None = None,
    search: torch.dtype = torch.float32,
    trace: bool = False,
) -> BoundsResult:
    """Bound `rows @ ẑ` of the output, or of hidden layer `layer`'s pre-activation, over the input
    set.

    `domain` is an input set, such as `anybound.ball(x, 0.1)`, or a pair of arrays (lower, upper): a box.
    `rows` is `[R, outputs]` (or `[R, *shape]`); by default every output is bounded. `method` is a record such as
    `Proximal(iterations=400)` or its text, `"proximal(iterations=400)"`; `intermediate` a strategy, its
    text, or bounds computed before. `timeout` is in seconds; `iterations` limits those of the method.
    The call can be interrupted at any time and returns the best bounds so far. Continued from a `warm`
    result, they are at least as good as what its ρ proves.

    >>> import anybound, torch
    >>> model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU(), torch.nn.Linear(2, 1))
    >>> for parameter in model.parameters():
    ...     _ = torch.nn.init.ones_(parameter)
    >>> net = anybound.from_torch(model, torch.zeros(1, 2))
    >>> found = anybound.bounds(net, anybound.ball([[0.0, 0.0]], 0.25))  # 1 + 2 relu(x1 + x2 + 1)
    >>> [round(float(x), 6) for x in (found.lower, found.upper)]
    [2.0, 4.0]
    >>> found = anybound.bounds(net, ([-1, -1], [1, 1]), rows=[[-1.0]], method=anybound.Crown())
    >>> bool(found.lower <= -7), bool(found.upper >= -1)
    (True, True)
    """
    if not isinstance(network, Network):
        raise InvalidInput(
            f"the network is a {type(network).__name__}; load a file by anybound.load(path), read a "
            "module by anybound.from_torch(module, example)"
        )
    method = METHODS.parse(method) if isinstance(method, str) else method
    budget = _budget(timeout, iterations)
    domain = _domain(network, domain)
    target, region = _exact(_target(network, layer)), _region(network, domain)
    coefficients = None if rows is None else _rows(target, rows)
    if warm is not None and isinstance(intermediate, Auto):
        intermediate = _inherited(warm, network, domain, intermediate)
    between = _intermediate(target, region, intermediate, budget)
    seconds_intermediate = budget.elapsed()
    hull = Hull(target, region, between)
    rest = RowSearch(hull, hull.to(search), method, coefficients)
    start = None if warm is None else warm.rho
    results = rest.run(budget, start, trace=trace)
    proof, points = joined(results), results[0].found.trace
    lower, upper = _sides(proof.value, rest.count, region.count)
    return BoundsResult(
        lower,
        upper,
        proof.rho,
        between,
        tuple(between.counts(target)),
        method,
        max(result.found.iterations for result in results),
        budget.elapsed(),
        seconds_intermediate,
        reason(results),
        network,
        domain,
        _trace(points, rest.count, region.count) if trace else None,
    )


def differentiable_bounds(
    network: Network,
    domain: DomainLike,
    rows: ArrayLike | Tensor | None,
    result: BoundsResult,
    *,
    recompute: bool = False,
) -> tuple[Tensor, Tensor]:
    """`(lower, upper)` of the output at a result's ρ, as differentiable functions of the weights.

    `network` is the result's network with other weights, see `with_weights`. ρ is held
    fixed. So are the intermediate bounds, which then are those of the *result's* weights; with
    `recompute` they are found anew by interval propagation and differentiated as well, so that the
    numbers are bounds for the new weights. They are rounded to nearest, not outwards.

    >>> import anybound
    >>> net = anybound.load(anybound.bundled("digits_dense.onnx"))
    >>> ball, rows = anybound.ball([0.5] * 64, 0.01), [[1.0] + [0.0] * 9]
    >>> found = anybound.bounds(net, ball, rows)
    >>> w = {name: w.requires_grad_() for name, w in anybound.weights(net).items()}
    >>> lower, _ = anybound.differentiable_bounds(anybound.with_weights(net, w), ball, rows, found)
    >>> lower.sum().backward()
    >>> sorted(w) == sorted(name for name in w if w[name].grad is not None), bool(lower >= found.lower)
    (True, True)
    """
    target, region = _exact(network), _region(network, _domain(network, domain))
    between = interval(target, region) if recompute else result.intermediate
    coefficients = None if rows is None else _rows(target, rows)
    count = result.lower.shape[-1] if coefficients is None else len(coefficients)
    objective = both_sides(target, coefficients, torch.arange(count))
    dual = Decomposition(Problem(target, region, objective), Hull(target, region, between))
    return _sides(dual.value(fitting(dual, result.rho)), count, region.count)


def _sides(values: Tensor, rows: int, count: int) -> tuple[Tensor, Tensor]:
    """(lower, upper) from `[..., D, 2 R]`; the axis D is dropped for a single input set."""
    values = values if count > 1 else values.squeeze(-2)
    return values[..., :rows], -values[..., rows:]


def _budget(timeout: float | None, iterations: int | None) -> Budget:
    if iterations is not None and iterations < 1:
        raise InvalidConfig(
            f"iterations is {iterations}; expected at least 1, or None for as many as the method has"
        )
    return Budget(seconds=timeout, iterations=iterations)


def _target(network: Network, layer: int | None) -> Network:
    if layer is None or layer == network.n:
        return network
    if layer not in network.hidden:
        raise InvalidInput(
            f"layer {layer} does not exist; the network's layers are 1 to {network.n}"
        )
    return network.upto(layer)


def _exact(network: Network) -> Network:
    """In float64, in which proofs are evaluated."""
    return network if network.is_in(torch.float64) else network.to(torch.float64)


def _region(network: Network, domain: Domain) -> Domain:
    """The input set in float64."""
    if tuple(domain.shape) != tuple(network.input_shape):
        raise InvalidInput(
            f"the input set has points of shape {tuple(domain.shape)}, the network's input is "
            f"{tuple(network.input_shape)}; build the set from arrays of the network's input shape"
        )
    return domain.to(torch.float64)


def _domain(network: Network, given: DomainLike) -> Domain:
    """The input set that was given in one way or another."""
    if isinstance(given, tuple):
        return _box(network, *given)
    if not isinstance(given, BoxSet | BallSet):
        return given
    if given.size != network.input_size:
        raise InvalidInput(
            f"the input set has {given.size} inputs, the network {network.input_size} "
            f"(of shape {tuple(network.input_shape)}); build the set from an input of the network"
        )
    return from_input_set(given, network.input_shape)


def _box(network: Network, lower: ArrayLike | Tensor, upper: ArrayLike | Tensor) -> Box:
    """The box between two arrays of the input's shape, flat or not."""
    names = ("lower", "upper")
    corners = [
        _numbers(c, f"the box's {n} border") for n, c in zip(names, (lower, upper), strict=True)
    ]
    for name, corner in zip(names, corners, strict=True):
        if corner.numel() != network.input_size:
            raise InvalidInput(
                f"the box's {name} border has shape {tuple(corner.shape)}; expected "
                f"{tuple(network.input_shape)}, one number for each input"
            )
    return Box(*(corner.reshape(1, 1, *network.input_shape) for corner in corners))


def _rows(network: Network, rows: ArrayLike | Tensor) -> Tensor:
    """`[R, *output_shape]`, float64."""
    shape, size = network.output_shape, network.output_size
    given = _numbers(rows, "rows")
    if given.ndim == 1 and size == given.numel() and len(shape) <= 1:
        given = given.unsqueeze(0)
    if given.ndim < 1 or given.shape[0] == 0 or given[0].numel() != size:
        raise InvalidInput(
            f"rows have shape {tuple(given.shape)}; expected [R, {size}]: one coefficient for each "
            f"of the {size} outputs of the layer"
        )
    if not bool(torch.isfinite(given).all()):
        raise InvalidInput(
            "rows contain NaN or infinite coefficients; every coefficient must be finite"
        )
    return given.reshape(-1, *shape)


def _numbers(rows: ArrayLike | Tensor, what: str) -> Tensor:
    if isinstance(rows, Tensor):
        return rows.detach().to(torch.float64)
    return torch.tensor(as_array(rows, what))


def _inherited(
    warm: BoundsResult, network: Network, domain: Domain, otherwise: IntermediateStrategy
) -> IntermediateLike:
    """The intermediate bounds of a warm start, which hold for its own network and input set only."""
    old = warm.domain
    same_box = (
        isinstance(old, Box)
        and isinstance(domain, Box)
        and torch.equal(old.lower, domain.lower)
        and torch.equal(old.upper, domain.upper)
    )
    same = warm.network is network and (old is domain or same_box)
    return warm.intermediate if same else otherwise


def _intermediate(
    network: Network, domain: Domain, strategy: IntermediateLike, budget: Budget
) -> Bounds:
    if isinstance(strategy, Bounds):
        return _given(network, domain, strategy)
    chosen = INTERMEDIATES.parse(strategy) if isinstance(strategy, str) else strategy
    # half of the time at most, so that the method itself has its share; `iterations` are its own
    found: Bounds = chosen.bounds(network, domain, replace(budget.share(0.5), iterations=None))
    return found


def _given(network: Network, domain: Domain, between: Bounds) -> Bounds:
    if between.layout.shapes[: len(network.layout.shapes)] != network.layout.shapes:
        raise InvalidConfig(
            "the intermediate bounds given belong to another network: their layers have other "
            "shapes; compute them for this one"
        )
    if between.count not in (1, domain.count):
        raise InvalidConfig(
            f"the intermediate bounds given are of {between.count} sub-problems, the input set of "
            f"{domain.count}; give as many, or one that all share"
        )
    given = between.upto(network.n).to(torch.float64)
    given.check()
    return given


def _trace(points: Sequence[TracePoint], rows: int, count: int) -> Trace:
    lower, upper = _sides(torch.stack([point.value for point in points]), rows, count)
    return Trace(
        tuple(point.seconds for point in points),
        tuple(point.iteration for point in points),
        lower,
        upper,
    )
