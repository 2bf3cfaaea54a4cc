"""Train one network and write it as ONNX.

    python experiments/train.py --model dense --training pgd --epsilon 0.1 -o dense.onnx

Prints one JSON object: how it was trained and how accurate it is on images it has not seen.
"""

import argparse
import json
import sys
from dataclasses import dataclass
from pathlib import Path

import onnx
import torch

from training.architectures import ARCHITECTURES
from training.datasets import DATASETS
from training.fit import Attack, Training, accuracy, train
from training.onnx_export import to_onnx

_TEST_STEPS = 40  # a stronger attack than the one trained against


@dataclass(frozen=True)
class Recipe:
    """All that determines a network's weights, but for the versions of the libraries."""

    dataset: str
    model: str
    training: Training


def make(recipe: Recipe, path: Path) -> dict[str, object]:
    """Train by the recipe, write the network to `path` and return its record."""
    dataset = DATASETS[recipe.dataset]()
    architecture = ARCHITECTURES[recipe.model]
    model = train(lambda: architecture(dataset.shape, dataset.classes), dataset, recipe.training)
    proto = to_onnx(model, dataset.shape, dataset.classes, f"{recipe.dataset}_{recipe.model}")
    onnx.save(proto, path)
    attack = recipe.training.attack
    record: dict[str, object] = {
        "network": path.name,
        "dataset": recipe.dataset,
        "model": recipe.model,
        "training": "plain" if attack is None else "pgd",
        "epsilon": 0.0 if attack is None else attack.epsilon,
        "epochs": recipe.training.epochs,
        "weight_decay": recipe.training.weight_decay,
        "seed": recipe.training.seed,
        "parameters": sum(weight.numel() for weight in model.parameters()),
        "accuracy": round(accuracy(model, dataset), 4),
    }
    if attack is not None:
        strong = Attack(attack.epsilon, _TEST_STEPS)
        record["accuracy_under_pgd"] = round(accuracy(model, dataset, strong), 4)
    return record


def main(arguments: list[str]) -> int:
    """Run the command line; see the module's docstring."""
    options = _parser().parse_args(arguments)
    torch.set_num_threads(1)  # sums are taken in one order, whatever the machine
    attack = Attack(options.epsilon) if options.training == "pgd" else None
    training = Training(
        epochs=options.epochs, weight_decay=options.weight_decay, attack=attack, seed=options.seed
    )
    record = make(Recipe(options.dataset, options.model, training), options.output)
    print(json.dumps(record))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    default = Training()
    parser.add_argument("--dataset", choices=sorted(DATASETS), default="digits")
    parser.add_argument("--model", choices=sorted(ARCHITECTURES), required=True)
    parser.add_argument("--training", choices=["plain", "pgd"], default="plain")
    parser.add_argument("--epsilon", type=float, default=0.1, help="radius of pgd, in [0, 1]")
    parser.add_argument("--epochs", type=int, default=default.epochs)
    parser.add_argument("--weight-decay", type=float, default=default.weight_decay)
    parser.add_argument("--seed", type=int, default=default.seed)
    parser.add_argument("-o", "--output", type=Path, required=True, help="the .onnx file to write")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
