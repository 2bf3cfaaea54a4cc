"""Completion scripts for bash, zsh and fish, generated from the parser's own tree.

A script is static text: it holds every command and option, and knows which files an argument wants
from the argument's metavar (`FILES`).
"""

import re
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType

from anybound.cli.parser import Argument, Parser

__all__ = ["FILES", "SHELLS"]

# metavar -> suffixes of the files it means (none: any file)
FILES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "NET": ("onnx", "onnx.gz"),
        "PROP": ("vnnlib", "vnnlib.gz"),
        "NET|PROP": ("onnx", "onnx.gz", "vnnlib", "vnnlib.gz"),
        "FILE": (),
        "X.npy": ("npy",),
        "ROWS.npy": ("npy",),
        "BOX": ("npy",),
        "INSTANCES.csv": ("csv",),
        "RUN.jsonl": ("jsonl",),
    }
)
_FOLDER = "FOLDER"

_BASH = """\
# bash completion for anybound; to use it now: source <(anybound completion bash)
_anybound_files() {
    local file suffix
    while IFS= read -r file; do
        if [[ -d $file || $# -eq 0 ]]; then
            COMPREPLY+=("$file")
            continue
        fi
        for suffix; do
            [[ $file == *."$suffix" ]] && COMPREPLY+=("$file")
        done
    done < <(compgen -f -- "$current")
}
_anybound_folders() {
    local folder
    while IFS= read -r folder; do COMPREPLY+=("$folder"); done < <(compgen -d -- "$current")
}
_anybound_words() {
    local word
    while IFS= read -r word; do COMPREPLY+=("$word"); done < <(compgen -W "$1" -- "$current")
}
_anybound() {
    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]} command='' i
    COMPREPLY=()
    for ((i = 1; i < COMP_CWORD; i++)); do
        case ${COMP_WORDS[i]} in
            @NAMES@) command=${COMP_WORDS[i]}; break ;;
        esac
    done
    case "$command $previous" in
@VALUES@
    esac
    if [[ $current == -* ]]; then
        case $command in
@OPTIONS@
        esac
        return
    fi
    case $command in
@POSITIONALS@
    esac
}
complete -o filenames -F _anybound anybound
"""

_ZSH = """\
#compdef anybound
# zsh completion for anybound; keep it as a file named _anybound in a folder of $fpath
_anybound() {
    local context state state_descr line
    typeset -A opt_args
    local -a commands=(
@COMMANDS@
    )
    _arguments -C @GLOBAL@ '1:command:->command' '*::argument:->argument'
    case $state in
        command) _describe -t commands command commands ;;
        argument)
            case $words[1] in
@ARGUMENTS@
            esac ;;
    esac
}
if [[ $funcstack[1] == _anybound ]]; then _anybound "$@"; else compdef _anybound anybound; fi
"""


def _bash(parser: Parser) -> str:
    children = parser.commands()
    by_name = {"": parser, **children}
    values = [
        f"        {_bash_cases(name, option)}) {_bash_values(option)}; return ;;"
        for name, child in by_name.items()
        for option in child.options()
        if option.takes_value
    ]
    options = [
        f"            {_quoted(name)}) _anybound_words {_quoted(' '.join(_flags(child)))} ;;"
        for name, child in by_name.items()
    ]
    positionals = [f"        '') _anybound_words {_quoted(' '.join(children))} ;;"]
    positionals += [
        f"        {name}) {'; '.join(map(_bash_values, child.positionals())) or ':'} ;;"
        for name, child in children.items()
    ]
    return _filled(
        _BASH,
        NAMES="|".join(children),
        VALUES="\n".join(values),
        OPTIONS="\n".join(options),
        POSITIONALS="\n".join(positionals),
    )


def _bash_cases(command: str, option: Argument) -> str:
    return "|".join(_quoted(f"{command} {flag}") for flag in option.flags)


def _bash_values(argument: Argument) -> str:
    if argument.choices:
        return f"_anybound_words {_quoted(' '.join(argument.choices))}"
    if argument.metavar == _FOLDER:
        return "_anybound_folders"
    if argument.metavar in FILES:
        return " ".join(("_anybound_files", *map(_quoted, FILES[argument.metavar])))
    return ":"


