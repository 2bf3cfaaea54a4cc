"""Searches: sub-problems per second and core, time to verdict, and memory, each instance in a fresh process.

    python benchmarks/search.py [--instances base:4631 wide:4720 …] [--timeout 60] [-o FOLDER]
    python benchmarks/search.py --pool base        # memory and speed with 100,000 open sub-problems

CPU seconds of one thread, after the import of torch and onnx; the package's own imports count. `rate` is all that the
search does to a sub-problem, branching and rigorous evaluations included; `bounding` is the ascent alone, with eight
steps each. Memory is what is resident beyond the import of torch and onnx, at most. For the instances of oval21 the
best CPU seconds known of another tool on such a machine, its start included, stand beside ours. The first instance is
run once more beforehand, so that bytecode and kernels are there. Writes `search.jsonl`.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from argparse import ArgumentParser
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import onnx  # noqa: F401  (what memory is counted beyond)
import torch

# CPU seconds: the least in its row of the corpus's table
BEST = {
    "base:4549": 8.7, "base:2908": 10.7, "base:4631": 21.7, "base:6638": 13.1,
    "wide:19": 19.8, "wide:6762": 122.0, "deep:5168": 14.2, "deep:5533": 18.0,
}  # fmt: skip
OTHERS = ("wide:4720", "wide:1075", "deep:6051")  # of which there is no figure
OPEN = 100_000  # sub-problems
STEPS = 8
_HEAD = (
    "instance", "verdict", "sub-problems", "CPU s", "in search", "rate /s", "bounding /s", "MiB",
    "another's CPU s", "times",
)  # fmt: skip
_MIB = 1 << 20


def memory() -> int:
    """The most bytes that this process has had resident, those of the process that started it left out."""
    status = Path("/proc/self/status")
    if not status.is_file():
        raise SystemExit("memory is measured on Linux only")
    lines = status.read_text().splitlines()
    (line,) = (line for line in lines if line.startswith("VmHWM"))
    return 1024 * int(line.split()[1])


IMPORTED = memory()


@dataclass(frozen=True)
class Timed:
    """A search, and the CPU seconds that it took."""

    search: Any
    seconds: list[float] = field(default_factory=list)

    def __call__(self, task: Any) -> Any:
        start = time.process_time()
        try:
            return self.search(task)
        finally:
            self.seconds.append(time.process_time() - start)


def main() -> None:
    from cases import BUNDLED, default_names, is_at_hand
    from records import Records, add_output, table

    parser = ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    default = list(BUNDLED)
    if default_names() != tuple(BUNDLED):
        default = [name for name in (*BEST, *OTHERS) if is_at_hand(*name.split(":"))]
    parser.add_argument("--instances", nargs="+", default=default, metavar="NETWORK[:IMAGE]")
    parser.add_argument("--timeout", type=float, default=60.0)
    parser.add_argument("--pool", metavar="NETWORK", help=f"only {OPEN:,} open sub-problems of it")
    parser.add_argument("--one", metavar="INSTANCE", help="in this process, as JSON")
    add_output(parser)
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.one:
        print(json.dumps(decided(options.one, options.timeout)))
    elif options.pool:
        print(json.dumps(filled(options.pool, OPEN)))
    else:
        _apart(["--one", options.instances[0], "--timeout", "5"])  # bytecode, and kernels
        with Records(options.output / "search.jsonl") as records:
            for name in options.instances:
                records.add(_apart(["--one", name, "--timeout", str(options.timeout)]))
            print(table(_HEAD, [_line(record) for record in records.all]))


def _apart(arguments: Sequence[str]) -> dict[str, Any]:
    """The record of a fresh process."""
    from records import environment

    command = [sys.executable, __file__, *arguments]
    run = subprocess.run(command, check=True, stdout=subprocess.PIPE, env=environment())
    record: dict[str, Any] = json.loads(run.stdout)
    return record


def _line(record: Mapping[str, Any]) -> list[object]:
    keys = ("instance", "verdict", "subproblems", "cpu", "search", "rate", "bounding")
    line = [record[key] for key in keys]
    best = BEST.get(record["instance"])
    times = best / record["cpu"] if best is not None else None
    return [*line, record["memory"] / _MIB, best, times]


def decided(instance: str, timeout: float) -> dict[str, Any]:
    """One instance by the planner's search, kernels compiled or loaded as they are needed."""
    start = time.process_time()
    from anybound.runtime.job import loaded

    verify, auto = loaded("anybound.deciding:verify"), loaded("anybound.searches.auto:Auto")
    case, search = _case(instance), Timed(auto())
    outcome = verify(case.onnx, case.vnnlib, timeout=timeout, threads=1, search=search)
    used, searched = time.process_time() - start, sum(search.seconds)
    most = memory()
    return {
        "instance": instance,
        "verdict": outcome.verdict.value,
        "subproblems": outcome.subproblems,
        "cpu": used,
        "search": searched,
        "rate": outcome.subproblems / searched if outcome.subproblems else None,
        "bounding": _bounding_rate(case),
        "memory": most - IMPORTED,
        "phases": dict(outcome.phases),
    }


