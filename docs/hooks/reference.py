"""The reference, made while the site is built: from the parser, the registries and the docstrings.

What is generated cannot go stale, and nothing has to be written twice.
"""

from __future__ import annotations

import dataclasses
import html
import importlib
import inspect
from collections.abc import Callable, Iterator
from typing import Any

import anybound
from anybound import registry
from anybound.bound.method import Method
from anybound.cli.main import COMMANDS, build_parser
from anybound.cli.parser import Argument, Parser

_EXIT_CODES = (
    ("0", "the command did its work, whatever the verdict"),
    ("1", "a check failed"),
    ("2", "unusable input or arguments; one line on standard error says which"),
    ("130", "interrupted"),
)
_GROUPS = (  # what a reader looks for first
    ("Networks", ("load", "from_torch", "Network", "bundled")),
    ("Properties and input sets", (
        "robust", "unsafe", "linear", "any_of", "all_of", "read_vnnlib", "Property", "ball", "BoxSet",
        "BallSet", "Box", "L2Ball", "L1Ball",
    )),
    ("Questions", ("bounds", "verify", "radius", "attack")),
    ("Answers", ("BoundsResult", "Outcome", "Verdict", "Witness", "Radius", "AttackResult")),
    ("Training against bounds", ("differentiable_bounds", "weights", "with_weights")),
)  # fmt: skip


def on_files(files: Any, config: Any, **_: Any) -> Any:  # MkDocs' own types
    """Add the generated pages to those written by hand."""
    from mkdocs.structure.files import File

    for name, page in PAGES.items():
        files.append(File.generated(config, f"reference/{name}.md", content=page()))
    return files


def commands_page() -> str:
    """Every command with its usage, arguments and examples."""
    parser = build_parser()
    codes = _table(("exit code", "meaning"), _EXIT_CODES)
    common = _options(parser, lambda option: option.flags[0] not in ("-h", "--version"))
    parts = [
        "# Command line",
        "The result goes to standard output, everything else to standard error. `--json` prints one\n"
        "JSON object. Colours and progress appear on terminals only. Made from the parser itself.",
        codes,
        "## Options of every command",
        common,
    ]
    flags = {flag for option in parser.options() for flag in option.flags}
    for command in COMMANDS:
        child = parser.commands()[command.name]
        usage = child.format_usage().removeprefix("usage: ")
        parts += [f"## {command.name}", f"{child.description}", _fence("text", usage)]
        rows = [(_code(a.metavar), _plain(a.help)) for a in child.positionals()]
        own = _options(child, lambda option: not flags & set(option.flags))
        parts += [_table(("argument", ""), rows)] if rows else []
        parts += [own] if own else []
        lines = (f"{e.line}\n    # {e.purpose}" for e in command.examples)
        parts.append(_fence("sh", "\n".join(lines)))
    return _joined(parts)


def methods_page() -> str:
    """Everything that has a name, with parameters and defaults."""
    parts = [
        "# Methods, strategies, rules, searches",
        "What `anybound methods` prints, from the registries themselves. A text such as\n"
        "`proximal(iterations=100, eta=linear(10, 500))` names one with its parameters; so does a TOML file\n"
        "([choosing a method](../choosing.md)).",
    ]
    kinds = [found for found in vars(registry).values() if isinstance(found, registry.Registry)]
    for kind in kinds:
        parts.append(f"## {kind.kind.capitalize()}")
        for entry in kind.entries():
            rows = [(_code(p.name), _code(p.type), _code(p.default)) for p in entry.parameters]
            parts += [f"### {entry.name} {{ #{kind.kind.replace(' ', '-')}-{entry.name} }}"]
            parts += [entry.summary]
            parts += [_table(("parameter", "type", "default"), rows)] if rows else []
    return _joined(parts)


def python_page() -> str:
    """Every public name, with its docstring."""
    parts = [
        "# Python",
        "The names of `import anybound`, from their docstrings, whose examples are run by the tests. Methods\n"
        'are records: `anybound.Slopes(iterations=50)` is what `"slopes(iterations=50)"` stands for; they are\n'
        "listed [on a page of their own](methods.md).",
    ]
    for title, names in groups():
        parts.append(f"## {title}")
        for name in names:
            value = getattr(anybound, name)
            parts += [f"### {name}", *_described(name, value)]
    return _joined(parts)


