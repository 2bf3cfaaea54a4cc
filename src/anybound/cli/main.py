"""The entry of the command line: parse, run one command, turn what went wrong into one line.

    exit code 0    the command did its work, whatever the verdict
              1    a check failed
              2    unusable input or arguments
              130  interrupted

Every failure passes through `_failure`, the one place that knows exceptions and exit codes.
"""

import os
import sys
import traceback
from argparse import SUPPRESS
from collections.abc import Callable, Sequence
from dataclasses import replace

from anybound.cli.command import Command
from anybound.cli.commands import (
    attack,
    bench,
    bounds,
    check,
    completion,
    demo,
    generate,
    inspect,
    methods,
    radius,
    report,
    reproduce,
    train,
    verify,
)
from anybound.cli.output import Output
from anybound.cli.parser import Parser, positive_int
from anybound.cli.versions import versions
from anybound.errors import AnyboundError

__all__ = ["COMMANDS", "build_parser", "limit_threads", "main"]

COMMANDS: tuple[Command, ...] = (
    inspect.COMMAND,
    verify.COMMAND,
    bench.COMMAND,
    report.COMMAND,
    reproduce.COMMAND,
    bounds.COMMAND,
    radius.COMMAND,
    attack.COMMAND,
    check.COMMAND,
    train.COMMAND,
    generate.COMMAND,
    methods.COMMAND,
    demo.COMMAND,
    completion.COMMAND,
)

UNUSABLE = 2
INTERRUPTED = 130
_FLAGS = (
    (("--json",), "print one JSON object instead of text"),
    (("-q", "--quiet"), "no progress, only results and errors"),
    (("-v", "--verbose"), "tell more"),
    (("--debug",), "show the traceback of an error"),
)
_THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "NUMBA_NUM_THREADS",
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run `anybound` with these arguments (the process's by default); the exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    wanted = arguments[: arguments.index("--")] if "--" in arguments else arguments
    debug = "--debug" in wanted or bool(os.environ.get("ANYBOUND_DEBUG"))
    output = Output(
        sys.stdout,
        sys.stderr,
        json="--json" in wanted,
        quiet="--quiet" in wanted or "-q" in wanted,
        verbose="--verbose" in wanted or "-v" in wanted,
    )
    # Threads that spin while they wait take, on a busy machine, the time of the one they wait for.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    return _guarded(lambda: _run(arguments, output), output, debug)


def build_parser() -> Parser:
    """The parser of all commands, each with the options that all of them share."""
    parser = Parser(
        prog="anybound",
        description="Bounds and proofs for neural networks, valid at any time.",
        epilog="'anybound COMMAND --help' tells more about a command.\n\n"
        "exit codes: 0 done, 1 a check failed, 2 unusable input or arguments, 130 interrupted",
    )
    parser.add_argument("--version", action="store_true", help="show the versions that matter")
    _add_common(parser, default=None)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    for command in COMMANDS:
        lines = "\n".join(f"  {e.line}\n      {e.purpose}" for e in command.examples)
        child = commands.add_parser(
            command.name,
            help=command.summary,
            description=f"{command.summary[0].upper()}{command.summary[1:]}.",
            epilog=f"examples:\n{lines}",
        )
        command.configure(child)
        _add_common(child, default=SUPPRESS)
    return parser


def _add_common(parser: Parser, default: str | None) -> None:
    """Options that work before and after the command's name (`default` keeps the former)."""
    group = parser.add_argument_group("common options")
    for flags, purpose in _FLAGS:
        group.add_argument(*flags, action="store_true", default=default or False, help=purpose)
    group.add_argument(
        "--threads",
        metavar="N",
        type=positive_int,
        default=default,
        help="use at most N threads (default: all cores)",
    )


def _run(arguments: Sequence[str], output: Output) -> int:
    parser = build_parser()
    try:
        options = parser.parse(arguments)
    except SystemExit:  # argparse has shown the help
        return 0
    output = replace(output, json=options.json, quiet=options.quiet, verbose=options.verbose)
    if options.version:
        return _show_versions(output)
    if options.command is None:
        parser.error(f"no command given (choose from {', '.join(parser.commands())})")
    limit_threads(options.threads)
    command = next(command for command in COMMANDS if command.name == options.command)
    return command.run(options, output)


def _show_versions(output: Output) -> int:
    found = versions()
    width = max(map(len, found))
    output.result(
        dict(found),
        lambda: [f"{name:<{width}}  {number or 'not installed'}" for name, number in found.items()],
    )
    return 0


def limit_threads(threads: int | None) -> None:
    """Numerical libraries read these variables when they are loaded, which is later than now."""
    if threads is None:
        return
    for variable in _THREAD_VARIABLES:
        os.environ[variable] = str(threads)
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(threads)


def _guarded(work: Callable[[], int], output: Output, debug: bool) -> int:
    """The exit code of `work` with its output written, or that of its failure."""
    try:
        code = work()
        _flush(output)
    except BrokenPipeError:  # the reader (`head`) has seen enough
        _discard_output()
        return 0
    # The border of the process: nothing passes but as one line and an exit code.
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001
        return _reported(error, output, debug)
    return code


def _reported(error: BaseException, output: Output, debug: bool) -> int:
    code, message = _failure(error)
    try:
        if debug:
            output.trace("".join(traceback.format_exception(error)))
        output.error(f"anybound: {message}")
        if output.json:
            output.object({"error": message.removeprefix("error: ")})
        _flush(output)
    except OSError:  # nobody is listening
        _discard_output()
    return code


def _failure(error: BaseException) -> tuple[int, str]:
    """The exit code and the line that tell what happened."""
    match error:
        case KeyboardInterrupt():
            return INTERRUPTED, "interrupted"
        case AnyboundError():
            return UNUSABLE, f"error: {error}"
        case MemoryError():
            return UNUSABLE, "error: out of memory; free some, or try a smaller network or input"
        case OSError(filename=str() | bytes() as name):
            return UNUSABLE, f"error: {os.fsdecode(name)}: {error.strerror or error}"
        case OSError():
            return UNUSABLE, f"error: {error.strerror or error}"
    kind = type(error).__name__
    advice = "run again with --debug to see where, and report it"
    return UNUSABLE, f"error: {kind}: {error} (a bug in anybound: {advice})"


def _flush(output: Output) -> None:
    if output.stdout is not None:
        output.stdout.flush()


def _discard_output() -> None:
    """Let the interpreter's last flush of standard output go nowhere instead of failing."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 1)
    finally:
        os.close(nowhere)
