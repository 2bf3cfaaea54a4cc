"""`import anybound` and the command line's help are fast and silent: nothing heavy is loaded."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import anybound

SOURCE = Path(anybound.__file__)
HEAVY = {"torch", "numpy", "onnx", "onnxruntime", "numba", "scipy", "matplotlib", "rich"}


def loaded_by(code: str) -> set[str]:
    """The modules that a fresh interpreter loads for `code` beyond those it starts with."""
    program = (
        "import sys; before = set(sys.modules)\n"
        f"{code}\n"
        "sys.stderr.write('\\n'.join(set(sys.modules) - before))"
    )
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=True
    )
    return set(run.stderr.split())


def test_importing_the_package_loads_next_to_nothing() -> None:
    loaded = loaded_by("import anybound")
    assert "anybound" in loaded
    assert not loaded & HEAVY
    assert len(loaded) < 60


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["inspect", "--help"], ["bad"]])
def test_help_and_version_load_nothing_heavy(arguments: list[str]) -> None:
    loaded = loaded_by(
        "import io; from anybound.cli.main import main\n"
        "sys.stdout, streams = io.StringIO(), (sys.stdout, sys.stderr)\n"
        f"sys.stderr = io.StringIO(); main({arguments!r}); sys.stdout, sys.stderr = streams"
    )
    assert not loaded & (HEAVY - {"rich"})
    assert len(loaded) < 300


def test_deciding_with_cached_kernels_loads_no_compiler() -> None:
    """Kernels come from the cache as they are: nothing that only compiling or reports need is loaded."""
    data = SOURCE.parent / "data"
    network, prop = "digits_dense.onnx", "digits_dense_image2_5_eps0.08.vnnlib"
    decide = (
        "import anybound\n"
        f"outcome = anybound.verify({str(data / 'networks' / network)!r}, "
        f"{str(data / 'properties' / prop)!r})\n"
        "assert outcome.subproblems > 0, outcome"
    )
    loaded_by(decide)  # compiles what is not in the cache
    loaded = loaded_by(decide)
    compiler = {"numba"}
    unneeded = {"matplotlib", "rich", "scipy", "sklearn", "sympy", "torch._dynamo"}
    engines = {"anybound.search.portable_bounder", "anybound.drawing.charts"}
    assert not loaded & (compiler | unneeded | engines)
    assert len(loaded) < 1600


@pytest.mark.parametrize("name", anybound.__all__)
def test_every_public_name_is_there(name: str) -> None:
    assert name in dir(anybound)
    assert getattr(anybound, name) == getattr(anybound, name)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        anybound.nonsense  # noqa: B018


def test_type_checkers_see_the_same_names() -> None:
    """The imports under TYPE_CHECKING, `__all__` and the table of homes say the same."""
    tree = ast.parse(SOURCE.read_text())
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    typed = {a.name: node.module for node in imports for a in node.names}
    homes = {name: typed[name] for name in anybound.__all__ if name != "__version__"}
    assert homes == dict(anybound._HOMES)


def test_no_module_takes_the_place_of_a_public_name() -> None:
    names = {path.stem for path in SOURCE.parent.iterdir()}
    assert not names & set(anybound.__all__)
