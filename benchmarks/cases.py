"""Networks with a property each, by name: the corpus's convolutional ones and the bundled ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from anybound.bound.bounds import Bounds
from anybound.bound.choice import tight_intermediate
from anybound.bound.decomposition import Decomposition
from anybound.bundle import bundled
from anybound.io.onnx_reader import read_onnx
from anybound.io.vnnlib import read_vnnlib
from anybound.spec.problem import Problem
from anybound.spec.problems import problems
from corpus import root

EXAMPLES = {"base": "4631", "wide": "4720", "deep": "5168"}  # oval21's images
_OVAL = Path("dev") / "oval21"
BUNDLED = {
    "digits_conv": "digits_conv_image11_and3_and8_eps0.15",
    "digits_dense": "digits_dense_image2_5_eps0.08",
    "digits_residual": "digits_residual_image2_eps0.03",
    "digits_sigmoid": "digits_sigmoid_image7_eps0.05",
}


@dataclass(frozen=True)
class Case:
    """A network's file and a property's."""

    name: str
    onnx: Path
    vnnlib: Path

    @staticmethod
    def named(name: str, image: str = "") -> Case:
        """`base`, `wide` and `deep` are the corpus's, with any of oval21's images; others are bundled."""
        if name in BUNDLED:
            return Case(name, bundled(f"{name}.onnx"), bundled(f"{BUNDLED[name]}.vnnlib"))
        if name not in EXAMPLES:
            raise SystemExit(f"no network {name!r}; there are {', '.join((*EXAMPLES, *BUNDLED))}")
        image = image or EXAMPLES[name]
        for path in _properties(name, image):
            return Case(name, root() / _OVAL / "onnx" / f"cifar_{name}_kw.onnx", path)
        raise SystemExit(f"no property of {name}'s image {image} in {root() / _OVAL}")

    def problem(self) -> Problem:
        """The rows of all clauses over the (first) input set, in float64."""
        network = read_onnx(self.onnx).network
        return next(iter(problems(network, read_vnnlib(self.vnnlib)))).problem


def is_at_hand(name: str, image: str) -> bool:
    """Whether the corpus has the property: it holds some of oval21's only."""
    return bool(_properties(name, image))


def _properties(name: str, image: str) -> list[Path]:
    return list((root() / _OVAL / "vnnlib").glob(f"cifar_{name}_kw-img{image}-*"))


def default_names() -> Sequence[str]:
    """The corpus's networks where they are at hand, else the bundled ones."""
    try:
        root()
    except SystemExit:
        return tuple(BUNDLED)
    return tuple(EXAMPLES)


def bounds_of(problem: Problem) -> Bounds:
    """Intermediate bounds as the planner has them."""
    with torch.inference_mode():
        return tight_intermediate(problem.network, problem.domain).bounds(
            problem.network, problem.domain
        )


def batch_of(problem: Problem, bounds: Bounds, count: int) -> Decomposition:
    """One row over so many sub-problems with bounds of their own, in float32, as a search has them."""
    one = problem.select(torch.zeros(1, dtype=torch.long)).to(torch.float32)
    shared = bounds.to(torch.float32)
    own = (side.like(side.data.repeat(count, 1, 1)) for side in (shared.lower, shared.upper))
    return Decomposition.between(one, Bounds(*own))
