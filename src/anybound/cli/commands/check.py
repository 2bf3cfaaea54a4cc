"""`anybound check NET PROP CERT`: an alias of `anybound-check`, the independent checker."""

from __future__ import annotations

from argparse import Namespace

from anybound.cli.command import Command, Example
from anybound.cli.output import Output, Record
from anybound.cli.parser import Parser
from anybound.errors import InvalidInput

__all__ = ["COMMAND"]


def _configure(parser: Parser) -> None:
    parser.add_argument("network", metavar="NET", help="the network, .onnx or .onnx.gz")
    parser.add_argument("property", metavar="PROP", help="the property, .vnnlib or .vnnlib.gz")
    parser.add_argument(
        "certificate", metavar="CERT", help="a certificate, or a result file with a witness"
    )


def _run(options: Namespace, output: Output) -> int:
    from anybound_check import check

    report = check(options.network, options.property, options.certificate)
    if report.unreadable:
        raise InvalidInput(report.reason)
    if output.json:
        seconds = round(report.seconds, 6)
        fields: Record = {"valid": report.valid, "reason": report.reason}
        output.object({**fields, "semantics": report.semantics, "seconds": seconds})
    else:
        said = f"VALID ({report.semantics})" if report.valid else f"INVALID: {report.reason}"
        output.raw(f"{said}\n")
    return 0 if report.valid else 1


COMMAND = Command(
    name="check",
    summary="check a certificate, or a witness, independently of what wrote it",
    examples=(
        Example("anybound check network.onnx property.vnnlib proof.abc", "prints VALID or INVALID"),
        Example("anybound-check network.onnx property.vnnlib proof.abc --json", "the same, alone"),
    ),
    configure=_configure,
    run=_run,
)
