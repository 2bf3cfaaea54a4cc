"""Plug-ins by name: a method, strategy or rule is one file with one frozen dataclass, and this
finds it.

The name is the file's. A text such as `proximal(iterations=400, eta=linear(10, 500))` becomes the
record, its parameters checked against the dataclass; nothing in it is ever executed.
"""

from __future__ import annotations

import ast
import dataclasses
import importlib
import inspect
import math
import pkgutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from enum import Enum
from types import UnionType
from typing import Any, Generic, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from anybound.errors import InvalidConfig

T = TypeVar("T")


@dataclass(frozen=True)
class Parameter:
    """A hyper-parameter of a plug-in."""

    name: str
    type: str
    default: str


@dataclass(frozen=True)
class Entry:
    """A plug-in: its name, what it is in a sentence, and its parameters."""

    name: str
    summary: str
    parameters: tuple[Parameter, ...]


@dataclass(frozen=True)
class Registry(Generic[T]):
    """The plug-ins of a package: every module in it that holds a dataclass of the base type, named after the file."""

    package: str
    base: str  # "module:Class"
    kind: str  # what to call it in messages

    def names(self) -> list[str]:
        package = importlib.import_module(self.package)
        found = (module.name for module in pkgutil.iter_modules(package.__path__))
        return sorted(name for name in found if self._class_of(name) is not None)

    def get(self, name: str) -> type[T]:
        cls = self._class_of(name) if name.isidentifier() else None
        if cls is None:
            names = self.names()
            close = get_close_matches(name, names, n=1)
            hint = f"did you mean {close[0]!r}? " if close else ""
            raise InvalidConfig(f"unknown {self.kind} {name!r}: {hint}there are {', '.join(names)}")
        return cls

    def parse(self, text: str) -> T:
        """The record that a text such as `name(parameter=value, …)` describes."""
        try:
            tree = ast.parse(text.strip(), mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            raise InvalidConfig(
                f"{text!r} is not a {self.kind}; write a name, or name(parameter=value, …)"
            ) from None
        return self.build(tree, text)

    def entries(self) -> list[Entry]:
        return [_entry(name, self.get(name)) for name in self.names()]

    def _class_of(self, name: str) -> type[T] | None:
        """The dataclass of the base type that the file of this name defines; the name is compared without case."""
        try:
            module = importlib.import_module(f"{self.package}.{name}")
        except ModuleNotFoundError as error:
            if error.name == f"{self.package}.{name}":
                return None
            raise
        home, _, base_name = self.base.partition(":")
        base = getattr(importlib.import_module(home), base_name)
        for cls in vars(module).values():
            own = isinstance(cls, type) and cls.__module__ == module.__name__
            if (
                own
                and issubclass(cls, base)
                and dataclasses.is_dataclass(cls)
                and not inspect.isabstract(cls)
            ):
                return cast(type[T], cls)
        return None

    def build(self, tree: ast.expr, text: str) -> T:
        """The record of a parsed text, which messages quote."""
        if isinstance(tree, ast.Name):
            return self.get(tree.id)()
        if isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name):
            cls = self.get(tree.func.id)
            return construct(cls, tree, text, self)
        raise InvalidConfig(
            f"{text!r} is not a {self.kind}; write a name, or name(parameter=value, …)"
        )


