"""`anybound reproduce EXPERIMENT`: the paper's experiments, with rows of one's own beside them."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from anybound.cli.command import Command, Example
from anybound.cli.output import Output, Record
from anybound.cli.parser import Parser, positive_int, seconds
from anybound.cli.plugin_text import named_plugin
from anybound.cli.reproducing import RUN, VARIABLE
from anybound.errors import InvalidConfig

__all__ = ["COMMAND"]


def _configure(parser: Parser) -> None:
    parser.add_argument("experiment", metavar="EXPERIMENT", choices=tuple(RUN),
                        help=" or ".join(RUN))  # fmt: skip
    parser.add_argument(
        "-o", "--output", metavar="FOLDER", help="default: anybound-reproduce/EXPERIMENT"
    )
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "--data", metavar="FOLDER", help=f"the paper's networks and images (default: ${VARIABLE})"
    )
    where.add_argument(
        "--digits",
        action="store_true",
        help="run on the bundled digits, which is what happens without data",
    )
    parser.add_argument(
        "--method", metavar="[NAME=]M", action="append", default=[], type=named_plugin,
        help="a method of your own in every figure and table, with a name if you like; may be repeated",
    )  # fmt: skip
    parser.add_argument(
        "--row", metavar="ROW", action="append", default=[],
        help="only this row of the paper's and ours; may be repeated (default: all)",
    )  # fmt: skip
    parser.add_argument(
        "--search", metavar="[NAME=]S", action="append", default=[], type=named_plugin,
        help="a search of your own (complete, study), likewise; may be repeated",
    )  # fmt: skip
    parser.add_argument(
        "--images",
        metavar="N",
        type=positive_int,
        help="only the first N images (incomplete, study)",
    )
    parser.add_argument(
        "--count", metavar="N", type=positive_int,
        help="only N properties of each network, evenly from easy to hard (complete, study)",
    )  # fmt: skip
    parser.add_argument(
        "--timeout", metavar="S", type=seconds,
        help="seconds for each property (complete, study; default: 100; 5 on digits)",
    )  # fmt: skip
    parser.add_argument(
        "--cpu", metavar="S", type=seconds,
        help="CPU seconds for each property as well: a busy machine leaves those as they are (complete, study)",
    )  # fmt: skip
    parser.add_argument(
        "--equal-time", action="store_true",
        help="iteration counts for equal time on this machine instead of the paper's (incomplete)",
    )  # fmt: skip
    parser.add_argument(
        "--network", metavar="ROLE", action="append", default=[],
        help="only this network: madry or sgd for images; base, wide or deep for searches; may be repeated",
    )  # fmt: skip
    parser.add_argument(
        "--draw", action="store_true", help="run nothing: draw what the records hold"
    )


# Options that only some experiments know.
_ONLY: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "row": ("incomplete", "complete"),
        "images": ("incomplete", "study"),
        "equal_time": ("incomplete",),
        "search": ("complete", "study"),
        "count": ("complete", "study"),
        "timeout": ("complete", "study"),
        "cpu": ("complete", "study"),
    }
)


def _run(options: Namespace, output: Output) -> int:
    from anybound.cli.main import limit_threads  # which imports this module

    for name, experiments in _ONLY.items():
        if getattr(options, name) and options.experiment not in experiments:
            raise InvalidConfig(
                f"--{name.replace('_', '-')}: 'reproduce {options.experiment}' has no use for it; "
                f"it is for {' and '.join(experiments)}"
            )
    limit_threads(options.threads or 1)  # seconds are those of one thread
    folder = Path(options.output or f"anybound-reproduce/{options.experiment}")
    made = RUN[options.experiment](options, folder, output)
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
        Example("anybound reproduce study --digits", "slopes, combinations, intermediate bounds"),
        Example(
            'anybound reproduce incomplete --digits --method "Mine=slopes(iterations=50)"',
            "a method of your own beside them, called as you like",
        ),
    ),
    configure=_configure,
    run=_run,
)