def _zsh(parser: Parser) -> str:
    children = parser.commands()
    commands = [
        f"        {_quoted(f'{name}:{child.description or name}')}"
        for name, child in children.items()
    ]
    arguments = [
        f"                {name}) _arguments {' '.join(_zsh_arguments(child))} ;;"
        for name, child in children.items()
    ]
    return _filled(
        _ZSH,
        COMMANDS="\n".join(commands),
        GLOBAL=" ".join(_zsh_options(parser)),
        ARGUMENTS="\n".join(arguments),
    )


def _zsh_arguments(parser: Parser) -> Iterator[str]:
    yield from _zsh_options(parser)
    for place, positional in enumerate(parser.positionals(), start=1):
        yield _quoted(f"{place}:{_zsh_text(positional.metavar)}:{_zsh_values(positional)}")


def _zsh_options(parser: Parser) -> Iterator[str]:
    for option in parser.options():
        value = ""
        if option.takes_value:
            value = f":{_zsh_text(option.metavar)}:{_zsh_values(option)}"
        for flag in option.flags:
            yield _quoted(f"{flag}[{_zsh_text(option.help)}]{value}")


def _zsh_values(argument: Argument) -> str:
    if argument.choices:
        return f"({' '.join(argument.choices)})"
    if argument.metavar == _FOLDER:
        return "_files -/"
    if argument.metavar not in FILES:
        return " "
    suffixes = FILES[argument.metavar]
    return f'_files -g "*.({"|".join(suffixes)})"' if suffixes else "_files"


def _zsh_text(text: str) -> str:
    return re.sub(r"([\[\]:\\])", r"\\\1", text)


def _fish(parser: Parser) -> str:
    lines = [
        "# fish completion for anybound; keep it as ~/.config/fish/completions/anybound.fish",
        "complete -c anybound -f",
    ]
    lines += _fish_options("__fish_use_subcommand", parser)
    for name, child in parser.commands().items():
        summary = _quoted(child.description or name)
        lines.append(f"complete -c anybound -n __fish_use_subcommand -a {name} -d {summary}")
        seen = f"__fish_seen_subcommand_from {name}"
        lines += _fish_options(seen, child)
        for positional in child.positionals():
            lines.append(f"complete -c anybound -n {_quoted(seen)}{_fish_values(positional)}")
    return "\n".join(lines) + "\n"


def _fish_options(condition: str, parser: Parser) -> Iterator[str]:
    for option in parser.options():
        flags = "".join(f" {_fish_flag(flag)}" for flag in option.flags)
        value = f" -x{_fish_values(option)}" if option.takes_value else ""
        yield (
            f"complete -c anybound -n {_quoted(condition)}{flags} -d {_quoted(option.help)}{value}"
        )


def _fish_flag(flag: str) -> str:
    return f"-l {flag[2:]}" if flag.startswith("--") else f"-s {flag[1:]}"


def _fish_values(argument: Argument) -> str:
    if argument.choices:
        return f" -a {_quoted(' '.join(argument.choices))}"
    if argument.metavar == _FOLDER:
        return " -a '(__fish_complete_directories)'"
    if argument.metavar not in FILES:
        return ""
    found = (f"(__fish_complete_suffix .{suffix})" for suffix in FILES[argument.metavar])
    return f" -a {_quoted(' '.join(found) or '(__fish_complete_path)')}"


def _flags(parser: Parser) -> Iterator[str]:
    return (flag for option in parser.options() for flag in option.flags)


def _quoted(text: str) -> str:
    """In single quotes, for any of the shells."""
    return "'" + text.replace("'", "’") + "'"


def _filled(template: str, **parts: str) -> str:
    for name, text in parts.items():
        template = template.replace(f"@{name}@", text)
    return template


SHELLS: Mapping[str, Callable[[Parser], str]] = MappingProxyType(
    {"bash": _bash, "zsh": _zsh, "fish": _fish}
)
