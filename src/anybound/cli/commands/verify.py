"""`anybound verify NET PROP`: decide a property.

The work is done in a process of its own. This one only waits, so that a timeout, Ctrl-C or SIGTERM
ends it at once whatever is running, with the best bounds that were reported.
"""

from __future__ import annotations

import math
import time
from argparse import Namespace
from dataclasses import dataclass

from anybound.cli.command import Command, Example
from anybound.cli.deciding import add_deciding_options, deciding_arguments
from anybound.cli.live import display
from anybound.cli.output import Output, Record
from anybound.cli.parser import Parser, seconds
from anybound.cli.progress import decision_so_far, phase, proved
from anybound.io.files import writable

__all__ = ["COMMAND"]

_INTERRUPTED = 130
_NEWS_EVERY = 1.0  # seconds


def _configure(parser: Parser) -> None:
    parser.add_argument("network", metavar="NET", help="the network, .onnx or .onnx.gz")
    parser.add_argument("property", metavar="PROP", help="the property, .vnnlib or .vnnlib.gz")
    parser.add_argument("--timeout", metavar="S", type=seconds, help="seconds, at most")
    add_deciding_options(parser)
    parser.add_argument(
        "--result", metavar="FILE", help="also write the result in the competition's format"
    )
    parser.add_argument(
        "--certificate",
        metavar="FILE",
        help="write the proof, or the witness, for 'anybound check'",
    )
    parser.add_argument(
        "--explain", action="store_true", help="say how it was decided, and by what"
    )


def _run(options: Namespace, output: Output) -> int:
    started = time.monotonic()
    if options.result is not None:
        writable(options.result)
    record: Record | None = None
    try:
        record = _decided(options, started, output)
    finally:
        if options.result is not None:
            from anybound.io.competition import write_result

            write_result(options.result, record)
    if output.json:
        output.object(record)
    else:
        _tell(record, options, output)
    return _INTERRUPTED if record["reason"] == "interrupted" else 0


def _decided(options: Namespace, started: float, output: Output) -> Record:
    from anybound.benching import GRACE, PRELOAD, completed
    from anybound.kernel_cache import is_cold
    from anybound.runtime.job import Job
    from anybound.runtime.pool import run_one
    from anybound.runtime.process import fresh

    if is_cold():
        output.note("first use: the kernels are compiled now, once on this machine (20 s or so)")
    arguments = {
        "network": options.network,
        "prop": options.property,
        "timeout": options.timeout,
        "started": started,
        "certificate": options.certificate,
        **deciding_arguments(options),
    }
    limit = None if options.timeout is None else options.timeout + GRACE
    job = Job(
        "anybound.deciding:verify_job",
        arguments,
        seconds=limit,
        started=started,
        memory=options.memory,
    )
    with display(output, started) as shown:
        news = _News()

        def watch(known: Record) -> None:
            if output.verbose and news.is_due(known):
                shown.note(_progress(known))
            shown.show(lambda seconds: decision_so_far(known, seconds, options.timeout))

        finished = run_one(job, fresh(PRELOAD), watch)
    finished.check()
    return completed(finished)


@dataclass
class _News:
    """Lines for `--verbose`: at every new phase and clause that is proved, else one a second."""

    told: float = -math.inf
    state: tuple[str, int] = ("", 0)

    def is_due(self, record: Record) -> bool:
        state = (phase(record), proved(record))
        if state == self.state and time.monotonic() - self.told < _NEWS_EVERY:
            return False
        self.told, self.state = time.monotonic(), state
        return True


def _progress(record: Record) -> str:
    from anybound.cli.verdicts import summary

    return f"{phase(record)}: {summary(record)}"


def _tell(record: Record, options: Namespace, output: Output) -> None:
    """The verdict alone on standard output, all else on standard error."""
    from anybound.cli.verdicts import explanation, summary

    output.raw(f"{record['verdict']}\n")
    output.note(summary(record))
    told = record["plan"].get("certificate")  # type: ignore[union-attr]  # plain data
    wanted = options.certificate is not None or record["certified"] is False
    if told and wanted and not options.explain:
        output.note(f"certificate: {told}")
    if options.explain:
        for line in explanation(record):
            output.error(line)


COMMAND = Command(
    name="verify",
    summary="decide whether a property holds of a network",
    examples=(
        Example(
            "anybound verify network.onnx property.vnnlib", "prints holds, violated or unknown"
        ),
        Example("anybound verify network.onnx property.vnnlib --timeout 300 --json", "for scripts"),
        Example(
            'anybound verify network.onnx property.vnnlib --method "proximal(iterations=100)"',
            "with another bounding method",
        ),
        Example(
            "anybound verify network.onnx property.vnnlib --result out.txt",
            "the competition's result file, with the witness",
        ),
        Example(
            "anybound verify network.onnx property.vnnlib --certificate proof.abc --certify",
            "a proof to keep, accepted by the independent checker",
        ),
    ),
    configure=_configure,
    run=_run,
)
