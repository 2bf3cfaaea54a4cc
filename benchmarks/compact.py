"""What the compact engine costs on a sub-problem, beside its floor: the sparse products alone.

    python benchmarks/compact.py [base|wide|deep] [properties …]

For each property: the time of root bounds and of packing, the size of the compact network, and CPU microseconds per
sub-problem of the products of one adjoint and one forward sweep (the floor), of one evaluation, of four steps as the
search takes them, and of the rigorous float64 evaluation. The least of many runs counts.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from anybound.bound.compact.jit import kernel
from anybound.bound.compact.kernels import Work, make_work, product
from anybound.bound.compact.machine import STEP, WIDTH, addresses
from anybound.bound.compact.native import Fixed
from anybound.bound.compact.network import CompactNetwork, example_sweep
from anybound.bound.compact.objective import CompactObjective
from anybound.bound.compact.problems import Children, Parents
from anybound.bound.compact.reach import example_reach
from anybound.bound.compact.rigorous import rigorous
from anybound.bound.compact.roots import RootBounds
from anybound.bound.compact.solve import Climb, solve, workspace
from anybound.bound.compact.sparse import SparseNetwork
from anybound.io.onnx_reader import read_onnx
from anybound.io.vnnlib import read_vnnlib
from anybound.model.domains.box import Box
from anybound.spec.problem import Problem
from anybound.spec.problems import problems
from corpus import root

PROBLEMS = 4 * WIDTH
EXAMPLES = {"base": ("4631",), "wide": ("4720",), "deep": ("5168",)}


@kernel(example_sweep(), make_work(example_reach(), 1), 1, 1)
def _products(net: Any, work: Any, repeat: Any, width: Any) -> None:
    """The sparse products of an adjoint and a forward sweep of chunks, and nothing else."""
    net_, work_ = addresses(net), addresses(work)
    for _ in range(repeat):
        for g in range(len(net.adjoint.rows)):
            product(net_.adjoint, work_, g, width)
        for g in range(len(net.forward.rows)):
            product(net_.forward, work_, g, width)


def products(net: CompactNetwork, work: Fixed[Work], problems: int, iterations: int = 1) -> None:
    """The products of iterations on so many problems, in chunks as `solve` makes them."""
    chunks = -(-problems // WIDTH)
    width = min(WIDTH, -(-problems // chunks // STEP) * STEP)
    _products(net.fixed_sweep, work, iterations * chunks, width)


def least(action: Callable[[], object], runs: int = 25) -> float:
    """CPU seconds of the quickest run."""
    best = float("inf")
    for _ in range(runs):
        start = time.process_time()
        action()
        best = min(best, time.process_time() - start)
    return best


def read(name: str, image: str) -> Problem:
    """A network of the corpus and one of its properties."""
    network = read_onnx(root() / "paper" / "networks" / f"cifar_{name}_kw.onnx").network
    (path,) = (root() / "dev" / "oval21" / "vnnlib").glob(f"cifar_{name}_kw-img{image}-*")
    (safety,) = problems(network, read_vnnlib(path))
    return safety.problem


def measure(name: str, image: str) -> None:
    problem = read(name, image)
    network, box = problem.network, problem.domain
    if not isinstance(box, Box):
        raise SystemExit(f"{name} {image} has no input box")
    sparse = SparseNetwork(network)
    converted = least(lambda: [sparse.node(k) for k in network.hidden], 1)
    bounds = RootBounds().bounds(sparse, box)
    rooted = least(lambda: RootBounds().bounds(sparse, box), 3)
    packed = least(lambda: CompactNetwork.of(sparse, bounds, box).sweep, 5)
    net = CompactNetwork.of(sparse, bounds, box)
    print(
        f"{name} {image}: {converted:.3f} s to sparse maps, {rooted:.3f} s root bounds, "
        f"{1e3 * packed:.1f} ms packing; {net.count} rows, {len(net.ambiguous)} ambiguous, "
        f"{net.matrix.nnz} entries, {net.adjoint.products} + {net.forward.products} packed"
    )
    print("   ", sweeps(net, CompactObjective.of(problem.objective, net)))


def sweeps(net: CompactNetwork, objective: CompactObjective) -> str:
    """Microseconds per sub-problem."""
    parents = Parents.roots(net, np.zeros(PROBLEMS, np.int64))
    children, work = Children.same(PROBLEMS), workspace(net, objective)

    def micro(action: Callable[[], object]) -> float:
        return 1e6 * least(action) / PROBLEMS

    def climb(count: int) -> float:
        steps, keep = Climb(steps=count), (count > 1, count > 1, False)
        return micro(lambda: solve(net, objective, parents, children, steps, keep=keep, work=work))

    floor = micro(lambda: products(net, work, PROBLEMS))
    one, two, four = climb(1), climb(2), climb(4)
    exact = micro(lambda: rigorous(net, objective, parents, children, parents.slope))
    iteration = (four - two) / 2
    return (
        f"products of one iteration {floor:.2f} us, iteration {iteration:.2f} us "
        f"({iteration / floor:.2f} of them), one evaluation {one:.2f} us, four steps {four:.2f} us "
        f"({1e6 / four:.0f} per CPU second), rigorous {exact:.2f} us"
    )


if __name__ == "__main__":
    torch.set_num_threads(1)
    names = sys.argv[1:2] or list(EXAMPLES)
    for chosen in names:
        for example in sys.argv[2:] or EXAMPLES[chosen]:
            measure(chosen, example)
