"""Checkpoints: the state of a training in a file that is whole at every instant, whatever is killed.

A checkpoint is an archive of arrays (.npz) and is read without unpickling. It also holds what the
training was asked for and which images it saw: with anything else the state would be wrong.
"""

from __future__ import annotations

import json
import os
import time
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from anybound.errors import InvalidConfig, InvalidInput
from anybound.training.fit import Fit

__all__ = ["Checkpoint", "write_whole"]

_RECIPE = "recipe"


@dataclass
class Checkpoint:
    """The file of one training, written every `seconds` at most."""

    path: Path
    recipe: Mapping[str, object]
    seconds: float = 10.0
    _written: float = field(default_factory=time.monotonic)

    def restore(self, fit: Fit) -> bool:
        """Let a training go on from the file; whether there was one."""
        try:
            with np.load(self.path, allow_pickle=False) as archive:
                state = {name: archive[name] for name in archive.files}
            self._compare(json.loads(str(state.pop(_RECIPE))))
            fit.restore(state)
        except FileNotFoundError:
            return False
        except (
            InvalidInput,
            KeyError,
            OSError,
            EOFError,
            RuntimeError,
            TypeError,
            ValueError,
            zipfile.BadZipFile,
        ) as error:
            raise InvalidInput(
                f"{self.path}: no checkpoint of this training ({error}); remove it to begin anew"
            ) from None
        return True

    def offer(self, fit: Fit) -> None:
        """Write the state, if the last time is long enough ago."""
        if time.monotonic() - self._written >= self.seconds:
            self.write(fit)

    def write(self, fit: Fit) -> None:
        """Write the state."""
        recipe = np.array(json.dumps(self.recipe))
        partial = self.path.with_name(f"{self.path.name}.partial")
        with partial.open("wb") as file:
            np.savez(file, **{_RECIPE: recipe}, **fit.state())  # type: ignore[arg-type]  # arrays
            file.flush()
            os.fsync(file.fileno())
        partial.replace(self.path)
        self._written = time.monotonic()

    def remove(self) -> None:
        """The training is done, and what it made is written."""
        self.path.unlink(missing_ok=True)

    def _compare(self, other: object) -> None:
        if not isinstance(other, dict):
            raise TypeError("its recipe cannot be read")
        for name in {**self.recipe, **other}:
            if self.recipe.get(name) != other.get(name):
                raise InvalidConfig(
                    f"{self.path}: holds a training with {name} {other.get(name)}, not "
                    f"{self.recipe.get(name)}; go on with that, or remove it to begin anew"
                )


def write_whole(path: Path, content: bytes) -> None:
    """Write a file such that there is the old one or the new one, at any instant."""
    partial = path.with_name(f"{path.name}.partial")
    with partial.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)
