"""Bounds and proofs for neural networks from one Lagrangian decomposition, valid at any time.

The public names are loaded when they are first used (PEP 562), so that `import anybound` is fast
and does not import torch. No module of the package is called like a public name: importing it
would put the module in that name's place.
"""

from __future__ import annotations

from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from anybound.bounding import bounds
    from anybound.deciding import verify
    from anybound.errors import AnyboundError
    from anybound.io.onnx_reader import load
    from anybound.io.torch_module import from_torch
    from anybound.io.vnnlib import read_vnnlib
    from anybound.model.domains.box import Box
    from anybound.model.domains.l1_ball import L1Ball
    from anybound.model.domains.l2_ball import L2Ball
    from anybound.model.network import Network
    from anybound.outcome import Outcome, Verdict
    from anybound.robustness import radius
    from anybound.spec.build import robust
    from anybound.spec.property import Property

    __version__: str

__all__ = [
    "AnyboundError",
    "Box",
    "L1Ball",
    "L2Ball",
    "Network",
    "Outcome",
    "Property",
    "Verdict",
    "__version__",
    "bounds",
    "from_torch",
    "load",
    "radius",
    "read_vnnlib",
    "robust",
    "verify",
]

_HOMES = MappingProxyType(
    {
        "AnyboundError": "anybound.errors",
        "Box": "anybound.model.domains.box",
        "L1Ball": "anybound.model.domains.l1_ball",
        "L2Ball": "anybound.model.domains.l2_ball",
        "Network": "anybound.model.network",
        "Outcome": "anybound.outcome",
        "Property": "anybound.spec.property",
        "Verdict": "anybound.outcome",
        "bounds": "anybound.bounding",
        "from_torch": "anybound.io.torch_module",
        "load": "anybound.io.onnx_reader",
        "radius": "anybound.robustness",
        "read_vnnlib": "anybound.io.vnnlib",
        "robust": "anybound.spec.build",
        "verify": "anybound.deciding",
    }
)


def __getattr__(name: str) -> object:
    if name == "__version__":
        return _version()
    if name not in _HOMES:
        raise AttributeError(f"module 'anybound' has no attribute {name!r}")
    value: object = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value  # the next access does not come here
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("anybound")
    except PackageNotFoundError:  # run from a source tree
        return "0+unknown"
