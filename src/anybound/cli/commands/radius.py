"""`anybound radius NET`: bracket the largest radius at which a classification holds.

As with `verify`, the work is done in a process of its own, so that its limits are kept.
"""

from __future__ import annotations

import time
from argparse import Namespace

from anybound.cli.command import Command, Example
from anybound.cli.deciding import add_deciding_options, deciding_arguments
from anybound.cli.input_sets import add_ball_options, clip_of
from anybound.cli.live import display
from anybound.cli.output import Output, Record
from anybound.cli.parser import Parser, number, seconds
from anybound.cli.progress import bracket_so_far

__all__ = ["COMMAND"]

_INTERRUPTED = 130
_NOTHING: Record = {
    "holds": 0.0,
    "violated_or_unknown": None,
    "seconds": 0.0,
    "witness": None,
    "steps": [],
}


def _configure(parser: Parser) -> None:
    parser.add_argument("network", metavar="NET", help="the network, .onnx or .onnx.gz")
    parser.add_argument("--center", metavar="X.npy", required=True, help="the middle of the ball")
    parser.add_argument(
        "--label", metavar="Y", type=int, required=True, help="the output that has to stay largest"
    )
    add_ball_options(parser)
    parser.add_argument(
        "--precision",
        metavar="P",
        type=number,
        default=0.01,
        help="width of the bracket as a share of its upper end (default: 0.01)",
    )
    parser.add_argument(
        "--timeout", metavar="S", type=seconds, default=60.0, help="seconds (default: 60)"
    )
    add_deciding_options(parser)


def _run(options: Namespace, output: Output) -> int:
    started = time.monotonic()
    from anybound.benching import GRACE, PRELOAD
    from anybound.cli.arrays import load_array
    from anybound.runtime.job import Ending, Job
    from anybound.runtime.pool import run_one
    from anybound.runtime.process import fresh

    arguments = {
        "network": options.network,
        "center": load_array(options.center),
        "label": options.label,
        "norm": options.norm or "inf",
        "clip": clip_of(options),
        "precision": options.precision,
        "timeout": options.timeout,
        "started": started,
        **deciding_arguments(options),
    }
    job = Job(
        "anybound.robustness:radius_job",
        arguments,
        seconds=options.timeout + GRACE,
        started=started,
        memory=options.memory,
    )
    with display(output, started) as shown:

        def watch(known: Record) -> None:
            if output.verbose:
                shown.note(_progress(known))
            shown.show(lambda passed: bracket_so_far(known, passed, options.timeout))

        finished = run_one(job, fresh(PRELOAD), watch)
    finished.check()
    record = {**(finished.record or _NOTHING), "ended": finished.ending.name.lower()}
    from anybound.cli.views import radius_view

    output.result(record, lambda: radius_view(record))
    return _INTERRUPTED if finished.ending is Ending.INTERRUPTED else 0


def _progress(record: Record) -> str:
    from anybound.cli.verdicts import bracket

    return f"so far: {bracket(record)}"


COMMAND = Command(
    name="radius",
    summary="bracket the largest radius at which a classification holds",
    examples=(
        Example(
            "anybound radius network.onnx --center image.npy --label 3 --clip 0 1",
            "of an l-infinity ball, cut to the range of valid images",
        ),
        Example(
            "anybound radius network.onnx --center image.npy --label 3 --norm 2 --json",
            "of an l2 ball, for scripts",
        ),
    ),
    configure=_configure,
    run=_run,
)
