"""`anybound bench INSTANCES.csv`: decide many instances; a killed run goes on where it was."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from anybound.cli.command import Command, Example
from anybound.cli.deciding import add_deciding_options, deciding_arguments
from anybound.cli.live import display
from anybound.cli.output import Output, Record
from anybound.cli.parser import Parser, positive_int, seconds
from anybound.cli.progress import BenchProgress
from anybound.cli.versions import versions
from anybound.report.summary import benchmark_of

if TYPE_CHECKING:
    from anybound.benching import Run

__all__ = ["COMMAND"]

_CONTRADICTED = 1


def _configure(parser: Parser) -> None:
    parser.add_argument(
        "instances", metavar="INSTANCES.csv", help="lines onnx,vnnlib,timeout; files beside it"
    )
    parser.add_argument(
        "-o", "--output", metavar="RUN.jsonl", required=True, help="one record per instance"
    )
    parser.add_argument(
        "--timeout", metavar="S", type=seconds, help="seconds for each (default: as listed)"
    )
    parser.add_argument(
        "--jobs", metavar="N", type=positive_int, default=1, help="instances at once (default: 1)"
    )
    parser.add_argument(
        "--filter", metavar="TEXT", default="", help="only instances whose line contains it"
    )
    add_deciding_options(parser)


def _run(options: Namespace, output: Output) -> int:
    from anybound.benching import Run, check_settings, read_expected, read_instances
    from anybound.cli.main import limit_threads  # which imports this module
    from anybound.report.summary import contradictions, summarise

    path = Path(options.instances)
    instances = read_instances(path, options.filter)
    expected = read_expected(path)
    arguments = deciding_arguments(options)
    arguments["threads"] = options.threads or 1
    limit_threads(arguments["threads"])  # of the server, which all processes are forks of
    run = Run(instances, path.parent, options.timeout, options.jobs, arguments, versions())
    settings = (options.method, options.intermediate, options.search)
    if settings != (None, None, None):
        check_settings(*settings)
    records = _decided(run, Path(options.output), output)
    wrong = contradictions(records, expected)
    for record in wrong:
        output.error(_shout(record, expected[str(record["onnx"]), str(record["vnnlib"])]))
    rows = summarise(records, expected, path.resolve().parent.name)
    from anybound.cli.views import bench_view

    summary: Record = {
        "instances": len(records),
        "contradictions": len(wrong),
        "benchmarks": [
            {
                "benchmark": row.benchmark,
                **row.verdicts,
                "certified": row.certified,
                "failed": row.failed,
                "contradicted": row.contradicted,
                "seconds": row.seconds,
                "cpu_seconds": row.cpu_seconds,
            }
            for row in rows
        ],
    }
    output.result(summary, lambda: bench_view(summary))
    return _CONTRADICTED if wrong else 0


def _decided(run: Run, path: Path, output: Output) -> list[Record]:
    """The records of all instances, in the order of the list."""
    from anybound.io.records import RecordFile
    from anybound.runtime.signals import sigterm_interrupts

    with RecordFile(path) as file, sigterm_interrupts(), display(output) as shown:
        found = run.done(file)
        if found:
            output.note(f"{len(found)} of {len(run.instances)} instances are done already")
        progress = _progress(run, found)
        shown.show(progress.draw)
        for record in run.records(file):
            found[str(record["onnx"]), str(record["vnnlib"])] = record
            progress.add(_benchmark(run, record), _name(record), record)
            shown.note(_line(record, len(found), len(run.instances)))
    return [found[instance.name] for instance in run.instances]


def _progress(run: Run, found: Mapping[tuple[str, str], Record]) -> BenchProgress:
    """What is done, and what is left."""
    left = [
        (benchmark_of(i.onnx, run.folder.resolve().name), f"{i.onnx} {i.vnnlib}", run.limit(i))
        for i in run.instances
    ]
    progress = BenchProgress(left, run.workers)
    for record in found.values():
        progress.add(_benchmark(run, record), _name(record), record, is_new=False)
    return progress


def _benchmark(run: Run, record: Record) -> str:
    return benchmark_of(str(record["onnx"]), run.folder.resolve().name)


def _name(record: Record) -> str:
    return f"{record['onnx']} {record['vnnlib']}"


def _line(record: Record, count: int, total: int) -> str:
    files = f"{record['onnx']} {record['vnnlib']}"
    why = f": {record['error']}" if record["error"] else ""
    proved = {True: " certified", False: " NOT certified"}.get(record.get("certified"), "")  # type: ignore[call-overload]  # plain data
    verdict = f"{record['verdict']:<8}{proved}"
    return f"[{count}/{total}] {verdict} {record['seconds']:8.2f} s  {files}{why}"


def _shout(record: Record, label: str) -> str:
    return (
        f"CONTRADICTION: {record['onnx']} {record['vnnlib']}: found {record['verdict']}, "
        f"expected {label}"
    )


COMMAND = Command(
    name="bench",
    summary="decide all instances of a list, and go on with a run that was killed",
    examples=(
        Example("anybound bench instances.csv -o run.jsonl", "timeouts as listed"),
        Example("anybound bench instances.csv --timeout 60 --jobs 2 -o run.jsonl", "two at once"),
        Example("anybound bench instances.csv --filter img4 -o some.jsonl", "only some of them"),
    ),
    configure=_configure,
    run=_run,
)
