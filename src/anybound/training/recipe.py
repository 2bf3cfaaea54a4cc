"""A recipe, and the network that comes of it: trained, tested, written as ONNX and checked.

NET.onnx             the network
NET.json             how it was trained, on what, and how accurate it is
NET.onnx.checkpoint  while it is being trained
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import torch
from torch import nn

from anybound.errors import InvalidConfig, InvalidModel
from anybound.io.records import Json, Record
from anybound.training.architectures import ARCHITECTURES, Model, Normalise
from anybound.training.checkpoint import Checkpoint, write_whole
from anybound.training.datasets.dataset import Dataset
from anybound.training.fit import Fit, Progress, Training, accuracy
from anybound.training.onnx_export import to_onnx
from anybound.training.optimisers import Sgd
from anybound.training.pgd import Pgd

__all__ = ["Recipe", "make"]

Watch = Callable[[Progress], None]
_COMPARED = 100  # images on which the file is compared with the model
_AGREEMENT = 1e-4  # of the largest output; float32 sums in another order differ by 1e-6 or so


@dataclass(frozen=True)
class Recipe:
    """All that determines a network's weights, but for the images and the versions of libraries.

    `test_attack` is what the network is tested against. With `pixels` the network reads pixels in
    [0, 1] and normalises them itself; else, as the paper's, it reads normalised images.
    """

    model: str
    training: Training
    test_attack: Pgd
    pixels: bool = True

    def build(self, dataset: Dataset) -> Model:
        """The model with its initial weights; it reads pixels."""
        network = ARCHITECTURES[self.model](dataset.shape, dataset.classes)
        if not dataset.mean:
            return network
        return nn.Sequential(Normalise(dataset.mean, dataset.std), *network)

    def exported(self, model: Model, dataset: Dataset) -> Model:
        """The part of the model that is written to the file."""
        return model if self.pixels or not dataset.mean else nn.Sequential(*list(model)[1:])

    def record(self, dataset: Dataset) -> dict[str, Json]:
        """As plain data."""
        training, attack = self.training, self.training.attack
        optimiser = training.optimiser
        return {
            "dataset": dataset.name,
            "model": self.model,
            "training": "plain" if attack is None else "pgd",
            "epsilon": 0.0 if attack is None else attack.epsilon,
            "steps": 0 if attack is None else attack.steps,
            "epochs": training.epochs,
            "batch": training.batch,
            "optimiser": type(optimiser).__name__.lower(),
            "learning_rate": optimiser.learning_rate,
            "momentum": optimiser.momentum if isinstance(optimiser, Sgd) else None,
            "weight_decay": optimiser.weight_decay,
            "seed": training.seed,
            "images": len(dataset.train),
            "input": "pixels" if self.pixels or not dataset.mean else "normalised",
            "mean": list(dataset.mean),
            "std": list(dataset.std),
        }


def make(
    recipe: Recipe,
    dataset: Dataset,
    path: Path,
    checkpoint: Checkpoint | None = None,
    watch: Watch | None = None,
) -> Record:
    """Train by the recipe, write the network to `path` and its record beside it; the record."""
    _check(recipe, dataset)
    model = _trained(recipe, dataset, checkpoint, watch)
    record = {
        "network": path.name,
        **recipe.record(dataset),
        **_tested(recipe, model, dataset, watch),
    }
    _write(recipe, model, dataset, path)
    write_whole(path.with_suffix(".json"), f"{json.dumps(record, indent=1)}\n".encode())
    if checkpoint is not None:
        checkpoint.remove()
    return record


def _trained(
    recipe: Recipe, dataset: Dataset, checkpoint: Checkpoint | None, watch: Watch | None
) -> Model:
    fit = Fit(lambda: recipe.build(dataset), dataset.train, recipe.training)
    if checkpoint is not None:
        checkpoint.restore(fit)
    while not fit.is_done:
        progress = fit.step()
        if checkpoint is not None:
            checkpoint.offer(fit)
        if watch is not None:
            watch(progress)
    if checkpoint is not None:
        checkpoint.write(fit)
    return fit.finished()


def _tested(recipe: Recipe, model: Model, dataset: Dataset, watch: Watch | None) -> dict[str, Json]:
    attack, test = recipe.test_attack, dataset.test
    return {
        "parameters": sum(weight.numel() for weight in model.parameters()),
        "test_images": len(test),
        "accuracy": round(accuracy(model, test, watch=watch), 4),
        "test_epsilon": attack.epsilon,
        "test_steps": attack.steps,
        "accuracy_under_pgd": round(accuracy(model, test, attack, watch=watch), 4),
    }


def _write(recipe: Recipe, model: Model, dataset: Dataset, path: Path) -> None:
    """Write the file once onnxruntime was seen to compute what the model does."""
    written = recipe.exported(model, dataset)
    proto = to_onnx(written, dataset.shape, dataset.classes, f"{dataset.name}_{recipe.model}")
    x = dataset.test.images(slice(_COMPARED))
    with torch.no_grad():
        if not recipe.pixels and dataset.mean:
            x = model[0](x)
        expected = written(x).numpy()
    difference = np.abs(_replayed(proto, x.numpy()) - expected).max()
    if not difference <= _AGREEMENT * max(1.0, np.abs(expected).max()):
        raise InvalidModel(
            f"{path}: not written, as onnxruntime computes outputs that differ by {difference} from "
            "the trained network's; were weights or images not finite?"
        )
    write_whole(path, proto.SerializeToString())


def _replayed(proto: onnx.ModelProto, images: np.ndarray) -> np.ndarray:
    """Outputs `[N, classes]`, one image at a time as the graph is of batch 1."""
    import onnxruntime

    session = onnxruntime.InferenceSession(
        proto.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    outputs = [session.run(None, {"input": image[None]})[0] for image in images]
    return np.concatenate(outputs)


def _check(recipe: Recipe, dataset: Dataset) -> None:
    """Refuse what cannot be trained."""
    if len(dataset.train) == 0 or len(dataset.test) == 0:
        missing = "train on" if len(dataset.train) == 0 else "test on"
        raise InvalidConfig(f"{dataset.name}: there are no images to {missing}")
    for attack in (recipe.training.attack, recipe.test_attack):
        if attack is not None and not 0 <= attack.epsilon <= 1:
            raise InvalidConfig(
                f"epsilon: {attack.epsilon:g}; expected at most 1, as pixels are in [0, 1] (8 of 255 levels "
                "are 8/255)"
            )
