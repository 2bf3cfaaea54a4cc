"""`anybound completion SHELL`: print a completion script for a shell."""

from argparse import Namespace

from anybound.cli.command import Command, Example
from anybound.cli.completion import SHELLS
from anybound.cli.output import Output
from anybound.cli.parser import Parser

__all__ = ["COMMAND"]


def _configure(parser: Parser) -> None:
    parser.add_argument("shell", metavar="SHELL", choices=tuple(SHELLS), help="bash, zsh or fish")


def _run(options: Namespace, output: Output) -> int:
    from anybound.cli.main import build_parser  # which imports this module

    script = SHELLS[options.shell](build_parser())
    if output.json:
        output.object({"shell": options.shell, "script": script})
    else:
        output.raw(script)
    return 0


COMMAND = Command(
    name="completion",
    summary="print a completion script for bash, zsh or fish",
    examples=(
        Example("source <(anybound completion bash)", "complete in this bash session"),
        Example('anybound completion zsh > "${fpath[1]}/_anybound"', "in every zsh session"),
        Example("anybound completion fish | source", "in this fish session"),
    ),
    configure=_configure,
    run=_run,
)
