"""`anybound bounds NET`: prove bounds of linear functions of the output, or of a hidden layer."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from anybound.cli.command import Command, Example
from anybound.cli.input_sets import add_input_set_options, input_set_of
from anybound.cli.output import Output, Record
from anybound.cli.parser import Parser, seconds
from anybound.cli.plugin_text import plugin_text

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from anybound.bounding import BoundsResult, Trace

__all__ = ["COMMAND"]

_INTERRUPTED = 130


def _configure(parser: Parser) -> None:
    parser.add_argument("network", metavar="NET", help="the network, .onnx or .onnx.gz")
    add_input_set_options(parser)
    parser.add_argument(
        "--rows", metavar="ROWS.npy", help="[R, outputs], the functions (default: every output)"
    )
    parser.add_argument(
        "--layer", metavar="K", type=int, help="bound layer K's pre-activation, not the output"
    )
    parser.add_argument(
        "--method",
        metavar="M",
        type=plugin_text,
        default="slopes",
        help="see 'anybound methods' (default: slopes); or a file, METHOD.toml",
    )
    parser.add_argument(
        "--intermediate",
        metavar="M",
        type=plugin_text,
        default="auto",
        help="how hidden layers are bounded; see 'anybound methods' (default: auto)",
    )
    parser.add_argument("--timeout", metavar="S", type=seconds, help="seconds, at most")
    parser.add_argument(
        "--trace", metavar="FILE", help="write bounds over time, a JSON object per line"
    )


def _run(options: Namespace, output: Output) -> int:
    from anybound.registry import INTERMEDIATES, METHODS

    method = METHODS.parse(options.method)
    intermediate = INTERMEDIATES.parse(options.intermediate)
    from anybound.bounding import bounds
    from anybound.io.onnx_reader import load
    from anybound.runtime.signals import sigterm_interrupts
    from anybound.spec.domains import from_input_set

    network = load(options.network)
    input_set = input_set_of(options, network.input_size)
    with sigterm_interrupts():
        result = bounds(
            network,
            from_input_set(input_set, network.input_shape),
            _rows(options.rows),
            layer=options.layer,
            method=method,
            intermediate=intermediate,
            timeout=options.timeout,
            trace=options.trace is not None,
        )
    if options.trace is not None and result.trace is not None:
        _write_trace(Path(options.trace), result.trace)
    record = _record(result, intermediate)
    from anybound.cli.views import bounds_view

    output.result(record, lambda: bounds_view(record))
    return _INTERRUPTED if result.stopped.name == "INTERRUPTED" else 0


def _rows(path: str | None) -> NDArray[np.float64] | None:
    """The functions to bound, None for every output."""
    if path is None:
        return None
    from anybound.cli.arrays import load_array

    return load_array(path)


def _record(result: BoundsResult, intermediate: object) -> Record:
    from anybound.registry import text_of

    return {
        "lower": result.lower.tolist(),
        "upper": result.upper.tolist(),
        "seconds": result.seconds,
        "iterations": result.iterations,
        "ambiguous": [count.ambiguous for count in result.ambiguous],
        "neurons": [count.neurons for count in result.ambiguous],
        "seconds_intermediate": result.seconds_intermediate,
        "method": text_of(result.method),
        "intermediate": text_of(intermediate),
        "stopped": result.stopped.name.lower(),
    }


def _write_trace(path: Path, trace: Trace) -> None:
    import json

    points = zip(trace.seconds, trace.iterations, trace.lower, trace.upper, strict=True)
    with path.open("w", encoding="utf-8") as file:
        for elapsed, iteration, lower, upper in points:
            point = {"seconds": elapsed, "iteration": iteration}
            point |= {"lower": lower.tolist(), "upper": upper.tolist()}
            file.write(json.dumps(point) + "\n")


COMMAND = Command(
    name="bounds",
    summary="prove bounds of linear functions of a network's output or of a hidden layer",
    examples=(
        Example(
            "anybound bounds network.onnx --center image.npy --epsilon 0.03 --clip 0 1",
            "every output over an l-infinity ball, cut to the range of valid images",
        ),
        Example(
            "anybound bounds network.onnx --box lower.npy upper.npy --rows rows.npy --json",
            "your own linear functions over a box",
        ),
        Example(
            "anybound bounds network.onnx --center x.npy --epsilon 1 --norm 2 --method wk",
            "a quick method over an l2 ball",
        ),
    ),
    configure=_configure,
    run=_run,
)
