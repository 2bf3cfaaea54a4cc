"""The start of the command to the verdict of a trivial instance, against importing torch and onnx.

    python benchmarks/start.py [--runs 7] [--cold] [-o FOLDER]

Both are started alternately, in fresh processes; wall and CPU seconds, medians of the runs. `--cold`
adds a run without compiled kernels, as on a fresh machine. The instances are the package's own.
Writes `start.jsonl`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from argparse import ArgumentParser
from collections.abc import Mapping, Sequence
from importlib.resources import files
from statistics import median
from typing import NamedTuple

from records import Records, add_output, environment, table

_INSTANCES = {
    "dense, by the root's bounds": ("digits_dense", "digits_dense_image0_eps0.05"),
    "dense, by a search": ("digits_dense", "digits_dense_image2_5_eps0.08"),
    "convolutional": ("digits_conv", "digits_conv_image4_eps0.05"),
    "sigmoid": ("digits_sigmoid", "digits_sigmoid_image7_eps0.05"),
}
_FLOOR = [sys.executable, "-c", "import torch, onnx"]
_HEAD = ("command", "wall s", "beyond", "CPU s", "beyond")


class Cost(NamedTuple):
    """Of one process and its children."""

    wall: float
    cpu: float


def main() -> None:
    parser = ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--cold", action="store_true", help="compile the kernels once, too")
    add_output(parser)
    options = parser.parse_args()
    commands = {"import torch, onnx": _FLOOR} | {
        name: _verify(*instance) for name, instance in _INSTANCES.items()
    }
    for command in commands.values():
        cost_of(command)  # bytecode, kernels and the files in memory
    costs: dict[str, list[Cost]] = {name: [] for name in commands}
    for _ in range(options.runs):
        for name, command in commands.items():
            costs[name].append(cost_of(command))
    with Records(options.output / "start.jsonl") as records:
        for row in rows(costs):
            records.add(row)
        if options.cold:
            records.add({"command": "dense, by a search, compiling", **cold()._asdict()})
        print(table(_HEAD, [tuple(record.values()) for record in records.all]))


def rows(costs: Mapping[str, Sequence[Cost]]) -> list[dict[str, object]]:
    """Medians, and what they are beyond those of the imports."""
    middle = {n: Cost(*(median(c) for c in zip(*all_, strict=True))) for n, all_ in costs.items()}
    floor = next(iter(middle.values()))
    return [
        {
            "command": name,
            "wall": cost.wall,
            "wall_beyond": cost.wall - floor.wall,
            "cpu": cost.cpu,
            "cpu_beyond": cost.cpu - floor.cpu,
        }
        for name, cost in middle.items()
    ]


def cold() -> Cost:
    """A machine that has never run it: with an empty cache of kernels."""
    with tempfile.TemporaryDirectory() as folder:
        return cost_of(_verify(*_INSTANCES["dense, by a search"]), NUMBA_CACHE_DIR=folder)


def cost_of(command: Sequence[str], **variables: str) -> Cost:
    """Wall and CPU seconds of a command that has to succeed."""
    before, start = os.times(), time.perf_counter()
    subprocess.run(command, check=True, capture_output=True, env=environment() | variables)
    wall, after = time.perf_counter() - start, os.times()
    used = after.children_user + after.children_system
    return Cost(wall, used - before.children_user - before.children_system)


def _verify(network: str, prop: str) -> list[str]:
    data = files("anybound") / "data"
    pair = (data / "networks" / f"{network}.onnx", data / "properties" / f"{prop}.vnnlib")
    return [sys.executable, "-m", "anybound", "verify", *map(str, pair)]


if __name__ == "__main__":
    main()
