"""What an installer and a type checker need of the package."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_package_is_marked_as_typed() -> None:
    assert (ROOT / "src" / "anybound" / "py.typed").is_file()


def test_exact_versions_satisfy_the_declared_ranges() -> None:
    """Every runtime dependency and extra has an exact version in constraints.txt."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    declared = [*project["dependencies"]]
    for extra in ("lp", "report", "train", "docs"):
        declared += project["optional-dependencies"][extra]
    exact = dict(
        line.split("==")
        for line in (ROOT / "constraints.txt").read_text().splitlines()
        if "==" in line
    )
    missing = {re.split(r"[<>=\[]", requirement)[0] for requirement in declared} - exact.keys()
    assert not missing


def test_every_folder_of_code_is_a_package() -> None:
    """Folders without `__init__.py` would be missing from the wheel."""
    folders = {path.parent for path in (ROOT / "src").rglob("*.py")}
    assert folders
    assert all((folder / "__init__.py").is_file() for folder in folders)
