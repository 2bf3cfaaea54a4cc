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
    from anybound.attacking import attack
    from anybound.bound.methods.best_of import BestOf
    from anybound.bound.methods.compiled import Compiled
    from anybound.bound.methods.crown import Crown
    from anybound.bound.methods.dec_dsg import DecDSG
    from anybound.bound.methods.dsg import DSG
    from anybound.bound.methods.interval import Interval
    from anybound.bound.methods.lp import LP
    from anybound.bound.methods.proximal import Proximal
    from anybound.bound.methods.slopes import Slopes
    from anybound.bound.methods.supergradient import Supergradient
    from anybound.bound.methods.then import Then
    from anybound.bound.methods.wk import WK
    from anybound.bounding import bounds, differentiable_bounds
    from anybound.bounds_result import BoundsResult
    from anybound.bundle import bundled
    from anybound.deciding import verify
    from anybound.errors import AnyboundError
    from anybound.io.onnx_reader import load
    from anybound.io.torch_module import from_torch
    from anybound.io.vnnlib import read_vnnlib
    from anybound.model.domains.box import Box
    from anybound.model.domains.l1_ball import L1Ball
    from anybound.model.domains.l2_ball import L2Ball
    from anybound.model.network import Network
    from anybound.model.weights import weights, with_weights
    from anybound.outcome import Outcome, Verdict, Witness
    from anybound.robustness import Radius, radius
    from anybound.search.witness import AttackResult
    from anybound.spec.build import all_of, any_of, ball, linear, robust, unsafe
    from anybound.spec.input_sets import BallSet, BoxSet
    from anybound.spec.property import Property

    __version__: str

__all__ = [
    "DSG",
    "LP",
    "WK",
    "AnyboundError",
    "AttackResult",
    "BallSet",
    "BestOf",
    "BoundsResult",
    "Box",
    "BoxSet",
    "Compiled",
    "Crown",
    "DecDSG",
    "Interval",
    "L1Ball",
    "L2Ball",
    "Network",
    "Outcome",
    "Property",
    "Proximal",
    "Radius",
    "Slopes",
    "Supergradient",
    "Then",
    "Verdict",
    "Witness",
    "__version__",
    "all_of",
    "any_of",
    "attack",
    "ball",
    "bounds",
    "bundled",
    "differentiable_bounds",
    "from_torch",
    "linear",
    "load",
    "radius",
    "read_vnnlib",
    "robust",
    "unsafe",
    "verify",
    "weights",
    "with_weights",
]

_HOMES = MappingProxyType(
    {
        "AnyboundError": "anybound.errors",
        "AttackResult": "anybound.search.witness",
        "BallSet": "anybound.spec.input_sets",
        "BestOf": "anybound.bound.methods.best_of",
        "BoundsResult": "anybound.bounds_result",
        "Box": "anybound.model.domains.box",
        "BoxSet": "anybound.spec.input_sets",
        "Compiled": "anybound.bound.methods.compiled",
        "Crown": "anybound.bound.methods.crown",
        "DSG": "anybound.bound.methods.dsg",
        "DecDSG": "anybound.bound.methods.dec_dsg",
        "Interval": "anybound.bound.methods.interval",
        "L1Ball": "anybound.model.domains.l1_ball",
        "L2Ball": "anybound.model.domains.l2_ball",
        "LP": "anybound.bound.methods.lp",
        "Network": "anybound.model.network",
        "Outcome": "anybound.outcome",
        "Property": "anybound.spec.property",
        "Proximal": "anybound.bound.methods.proximal",
        "Radius": "anybound.robustness",
        "Slopes": "anybound.bound.methods.slopes",
        "Supergradient": "anybound.bound.methods.supergradient",
        "Then": "anybound.bound.methods.then",
        "Verdict": "anybound.outcome",
        "WK": "anybound.bound.methods.wk",
        "Witness": "anybound.outcome",
        "all_of": "anybound.spec.build",
        "any_of": "anybound.spec.build",
        "attack": "anybound.attacking",
        "ball": "anybound.spec.build",
        "bounds": "anybound.bounding",
        "bundled": "anybound.bundle",
        "differentiable_bounds": "anybound.bounding",
        "from_torch": "anybound.io.torch_module",
        "linear": "anybound.spec.build",
        "load": "anybound.io.onnx_reader",
        "radius": "anybound.robustness",
        "read_vnnlib": "anybound.io.vnnlib",
        "robust": "anybound.spec.build",
        "unsafe": "anybound.spec.build",
        "verify": "anybound.deciding",
        "weights": "anybound.model.weights",
        "with_weights": "anybound.model.weights",
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
