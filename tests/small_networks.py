"""Small random networks twice: as plain matrices for the oracle, and in the project's own form.

Dense chains, convolutions, and residual connections; ReLU, sigmoid or tanh; box, l2 or l1 input sets; and a
property placed at a chosen distance from the exact minimum.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from oracle import Array, Exact, Layer, Region, margin, minimum

from anybound.model.activations import Activation, ReLU, Sigmoid, Tanh
from anybound.model.affine import AffineMap, Chain, Conv, Dense, Reshape
from anybound.model.network import Edge, Network, Node
from anybound.spec.build import any_of, linear, unsafe
from anybound.spec.input_sets import BallSet, BoxSet, InputSet
from anybound.spec.property import Property

ACTIVATIONS: dict[str, Activation | None] = {
    "relu": ReLU(),
    "sigmoid": Sigmoid(),
    "tanh": Tanh(),
    "none": None,
}


@dataclass(frozen=True, eq=False)
class Small:
    """A network, its input set, and the clauses A y <= b (before b is shifted)."""

    layers: list[Layer]
    network: Network
    region: Region
    clauses: list[tuple[Array, Array]]
    kind: str

    @cached_property
    def exact(self) -> list[Exact]:
        """The least margin of each clause."""
        return [minimum(self.layers, self.region, A, b) for A, b in self.clauses]

    @property
    def input_set(self) -> InputSet:
        if self.region.norm == np.inf:
            return BoxSet(self.region.lower, self.region.upper)
        return BallSet(self.region.center, self.region.radius, 1 if self.region.norm == 1 else 2)

    def shifted(self, shift: float) -> Property:
        """The property with every clause's margin lowered by `shift`."""
        return unsafe(self.input_set, any_of(*(linear(A, b + shift) for A, b in self.clauses)))

    def margin(self, x: Array, shift: float) -> Array:
        """The least margin over all clauses at points."""
        return np.min([margin(self.layers, A, b + shift, x) for A, b in self.clauses], axis=0)


def small(seed: int, activation: str | None = None, norm: float | None = None) -> Small:
    """The random case of a seed."""
    rng = np.random.default_rng(seed)
    name = activation or str(rng.choice(["relu", "relu", "relu", "sigmoid", "tanh"]))
    smooth = name != "relu"
    kind = str(rng.choice(["dense", "conv", "residual"]))
    make = {"dense": _dense, "conv": _conv, "residual": _residual}[kind]
    layers, network, inputs = make(rng, name, smooth)
    order = norm or float(rng.choice([np.inf, np.inf, 2.0, 1.0]))
    radius = float(10 ** rng.uniform(-0.7, 0.0)) * (1.0 if order == np.inf else 1.5)
    region = Region(rng.normal(size=inputs) / 2, radius, order)
    clauses = []
    for _ in range(int(rng.integers(1, 4))):
        rows = int(rng.choice([1, 1, 2, 3]))
        A = rng.normal(size=(rows, len(layers[-1].bias)))
        clauses.append((A / np.linalg.norm(A, axis=1, keepdims=True), rng.normal(size=rows) / 4))
    return Small(layers, network, region, clauses, f"{kind}-{name}-{order:g}")


def _weights(rng: np.random.Generator, rows: int, columns: int) -> Array:
    return rng.normal(size=(rows, columns)) * np.sqrt(2 / columns)


def _network(shapes: list[tuple[int, ...]], edges: list[list[Edge]], names: list[str]) -> Network:
    nodes = [Node(shapes[0])]
    for shape, own, name in zip(shapes[1:], edges, names, strict=True):
        nodes.append(Node(shape, tuple(own), ACTIVATIONS[name]))
    return Network(tuple(nodes))


def _map(W: Array, b: Array | None) -> AffineMap:
    return Dense.of(torch.tensor(W), None if b is None else torch.tensor(b))


def _dense(rng: np.random.Generator, name: str, smooth: bool) -> tuple[list[Layer], Network, int]:
    inputs = int(rng.integers(1, 3 if smooth else 5))
    hidden = int(rng.integers(1, 3 if smooth else 4))
    sizes = [inputs, *rng.integers(2, 4 if smooth else 6, hidden).tolist(), int(rng.integers(1, 4))]
    names = [name] * hidden + ["none"]
    layers, edges = [], []
    for k, own in enumerate(names, start=1):
        W, b = _weights(rng, sizes[k], sizes[k - 1]), rng.normal(size=sizes[k]) / 2
        layers.append(Layer(((k - 1, W),), b, own))
        edges.append([Edge(k - 1, _map(W, b))])
    return layers, _network([(s,) for s in sizes], edges, names), inputs


def _residual(
    rng: np.random.Generator, name: str, smooth: bool
) -> tuple[list[Layer], Network, int]:
    """Layer 2 and the output also read the layer, or the input, two before them."""
    inputs, width = int(rng.integers(1, 3)), int(rng.integers(2, 4 if smooth else 5))
    sizes = [inputs, width, width, int(rng.integers(1, 3))]
    names = [name, name, "none"]
    layers, edges = [], []
    for k, own in enumerate(names, start=1):
        b = rng.normal(size=sizes[k]) / 2
        sources = [k - 1] if k == 1 else [k - 1, k - 2]
        maps = [(j, _weights(rng, sizes[k], sizes[j]) / np.sqrt(len(sources))) for j in sources]
        layers.append(Layer(tuple(maps), b, own))
        edges.append([Edge(j, _map(W, b if i == 0 else None)) for i, (j, W) in enumerate(maps)])
    return layers, _network([(s,) for s in sizes], edges, names), inputs


def _conv(rng: np.random.Generator, name: str, smooth: bool) -> tuple[list[Layer], Network, int]:
    """A convolution over an image of 2 × 2 (smooth: of 1 × 2) pixels, then dense layers."""
    height, width, channels = (1, 2, 2) if smooth else (2, 2, int(rng.integers(1, 4)))
    pixels, inputs, out = height * width, height * width, int(rng.integers(1, 3))
    weight = rng.normal(size=(channels, 1, 3, 3)) * np.sqrt(2 / pixels)
    b1 = rng.normal(size=channels) / 2
    W1 = np.zeros((channels * pixels, pixels))
    for c, i, j, p, q in np.ndindex(channels, height, width, height, width):
        if abs(p - i) <= 1 and abs(q - j) <= 1:  # padding 1
            W1[(c * height + i) * width + j, p * width + q] = weight[c, 0, p - i + 1, q - j + 1]
    size = int(rng.integers(2, 4))
    W2, b2 = _weights(rng, size, channels * pixels), rng.normal(size=size) / 2
    W3, b3 = _weights(rng, out, size), rng.normal(size=out) / 2
    layers = [
        Layer(((0, W1),), np.repeat(b1, pixels), name),
        Layer(((1, W2),), b2, name),
        Layer(((2, W3),), b3, "none"),
    ]
    image = (channels, height, width)
    bias = torch.tensor(b1).reshape(channels, 1, 1).expand(image)
    edges = [
        [Edge(0, Conv.of((1, height, width), torch.tensor(weight), bias, pads=1))],
        [Edge(1, Chain.of(Reshape(image, (channels * pixels,)), _map(W2, b2)))],
        [Edge(2, _map(W3, b3))],
    ]
    shapes: list[tuple[int, ...]] = [(1, height, width), image, (size,), (out,)]
    return layers, _network(shapes, edges, [name, name, "none"]), inputs
