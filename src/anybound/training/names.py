"""The names of what there is, for a command line that must not load torch to show its help."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

__all__ = ["DATASETS", "EPSILONS", "MODELS"]

MODELS = ("base", "wide", "deep", "small", "dense", "conv", "residual", "sigmoid")
DATASETS = ("digits", "mnist", "cifar10")
# The radius, in pixels of [0, 1], that networks for a data set are commonly trained against.
EPSILONS: Mapping[str, float] = MappingProxyType({"digits": 0.1, "mnist": 0.1, "cifar10": 8 / 255})
