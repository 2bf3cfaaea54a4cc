"""The generated reference names every command, option, plug-in and public name."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

import anybound
from anybound import registry
from anybound.cli.main import build_parser

HOOK = Path(__file__).parents[2] / "docs" / "hooks" / "reference.py"


@pytest.fixture(scope="module")
def reference() -> ModuleType:
    spec = importlib.util.spec_from_file_location("reference", HOOK)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_command_and_option_is_there(reference: ModuleType) -> None:
    page = reference.commands_page()
    for name, parser in build_parser().commands().items():
        assert f"\n## {name}\n" in page
        flags = [flag for option in parser.options() for flag in option.flags if flag != "-h"]
        assert all(f"<code>{flag}" in page for flag in flags if flag != "--help")


def test_every_plug_in_is_there(reference: ModuleType) -> None:
    page = reference.methods_page()
    for kind in vars(registry).values():
        if isinstance(kind, registry.Registry):
            assert f"\n## {kind.kind.capitalize()}\n" in page
            assert all(f"\n### {name} {{" in page for name in kind.names())


def test_every_public_name_is_there_once(reference: ModuleType) -> None:
    names = [name for _, group in reference.groups() for name in group]
    assert sorted(names) == sorted(set(anybound.__all__) - {"__version__"})
    page = reference.python_page()
    assert all(page.count(f"\n### {name}\n") == 1 for name in names)


def test_examples_are_blocks(reference: ModuleType) -> None:
    outside = "".join(reference.python_page().split("```")[::2])
    assert ">>>" not in outside
