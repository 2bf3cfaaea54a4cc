"""`anybound report RUN.jsonl`: a run as one page to read in a browser."""

from __future__ import annotations

import time
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from anybound.cli.command import Command, Example
from anybound.cli.output import Output, Record
from anybound.cli.parser import Parser, number
from anybound.errors import InvalidConfig

if TYPE_CHECKING:
    from anybound.report.exhibit import Exhibit
    from anybound.report.run import Instance

__all__ = ["COMMAND"]

_EACH = 10.0  # seconds for an instance's files, at most
_MEMORY = 4 << 30


def _configure(parser: Parser) -> None:
    parser.add_argument("run", metavar="RUN.jsonl", help="what 'anybound bench' wrote")
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="the page (default: beside the run, .html)"
    )
    parser.add_argument(
        "--files",
        metavar="FOLDER",
        help="where the run's networks and properties are (default: where they were)",
    )
    parser.add_argument(
        "--examine",
        metavar="S",
        type=number,
        default=60.0,
        help="seconds at most for what is read from the files: images, and the tightness of every "
        "layer (default: 60; 0: none)",
    )
    parser.add_argument("--title", metavar="TEXT", help="of the page (default: the run's name)")


def _run(options: Namespace, output: Output) -> int:
    from anybound.benching import read_expected
    from anybound.io.records import read_records
    from anybound.report.page import Report, page
    from anybound.report.run import instances
    from anybound.report.summary import benchmark_of, is_contradicted

    if options.examine < 0:
        raise InvalidConfig(f"--examine is {options.examine:g}; expected seconds, or 0 for none")
    source = Path(options.run)
    target = Path(options.output) if options.output else source.with_suffix(".html")
    if target.resolve() == source.resolve():
        raise InvalidConfig(f"{target}: is the run itself; choose another file for the page")
    records = read_records(source)
    found = instances(records, str(source))
    folder = Path(options.files or found[0].folder)
    expected = read_expected(folder / "instances.csv")
    verdicts = [{"onnx": i.onnx, "vnnlib": i.vnnlib, "verdict": i.verdict} for i in found]
    contradicted = [n for n, verdict in enumerate(verdicts) if is_contradicted(verdict, expected)]
    exhibits, notes = _examined(found, options, output)
    default = folder.resolve().name if options.files or found[0].folder else source.stem
    names = [benchmark_of(instance.onnx, default) for instance in found]
    title = options.title or source.stem
    text = page(Report(title, found, names, frozenset(contradicted), exhibits, notes))
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text, "utf-8")
    record: Record = {
        "page": str(target),
        "bytes": len(text.encode("utf-8")),
        "instances": len(found),
        "examined": len(exhibits),
        "contradictions": len(contradicted),
    }
    output.result(record, lambda: [str(target)])
    return 0


def _examined(
    found: Sequence[Instance], options: Namespace, output: Output
) -> tuple[dict[int, Exhibit], dict[int, str]]:
    """What the files of the instances tell, as far as they are there and the time allows."""
    from anybound.report.exhibit import Exhibit

    deadline = time.monotonic() + options.examine
    exhibits: dict[int, Exhibit] = {}
    notes: dict[int, str] = {}
    if options.examine == 0:
        return exhibits, notes
    for index, instance in enumerate(found):
        folder = Path(options.files or instance.folder)
        missing = [n for n in (instance.onnx, instance.vnnlib) if not (folder / n).is_file()]
        left = deadline - time.monotonic()
        if missing:
            notes[index] = f"Layers and images are left out: {folder / missing[0]} is not there."
        elif left <= 0:
            notes[index] = (
                "Layers and images are left out: the time for that was spent (--examine)."
            )
        else:
            output.detail(f"[{index + 1}/{len(found)}] {instance.vnnlib}")
            record, note = _examine(instance, folder, min(left, _EACH))
            notes[index] = note
            if record is not None:
                exhibits[index] = Exhibit.of(record)
    if len(exhibits) < len(found):
        left_out = len(found) - len(exhibits)
        output.note(f"without layers and images: {left_out} of {len(found)} instances")
    return exhibits, notes


def _examine(instance: Instance, folder: Path, seconds: float) -> tuple[Record | None, str]:
    """In a process of its own, whose time and memory have a limit; what it told before that stands."""
    from anybound.benching import PRELOAD
    from anybound.runtime.job import Ending, Job
    from anybound.runtime.pool import run_one
    from anybound.runtime.process import server

    arguments = {
        "network": str(folder / instance.onnx),
        "prop": str(folder / instance.vnnlib),
        "clause": None if instance.witness is None else instance.witness.clause,
    }
    job = Job("anybound.examining:examine_job", arguments, seconds=seconds, memory=_MEMORY)
    finished = run_one(job, server(PRELOAD))
    if finished.ending is Ending.INTERRUPTED:
        raise KeyboardInterrupt
    ended = finished.ending
    note = "" if ended is Ending.DONE else f"Not all layers: {finished.message or ended.value}."
    return finished.record, note


COMMAND = Command(
    name="report",
    summary="show a run as one page, with figures, counterexamples and how tight every layer is",
    examples=(
        Example("anybound report run.jsonl -o report.html", "one file, to be opened in a browser"),
        Example("anybound report run.jsonl --files benchmarks/oval21", "if the files have moved"),
        Example("anybound report run.jsonl --examine 0", "from the records alone"),
    ),
    configure=_configure,
    run=_run,
)
