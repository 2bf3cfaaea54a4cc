"""Iteration counts for equal time on this machine, as the paper chose its own: Proximal's 400 set the time.

    count = 400 · (seconds of a pass of Proximal) / (seconds of an iteration of the method)

The time of an iteration is the slope between a short and a longer run, on the first images of every network.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np

from anybound.bound.decomposition import Decomposition
from anybound.bound.method import Stopped, maximise
from anybound.errors import InvalidInput
from anybound.experiments.cases import Source
from anybound.experiments.incomplete import duals
from anybound.experiments.rows import Counts
from anybound.registry import METHODS

__all__ = ["equal_time", "kept"]

_SHORT, _LONG, _AGAIN, _IMAGES = 20, 80, 3, 2


def equal_time(source: Source, roles: Sequence[str]) -> Counts:
    """Counts with which DSG+ and Supergradient take as long as Proximal with the paper's."""
    paper = Counts()
    seconds: dict[str, list[float]] = {"dsg": [], "supergradient": [], "proximal": []}
    for role in roles:
        for case in source.cases(role, _IMAGES):
            dual = duals(case).search
            for method, found in seconds.items():
                found.append(_per_iteration(dual, method))
    each = {method: float(np.mean(found)) for method, found in seconds.items()}
    total = paper.proximal * each["proximal"]
    return Counts(
        dsg=_even(total / each["dsg"]),
        supergradient=_even(total / each["supergradient"]),
        proximal=paper.proximal,
    )


def kept(path: Path, source: Source, roles: Sequence[str]) -> Counts:
    """The counts that a run began with, so that it goes on with them; else tuned now and written."""
    if path.is_file():
        try:
            return Counts(**json.loads(path.read_text("utf-8")))
        except (ValueError, TypeError):
            raise InvalidInput(f"{path}: holds no iteration counts; remove it") from None
    counts = equal_time(source, roles)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(asdict(counts)) + "\n", "utf-8")
    return counts


def _per_iteration(dual: Decomposition, method: str) -> float:
    least = [
        min(_seconds(dual, f"{method}(iterations={n})") for _ in range(_AGAIN))
        for n in (_SHORT, _LONG)
    ]
    return max((least[1] - least[0]) / (_LONG - _SHORT), 1e-7)


def _seconds(dual: Decomposition, text: str) -> float:
    start = time.process_time()
    if maximise(dual, METHODS.parse(text)).stopped is Stopped.INTERRUPTED:
        raise KeyboardInterrupt
    return time.process_time() - start


def _even(count: float) -> int:
    """A multiple of 20, so that half of it is a count as well; at least one such."""
    return max(20, 20 * round(count / 20))
