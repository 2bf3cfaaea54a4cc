"""`anybound inspect NET|PROP`: what is in a network or a property."""

from argparse import Namespace
from pathlib import Path

from anybound.cli.command import Command, Example
from anybound.cli.output import Output
from anybound.cli.parser import Parser
from anybound.errors import InvalidConfig

__all__ = ["COMMAND"]


def _configure(parser: Parser) -> None:
    parser.add_argument(
        "file", metavar="NET|PROP", help="a network (.onnx) or a property (.vnnlib), or .gz of it"
    )
    parser.add_argument(
        "--property",
        metavar="PROP",
        help="with a network: check that the sizes fit, and count ambiguous neurons per layer",
    )


def _run(options: Namespace, output: Output) -> int:
    from anybound.cli.kinds import Kind, kind_of

    path = Path(options.file)
    kind = kind_of(path)
    if kind is Kind.PROPERTY and options.property is not None:
        raise InvalidConfig(f"--property goes with a network, but {path} is a property")
    if kind is Kind.PROPERTY:
        _inspect_property(path, output)
    else:
        _inspect_network(path, options.property, output)
    return 0


def _inspect_property(path: Path, output: Output) -> None:
    from anybound.cli.inspection import property_record
    from anybound.cli.views import property_view

    record = property_record(path)
    output.result(record, lambda: property_view(record))


def _inspect_network(path: Path, prop: str | None, output: Output) -> None:
    from anybound.cli.inspection import network_record
    from anybound.cli.views import network_view

    record = network_record(path, None if prop is None else Path(prop))
    output.result(record, lambda: network_view(record, output.verbose))


COMMAND = Command(
    name="inspect",
    summary="show what is in a network or a property",
    examples=(
        Example("anybound inspect network.onnx", "inputs, outputs, layers, what is unsupported"),
        Example("anybound inspect property.vnnlib.gz", "sizes, clauses, widths of the input box"),
        Example(
            "anybound inspect network.onnx --property property.vnnlib",
            "whether they fit, and the ambiguous neurons per layer",
        ),
        Example("anybound inspect --json network.onnx", "the same for a script"),
    ),
    configure=_configure,
    run=_run,
)
