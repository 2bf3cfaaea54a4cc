"""What an iteration of every method costs beside its floor: the linear operations alone, each in its
fastest exact form.

    python benchmarks/iteration.py [--networks base wide deep] [--batches 1 9 64 256] [--methods …] [-o FOLDER]

CPU milliseconds of one thread. The portable engine runs so many sub-problems of one row, with bounds of
their own; its floor is one W z and one Wᵀρ for every affine map in the fastest of their forms (`forms`).
`compact` is the search's ascent on live neurons only; its floor are its sparse products. Both are
measured in turns, the least of many runs counts. Writes `iteration.jsonl`.
"""

from __future__ import annotations

import time
from argparse import ArgumentParser
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from anybound.bound.bounds import Bounds
from anybound.bound.compact.network import CompactNetwork, supports
from anybound.bound.compact.objective import CompactObjective
from anybound.bound.compact.problems import Children, Parents
from anybound.bound.compact.solve import Climb, solve, workspace
from anybound.bound.compact.sparse import SparseNetwork
from anybound.bound.decomposition import Decomposition
from anybound.bound.method import Method, Proposal, maximise
from anybound.budget import Budget
from anybound.layers import Layers
from anybound.model.affine import Conv
from anybound.model.affine.map import AffineMap
from anybound.model.domains.box import Box
from anybound.registry import METHODS
from anybound.spec.problem import Problem
from cases import Case, batch_of, bounds_of, default_names
from compact import products
from records import Records, add_output, table

BATCHES = (1, 9, 64, 256)
PORTABLE = {  # and the passes of one step: one W z and one Wᵀρ each
    "slopes(iterations=99)": 1,
    "supergradient(iterations=99)": 1,
    "proximal(iterations=198)": 2,
    "dsg(iterations=99)": 1,
}
COMPACT = "compact"
_HEAD = ("network", "batch", "method", "iteration ms", "floor ms", "ratio")
_STEPS = 8  # in a run that is timed as one, after as many that are not


@dataclass(frozen=True)
class Clocked(Method[Any]):
    """Another method, noting the CPU time whenever a step begins."""

    method: Method[Any]
    count: int
    times: list[float] = field(default_factory=list)

    def steps(self, dual: Decomposition) -> int:
        return self.count

    def within(self, budget: Budget) -> Clocked:
        return self

    def init(self, dual: Decomposition, warm: Layers | None) -> Any:
        return self.method.init(dual, warm)

    def step(self, dual: Decomposition, state: Any) -> Any:
        self.times.append(time.process_time())
        return self.method.step(dual, state)

    def propose(self, dual: Decomposition, state: Any) -> Proposal:
        return self.method.propose(dual, state)


def main() -> None:
    parser = ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--networks", nargs="+", default=default_names())
    parser.add_argument("--batches", type=int, nargs="+", default=BATCHES)
    parser.add_argument("--methods", nargs="+", default=(*PORTABLE, COMPACT))
    parser.add_argument("--runs", type=int, default=5)
    add_output(parser)
    options = parser.parse_args()
    torch.set_num_threads(1)
    with Records(options.output / "iteration.jsonl") as records:
        for name in options.networks:
            problem = Case.named(name).problem()
            bounds = bounds_of(problem)
            for batch in options.batches:
                for record in costs(problem, bounds, batch, options.methods, options.runs):
                    records.add({"network": name, "batch": batch, **record})
        print(table(_HEAD, [tuple(record.values()) for record in records.all]))


def costs(
    problem: Problem, bounds: Bounds, batch: int, methods: Sequence[str], runs: int
) -> Iterator[dict[str, object]]:
    """What each method's iteration and its floor cost, by turns."""
    dual = batch_of(problem, bounds, batch)
    linear = floor_operations(dual)
    for text in methods:
        if text == COMPACT:
            if isinstance(problem.domain, Box) and not supports(problem.network, problem.domain):
                yield _record(COMPACT, *compact_cost(problem, bounds, problem.domain, batch, runs))
            continue
        spent, floor = float("inf"), float("inf")
        for _ in range(runs):
            spent = min(spent, step_seconds(dual, text))
            floor = min(floor, _least(linear, 3))
        yield _record(text, spent / PORTABLE.get(text, 1), floor)


