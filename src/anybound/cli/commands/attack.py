"""`anybound attack NET PROP`: only look for a witness."""

from __future__ import annotations

import time
from argparse import Namespace
from typing import TYPE_CHECKING

from anybound.cli.command import Command, Example
from anybound.cli.output import Output, Record
from anybound.cli.parser import Parser, seconds, whole
from anybound.cli.text import plural

if TYPE_CHECKING:
    from rich.console import RenderableType

    from anybound.search.witness import AttackResult

__all__ = ["COMMAND"]

_SHOWN = 12  # numbers of a witness's input that people are shown


def _configure(parser: Parser) -> None:
    parser.add_argument("network", metavar="NET", help="the network, .onnx or .onnx.gz")
    parser.add_argument("property", metavar="PROP", help="the property, .vnnlib or .vnnlib.gz")
    parser.add_argument(
        "--timeout", metavar="S", type=seconds, default=60.0, help="seconds, at most (default: 60)"
    )
    parser.add_argument(
        "--seed", metavar="N", type=whole, default=0, help="of the random starts (default: 0)"
    )


def _run(options: Namespace, output: Output) -> int:
    started = time.monotonic()
    from anybound.attacking import attack

    result = attack(options.network, options.property, timeout=options.timeout, seed=options.seed)
    output.result(_record(result, time.monotonic() - started), lambda: _view(result))
    return 0


def _record(result: AttackResult, elapsed: float) -> Record:
    found = result.witness
    witness: Record | None = None
    if found is not None:
        witness = {
            "input": found.input.tolist(),
            "output": found.output.tolist(),
            "clause": found.clause,
        }
    return {
        "witness": witness,
        "upper": result.upper.tolist(),
        "tries": result.tries,
        "seconds": elapsed,
    }


def _view(result: AttackResult) -> list[RenderableType]:
    cost = f"{plural(result.tries, 'point')} in {result.seconds:.2f} s"
    found = result.witness
    if found is None and result.tries == 0:
        return ["no witness found: no time was left to look for one; give more --timeout"]
    if found is None:
        closest = float(result.upper.min())
        return [f"no witness found; the smallest margin of {cost} is {closest:.6g}"]
    shown = ", ".join(f"{x:.9g}" for x in found.input[:_SHOWN])
    more = ", …" if found.input.size > _SHOWN else ""
    return [
        f"violated: clause {found.clause}, found after {cost}",
        f"  input: {shown}{more}",
        f"  output of the original model: {', '.join(f'{y:.9g}' for y in found.output[:_SHOWN])}",
    ]


COMMAND = Command(
    name="attack",
    summary="look for an input that violates a property",
    examples=(
        Example("anybound attack network.onnx property.vnnlib", "for a minute at most"),
        Example(
            "anybound attack network.onnx property.vnnlib --timeout 5 --seed 1 --json",
            "the whole witness for a script",
        ),
    ),
    configure=_configure,
    run=_run,
)
