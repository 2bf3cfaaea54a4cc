"""Plug a branching rule and a bounding method of your own into branch and bound: one class each."""

from dataclasses import dataclass
from importlib.resources import files

import numpy as np

import anybound
from anybound.bound.backward import Start
from anybound.bound.decomposition import Decomposition
from anybound.bound.method import OneShot
from anybound.layers import Layers
from anybound.search.rule import BranchingRule, Index, OpenProblems, best
from anybound.searches.portable import Portable


@dataclass(frozen=True)
class Early(BranchingRule):
    """BaBSR's score, but early neurons count more."""

    def choose(self, state: None, problems: OpenProblems, generator: np.random.Generator) -> Index:
        score = problems.intercepts()
        return best(score * np.linspace(1, 0.5, score.shape[1], dtype=np.float32))


@dataclass(frozen=True)
class Middle(OneShot):
    """Halfway between Wong & Kolter's dual point and CROWN's: any ρ gives a valid bound."""

    def rho(self, dual: Decomposition) -> Layers:
        wk, crown = Start.WK.rho(dual), Start.CROWN.rho(dual)
        return wk.like((wk.data + crown.data) / 2)


folder = files("anybound") / "data"
network = str(folder / "networks" / "digits_dense.onnx")
prop = str(folder / "properties" / "digits_dense_image2_5_eps0.08.vnnlib")
for search in ("auto", "paper(proximal)", Portable(rule=Early()), Portable(Middle(), Early())):
    print(anybound.verify(network, prop, search=search, intermediate="wk"), search)
