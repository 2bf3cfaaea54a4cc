"""Problems for splitting the input box: small networks, and clauses whose exact minimum is known along segments.

Networks are made to be hard to round: weights, biases and boxes of very different sizes, neurons that repeat or mirror
others, inputs that hardly vary.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from exact_line import Along
from numpy.typing import NDArray
from random_networks import Draw

from anybound.bound.bounds import Bounds
from anybound.bound.interval import interval
from anybound.budget import Budget
from anybound.model.activations import Abs, Activation, LeakyReLU, PReLU, ReLU
from anybound.model.affine import Dense
from anybound.model.domains.box import Box
from anybound.model.network import Edge, Network, Node
from anybound.search.input_split.engine import BoxPlan, BoxResult, search
from anybound.search.input_split.splitter import Boxes, InputSplitter
from anybound.spec.problem import Objective, Problem

Array = NDArray[np.float64]
PLAN = BoxPlan()
CALM, WILD, TOO_WILD = 0.0, 8.0, 60.0


@dataclass(frozen=True, eq=False)
class Question:
    """A network over a box, and clauses as lists of rows a_r f(x) + d_r."""

    network: Network
    lower: Array
    upper: Array
    rows: Array
    offset: Array
    clauses: tuple[tuple[int, ...], ...]

    @cached_property
    def problem(self) -> Problem:
        shape = self.network.input_shape
        low, high = (torch.tensor(x).reshape(1, 1, *shape) for x in (self.lower, self.upper))
        rows = torch.tensor(self.rows).reshape(-1, *self.network.output_shape)
        objective = Objective.rows(self.network, rows, torch.tensor(self.offset))
        return Problem(self.network, Box(low, high), objective)

    @cached_property
    def bounds(self) -> Bounds:
        return interval(self.network, self.problem.domain)

    def splitter(
        self, symbols: int = 128, threads: int = 1, *, clips: bool = False
    ) -> InputSplitter:
        return InputSplitter.of(
            self.problem, self.bounds, self.clauses, symbols=symbols, threads=threads, clips=clips
        )

    def minimum(self, clause: int, p: Array, q: Array) -> float:
        """At least the clause's exact minimum along a segment of the box, and hardly more."""
        rows = list(self.clauses[clause])
        least = Along(self.network, p.tolist(), q.tolist()).minimum(
            self.rows[rows].tolist(), self.offset[rows].tolist()
        )
        value = float(least)  # rounded to nearest
        return value if least <= value else float(np.nextafter(value, np.inf))


def random_question(seed: int, spread: float = CALM, inputs: int = 3) -> Question:
    """Dense layers and skips between them; numbers of sizes 10^±spread, twins, constants, any bend."""
    draw = Draw(seed)
    depth, width = draw.int(0, 3), draw.int(1, 6)
    sizes = [draw.int(1, inputs), *[draw.int(1, width) for _ in range(depth)], draw.int(1, 3)]
    nodes = [Node((sizes[0],))]
    for k in range(1, len(sizes)):
        sources = {k - 1} | ({draw.int(0, k - 1)} if draw.chance(0.3) else set())
        edges = _edges(draw, sources, sizes, k, spread)
        nodes.append(Node((sizes[k],), edges, bend(draw, sizes[k]) if k <= depth else None))
    center = draw.normal(sizes[0]).numpy() * scale(draw, sizes[0], spread)
    radius = scale(draw, sizes[0], max(spread, 1.0)) * (draw.rng.random(sizes[0]) < 0.8)
    count = draw.int(1, 5)
    clauses = np.array_split(np.arange(count), draw.int(1, count))
    return Question(
        Network(tuple(nodes)),
        center - radius,
        center + radius,
        draw.normal(count, sizes[-1]).numpy(),
        draw.normal(count).numpy(),
        tuple(tuple(int(r) for r in rows) for rows in clauses),
    )


def scale(draw: Draw, count: int, spread: float) -> Array:
    return np.asarray(10.0 ** draw.rng.uniform(-spread, spread, count))


def _edges(
    draw: Draw, sources: set[int], sizes: list[int], k: int, spread: float
) -> tuple[Edge, ...]:
    """Rows of their own sizes; some repeat or mirror the row before, biases included."""
    size = scale(draw, sizes[k], spread)[:, None]
    parts = [draw.normal(sizes[k], sizes[j]).numpy() * size for j in sources]
    bias = draw.normal(sizes[k]).numpy() * size[:, 0]
    for i in range(1, sizes[k]):
        if draw.chance(0.4):
            sign = 1.0 if draw.chance(0.3) else -1.0
            for part in (*parts, bias):
                part[i] = sign * part[i - 1]
    if draw.chance(0.2):
        bias[:] = 0.0
    maps = [Dense.of(torch.tensor(part)) for part in parts[1:]]
    first = Dense.of(torch.tensor(parts[0]), torch.tensor(bias))
    return tuple(Edge(j, m) for j, m in zip(sources, (first, *maps), strict=True))


def bend(draw: Draw, size: int) -> Activation:
    alpha = torch.from_numpy(draw.rng.uniform(-1, 1, size))
    options: dict[str, Activation] = {
        "relu": ReLU(),
        "leaky": LeakyReLU(0.1),
        "falling": LeakyReLU(-0.3),
        "abs": Abs(),
        "prelu": PReLU(alpha),
    }
    return options[draw.one_of(["relu", "relu", *options])]


def random_boxes(splitter: InputSplitter, draw: Draw, count: int) -> Boxes:
    """The root, and boxes in it of any size down to a point."""
    root = splitter.root
    low, high = root.lower[0], root.upper[0]
    shape = (count, len(low))
    part = 10.0 ** draw.rng.uniform(-15, 0, (count, 1)) * (draw.rng.random(shape) < 0.9)
    start = draw.rng.random(shape)
    lower = np.clip(low + start * (high - low), low, high)
    upper = np.clip(lower + part * (high - low), lower, high)
    lower[0], upper[0] = low, high
    return Boxes(lower, upper, np.ones((count, root.is_open.shape[1]), np.bool_))


def run(
    question: Question,
    plan: BoxPlan = PLAN,
    seconds: float | None = 20.0,
    threads: int = 1,
    *,
    clips: bool = False,
) -> BoxResult:
    splitter = question.splitter(threads=threads, clips=clips)

    def inspect(points: Array) -> bool:
        """Whether one of them violates, exactly."""
        clauses = range(len(question.clauses))
        return any(question.minimum(c, x, x) <= 0 for x in points for c in clauses)

    return search(splitter, plan, Budget(seconds=seconds), inspect)
