"""`anybound reproduce incomplete`: the paper's experiments, with rows of one's own beside them."""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from anybound.cli.command import Command, Example
from anybound.cli.live import display
from anybound.cli.output import Output, Record
from anybound.cli.parser import Parser, positive_int, seconds
from anybound.cli.versions import versions
from anybound.errors import InvalidConfig

if TYPE_CHECKING:
    from anybound.experiments.results import Results
    from anybound.io.records import RecordFile

__all__ = ["COMMAND"]

_EXPERIMENTS = ("incomplete", "complete")
_VARIABLE = "ANYBOUND_BENCHMARKS"


def _configure(parser: Parser) -> None:
    parser.add_argument("experiment", metavar="EXPERIMENT", choices=_EXPERIMENTS,
                        help=" or ".join(_EXPERIMENTS))  # fmt: skip
    parser.add_argument(
        "-o", "--output", metavar="FOLDER", help="default: anybound-reproduce/EXPERIMENT"
    )
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "--data", metavar="FOLDER", help=f"the paper's networks and images (default: ${_VARIABLE})"
    )
    where.add_argument(
        "--digits",
        action="store_true",
        help="run on the bundled digits, which is what happens without data",
    )
    parser.add_argument(
        "--method", metavar="M", action="append", default=[],
        help="a method of your own in every figure and table; may be repeated",
    )  # fmt: skip
    parser.add_argument(
        "--row", metavar="ROW", action="append", default=[],
        help="only this row of the paper's and ours; may be repeated (default: all)",
    )  # fmt: skip
    parser.add_argument(
        "--search", metavar="S", action="append", default=[],
        help="a search of your own (complete); may be repeated",
    )  # fmt: skip
    parser.add_argument(
        "--images", metavar="N", type=positive_int, help="only the first N images (incomplete)"
    )
    parser.add_argument(
        "--count", metavar="N", type=positive_int,
        help="only N properties of each network, evenly from easy to hard (complete)",
    )  # fmt: skip
    parser.add_argument(
        "--timeout", metavar="S", type=seconds, help="seconds for each property (complete; default: 100, on digits 5)",
    )  # fmt: skip
    parser.add_argument(
        "--network", metavar="ROLE", action="append", default=[],
        help="only this network: madry or sgd; base, wide or deep; may be repeated",
    )  # fmt: skip
    parser.add_argument(
        "--draw", action="store_true", help="run nothing: draw what the records hold"
    )


def _run(options: Namespace, output: Output) -> int:
    from anybound.cli.main import limit_threads  # which imports this module

    limit_threads(options.threads or 1)  # seconds are those of one thread
    folder = Path(options.output or f"anybound-reproduce/{options.experiment}")
    made = {"incomplete": _incomplete, "complete": _complete}[options.experiment](
        options, folder, output
    )
    page = made.write()
    if made.lacking:
        output.note(f"no figures: {made.lacking}")
    record: Record = {
        "page": str(page),
        "figures": [str(path) for path in made.figures],
        "tables": [str(path) for path in made.tables],
    }
    output.result(record, lambda: ["\n".join(made.texts), f"figures and tables: {page}"])
    return 0


def _data(options: Namespace, output: Output) -> Path | None:
    """The folder of benchmarks, or None for digits."""
    given = options.data or (None if options.digits else os.environ.get(_VARIABLE))
    if given:
        return Path(given)
    if not options.digits:
        output.note(f"no data given (--data, ${_VARIABLE}): running on the bundled digits")
    return None


def _roles(options: Namespace, known: Sequence[str]) -> Sequence[str]:
    for role in options.network:
        if role not in known:
            raise InvalidConfig(f"--network {role}: there are {', '.join(known)}")
    return [role for role in known if not options.network or role in options.network]


def _incomplete(options: Namespace, folder: Path, output: Output) -> Results:
    import torch

    from anybound.experiments.cases import ROLES, Digits, Paper
    from anybound.experiments.incomplete import Incomplete
    from anybound.experiments.incomplete_results import results
    from anybound.experiments.measurement import Measurement
    from anybound.experiments.rows import chosen, incomplete_rows, own_rows
    from anybound.io.records import RecordFile, read_records
    from anybound.runtime.signals import sigterm_interrupts

    path = folder / "records.jsonl"
    if options.draw:
        return results([Measurement.of(r) for r in read_records(path)], folder)
    torch.set_num_threads(options.threads or 1)
    rows = (*chosen(incomplete_rows(), options.row), *own_rows(options.method))
    data = _data(options, output)
    source = Digits() if data is None else Paper(data)
    run = Incomplete(source, _roles(options, ROLES), rows, options.images, versions())
    with RecordFile(path) as file, sigterm_interrupts(), display(output) as shown:
        _tell_before(file, output)
        total = run.total()
        measured = []
        for m in run.measurements(file):
            measured.append(m)
            shown.note(
                f"[{len(measured)}/{total}] {m.network} image {m.image}: {m.row}, {m.cpu_seconds:.3g} s"
            )
    return results(measured, folder)


def _complete(options: Namespace, folder: Path, output: Output) -> Results:
    from anybound.experiments.complete import (
        Complete,
        chosen,
        own_methods,
        own_searches,
        paper_rows,
    )
    from anybound.experiments.properties import ROLES, DigitProperties, PaperProperties
    from anybound.io.records import RecordFile, read_records
    from anybound.runtime.signals import sigterm_interrupts

    path = folder / "records.jsonl"
    if not options.draw:
        data = _data(options, output)
        source = DigitProperties() if data is None else PaperProperties(data)
        own = (*own_methods(options.method), *own_searches(options.search))
        run = Complete(
            source,
            _roles(options, ROLES),
            (*chosen(paper_rows(), options.row), *own),
            options.timeout or (_ON_DIGITS if data is None else _ON_PAPER),
            options.count,
            versions(),
        )
        run.check(own)
        with RecordFile(path) as file, sigterm_interrupts(), display(output) as shown:
            _tell_before(file, output)
            for number, record in enumerate(run.records(file), 1):
                shown.note(
                    f"[{number}/{run.total()}] {record['verdict']:<8} {record['cpu_seconds']:8.2f} s  "
                    f"{record['row']}: {record['vnnlib']}"
                )
    from anybound.experiments.complete_results import results

    return results(read_records(path), folder)


_ON_PAPER, _ON_DIGITS = 100.0, 5.0  # seconds for a property


def _tell_before(file: RecordFile, output: Output) -> None:
    if file.records:
        output.note(f"going on: {len(file.records)} records are in {file.path}")


COMMAND = Command(
    name="reproduce",
    summary="run the paper's experiments and draw its figures and tables, with your methods in them",
    examples=(
        Example("anybound reproduce incomplete --digits", "on the bundled digits, in two minutes"),
        Example(
            "anybound reproduce incomplete --data benchmarks --images 10",
            "on the paper's networks; a killed run goes on where it was",
        ),
        Example(
            "anybound reproduce complete --data benchmarks --count 5 --timeout 60",
            "five properties of each of the paper's networks, a minute each",
        ),
        Example(
            'anybound reproduce incomplete --digits --method "slopes(iterations=50)"',
            "a method of your own beside them",
        ),
    ),
    configure=_configure,
    run=_run,
)