def groups() -> list[tuple[str, tuple[str, ...]]]:
    """All public names, by what they are for."""
    known = {name for _, names in _GROUPS for name in names}
    rest = tuple(n for n in anybound.__all__ if n not in known and n != "__version__")
    errors = tuple(n for n in rest if _is_a(n, Exception))
    methods = tuple(n for n in rest if _is_a(n, Method))
    others = tuple(n for n in rest if n not in (*errors, *methods))
    more = [("More", others)] if others else []
    return [*_GROUPS, *more, ("Methods", methods), ("Errors", errors)]


def _is_a(name: str, base: type) -> bool:
    value = getattr(anybound, name)
    return isinstance(value, type) and issubclass(value, base)


def _described(name: str, value: Any) -> Iterator[str]:
    """A signature, the docstring and, for a class, its fields and members."""
    if inspect.isfunction(value):
        yield _fence("python", f"anybound.{name}{_signature(value)}")
    yield from _prose(inspect.getdoc(value) or "")
    if not inspect.isclass(value):
        return
    if dataclasses.is_dataclass(value):
        fields = [(_code(f.name), _code(str(f.type))) for f in dataclasses.fields(value)]
        yield _table(("field", "type"), fields) if fields else ""
    members = [(_code(n), _plain(text)) for n, text in _members(value)]
    yield _table(("member", ""), members) if members else ""
    if issubclass(value, Exception):
        module = importlib.import_module(value.__module__)
        kinds = [getattr(module, n) for n in module.__all__]
        yield _table(
            ("error", "when"),
            [(_code(k.__name__), _plain(inspect.getdoc(k) or "")) for k in kinds],
        )


def _members(cls: type) -> Iterator[tuple[str, str]]:
    """Public methods and properties that the class itself defines, with what they are in a paragraph."""
    names = (
        {field.name for field in dataclasses.fields(cls)} if dataclasses.is_dataclass(cls) else ()
    )
    for name, member in vars(cls).items():
        if name.startswith("_") or name in names:
            continue
        text = inspect.getdoc(getattr(cls, name)) if not isinstance(member, str) else ""
        if text and (callable(getattr(cls, name)) or hasattr(member, "__get__")):
            yield name, text.split("\n\n")[0]


def _signature(function: Callable[..., Any]) -> str:
    """The signature with annotations as they were written, a line per parameter."""
    signature = inspect.signature(function)
    lines, named = [], False
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY and not named:
            named = True
            lines.append("*")
        default = "" if parameter.default is parameter.empty else f" = {parameter.default!r}"
        lines.append(f"{parameter.name}: {_written(parameter.annotation)}{default}")
    inside = "".join(f"\n    {line}," for line in lines)
    return f"({inside}\n) -> {_written(signature.return_annotation)}"


def _written(annotation: Any) -> str:
    return annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "Any")


def _prose(text: str) -> Iterator[str]:
    """A docstring as Markdown: examples and indented formulas in blocks."""
    for paragraph in text.split("\n\n"):
        if paragraph.startswith(">>>"):
            yield _fence("pycon", paragraph)
        elif paragraph.startswith("    "):
            yield _fence("text", inspect.cleandoc(paragraph))
        else:
            yield paragraph


def _options(parser: Parser, wanted: Callable[[Argument], bool]) -> str:
    rows = [
        (
            ", ".join(_code(f"{flag} {o.metavar}" if o.takes_value else flag) for flag in o.flags),
            _plain(o.help) + (f" ({', '.join(o.choices)})" if o.choices else ""),
        )
        for o in parser.options()
        if wanted(o)
    ]
    return _table(("option", ""), rows) if rows else ""


def _table(head: tuple[str, ...], rows: Any) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join(
        f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines
    )


def _code(text: str) -> str:
    """Code in a table, where backquotes would keep the escapes of bars."""
    return f"<code>{html.escape(text, quote=False).replace('|', '&#124;')}</code>"


def _plain(text: str) -> str:
    """One line, in which nothing is markup."""
    return " ".join(text.replace("%%", "%").replace("<", "&lt;").replace("*", "\\*").split())


def _fence(language: str, text: str) -> str:
    return f"```{language}\n{text.rstrip()}\n```"


def _joined(parts: list[str]) -> str:
    return "\n\n".join(part for part in parts if part) + "\n"


PAGES = {"commands": commands_page, "methods": methods_page, "python": python_page}
