"""Random small networks of every kind, input sets, bounds and objectives, from a seed.

A network is a directed acyclic graph of dense maps, convolutions and residual connections: edges
skip layers, two may join the same pair of layers, a layer may feed nothing. Activations are all of
the project's, each drawn once more for every layer.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np
import torch
from torch import Tensor

from anybound.bound.bounds import Bounds
from anybound.bound.decomposition import Decomposition
from anybound.bound.interval import interval
from anybound.layers import Layers
from anybound.model.activations import (
    Abs,
    Activation,
    Clip,
    Identity,
    LeakyReLU,
    PReLU,
    ReLU,
    Sigmoid,
    Tanh,
)
from anybound.model.affine import AffineMap, Chain, Conv, Dense, Reshape
from anybound.model.affine import Identity as Straight
from anybound.model.domains.box import Box
from anybound.model.domains.clipped_ball import ClippedBall
from anybound.model.domains.domain import Domain
from anybound.model.domains.l1_ball import L1Ball
from anybound.model.domains.l2_ball import L2Ball
from anybound.model.network import Edge, Network, Node
from anybound.spec.problem import Objective, Problem

Shape = tuple[int, ...]
PIECEWISE_LINEAR = ("relu", "leaky", "steep", "prelu", "abs", "hard_tanh", "relu6", "identity")
SMOOTH = ("sigmoid", "tanh")
ACTIVATIONS = (*PIECEWISE_LINEAR, *SMOOTH)
DOMAINS = ("box", "l1", "l2", "clipped_l1", "clipped_l2")


class Draw:
    """A stream of random choices."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def int(self, low: int, high: int) -> int:
        return int(self.rng.integers(low, high + 1))

    def chance(self, p: float) -> bool:
        return bool(self.rng.random() < p)

    def one_of(self, options: Sequence[str]) -> str:
        return options[self.int(0, len(options) - 1)]

    def normal(self, *shape: int) -> Tensor:
        return torch.from_numpy(np.asarray(self.rng.normal(size=shape)))

    def generator(self) -> torch.Generator:
        return torch.Generator().manual_seed(self.int(0, 2**31))


@dataclass(frozen=True, eq=False)
class Case:
    """A problem of D sub-problems and R rows between bounds of its own."""

    network: Network
    domain: Domain
    bounds: Bounds
    rows: Tensor  # [R, *output_shape]

    @property
    def problem(self) -> Problem:
        return Problem(self.network, self.domain, Objective.rows(self.network, self.rows))

    @property
    def dual(self) -> Decomposition:
        return Decomposition.between(self.problem, self.bounds)

    def pick(self, d: int) -> Case:
        """Sub-problem d alone."""
        index = torch.tensor([d])
        return replace(self, domain=self.domain.pick(index), bounds=self.bounds.pick(index))

    def values(self, x: Tensor) -> Tensor:
        """The objectives `[D, S, R]` at points x `[D, S, *input_shape]`."""
        return self.network.forward(x).flatten(2) @ self.rows.flatten(1).to(x).T

    def sampled_minimum(self, count: int, seed: int = 0) -> Tensor:
        """`[D, R]`: the least value at random points whose pre-activations are between the bounds; ∞ if none is."""
        x = self.domain.sample(count, torch.Generator().manual_seed(seed))
        x = x.expand(self.bounds.count, *x.shape[1:]) if len(x) == 1 else x
        zhat = pre_activations(self.network, x)
        inside = (zhat >= self.bounds.lower.data) & (zhat <= self.bounds.upper.data)
        return torch.where(inside.all(-1, keepdim=True), self.values(x), torch.inf).amin(1)

    def rhos(self, draw: Draw) -> Layers:
        """`[D, R, total]`: random multipliers of several sizes, zeros and propagated ones among them."""
        from anybound.bound.backward import Start

        dual = self.dual
        noise = draw.normal(*dual.batch, self.network.layout.total)
        size = torch.tensor([0.0, 0.01, 0.3, 1.0, 10.0], dtype=torch.float64)
        noise = noise * size[torch.from_numpy(draw.rng.integers(0, 5, dual.batch))].unsqueeze(-1)
        noise = noise * (draw.normal(*noise.shape) > 0)
        start = (Start.ZERO, Start.WK, Start.CROWN)[draw.int(0, 2)].rho(dual)
        return start.like(start.data + noise)


def case(
    seed: int,
    *,
    activations: Sequence[str] = ACTIVATIONS,
    domains: Sequence[str] = DOMAINS,
    rows: int = 4,
    subproblems: int | None = None,
    images: bool = True,
    chain: bool = False,
    cuts: bool = True,
) -> Case:
    """The random case of a seed, in float64; `cuts` shrinks some neurons' bounds, as branching does."""
    draw = Draw(seed)
    network = random_network(draw, activations, images=images, chain=chain)
    count = subproblems or draw.int(1, 3)
    domain = random_domain(draw, draw.one_of(domains), network.input_shape, count)
    bounds = interval(network, domain)
    wide = Bounds(
        *(x.like(x.data.expand(count, -1, -1).clone()) for x in (bounds.lower, bounds.upper))
    )
    if cuts and draw.chance(0.5):
        wide = _cut(draw, network, domain, wide)
    return Case(network, domain, wide, draw.normal(rows, *network.output_shape))


