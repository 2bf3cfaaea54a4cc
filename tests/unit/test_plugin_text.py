"""Plug-ins as text: what `anybound methods` prints can be given back, and TOML says the same."""

from argparse import ArgumentTypeError
from pathlib import Path

import pytest
import torch

from anybound import registry
from anybound.cli.plugin_text import plugin_text
from anybound.model.domains.box import Box
from anybound.registry import METHODS, REGISTRIES, Entry, Registry, text_of

ENTRIES = [
    pytest.param(kind, entry, id=f"{kind.kind}-{entry.name}")
    for kind in REGISTRIES
    for entry in kind.entries()
    if all(p.default != "required" for p in entry.parameters)
]
NO_TEXT = {"torch.float32"}  # a default that only Python can give


@pytest.mark.parametrize(("kind", "entry"), ENTRIES)
def test_defaults_are_what_parse_takes(kind: Registry[object], entry: Entry) -> None:
    given = ", ".join(f"{p.name}={p.default}" for p in entry.parameters if p.default not in NO_TEXT)
    assert kind.parse(f"{entry.name}({given})") == kind.get(entry.name)()


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (METHODS, "crown"),
        (METHODS, "dec_dsg(iterations=7)"),
        (METHODS, "proximal(eta=linear(start=1.0, end=2.0), sweeps=jacobi)"),
        (METHODS, "then(slopes, best_of(wk, supergradient(iterations=3)))"),
        (registry.SEARCHES, "portable(method=proximal(iterations=5), rule=babsr)"),
        (registry.SEARCHES, "paper(row=lp)"),
        (registry.INTERMEDIATES, "iterative(method=slopes(iterations=2))"),
    ],
)
def test_a_record_is_written_as_the_text_it_came_from(kind: Registry[object], text: str) -> None:
    assert text_of(kind.parse(text)) == text


def test_a_record_without_a_name_is_written_as_it_is() -> None:
    assert text_of(Box(torch.zeros(1, 1, 2), torch.ones(1, 1, 2))).startswith("Box(")


@pytest.mark.parametrize(
    ("toml", "text"),
    [
        ('name = "crown"', "crown()"),
        ('name = "slopes"\niterations = 7', "slopes(iterations=7)"),
        (
            'name = "proximal"\nsweeps = "jacobi"\neta = {name = "linear", start = 1, end = 2.5}',
            "proximal(sweeps=jacobi, eta=linear(start=1, end=2.5))",
        ),
        (
            'name = "then"\nmethods = [{name = "wk"}, {name = "slopes", iterations = 2}]',
            "then(wk, slopes(iterations=2))",
        ),
    ],
)
def test_toml_says_the_same(toml: str, text: str, tmp_path: Path) -> None:
    path = tmp_path / "method.toml"
    path.write_text(toml)
    assert METHODS.parse(plugin_text(str(path))) == METHODS.parse(text)


@pytest.mark.parametrize(
    ("toml", "message"),
    [
        ("iterations = 3", "no name"),
        ('name = "x', "not TOML"),
        ('name = "slopes"\nschedule = {start = 1}', "no name"),
        ('name = "slopes"\nwhen = 2020-01-01', "a date is no value"),
        ('name = "slopes"\n"a b" = 1', "not the name of a parameter"),
    ],
)
def test_a_bad_file_is_refused_in_a_line(toml: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "method.toml"
    path.write_text(toml)
    with pytest.raises(ArgumentTypeError, match=message) as refused:
        plugin_text(str(path))
    assert "\n" not in str(refused.value)


def test_a_missing_file_is_refused() -> None:
    with pytest.raises(ArgumentTypeError, match="No such file"):
        plugin_text("nowhere.toml")


@pytest.mark.parametrize("kind", [registry.ACTIVATIONS, registry.DOMAINS, registry.ATTACKS])
def test_everything_that_has_a_file_is_listed(kind: Registry[object]) -> None:
    entries = kind.entries()
    assert len(entries) >= 3
    assert all(entry.summary for entry in entries)
