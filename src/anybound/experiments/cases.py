"""What incomplete verification bounds: the margins label − other of images over l∞ balls.

The paper's networks and images are read from a folder of benchmarks; with none at hand, digits that are
installed with the package take their place: a network trained against an adversary, and one trained plainly.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from anybound.bundle import bundled
from anybound.errors import InvalidInput
from anybound.io.onnx_reader import read_onnx
from anybound.io.vnnlib import read_vnnlib
from anybound.model.domains.box import Box
from anybound.model.network import Network
from anybound.spec.input_sets import BoxSet

__all__ = ["ROLES", "Case", "Digits", "Paper", "Source", "margin_rows"]

_ROWS = MappingProxyType({"IBP": "IP"})  # the reference's names, where they differ
ROLES = ("madry", "sgd")  # how the network was trained: against an adversary, or plainly


@dataclass(frozen=True)
class Case:
    """One image: nine margins over a ball. `rows` is `[classes − 1, *output shape]`."""

    role: str
    image: int
    label: int
    network: Network
    domain: Box
    rows: Tensor


class Source(Protocol):
    """Where networks and images come from."""

    def name(self, role: str) -> str:
        """The network that plays a role."""

    def epsilon(self, role: str) -> str:
        """The radius, as it is written."""

    def cases(self, role: str, count: int | None) -> Iterator[Case]:
        """The first so many images, or all."""

    def original(self, role: str, image: int) -> Mapping[str, Sequence[float]]:
        """The bounds that the original code gave, by row, as far as they are known."""


@dataclass(frozen=True)
class Paper:
    """The paper's, from a folder of benchmarks. ε is in normalised space and not clipped, as the authors ran it."""

    folder: Path

    def __post_init__(self) -> None:
        if not (self.folder / "paper" / "networks").is_dir():
            raise InvalidInput(
                f"{self.folder}: has no paper/networks; expected the folder of benchmarks "
                "(or leave --data out to run on the bundled digits)"
            )

    def name(self, role: str) -> str:
        return f"cifar_{role}_8px"

    def epsilon(self, role: str) -> str:
        return {"madry": "12/255", "sgd": "5/255"}[role]

    def cases(self, role: str, count: int | None) -> Iterator[Case]:
        folder, name = self.folder / "paper", self.name(role)
        network = read_onnx(folder / "networks" / f"{name}.onnx").network
        layout = json.loads((folder / "networks" / f"{name}.json").read_text("utf-8"))
        mean = np.asarray(layout["mean"])[:, None, None]
        pixels = _images(folder / "cifar10_test_first100.npz")
        numerator, denominator = self.epsilon(role).split("/")
        labels = _labels(folder / f"incomplete_{name}.csv")
        for image, label in list(labels.items())[:count]:
            x = (pixels[image].astype(np.float64) / 255 - mean) / layout["std"][0]
            radius = int(numerator) / int(denominator)
            yield _case(role, image, label, network, x, radius)

    def original(self, role: str, image: int) -> Mapping[str, Sequence[float]]:
        path = self.folder / "paper" / "reference_incomplete.json"
        if not path.is_file():
            return {}
        known = json.loads(path.read_text("utf-8")).get(role, {}).get(str(image), {})
        bounds: dict[str, list[float]] = known.get("bounds", {})
        return {_ROWS.get(name, name.replace("_", " ")): lower for name, lower in bounds.items()}


@dataclass(frozen=True)
class Digits:
    """The bundled networks, and the images that the bundled properties are balls around."""

    def name(self, role: str) -> str:
        return {"madry": "digits_conv", "sgd": "digits_residual"}[role]

    def epsilon(self, role: str) -> str:
        return {"madry": "0.1", "sgd": "0.04"}[role]

    def cases(self, role: str, count: int | None) -> Iterator[Case]:
        network = read_onnx(bundled(f"{self.name(role)}.onnx")).network
        for image, x in list(_digits().items())[:count]:
            point = torch.from_numpy(x).reshape(1, 1, *network.input_shape)
            label = int(network.forward(point).flatten().argmax())
            yield _case(role, image, label, network, x, float(self.epsilon(role)))

    def original(self, role: str, image: int) -> Mapping[str, Sequence[float]]:
        return {}


def margin_rows(label: int, classes: int) -> Tensor:
    """label − other for every other class, `[classes − 1, classes]`."""
    others = [c for c in range(classes) if c != label]
    rows = torch.zeros(len(others), classes, dtype=torch.float64)
    rows[:, label] = 1.0
    rows[torch.arange(len(others)), others] = -1.0
    return rows


def _case(
    role: str, image: int, label: int, network: Network, x: NDArray[np.float64], radius: float
) -> Case:
    center = torch.from_numpy(x).reshape(1, 1, *network.input_shape)
    rows = margin_rows(label, network.output_size).reshape(-1, *network.output_shape)
    return Case(role, image, label, network, Box.ball(center, radius), rows)


def _images(path: Path) -> NDArray[np.uint8]:
    """`[100, 3, 32, 32]`."""
    with np.load(path) as file:
        return np.asarray(file[file.files[0]])


def _labels(path: Path) -> dict[int, int]:
    with path.open(encoding="utf-8") as file:
        return {int(row["idx"]): int(row["label"]) for row in csv.DictReader(file)}


def _digits() -> dict[int, NDArray[np.float64]]:
    """Digits by their number in the data set: the one end of a box that was not clipped, less ε, in sixteenths."""
    folder = bundled("instances.csv").parent / "properties"
    found: dict[int, NDArray[np.float64]] = {}
    for path in sorted(folder.glob("*.vnnlib")):
        words = path.stem.split("_")
        image = int(next(word for word in words if word.startswith("image"))[len("image") :])
        epsilon = float(words[-1].removeprefix("eps"))
        if image not in found and _is_one_ball(words):
            lower, upper = _corners(path)
            x = np.where(lower > 0, lower + epsilon, upper - epsilon)
            found[image] = np.round(16 * x) / 16
    return dict(sorted(found.items()))


def _is_one_ball(words: Sequence[str]) -> bool:
    """Whether the name is `network_imageN_epsE`: others have further conditions."""
    return len(words) == 4


def _corners(path: Path) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    box = read_vnnlib(path).groups()[0][0]
    assert isinstance(box, BoxSet)
    return box.lower.ravel(), box.upper.ravel()
