"""Options about data sets, and what is shown of a training that goes on."""

from __future__ import annotations

import argparse
import math
from argparse import Namespace
from typing import TYPE_CHECKING

from anybound.cli.live import clock
from anybound.cli.parser import Parser, number
from anybound.training.names import DATASETS

if TYPE_CHECKING:
    from rich.console import RenderableType

    from anybound.training.datasets.dataset import Dataset
    from anybound.training.fit import Progress

__all__ = ["TrainingProgress", "add_dataset_options", "dataset_of", "fraction"]


def add_dataset_options(parser: Parser) -> None:
    """Which images."""
    parser.add_argument(
        "--dataset", choices=DATASETS, default="digits", help="which images (default: digits)"
    )
    parser.add_argument(
        "--data",
        metavar="DIR",
        help="where they are: a folder, or an archive as it was fetched; digits need none",
    )


def dataset_of(options: Namespace) -> Dataset:
    """The images that are asked for."""
    from anybound.training.datasets.sources import read_dataset

    return read_dataset(options.dataset, options.data)


def fraction(text: str) -> float:
    """The type of an option that takes a number above zero, such as 0.1 or 8/255."""
    above, _, below = text.partition("/")
    divisor = number(below) if below else 1.0
    value = number(above) / divisor if divisor else math.nan
    if not (math.isfinite(value) and value > 0):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0, such as 0.1 or 8/255")
    return value


class TrainingProgress:
    """The state of what is drawn: where the training is, and how fast it went since it began."""

    def __init__(self) -> None:
        self.known: Progress | None = None
        self.begun = (0.0, 0.0)  # seconds, batches done

    def add(self, known: Progress, seconds: float) -> None:
        """What is known now."""
        if self.known is None or self.known.phase != known.phase:
            self.begun = (seconds, _batches(known))
        self.known = known

    def draw(self, seconds: float) -> RenderableType:
        """A bar and a line below it."""
        from rich.console import Group
        from rich.progress_bar import ProgressBar
        from rich.text import Text

        known = self.known
        if known is None:
            return Text("")
        total, done = known.epochs * known.batches, _batches(known)
        return Group(
            Text(_where(known)),
            ProgressBar(total=total, completed=done, width=60),
            Text(f"{clock(seconds)}{self._left(seconds, total, done)}", style="dim"),
        )

    def _left(self, seconds: float, total: float, done: float) -> str:
        spent, gone = seconds - self.begun[0], done - self.begun[1]
        return "" if gone <= 0 else f", about {clock(spent / gone * (total - done))} left"


def _batches(known: Progress) -> float:
    return (known.epoch - 1) * known.batches + known.batch


def _where(known: Progress) -> str:
    right = f"{known.accuracy:.1%} right"
    if known.phase != "training":
        return f"{known.phase} the trained network: {right}"
    return f"epoch {known.epoch} of {known.epochs}: loss {known.loss:.4f}, {right}"
