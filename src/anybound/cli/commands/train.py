"""`anybound train -o NET.onnx`: train one of the paper's networks, or a small one, and write it.

A training that was killed goes on from its checkpoint when the same command is run again, and ends
with the same weights.
"""

from __future__ import annotations

import time
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from anybound.cli.command import Command, Example
from anybound.cli.live import display
from anybound.cli.output import Output
from anybound.cli.parser import Parser, number, positive_int, seconds, whole
from anybound.cli.training import (
    TrainingProgress,
    add_dataset_options,
    dataset_of,
    fraction,
)
from anybound.errors import InvalidConfig
from anybound.io.files import writable
from anybound.training.names import EPSILONS, MODELS

if TYPE_CHECKING:
    from anybound.training.datasets.dataset import Dataset
    from anybound.training.fit import Progress
    from anybound.training.optimisers import Optimiser
    from anybound.training.recipe import Recipe

__all__ = ["COMMAND"]

_EPOCHS, _BATCH, _STEPS = 30, 128, 50


def _configure(parser: Parser) -> None:
    parser.add_argument(
        "-o",
        "--output",
        metavar="NET.onnx",
        required=True,
        help="the network; NET.json tells of it",
    )
    parser.add_argument(
        "--model", choices=MODELS, default="base", help="the architecture (default: base)"
    )
    add_dataset_options(parser)
    parser.add_argument(
        "--training",
        choices=("plain", "pgd"),
        default="plain",
        help="on the images, or on attacked ones, which is Madry's adversarial training",
    )
    radii = ", ".join(f"{name} {epsilon:.4g}" for name, epsilon in EPSILONS.items())
    parser.add_argument(
        "--epsilon",
        metavar="E",
        type=fraction,
        help=f"radius of the attack, of pixels in [0, 1], such as 8/255 (default: {radii})",
    )
    parser.add_argument(
        "--steps",
        metavar="N",
        type=positive_int,
        default=_STEPS,
        help="of the attack (default: 50)",
    )
    _add_fitting(parser)
    parser.add_argument(
        "--checkpoint-every",
        metavar="S",
        type=seconds,
        default=10.0,
        help="seconds between checkpoints, which a killed training goes on from (default: 10)",
    )
    parser.add_argument(
        "--normalised",
        action="store_true",
        help="the network reads normalised images, as the paper's do, instead of pixels in [0, 1]",
    )


def _add_fitting(parser: Parser) -> None:
    """How the weights are fitted."""
    parser.add_argument(
        "--epochs", metavar="N", type=positive_int, default=_EPOCHS, help=f"(default: {_EPOCHS})"
    )
    parser.add_argument(
        "--batch", metavar="N", type=positive_int, default=_BATCH, help=f"(default: {_BATCH})"
    )
    parser.add_argument(
        "--optimiser", choices=("sgd", "adamw"), default="sgd", help="(default: sgd)"
    )
    parser.add_argument(
        "--learning-rate",
        metavar="R",
        type=fraction,
        help="at the start; it falls along a cosine (default: sgd 0.05, adamw 0.005)",
    )
    parser.add_argument(
        "--momentum", metavar="M", type=number, help="of sgd, below 1 (default: 0.9)"
    )
    parser.add_argument(
        "--weight-decay", metavar="W", type=number, help="(default: sgd 0.0005, adamw 0.0001)"
    )
    parser.add_argument("--seed", metavar="N", type=whole, default=0, help="(default: 0)")
    parser.add_argument(
        "--limit", metavar="N", type=positive_int, help="only the first N images, for a try"
    )