def triangle(*, lower: float, upper: float, first: float, second: float) -> Case:
    """x ↦ second·max(first·x, 0) on a box on which first·x has the bounds given."""
    weight = torch.ones(1, 1, dtype=torch.float64)
    nodes = (
        Node((1,)),
        Node((1,), (Edge(0, Dense.of(first * weight)),), ReLU()),
        Node((1,), (Edge(1, Dense.of(second * weight)),)),
    )
    network = Network(nodes)
    box = Box((lower / first) * weight[None], (upper / first) * weight[None])
    exact = [
        Layers(network.layout, torch.full((1, 1, 1), v, dtype=torch.float64))
        for v in (lower, upper)
    ]
    return Case(network, box, Bounds(*exact), weight)


def random_network(
    draw: Draw, activations: Sequence[str], *, images: bool = True, chain: bool = False
) -> Network:
    image = images and draw.chance(0.4)
    shapes: list[Shape] = [(draw.int(1, 2), 3, 3) if image else (draw.int(1, 4),)]
    nodes = [Node(shapes[0])]
    depth = draw.int(1, 4)
    for k in range(1, depth + 1):
        like_an_image = image and k < depth and len(shapes[-1]) == 3 and draw.chance(0.7)
        shapes.append((draw.int(1, 2), 3, 3) if like_an_image else (draw.int(1, 5),))
        if not chain and draw.chance(0.3):
            shapes[-1] = shapes[draw.int(0, k - 1)]  # so that residual connections occur
        sources = [k - 1]
        if not chain:
            sources += [draw.int(0, k - 1) for _ in range(draw.int(0, 2))]
        edges = tuple(Edge(j, random_map(draw, shapes[j], shapes[k])) for j in sources)
        activation = random_activation(draw, activations, shapes[k]) if k < depth else None
        nodes.append(Node(shapes[k], edges, activation))
    return Network(tuple(nodes))


def random_map(draw: Draw, source: Shape, target: Shape) -> AffineMap:
    bias = draw.normal(*target) if draw.chance(0.7) else None
    if source == target and draw.chance(0.4):
        return Straight.of(source, bias)
    if len(source) == 3 and len(target) == 3:
        weight = draw.normal(target[0], source[0], 3, 3) / 3
        return Conv.of(source, weight, bias, pads=1)
    weight = draw.normal(prod(target), prod(source)) / math.sqrt(max(1, prod(source)))
    dense = Dense.of(weight, None if bias is None else bias.reshape(-1))
    first = [Reshape(source, (prod(source),))] if len(source) != 1 else []
    last = [Reshape((prod(target),), target)] if len(target) != 1 else []
    return Chain.of(*first, dense, *last) if first or last else dense


def random_activation(draw: Draw, names: Sequence[str], shape: Shape) -> Activation:
    name = draw.one_of(names)
    if name == "prelu":
        alpha = (
            draw.normal(*shape)
            if draw.chance(0.5)
            else draw.normal(shape[0], *[1] * (len(shape) - 1))
        )
        return PReLU(alpha)
    return {
        "relu": ReLU(),
        "leaky": LeakyReLU(0.1),
        "steep": LeakyReLU(1.7),
        "abs": Abs(),
        "hard_tanh": Clip(-1.0, 1.0),
        "relu6": Clip(0.0, 0.7),
        "identity": Identity(),
        "sigmoid": Sigmoid(),
        "tanh": Tanh(),
    }[name]


def random_domain(draw: Draw, name: str, shape: Shape, count: int) -> Domain:
    """Of one or of `count` input sets."""
    count = count if draw.chance(0.5) else 1
    center, radius = draw.normal(count, 1, *shape), float(10 ** draw.rng.uniform(-1.5, 0.3))
    if name == "box":
        return Box.ball(center, radius)
    kind = L1Ball if name.endswith("l1") else L2Ball
    ball = kind(center, torch.full((count, 1), 2 * radius, dtype=torch.float64))
    if not name.startswith("clipped"):
        return ball
    return ClippedBall(ball, Box(center - radius * 0.7, center + radius))


def pre_activations(network: Network, x: Tensor) -> Tensor:
    """ẑ of all hidden layers, `[D, S, total]`."""
    return torch.cat(
        [x.flatten(2)[..., :0], *(zhat.flatten(2) for zhat in network.trace(x)[1:-1])], -1
    )


def _cut(draw: Draw, network: Network, domain: Domain, bounds: Bounds) -> Bounds:
    """Some neurons' bounds shrunk towards a value they take in the input set, the others carried on by intervals."""
    x = domain.sample(1, draw.generator())
    inner = pre_activations(network, x)
    shape = bounds.lower.data.shape
    lower = torch.where(draw.normal(*shape) > 1, inner - 0.1, bounds.lower.data)
    upper = torch.where(draw.normal(*shape) > 1, inner + 0.1, bounds.upper.data)
    like = bounds.lower.like
    cut = bounds.intersect(Bounds(like(lower), like(upper)))
    return interval(network, domain, within=cut)
