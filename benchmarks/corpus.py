"""Where the real networks and properties lie, and the cases of the paper's incomplete verification."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from anybound.io.onnx_reader import read_onnx
from anybound.model.domains.box import Box
from anybound.model.network import Network

EPSILON = {
    "madry": 12 / 255,
    "sgd": 5 / 255,
}  # in normalised space, unclipped, as the authors ran it


def root() -> Path:
    """The folder of benchmarks: `$ANYBOUND_BENCHMARKS`, or `../shared/benchmarks` beside the repository."""
    given = os.environ.get("ANYBOUND_BENCHMARKS")
    path = Path(given) if given else Path(__file__).resolve().parents[2] / "shared" / "benchmarks"
    if not path.is_dir():
        raise SystemExit(f"no benchmarks at {path}; set ANYBOUND_BENCHMARKS to their folder")
    return path


@dataclass(frozen=True)
class Margins:
    """One image of the incomplete verification: nine margins label − other over an l∞ ball."""

    kind: str
    image: int
    label: int
    network: Network
    domain: Box
    rows: Tensor
    reference: dict[str, Any]

    @property
    def lp_optimum(self) -> NDArray[np.float64] | None:
        """The reference's optimum of the LP with the paper's intermediate bounds."""
        known = self.reference.get("lp_optimum")
        return None if known is None else np.asarray(known)


def margins(kind: str, images: list[int]) -> Iterator[Margins]:
    """The margins of some of the first hundred test images on `cifar_madry_8px` or `cifar_sgd_8px`."""
    folder = root() / "paper"
    name = f"cifar_{kind}_8px"
    network = read_onnx(folder / "networks" / f"{name}.onnx").network
    layout = json.loads((folder / "networks" / f"{name}.json").read_text())
    reference = json.loads((folder / "reference_incomplete.json").read_text())[kind]
    pixels = np.load(folder / "cifar10_test_first100.npz")
    arrays = [pixels[key] for key in pixels.files]
    labels = _labels(folder / f"incomplete_{name}.csv")
    mean = np.asarray(layout["mean"])[:, None, None]
    for image in images:
        x = (arrays[0][image].astype(np.float64) / 255 - mean) / layout["std"][0]
        center = torch.from_numpy(x).reshape(1, 1, *network.input_shape)
        label = labels[image]
        yield Margins(
            kind,
            image,
            label,
            network,
            Box.ball(center, EPSILON[kind]),
            margin_rows(label, network.output_size).reshape(-1, *network.output_shape),
            reference.get(str(image), {}),
        )


def margin_rows(label: int, classes: int) -> Tensor:
    """label − other for every other class, `[classes − 1, classes]`."""
    others = [c for c in range(classes) if c != label]
    rows = torch.zeros(len(others), classes, dtype=torch.float64)
    rows[:, label] = 1.0
    rows[torch.arange(len(others)), others] = -1.0
    return rows


def _labels(path: Path) -> dict[int, int]:
    with path.open() as file:
        return {int(row["idx"]): int(row["label"]) for row in csv.DictReader(file)}
