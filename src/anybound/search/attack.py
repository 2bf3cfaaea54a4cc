"""The protocol of an attack: a stream of points that approach the unsafe set.

An attack yields every batch of points it has evaluated, best or not, and may go on for ever.
Whoever consumes the stream (`anybound.search.witness`) keeps the best, checks what looks like a
witness, watches the clock and stops; so an attack knows neither time nor success, and cannot return
an unchecked one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from anybound.search.margins import Margins


class Tried(NamedTuple):
    """Points `[C, S, *input_shape]` and their margins `[C, S]`."""

    points: Tensor
    margins: Tensor


@dataclass(frozen=True)
class Attack(ABC):
    """A frozen record of hyper-parameters."""

    @abstractmethod
    def run(self, margins: Margins, starts: Tensor, generator: torch.Generator) -> Iterator[Tried]:
        """Points of the input set with falling margins.

        `starts` `[C, K, *input_shape]`, K may be 0, are points that others consider promising."""