def _record(method: str, spent: float, floor: float) -> dict[str, object]:
    name = method.partition("(")[0]
    return {"method": name, "ms": 1e3 * spent, "floor_ms": 1e3 * floor, "ratio": spent / floor}


def step_seconds(dual: Decomposition, method: str) -> float:
    """Of a step in a run of `maximise`, with all that the loop does about it."""
    clocked = Clocked(METHODS.parse(method), 2 * _STEPS + 1)
    maximise(dual, clocked)
    return (clocked.times[-1] - clocked.times[_STEPS]) / _STEPS


def floor_operations(dual: Decomposition) -> Callable[[], None]:
    """One W z and one Wᵀρ for every affine map below the output, as fast as they can be had."""
    count, runs = dual.batch[0], list[Callable[[], Tensor]]()
    for k in dual.net.hidden:
        for edge in dual.net.nodes[k].edges:
            z = torch.randn(count, *edge.map.in_shape)
            rho = torch.randn(count, *edge.map.out_shape)
            runs += [_fastest(forwards(edge.map), z), _fastest(adjoints(edge.map), rho)]

    @torch.inference_mode()
    def all_of_them() -> None:
        for run in runs:
            run()

    return all_of_them


Form = Callable[[Tensor], Tensor]


def forwards(map_: AffineMap) -> list[Form]:
    """Exact forms of z ↦ W z: the map's own, and with channels last."""
    if not isinstance(map_, Conv) or len(map_.kernel) != 2:
        return [map_.linear]
    last = map_.weight.contiguous(memory_format=torch.channels_last)
    other = Conv(
        map_.in_shape, map_.out_shape, last, map_.stride, map_.pads, map_.dilation, map_.groups
    )
    return [
        map_.linear,
        other.linear,
        lambda z: other.linear(z.contiguous(memory_format=torch.channels_last)),
    ]


def adjoints(map_: AffineMap) -> list[Form]:
    """Exact forms of ρ ↦ Wᵀρ: all that race, or the map's own."""
    return list(map_.adjoint.forms) if isinstance(map_, Conv) else [map_.transpose]


@torch.inference_mode()
def _fastest(forms: Sequence[Form], x: Tensor) -> Callable[[], Tensor]:
    seconds = [_least(lambda form=form: form(x), 7) for form in forms]  # type: ignore[misc]
    form = forms[seconds.index(min(seconds))]
    return lambda: form(x)


def _least(run: Callable[[], object], runs: int) -> float:
    """CPU seconds of the quickest run."""
    best = float("inf")
    for _ in range(runs):
        start = time.process_time()
        run()
        best = min(best, time.process_time() - start)
    return best


def compact_cost(
    problem: Problem, bounds: Bounds, box: Box, batch: int, runs: int
) -> tuple[float, float]:
    """Seconds of an iteration of the search's ascent and of its products, of the whole batch."""
    net = CompactNetwork.of(SparseNetwork(problem.network), bounds, box)
    objective = CompactObjective.of(problem.objective, net)
    parents, children = Parents.roots(net, np.zeros(batch, np.int64)), Children.same(batch)
    work, few, many = workspace(net, objective), 2, 2 + _STEPS

    def climb(steps: int) -> float:
        climbing = Climb(steps=steps)
        return _least(lambda: solve(net, objective, parents, children, climbing, work=work), runs)

    def multiply(times: int) -> float:
        return _least(lambda: products(net, work, batch, times), runs)

    # differences, as what a call costs is in neither
    rounds = [(climb(few), climb(many), multiply(few), multiply(many)) for _ in range(10)]
    least = [min(column) for column in zip(*rounds, strict=True)]
    return (least[1] - least[0]) / _STEPS, (least[3] - least[2]) / _STEPS


if __name__ == "__main__":
    main()
