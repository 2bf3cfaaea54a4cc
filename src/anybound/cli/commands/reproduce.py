"""`anybound reproduce incomplete`: the paper's experiments, with rows of one's own beside them."""

from __future__ import annotations

import os
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from anybound.cli.command import Command, Example
from anybound.cli.live import display
from anybound.cli.output import Output, Record
from anybound.cli.parser import Parser, positive_int
from anybound.cli.versions import versions

if TYPE_CHECKING:
    from anybound.experiments.cases import Source
    from anybound.experiments.results import Results

__all__ = ["COMMAND"]

_EXPERIMENTS = ("incomplete",)
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
        "--images", metavar="N", type=positive_int, help="only the first N images (default: all)"
    )
    parser.add_argument(
        "--network", choices=("madry", "sgd"), action="append", help="only this; may be repeated"
    )
    parser.add_argument(
        "--draw", action="store_true", help="run nothing: draw what the records hold"
    )


def _run(options: Namespace, output: Output) -> int:
    from anybound.cli.main import limit_threads  # which imports this module

    limit_threads(options.threads or 1)  # seconds are those of one thread
    folder = Path(options.output or f"anybound-reproduce/{options.experiment}")
    made = _incomplete(options, folder, output)
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


def _source(options: Namespace, output: Output) -> Source:
    from anybound.experiments.cases import Digits, Paper

    given = options.data or (None if options.digits else os.environ.get(_VARIABLE))
    if given:
        return Paper(Path(given))
    if not options.digits:
        output.note(f"no data given (--data, ${_VARIABLE}): running on the bundled digits")
    return Digits()


def _incomplete(options: Namespace, folder: Path, output: Output) -> Results:
    import torch

    from anybound.experiments.cases import ROLES
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
    roles = options.network or ROLES
    run = Incomplete(_source(options, output), roles, rows, options.images, versions())
    with RecordFile(path) as file, sigterm_interrupts(), display(output) as shown:
        total, before = run.total(), len(file.records)
        if before:
            output.note(f"going on: {before} measurements are in {path}")
        measured = []
        for m in run.measurements(file):
            measured.append(m)
            shown.note(
                f"[{len(measured)}/{total}] {m.network} image {m.image}: {m.row}, {m.cpu_seconds:.3g} s"
            )
    return results(measured, folder)


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
            'anybound reproduce incomplete --digits --method "slopes(iterations=50)"',
            "a method of your own beside them",
        ),
    ),
    configure=_configure,
    run=_run,
)
