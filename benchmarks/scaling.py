"""How cost grows with width, depth, batch and the number of open sub-problems: fitted exponents.

    python benchmarks/scaling.py [--axes width depth batch open] [--widths 8 16 32 64] … [-o FOLDER]

Random convolutional ReLU networks; one quantity varies, the others stay. CPU seconds of one thread of the root's
bounds, of an iteration of `slopes` on the portable engine, of one of the search's ascent on the compact engine, and of
a round of the search's pool; the least of several runs. An exponent p says that cost grows like x^p, by
least squares on logarithms. Writes `scaling.jsonl`.
"""

from __future__ import annotations

import time
from argparse import ArgumentParser
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import prod

import numpy as np
import torch

from anybound.bound.compact.network import CompactNetwork
from anybound.bound.compact.roots import RootBounds
from anybound.bound.compact.sparse import SparseNetwork
from anybound.model.activations import ReLU
from anybound.model.affine import AffineMap, Chain, Conv, Dense, Reshape
from anybound.model.domains.box import Box
from anybound.model.network import Edge, Network, Node
from anybound.search.pool import Pool
from anybound.spec.problem import Objective, Problem
from cases import batch_of
from iteration import compact_cost, step_seconds
from records import Records, add_output, table

_HEAD = ("axis", "cost", "exponent", "x", "CPU ms")
_SIDE = 16  # of the input image, with three channels
_ROUND = 256  # sub-problems that a round takes from the pool and puts back
_NEURONS = 400  # ambiguous ones of a sub-problem in the pool
_RUNS = 5


@dataclass(frozen=True)
class Size:
    """Of an experiment; the defaults stay while one of them varies."""

    width: int = 16  # channels of every hidden layer
    depth: int = 3  # convolutions, the first of which has stride 2
    batch: int = 64
    open: int = 1000


def main() -> None:
    parser = ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    axes = ("width", "depth", "batch", "open")
    parser.add_argument("--axes", nargs="+", choices=axes, default=axes)
    parser.add_argument("--widths", type=int, nargs="+", default=[8, 16, 32, 64])
    parser.add_argument("--depths", type=int, nargs="+", default=[2, 3, 4, 6])
    parser.add_argument("--batches", type=int, nargs="+", default=[16, 64, 256, 1024])
    parser.add_argument("--opens", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    add_output(parser)
    options = parser.parse_args()
    torch.set_num_threads(1)
    values = dict(
        zip(axes, (options.widths, options.depths, options.batches, options.opens), strict=True)
    )
    with Records(options.output / "scaling.jsonl") as records:
        for axis in options.axes:
            measure = pool_costs if axis == "open" else costs
            for record in fitted(axis, values[axis], measure):
                records.add(record)
        print(table(_HEAD, [_line(record) for record in records.all]))


def fitted(
    axis: str, values: Sequence[int], measure: Callable[[Size], Mapping[str, float]]
) -> Iterator[dict[str, object]]:
    """A record for each cost along an axis."""
    found = [measure(replace(Size(), **{axis: value})) for value in values]
    for name in found[0]:
        seconds = [costs[name] for costs in found]
        yield {
            "axis": axis,
            "cost": name,
            "exponent": exponent(values, seconds),
            "x": list(values),
            "seconds": seconds,
        }


def exponent(x: Sequence[float], seconds: Sequence[float]) -> float:
    """p of the c·x^p that is nearest on log-log axes."""
    slope, _ = np.polyfit(np.log(x), np.log(seconds), 1)
    return float(slope)


def _line(record: Mapping[str, object]) -> list[object]:
    x, seconds = record["x"], record["seconds"]
    shown = (" ".join(f"{value:.3g}" for value in values) for values in (x, _milli(seconds)))  # type: ignore[attr-defined]
    return [record["axis"], record["cost"], record["exponent"], *shown]


def _milli(seconds: object) -> list[float]:
    return [1e3 * value for value in seconds]  # type: ignore[attr-defined]


def costs(size: Size) -> dict[str, float]:
    """CPU seconds by name."""
    problem = random_problem(size)
    sparse, box = SparseNetwork(problem.network), problem.domain
    if not isinstance(box, Box):
        raise TypeError("the input set is a box")
    CompactNetwork.of(sparse, RootBounds().bounds(sparse, box), box)  # conversions and kernels
    start = time.process_time()
    bounds = RootBounds().bounds(sparse, box)
    root = time.process_time() - start
    dual = batch_of(problem, bounds, size.batch)
    portable = min(step_seconds(dual, "slopes(iterations=99)") for _ in range(_RUNS))
    compact, _ = compact_cost(problem, bounds, box, size.batch, _RUNS)
    return {"root bounds": root, "slopes, portable": portable, "ascent, compact": compact}


def random_problem(size: Size, seed: int = 0) -> Problem:
    """ReLU convolutions of kernel 3, then a dense layer of 100 and ten outputs; the first output over a small box."""
    generator = torch.Generator().manual_seed(seed)
    shape: tuple[int, ...] = (3, _SIDE, _SIDE)
    nodes = [Node(shape)]
    for layer in range(size.depth):
        weight = _he((size.width, shape[0], 3, 3), generator)
        conv = Conv.of(
            shape, weight, torch.zeros(size.width).double(), stride=2 - (layer > 0), pads=1
        )
        nodes.append(_node(conv, len(nodes)))
        shape = conv.out_shape
    flat = (prod(shape), 100, 10)
    for inputs, outputs in pairwise(flat):
        dense: AffineMap = Dense.of(
            _he((outputs, inputs), generator), torch.zeros(outputs).double()
        )
        if len(shape) > 1:
            dense, shape = Chain.of(Reshape(shape, (inputs,)), dense), (inputs,)
        nodes.append(_node(dense, len(nodes)))
    nodes[-1] = replace(nodes[-1], activation=None)
    network = Network(tuple(nodes))
    center = torch.rand(1, 1, 3, _SIDE, _SIDE, generator=generator, dtype=torch.float64)
    rows = torch.eye(10, dtype=torch.float64)[:1]
    return Problem(network, Box.ball(center, 0.01), Objective.rows(network, rows))


def _he(shape: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
    scale: float = (2 / prod(shape[1:])) ** 0.5
    return scale * torch.randn(shape, generator=generator, dtype=torch.float64)


def _node(map_: AffineMap, count: int) -> Node:
    return Node(map_.out_shape, (Edge(count - 1, map_),), ReLU())


def pool_costs(size: Size) -> dict[str, float]:
    """Of taking sub-problems and putting twice as many back, in the middle of so many open ones."""
    rng = np.random.default_rng(0)

    def rows(count: int) -> dict[str, np.ndarray]:
        return {
            "sign": np.zeros((count, _NEURONS), np.int8),
            "slope": np.zeros((count, _NEURONS), np.float16),
            "bound": rng.random(count).astype(np.float32),
        }

    pool = Pool(rows(1))
    pool.push(rows(size.open))
    added, seconds = rows(2 * _ROUND), []
    for _ in range(20):
        start = time.process_time()
        pool.pop(_ROUND)
        pool.push(added)
        seconds.append(time.process_time() - start)
        pool.pop(_ROUND)
    return {"a round of the pool": min(seconds)}


if __name__ == "__main__":
    main()