def construct(cls: type[T], call: ast.Call, text: str, registry: Registry[Any]) -> T:
    """Call a dataclass with the constants of a parsed expression, each converted to its field's type."""
    hints = get_type_hints(cls)
    name = call.func.id if isinstance(call.func, ast.Name) else cls.__name__
    fields = {f.name: hints[f.name] for f in dataclasses.fields(cast(Any, cls)) if f.init}
    order = list(fields)
    variadic = _variadic_type(cls, hints)
    positional: list[Any] = []
    for place, argument in enumerate(call.args):
        if variadic is not None:
            positional.append(_value(argument, variadic, text, registry))
        elif place < len(order):
            positional.append(_value(argument, fields[order[place]], text, registry))
        else:
            raise InvalidConfig(
                f"{text!r}: {name} takes at most {len(order)} parameters: {', '.join(order)}"
            )
    named: dict[str, Any] = {}
    for keyword in call.keywords:
        if (
            keyword.arg is None
            or keyword.arg not in fields
            or keyword.arg in order[: len(positional)]
        ):
            given = keyword.arg or "**"
            raise InvalidConfig(
                f"{text!r}: {name} has no parameter {given!r}; it has {', '.join(order) or 'none'}"
            )
        named[keyword.arg] = _value(keyword.value, fields[keyword.arg], text, registry)
    try:
        return cls(*positional, **named)
    except TypeError as error:
        raise InvalidConfig(f"{text!r}: {error}") from None


def _variadic_type(cls: type, hints: dict[str, Any]) -> Any:
    """The element type of a record built from any number of positional arguments, or None."""
    parameters = inspect.signature(cls).parameters.values()
    if any(p.kind is inspect.Parameter.VAR_POSITIONAL for p in parameters):
        (elements,) = (hint for hint in hints.values() if get_origin(hint) is tuple)
        return get_args(elements)[0]
    return None


def _value(tree: ast.expr, hint: Any, text: str, registry: Registry[Any]) -> Any:
    """A constant, an enum's value, or a nested record."""
    options = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    for option in options:
        kind = get_origin(option) or option
        word = tree.id if isinstance(tree, ast.Name) else _constant(tree)
        if isinstance(kind, type) and issubclass(kind, Enum) and isinstance(word, str):
            allowed = [member.value for member in kind]
            if word in allowed:
                return kind(word)
            raise InvalidConfig(f"{text!r}: {word!r} is not one of {', '.join(map(str, allowed))}")
        if isinstance(kind, type) and isinstance(tree, ast.Name | ast.Call):
            nested = _nested(tree, kind, text, registry)
            if nested is not None:
                return nested
        value = _constant(tree)
        if kind is bool and isinstance(value, bool):
            return value
        if kind is int and isinstance(value, int) and not isinstance(value, bool):
            return value
        if kind is float and isinstance(value, int | float) and not isinstance(value, bool):
            return float(value)
        if (kind is str and isinstance(value, str)) or (value is None and kind is type(None)):
            return value
        if kind in (tuple, Sequence) and isinstance(value, tuple):
            return tuple(_value(e, get_args(option)[0], text, registry) for e in _elements(tree))
    raise InvalidConfig(
        f"{text!r}: {ast.unparse(tree)!r} is not a value of type {_type_name(hint)}"
    )


def _nested(tree: ast.Name | ast.Call, kind: type, text: str, registry: Registry[Any]) -> Any:
    """A record inside a record: another plug-in, or a sub-class of the field's type by its name in lower case."""
    for other in (registry, *REGISTRIES):
        home, _, base_name = other.base.partition(":")
        if issubclass(kind, getattr(importlib.import_module(home), base_name)):
            return other.build(tree, text)
    func = tree.func if isinstance(tree, ast.Call) else tree
    if not isinstance(func, ast.Name):
        return None
    for cls in (kind, *kind.__subclasses__()):
        if dataclasses.is_dataclass(cls) and cls.__name__.lower() == func.id.lower():
            call = tree if isinstance(tree, ast.Call) else ast.Call(func=func, args=[], keywords=[])
            return construct(cls, call, text, registry)
    return None


def _elements(tree: ast.expr) -> list[ast.expr]:
    return tree.elts if isinstance(tree, ast.Tuple) else []


def _constant(tree: ast.expr) -> Any:
    if isinstance(tree, ast.Name) and tree.id == "inf":
        return math.inf
    try:
        return ast.literal_eval(tree)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return ...


