"""Certificates of everything that is found to hold: how many the checker accepts, what they cost
and how large they are.

    python benchmarks/certificates.py --count 3 --timeout 60 -o build/certificates.jsonl

Of every benchmark so many instances are taken evenly from those that are not known to be violated.
Each is decided within the timeout; what holds gets a certificate within `--patience` seconds more,
and the checker reads it in a process of its own. Seconds are CPU seconds. A run that was killed
goes on where it was.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from anybound.benching import PRELOAD, Instance, read_expected, read_instances
from anybound.io.records import Record, RecordFile
from anybound.runtime.job import Finished, Job, Report
from anybound.runtime.pool import run_one
from anybound.runtime.process import server
from corpus import root
from records import table

OUTSIDE = ("vit_2023", "acasxu_v2_2026", "isomorphic_acasxu_2026")  # of what can be read so far
HEAD = (
    "benchmark", "instances", "holds", "certified", "search", "certifying", "most",
    "checking", "most", "of search", "kB", "most",
)  # fmt: skip


def main() -> None:
    options = _options()
    names = options.benchmarks or [
        path.name
        for path in sorted((root() / "dev").iterdir())
        if (path / "instances.csv").is_file() and path.name not in OUTSIDE
    ]
    with RecordFile(options.output) as file:
        done = {(str(r["benchmark"]), str(r["onnx"]), str(r["vnnlib"])): r for r in file.records}
        for name in names:
            for instance in _chosen(name, options.count):
                key = (name, *instance.name)
                if key not in done:
                    done[key] = {"benchmark": name, **_record(name, instance, options)}
                    file.append(done[key])
                    print(_line(done[key]), flush=True)
    records = [record for key, record in done.items() if key[0] in names]
    print(summary(records))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--count", type=int, default=3, help="instances of each benchmark")
    parser.add_argument("--timeout", type=float, default=60.0, help="seconds of the search")
    parser.add_argument("--patience", type=float, default=240.0, help="seconds for certifying")
    parser.add_argument("--semantics", choices=("real", "float32"), default="real")
    parser.add_argument("--benchmarks", nargs="+", metavar="NAME", help="only these folders")
    parser.add_argument("-o", "--output", type=Path, default=Path("build/certificates.jsonl"))
    return parser.parse_args()


def _chosen(name: str, count: int) -> list[Instance]:
    """So many instances, evenly from those that are not known to be violated."""
    path = root() / "dev" / name / "instances.csv"
    expected = read_expected(path)
    known = [i for i in read_instances(path) if expected.get(i.name) != "sat"]
    count = min(count, len(known))
    return [known[(2 * i + 1) * len(known) // (2 * count)] for i in range(count)]


def _record(name: str, instance: Instance, options: argparse.Namespace) -> Record:
    folder = root() / "dev" / name
    files = {"network": str(folder / instance.onnx), "prop": str(folder / instance.vnnlib)}
    with TemporaryDirectory() as scratch:
        path = Path(scratch) / "proof.abc"
        limits = {key: getattr(options, key) for key in ("timeout", "patience", "semantics")}
        job = Job("certificates:certified_job", {**files, "path": str(path), **limits})
        finished: Finished = run_one(job, server(PRELOAD))
        found = dict(finished.record or {})
        if path.is_file():
            found |= {"bytes": path.stat().st_size, **_checked([*files.values(), str(path)])}
    error = finished.message.splitlines()[:1]
    return {"onnx": instance.onnx, "vnnlib": instance.vnnlib, **found, "error": "".join(error)}


def certified_job(
    report: Report, network: str, prop: str, path: str, timeout: float, patience: float,
    semantics: str,
) -> Record:  # fmt: skip
    """Decide, and write a certificate of what holds; CPU seconds of both."""
    from anybound.budget import Budget
    from anybound.certifying.certifier import Certifier
    from anybound.deciding import verify

    outcome = verify(network, prop, timeout=timeout, threads=1)
    record: dict[str, Any] = {
        "verdict": outcome.verdict.value,
        "search": outcome.cpu_seconds,
        "subproblems": outcome.subproblems,
    }
    report(record)
    if record["verdict"] == "holds":
        begun = time.process_time()
        found = Certifier(network, prop, semantics).certificate(Budget(patience))
        if found is not None:
            found.write(path)
        record["certifying"] = time.process_time() - begun
    return record


def _checked(files: Sequence[str]) -> Record:
    """What the checker says, and its CPU seconds, that of its start included."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "anybound_check", "--json", *files]
    run = subprocess.run(command, capture_output=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    said = json.loads(run.stdout)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"certified": said["valid"], "reason": said["reason"], "checking": used}


def _line(record: Mapping[str, Any]) -> str:
    parts = [record["benchmark"], record["onnx"], record["vnnlib"], record.get("verdict", "")]
    if record.get("verdict") == "holds":
        parts.append("certified" if record.get("certified") else "NOT certified")
    keys = ("search", "subproblems", "certifying", "checking", "bytes")
    parts += [f"{key} {record[key]:.4g}" for key in keys if key in record]
    return "  ".join(filter(None, [*parts, record.get("reason"), record["error"]]))


def summary(records: Sequence[Mapping[str, Any]]) -> str:
    """A row for each benchmark, and one for all: medians and the most."""
    names = sorted({str(record["benchmark"]) for record in records})
    rows = [_row(name, [r for r in records if r["benchmark"] == name]) for name in names]
    return table(HEAD, [*rows, _row("all", records)])


def _row(name: str, records: Sequence[Mapping[str, Any]]) -> list[object]:
    holds = [record for record in records if record.get("verdict") == "holds"]
    accepted = [record for record in holds if record.get("certified")]
    search = [record["search"] for record in accepted]
    certifying = [record["certifying"] for record in accepted]
    checking = [record["checking"] for record in accepted]
    size = [record["bytes"] / 1000 for record in accepted]
    # of what took at least ten seconds; the rest is held to a second
    share = [r["checking"] / r["search"] for r in accepted if r["search"] >= 10]
    numbers = [_median(search), *_ends(certifying), *_ends(checking), _median(share), *_ends(size)]
    return [name, len(records), len(holds), len(accepted), *numbers]


def _ends(values: Sequence[float]) -> tuple[float | None, float | None]:
    """The median and the largest."""
    return _median(values), max(values, default=None)


def _median(values: Sequence[float]) -> float | None:
    return median(values) if values else None


if __name__ == "__main__":
    main()
