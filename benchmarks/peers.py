"""Other tools and this one, alternately on the same instances and the same cores.

    python benchmarks/peers.py LIST.csv … --tool 'marabou=Marabou {onnx} {vnnlib} --timeout {timeout}' \\
        --tool other=FOLDER [--count 3] [--timeout 60] [--cores 0] [-o FOLDER]

A tool is a command, or a folder with the competition's scripts (`run_instance.sh`). A command gets files that are
unpacked; where it has no {result} its verdict is the first line of its output that is one. Lists are the
competition's, `onnx,vnnlib,timeout`, with labels in `expected.csv` beside them. A tool runs for the list's
timeout, or `--timeout` where that is less, and `GRACE` seconds more, and is then killed with all that it has started.
CPU seconds are those of all its processes. Writes `peers.jsonl`; the table says how many
instances each tool decides, and on those that both decide what it needs beside this one (geometric means).
"""

from __future__ import annotations

import contextlib
import ctypes
import gzip
import math
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from anybound.benching import Instance, read_expected, read_instances
from anybound.bundle import bundled
from records import Records, add_output, table

GRACE = 5.0
WORDS = {  # of commands and result files, as the competition's
    "sat": "sat", "violated": "sat",
    "unsat": "unsat", "holds": "unsat",
    "unknown": "unknown",
    "timeout": "timeout", "timed-out": "timeout", "timed_out": "timeout",
    "error": "error",
}  # fmt: skip
OURS = "anybound"
_HEAD = (
    "tool", "instances", "decided", "CPU s", "wall s", "both", "CPU / ours", "wall / ours",
    "against ours", "against labels",
)  # fmt: skip
_DECIDED = ("sat", "unsat")
_SETTLE = 0.05  # seconds between looks at a process


@dataclass(frozen=True)
class Tool:
    """A command with {onnx} {vnnlib} {timeout} {result} {category}."""

    name: str
    template: tuple[str, ...]

    @staticmethod
    def parse(text: str) -> Tool:
        """NAME=COMMAND or NAME=FOLDER."""
        name, equals, command = text.partition("=")
        if not equals or not name or not command:
            raise ArgumentTypeError(f"{text!r}: expected NAME=COMMAND or NAME=FOLDER")
        script = Path(command) / "run_instance.sh"
        if script.is_file():
            words = "v1", "{category}", "{onnx}", "{vnnlib}", "{result}", "{timeout}"
            return Tool(name, ("bash", str(script.resolve()), *words))
        if "{onnx}" not in command or "{vnnlib}" not in command:
            raise ArgumentTypeError(
                f"{command!r}: is no folder with run_instance.sh, and no command with {{onnx}} and {{vnnlib}}"
            )
        return Tool(name, tuple(shlex.split(command)))

    def command(self, values: Mapping[str, object]) -> list[str]:
        return [word.format(**values) for word in self.template]


def ours() -> Tool:
    """This one, as its command."""
    options = "--quiet", "--timeout", "{timeout}", "--result", "{result}", "--"
    command = sys.executable, "-m", "anybound", "verify", *options, "{onnx}", "{vnnlib}"
    return Tool(OURS, command)


def main() -> None:
    options = _options()
    with on_cores(options.cores), Records(options.output / "peers.jsonl") as records:
        for path in options.lists:
            for record in compared(path, [ours(), *options.tool], options):
                records.add(record)
        print(table(_HEAD, summary(records.all)))