def _entry(name: str, cls: type) -> Entry:
    try:
        hints = get_type_hints(cls)
    except NameError:  # of a name that is imported for type checkers only
        hints = {field.name: field.type for field in dataclasses.fields(cast(Any, cls))}
    parameters = tuple(
        Parameter(f.name, _type_name(hints[f.name]), _default(f))
        for f in dataclasses.fields(cast(Any, cls))
    )
    module = importlib.import_module(cls.__module__)
    paragraph = (module.__doc__ or cls.__doc__ or "").strip().split("\n\n")[0]
    summary = " ".join(paragraph.split())
    return Entry(name, summary, parameters)


def _default(field: dataclasses.Field[Any]) -> str:
    if field.default_factory is not dataclasses.MISSING:
        return _text(field.default_factory(), text_of)
    return "required" if field.default is dataclasses.MISSING else _text(field.default, text_of)


def text_of(record: Any) -> str:
    """The text that `parse` makes the record of: its name, and what is not at its default.

    Of a record that has no name, its `repr`."""
    cls = type(record)
    name = _registered_name(cls)
    if name is None:
        return repr(record)
    variadic = _variadic_type(cls, get_type_hints(cls)) is not None
    parts: list[str] = []
    for field in dataclasses.fields(record):
        value = getattr(record, field.name)
        if variadic and isinstance(value, tuple):
            parts += [text_of(element) for element in value]
        elif field.init and not _is_default(field, value):
            parts.append(f"{field.name}={_text(value, text_of)}")
    return f"{name}({', '.join(parts)})" if parts else name


def _is_default(field: dataclasses.Field[Any], value: Any) -> bool:
    if field.default_factory is not dataclasses.MISSING:
        return bool(value == field.default_factory())
    return bool(value == field.default)


def _text(value: Any, plug_in: Callable[[Any], str] | None = None) -> str:
    """A value as `parse` takes it, with all its fields; plug-ins in it by `plug_in`, if given."""
    if isinstance(value, Enum):
        return str(value.value)
    if not dataclasses.is_dataclass(value) or isinstance(value, type):
        return repr(value)
    name = _registered_name(type(value))
    if name is not None and plug_in is not None:
        return plug_in(value)
    given = (
        f"{f.name}={_text(getattr(value, f.name), plug_in)}" for f in dataclasses.fields(value)
    )
    return f"{name or type(value).__name__.lower()}({', '.join(given)})"


def _registered_name(cls: type) -> str | None:
    """The name of a plug-in, which is its file's."""
    package, _, file = cls.__module__.rpartition(".")
    named = any(package == registry.package for registry in (*REGISTRIES, ATTACKS))
    return file if named and dataclasses.is_dataclass(cls) else None


def _type_name(hint: Any) -> str:
    if get_origin(hint) in (Union, UnionType):
        return " or ".join(_type_name(option) for option in get_args(hint))
    if isinstance(hint, type) and issubclass(hint, Enum):
        return " | ".join(str(member.value) for member in hint)
    return hint if isinstance(hint, str) else getattr(hint, "__name__", str(hint))


METHODS: Registry[Any] = Registry(
    "anybound.bound.methods", "anybound.bound.method:Method", "method"
)
INTERMEDIATES: Registry[Any] = Registry(
    "anybound.bound.intermediates",
    "anybound.bound.intermediates.strategy:IntermediateStrategy",
    "intermediate strategy",
)
RULES: Registry[Any] = Registry(
    "anybound.search.branchings", "anybound.search.rule:BranchingRule", "branching rule"
)
SEARCHES: Registry[Any] = Registry("anybound.searches", "anybound.decision:Search", "search")
REGISTRIES: tuple[Registry[Any], ...] = (METHODS, INTERMEDIATES, RULES, SEARCHES)

# Not options: what networks, properties and attacks are made of, listed with the others.
ACTIVATIONS: Registry[Any] = Registry(
    "anybound.model.activations", "anybound.model.activations.activation:Activation", "activation"
)
DOMAINS: Registry[Any] = Registry(
    "anybound.model.domains", "anybound.model.domains.domain:Domain", "input set"
)
ATTACKS: Registry[Any] = Registry(
    "anybound.search.attacks", "anybound.search.attack:Attack", "attack"
)