def _run(options: Namespace, output: Output) -> int:
    started = time.monotonic()
    path = _target(options.output)
    recipe = _recipe(options)
    dataset = _limited(dataset_of(options), options.limit)

    import torch

    from anybound.runtime.signals import sigterm_interrupts
    from anybound.training.checkpoint import Checkpoint
    from anybound.training.recipe import make

    asked = {
        **recipe.record(dataset),
        "data": dataset.train.digest(),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
    }
    checkpoint = Checkpoint(
        path.with_name(f"{path.name}.checkpoint"), asked, options.checkpoint_every
    )
    if checkpoint.path.exists():
        output.note(f"going on from {checkpoint.path}")
    progress = TrainingProgress()
    with sigterm_interrupts(), display(output, started) as shown:

        def watch(known: Progress) -> None:
            progress.add(known, time.monotonic() - started)
            shown.show(progress.draw)
            if output.verbose and known.phase == "training" and known.batch == known.batches:
                shown.note(_epoch(known))

        try:
            record = make(recipe, dataset, path, checkpoint, watch)
        except KeyboardInterrupt:
            if checkpoint.path.exists():
                shown.note(f"the same command goes on from {checkpoint.path}")
            raise
    record = {**record, "output": str(path), "seconds": time.monotonic() - started}
    from anybound.cli.views import training_view

    output.result(record, lambda: training_view(record))
    return 0


def _target(name: str) -> Path:
    """The path of the network's file; what cannot be written is refused before hours of training."""
    path = Path(name)
    if path.suffix != ".onnx":
        raise InvalidConfig(f"--output: {name!r}; expected a name that ends in .onnx")
    return writable(path)


def _recipe(options: Namespace) -> Recipe:
    from anybound.training.fit import Training
    from anybound.training.pgd import Pgd
    from anybound.training.recipe import Recipe

    attack = Pgd(options.epsilon or EPSILONS[options.dataset], options.steps)
    training = Training(
        options.epochs,
        options.batch,
        _optimiser(options),
        attack if options.training == "pgd" else None,
        options.seed,
    )
    return Recipe(options.model, training, attack, pixels=not options.normalised)


def _optimiser(options: Namespace) -> Optimiser:
    from anybound.training.optimisers import AdamW, Sgd

    chosen = {
        name: value
        for name in ("learning_rate", "momentum", "weight_decay")
        if (value := getattr(options, name)) is not None
    }
    if not 0 <= chosen.get("momentum", 0) < 1:
        raise InvalidConfig(f"--momentum: {options.momentum}; expected a number from 0 to below 1")
    if chosen.get("weight_decay", 0) < 0:
        raise InvalidConfig(f"--weight-decay: {options.weight_decay}; expected a number >= 0")
    if options.optimiser == "sgd":
        return Sgd(**chosen)
    if "momentum" in chosen:
        raise InvalidConfig("--momentum is of sgd; adamw has none")
    return AdamW(**chosen)


def _limited(dataset: Dataset, limit: int | None) -> Dataset:
    from dataclasses import replace

    return replace(dataset, train=dataset.train.first(limit), test=dataset.test.first(limit))


def _epoch(known: Progress) -> str:
    return (
        f"epoch {known.epoch} of {known.epochs}: loss {known.loss:.4f}, {known.accuracy:.1%} right"
    )


COMMAND = Command(
    name="train",
    summary="train one of the paper's networks, or a small one, and write it as ONNX",
    examples=(
        Example("anybound train --model conv -o conv.onnx", "on the digits of scikit-learn"),
        Example(
            "anybound train --dataset cifar10 --data cifar-10-batches-py --model base -o base.onnx",
            "the paper's base network; the same command goes on after it was killed",
        ),
        Example(
            "anybound train --dataset cifar10 --data cifar-10-python.tar.gz --model small "
            "--training pgd --normalised -o small.onnx",
            "against an attack of 50 steps and ε = 8/255, for normalised images",
        ),
        Example(
            "anybound train --dataset mnist --data mnist --training pgd --epsilon 0.2 "
            "--steps 7 --json -o mnist.onnx",
            "with progress on a terminal, and one JSON object on standard output",
        ),
    ),
    configure=_configure,
    run=_run,
)
