"""The paper's rows of complete verification beside ours, on its own networks and properties: time,
sub-problems, time-outs.

    python benchmarks/complete.py --count 3 --timeout 60 -o build/complete

Properties are taken evenly from those of a network, ordered by the time that BaBSR with an LP solver
took when the dataset was made. A run that was killed goes on where it was.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from anybound.benching import Instance, Run
from anybound.io.records import Record, RecordFile
from corpus import root

NETWORKS = ("base", "wide", "deep")
BATCH = {"base": 300, "wide": 200, "deep": 200}  # the paper's


def rows(batch: int) -> Mapping[str, Mapping[str, Any]]:
    """How each row decides: `anybound.verify`'s options."""
    paper = {
        "LP BaBSR": "lp",
        "DSG+ BaBSR": "dsg",
        "Supergradient BaBSR": "supergradient",
        "Proximal BaBSR": "proximal",
    }
    wk = {"intermediate": "wk"}
    return {
        **{name: {"search": f"paper({row}, batch={batch})", **wk} for name, row in paper.items()},
        "MIPplanet": {"search": "mip", **wk},
        "anybound": {},
    }


@dataclass(frozen=True)
class Line:
    """What a row needed on a network; seconds of a time-out are the limit."""

    row: str
    seconds: float
    cpu_seconds: float
    subproblems: float
    timeouts: int
    count: int


def main() -> None:
    options = _options()
    for network in options.networks:
        chosen = list(_instances(network, options.count))
        lines = [
            _line(name, _decided(name, settings, network, chosen, options), options.timeout)
            for name, settings in rows(BATCH[network]).items()
            if not options.rows or name in options.rows
        ]
        print(f"{network}, {len(chosen)} properties, {options.timeout:g} s each")
        print(table(lines), flush=True)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--count", type=int, default=3, help="properties of each network")
    parser.add_argument("--timeout", type=float, default=60.0, help="seconds for each")
    parser.add_argument("--networks", nargs="+", choices=NETWORKS, default=NETWORKS)
    parser.add_argument("--rows", nargs="+", choices=list(rows(1)), help="only these")
    parser.add_argument("-o", "--output", type=Path, default=Path("build/complete"))
    return parser.parse_args()


def _instances(network: str, count: int) -> Iterator[Instance]:
    """So many properties from the easiest to the hardest, by the dataset's recorded times."""
    name = f"cifar_{network}_kw"
    with (root() / "dev" / f"paper_{network}_kw" / "properties.csv").open() as file:
        known = sorted(csv.DictReader(file), key=lambda row: float(row["BTime_KW"]))
    for i in range(min(count, len(known))):
        row = known[i * len(known) // count]
        yield Instance(f"onnx/{name}.onnx", f"vnnlib/{row['name']}.vnnlib.gz", None)


def _decided(
    name: str,
    settings: Mapping[str, Any],
    network: str,
    instances: Sequence[Instance],
    options: argparse.Namespace,
) -> list[Record]:
    """One record per instance, from the row's file where it is there already."""
    folder = root() / "dev" / f"paper_{network}_kw"
    arguments = {"threads": 1, "complete": True, **settings}
    run = Run(instances, folder, options.timeout, 1, arguments)
    options.output.mkdir(parents=True, exist_ok=True)
    slug = name.lower().replace(" ", "_").replace("+", "")
    with RecordFile(options.output / f"{network}_{slug}.jsonl") as file:
        before = list(run.done(file).values())
        return [*before, *run.records(file)]


def _line(name: str, records: Sequence[Record], timeout: float) -> Line:
    solved = [_is_solved(record) for record in records]
    pairs = list(zip(records, solved, strict=True))
    return Line(
        name,
        _mean([float(r["seconds"]) if ok else timeout for r, ok in pairs]),  # type: ignore[arg-type]
        _mean([float(r["cpu_seconds"]) for r in records]),  # type: ignore[arg-type]
        _mean([float(r["subproblems"]) for r in records]),  # type: ignore[arg-type]
        solved.count(False),
        len(records),
    )


def _is_solved(record: Record) -> bool:
    """For MIPplanet, a solver's word is all there is."""
    plan: Any = record["plan"]
    return record["verdict"] in ("holds", "violated") or plan.get("solver") == "holds"


def _mean(values: Sequence[float]) -> float:
    return sum(values) / max(1, len(values))


def table(lines: Sequence[Line]) -> str:
    """In the form of the paper's table."""
    head = f"{'method':22}{'time [s]':>10}{'CPU [s]':>10}{'sub-problems':>14}{'time-outs':>11}"
    return "\n".join(
        [
            head,
            *(
                f"{line.row + ('*' if line.row == 'MIPplanet' else ''):22}{line.seconds:10.2f}"
                f"{line.cpu_seconds:10.2f}{line.subproblems:14.1f}"
                f"{f'{line.timeouts}/{line.count}':>11}"
                for line in lines
            ),
            "* by the solver's word, to its tolerance; no proof. All other verdicts are rigorous.",
        ]
    )


if __name__ == "__main__":
    main()
