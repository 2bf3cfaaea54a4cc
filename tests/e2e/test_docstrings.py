"""The examples in the docstrings of all public names run as printed."""

import doctest
import inspect

import pytest

import anybound

FUNCTIONS = [name for name in anybound.__all__ if inspect.isfunction(getattr(anybound, name))]


def examples(name: str) -> list[doctest.DocTest]:
    """Those of a public name itself and, for a class, of its members."""
    finder = doctest.DocTestFinder(exclude_empty=True)
    return [t for t in finder.find(getattr(anybound, name), name, globs={}) if t.examples]


@pytest.mark.parametrize("name", anybound.__all__)
def test_examples_run_as_printed(name: str) -> None:
    runner = doctest.DocTestRunner(verbose=False, optionflags=doctest.ELLIPSIS)
    for test in examples(name):
        said: list[str] = []
        runner.run(test, out=said.append)
        assert runner.failures == 0, "".join(said)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_function_shows_how_it_is_used(name: str) -> None:
    assert examples(name), f"anybound.{name} has no example"


@pytest.mark.parametrize("name", anybound.__all__)
def test_everything_public_says_what_it_is(name: str) -> None:
    value = getattr(anybound, name)
    if name != "__version__" and isinstance(value, type) and not issubclass(value, Exception):
        assert inspect.getdoc(value), name