def _case(instance: str) -> Any:
    from cases import Case

    name, _, image = instance.partition(":")
    return Case.named(name, image)


def _bounder(case: Any) -> Any:
    """The compact engine's bounder of a case at its root bounds; None where it does not apply."""
    from anybound.bound.compact.network import CompactNetwork, supports
    from anybound.bound.compact.objective import CompactObjective
    from anybound.bound.compact.sparse import SparseNetwork
    from anybound.search.relu_bounder import ReluBounder
    from cases import bounds_of

    problem = case.problem()
    if supports(problem.network, problem.domain):
        return None
    net = CompactNetwork.of(SparseNetwork(problem.network), bounds_of(problem), problem.domain)
    return ReluBounder(net, CompactObjective.of(problem.objective, net))


def _children(bounder: Any, batch: Any) -> Any:
    """Both children of each sub-problem, split where the intercept is largest."""
    import numpy as np

    neuron = np.abs(batch.slope.astype(np.float32) - 0.5).argmin(1)
    return bounder.children(batch, neuron, float("inf"), inputs=False)


def _bounding_rate(case: Any, count: int = 1024, runs: int = 5) -> float | None:
    """Sub-problems per CPU second of the ascent, with `STEPS` steps each and none decided early."""
    from dataclasses import replace

    import numpy as np

    from anybound.bound.compact.solve import Climb

    bounder = _bounder(case)
    if bounder is None or bounder.neurons == 0:
        return None
    bounder = replace(bounder, climb=Climb(steps=STEPS))
    index = np.zeros(count // 2, np.int64)
    batch = bounder.roots(index[:1], index[:1]).batch.take(index)
    seconds = []
    for _ in range(runs):
        start = time.process_time()
        _children(bounder, batch)
        seconds.append(time.process_time() - start)
    return count / min(seconds)


def filled(network: str, count: int) -> dict[str, Any]:
    """A pool of so many open sub-problems, from which rounds of a search are taken and put back."""
    import numpy as np

    from anybound.search.pool import Pool

    bounder = _bounder(_case(network))
    if bounder is None:
        raise SystemExit(f"{network}: the compact engine does not apply to it")
    index = np.zeros(256, np.int64)
    batch = bounder.roots(index[:1], index[:1]).batch.take(index)
    pool = Pool(batch._asdict())
    while len(pool) < count:
        pool.push(batch._asdict())
    start = time.process_time()
    for _ in range(20):
        parents = type(batch)(**pool.pop(len(index)))
        pool.push(_children(bounder, parents).batch.take(np.arange(len(index)))._asdict())
    used = time.process_time() - start
    return {
        "network": network,
        "open": len(pool),
        "rate": 20 * 2 * len(index) / used,
        "pool_MiB": pool.bytes / _MIB,
        "memory_MiB": (memory() - IMPORTED) / _MIB,
    }


if __name__ == "__main__":
    main()
