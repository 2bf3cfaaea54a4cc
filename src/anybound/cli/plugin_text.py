"""A method, strategy or search as an option: its text, or a TOML file that says the same.

    name = "proximal"                                        proximal(iterations=50, eta=linear(start=10, end=500))
    iterations = 50
    eta = { name = "linear", start = 10, end = 500 }

A table is a record, `name` what it is called; a list gives what a record takes any number of. The
text is what is checked and recorded, so that a run can be repeated without the file.
"""

from __future__ import annotations

import argparse
import tomllib
from pathlib import Path
from typing import Any

from anybound.experiments.named import Named

__all__ = ["named_plugin", "plugin_text"]


def plugin_text(given: str) -> str:
    """The type of an option that names a plug-in; the file's content for `*.toml`."""
    if not given.endswith(".toml"):
        return given
    try:
        table = tomllib.loads(Path(given).read_text(encoding="utf-8"))
    except OSError as error:
        raise argparse.ArgumentTypeError(f"{given}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise argparse.ArgumentTypeError(f"{given} is not TOML: {error}") from None
    return _call(table, given)


def named_plugin(given: str) -> Named:
    """The same after a name of one's own and an equals sign, or without."""
    name, _, text = given.partition("=")
    if not text or "(" in name:
        text = plugin_text(given)
        return Named(text, text)
    if not name.strip():
        raise argparse.ArgumentTypeError(f"{given!r} has no name; write NAME=METHOD, or METHOD")
    return Named(name.strip(), plugin_text(text.strip()))


def _call(table: dict[str, Any], source: str) -> str:
    """`name(parameter=value, …)`. Any: whatever TOML holds."""
    name = table.get("name")
    if not isinstance(name, str) or not name.isidentifier():
        raise argparse.ArgumentTypeError(
            f'{source}: a table has no name; write name = "proximal", then its parameters'
        )
    lists = [v for v in table.values() if isinstance(v, list)]
    parts = [_value(element, source) for values in lists for element in values]
    for key, value in table.items():
        if not key.isidentifier():
            raise argparse.ArgumentTypeError(f"{source}: {key!r} is not the name of a parameter")
        if key != "name" and not isinstance(value, list):
            parts.append(f"{key}={_value(value, source)}")
    return f"{name}({', '.join(parts)})"


def _value(value: Any, source: str) -> str:
    if isinstance(value, dict):
        return _call(value, source)
    if isinstance(value, str | int | float):  # bool is an int
        return repr(value)
    kind = type(value).__name__
    raise argparse.ArgumentTypeError(f"{source}: a {kind} is no value of a parameter")
