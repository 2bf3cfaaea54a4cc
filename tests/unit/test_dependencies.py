"""Dependencies point one way, and plug-ins know nothing of each other; read from the source text.

    base ← model ← spec ← bound ← search ← verify ← io, report, runtime ← entry ← experiments ← cli

Imports inside functions and those for type checkers count as well.
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src"

# The files and folders right under `anybound`, by layer.
MEMBERS = {
    "base": {
        "budget",
        "bundle",
        "drawing",
        "errors",
        "host",
        "kernel_cache",
        "kernels",
        "layers",
        "memory",
        "outcome",
        "registry",
        "rounding",
    },
    "model": {"model"},
    "spec": {"spec"},
    "bound": {"bound"},
    "search": {"search"},
    "verify": {
        "bounding",
        "bounds_result",
        "certificate",
        "config",
        "decision",
        "searches",
        "threads",
    },
    "io": {"io"},
    "report": {"report"},
    "runtime": {"runtime"},
    "entry": {
        "attacking",
        "benching",
        "certifying",
        "deciding",
        "examining",
        "generating",
        "robustness",
        "training",
        "warm",
    },
    "experiments": {"experiments"},
    "cli": {"cli"},
    "top": {"__init__", "__main__"},
}

# What each layer may import beside itself.
ALLOWED = {
    "base": set(),
    "model": {"base"},
    "spec": {"base", "model"},
    "bound": {"base", "model", "spec"},
    "search": {"base", "model", "spec", "bound"},
    "verify": {"base", "model", "spec", "bound", "search"},
    "io": {"base", "model", "spec", "bound", "search", "verify"},
    "report": {"base", "model", "spec", "bound", "search", "verify"},
    "runtime": {"base"},  # knows nothing of what it runs
    "entry": {"base", "model", "spec", "bound", "search", "verify", "io", "runtime"},
    "experiments": set(MEMBERS) - {"cli", "top"},
    "cli": set(MEMBERS) - {"top"},
    "top": set(MEMBERS),
}

# Folders of plug-ins, and the files in them that all plug-ins may import: the protocol, and what is
# built on it for several of them. So may files that begin with an underscore.
PLUGINS = {
    "model/activations": {"activation", "bent", "s_shaped"},
    "model/domains": {"domain", "box", "ball", "clipped_ball"},
    "bound/methods": set(),
    "bound/intermediates": {"strategy"},
    "search/branchings": set(),
    "search/attacks": set(),
    "searches": {
        "compact",
        "errand",
        "inputs",
        "portable",
        "turns",
    },  # the planner chooses among the others
    "cli/commands": set(),
}


def imported(text: str) -> Iterator[str]:
    """The modules that a source text imports, as `package.module` or `package.module.name`."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def modules() -> list[Path]:
    return sorted((SOURCE / "anybound").rglob("*.py"))


def layer_of(part: str) -> str:
    """The layer of `errors`, `model`, …"""
    found = [layer for layer, members in MEMBERS.items() if part in members]
    assert len(found) == 1, f"{part}: name its layer in MEMBERS"
    return found[0]


def wrong_layers(own: str, text: str) -> list[str]:
    """Imports that a module in `own` (a file or folder under `anybound`) must not have."""
    allowed = ALLOWED[layer_of(own)] | {layer_of(own)}
    parts = [name.split(".") for name in imported(text)]
    return [
        ".".join(part)
        for part in parts
        if part[0] == "anybound" and layer_of(part[1]) not in allowed
    ]


def wrong_plugins(folder: str, own: str, text: str) -> list[str]:
    """Imports of one plug-in, the file `own` of `folder`, from another."""
    package = f"anybound.{folder.replace('/', '.')}."
    names = [name.removeprefix(package) for name in imported(text) if name.startswith(package)]
    shared = {name for name in names if name.startswith("_")}
    return [
        n for n in names if n.partition(".")[0] not in PLUGINS[folder] | {own} and n not in shared
    ]


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(SOURCE)))
def test_a_module_imports_lower_layers_only(path: Path) -> None:
    own = path.relative_to(SOURCE / "anybound").parts[0].removesuffix(".py")
    assert not wrong_layers(own, path.read_text("utf-8"))


@pytest.mark.parametrize("folder", PLUGINS)
def test_plugins_do_not_import_each_other(folder: str) -> None:
    for path in sorted((SOURCE / "anybound" / folder).glob("*.py")):
        if path.stem != "__init__":
            assert not wrong_plugins(folder, path.stem, path.read_text("utf-8")), path.name


def test_the_checker_is_independent() -> None:
    """It imports numpy, onnx (with its protobuf) and the standard library: nothing that could share a defect.

    onnxruntime is optional, and replays witnesses."""
    free = {*sys.stdlib_module_names, "google", "numpy", "onnx", "onnxruntime", "anybound_check"}
    for path in sorted((SOURCE / "anybound_check").rglob("*.py")):
        roots = {name.partition(".")[0] for name in imported(path.read_text("utf-8"))}
        assert roots <= free, path.name


def test_the_rules_allow_no_cycle() -> None:
    order = list(ALLOWED)
    for layer, below in ALLOWED.items():
        assert all(order.index(other) < order.index(layer) for other in below - {layer})


@pytest.mark.parametrize(
    ("own", "text", "wrong"),
    [
        ("model", "from anybound.bound.hull import Hull", ["anybound.bound.hull.Hull"]),
        ("errors", "def f():\n    import anybound.model", ["anybound.model"]),
        ("runtime", "from anybound.bound import hull", ["anybound.bound.hull"]),
        ("io", "from anybound.cli import main", ["anybound.cli.main"]),
        ("bound", "from anybound.model.network import Network\nimport torch", []),
    ],
)
def test_wrong_directions_are_found(own: str, text: str, wrong: list[str]) -> None:
    assert wrong_layers(own, text) == wrong


def test_public_names_are_for_users() -> None:
    with pytest.raises(AssertionError, match="load"):
        wrong_layers("spec", "from anybound import load")


def test_an_import_of_a_sibling_is_found() -> None:
    sibling = "from anybound.bound.methods.wk import WK"
    assert wrong_plugins("bound/methods", "crown", sibling) == ["wk.WK"]
    shared = "from anybound.bound.intermediates._sweep import sweep_layer"
    assert not wrong_plugins("bound/intermediates", "crown", shared)