@contextlib.contextmanager
def on_cores(cores: Sequence[int]) -> Iterator[None]:
    """What is started meanwhile stays on these cores."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    adopt_orphans()
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def adopt_orphans() -> None:
    """Grandchildren whose parent was killed become children of this process, whose CPU time can be told."""
    set_child_subreaper = 36
    ctypes.CDLL(None).prctl(set_child_subreaper, 1, 0, 0, 0)


def _options() -> Namespace:
    parser = ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("lists", nargs="*", type=Path, default=[bundled("instances.csv")])
    parser.add_argument("--tool", action="append", type=Tool.parse, default=[], metavar="NAME=…")
    parser.add_argument("--count", type=int, help="so many instances of each list, evenly")
    parser.add_argument("--contains", default="", help="only instances whose line contains it")
    parser.add_argument("--timeout", type=float, default=60.0, help="seconds, at most")
    parser.add_argument("--cores", type=int, nargs="+", default=[0], help="which ones to use")
    add_output(parser)
    return parser.parse_args()


def compared(path: Path, tools: Sequence[Tool], options: Namespace) -> Iterator[dict[str, Any]]:
    """A record for each instance and tool; the tool that begins changes from instance to instance."""
    known = read_instances(path, options.contains)
    count = min(options.count or len(known), len(known))
    labels = read_expected(path)
    for turn in range(count):
        instance = known[(2 * turn + 1) * len(known) // (2 * count)]
        limit = min(options.timeout, instance.timeout or options.timeout)
        with TemporaryDirectory() as scratch:
            files = unpacked(path.parent, instance, Path(scratch))
            for place in range(len(tools)):
                tool = tools[(turn + place) % len(tools)]
                values = {**files, "timeout": f"{limit:g}", "category": path.parent.name}
                yield {
                    "onnx": instance.onnx,
                    "vnnlib": instance.vnnlib,
                    "expected": labels.get(instance.name, "unknown"),
                    "tool": tool.name,
                    **run(tool, values, Path(scratch), limit, len(options.cores)),
                }


def unpacked(folder: Path, instance: Instance, scratch: Path) -> dict[str, str]:
    """Both files as they are, or unpacked: not every tool reads compressed ones."""
    files = {}
    for key, name in (("onnx", instance.onnx), ("vnnlib", instance.vnnlib)):
        source = (folder / name).resolve()
        if source.suffix == ".gz":
            target = scratch / source.stem
            with gzip.open(source, "rb") as packed, target.open("wb") as plain:
                shutil.copyfileobj(packed, plain)
            source = target
        files[key] = str(source)
    return files


def run(
    tool: Tool, values: Mapping[str, str], scratch: Path, limit: float, cores: int
) -> dict[str, Any]:
    """Verdict, CPU and wall seconds of one run."""
    result, output = scratch / f"{tool.name}.result", scratch / f"{tool.name}.out"
    command = tool.command({**values, "result": result})
    environment = os.environ | {"OMP_NUM_THREADS": str(cores), "MKL_NUM_THREADS": str(cores)}
    start = time.monotonic()
    with output.open("wb") as out, (scratch / f"{tool.name}.err").open("wb") as err:
        process = subprocess.Popen(
            command, stdout=out, stderr=err, env=environment, cwd=scratch, start_new_session=True
        )
        cpu = finished(process.pid, start + limit + GRACE)
    wall = time.monotonic() - start
    process.returncode = 0  # it was waited for
    cpu += ended(process.pid)
    said = result if any("{result}" in word for word in tool.template) else output
    word = verdict(said.read_text(errors="replace") if said.is_file() else "")
    late = wall > limit + GRACE and word not in _DECIDED
    return {"verdict": "timeout" if late else word, "cpu": cpu, "wall": wall}


def finished(pid: int, deadline: float) -> float:
    """Wait for a process, kill its group at the deadline; CPU seconds of it and what it waited for."""
    while True:
        late = time.monotonic() > deadline
        if late:
            os.killpg(pid, signal.SIGKILL)
        done, _, used = os.wait4(pid, 0 if late else os.WNOHANG)
        if done:
            return used.ru_utime + used.ru_stime
        time.sleep(_SETTLE)


def ended(group: int) -> float:
    """Kill what a process has left behind; CPU seconds of it, as orphans are ours."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)
    cpu = 0.0
    while True:
        try:
            _, _, used = os.wait4(-group, 0)
        except ChildProcessError:
            return cpu
        cpu += used.ru_utime + used.ru_stime


def verdict(text: str) -> str:
    """The first line that begins with a verdict; `error` without any."""
    for line in text.splitlines():
        word = line.strip().split(maxsplit=1)[:1]
        if word and word[0].lower() in WORDS:
            return WORDS[word[0].lower()]
    return "error"


def summary(records: Sequence[Mapping[str, Any]]) -> list[list[object]]:
    """One line for each tool."""
    by_tool: dict[str, dict[tuple[str, str], Mapping[str, Any]]] = {}
    for record in records:
        mine = by_tool.setdefault(record["tool"], {})
        mine[record["onnx"], record["vnnlib"]] = record
    reference = by_tool[OURS]
    return [_line(name, mine, reference) for name, mine in by_tool.items()]


def _line(
    name: str,
    mine: Mapping[tuple[str, str], Mapping[str, Any]],
    reference: Mapping[tuple[str, str], Mapping[str, Any]],
) -> list[object]:
    decided = {key: r for key, r in mine.items() if r["verdict"] in _DECIDED}
    both = [(r, reference[k]) for k, r in decided.items() if reference[k]["verdict"] in _DECIDED]
    against = sum(r["verdict"] != o["verdict"] for r, o in both)
    wrong = sum(
        r["expected"] in _DECIDED and r["verdict"] != r["expected"] for r in decided.values()
    )
    totals = [sum(r[key] for r in mine.values()) for key in ("cpu", "wall")]
    ratios = [_geometric([r[key] / o[key] for r, o in both]) for key in ("cpu", "wall")]
    return [name, len(mine), len(decided), *totals, len(both), *ratios, against, wrong]


def _geometric(ratios: Sequence[float]) -> float | None:
    return math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else None


if __name__ == "__main__":
    main()
