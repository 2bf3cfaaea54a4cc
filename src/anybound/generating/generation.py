"""Properties for a network, one image after the other; see `anybound.generating.folder` for what is written.

For an image that is classified correctly, ε lies between what bounds prove and what an attack breaks:

    ε = holds + at · (violated − holds),    0 <= at <= 1
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from decimal import ROUND_DOWN, ROUND_UP, Decimal
from functools import cached_property
from pathlib import Path

import numpy as np

from anybound.deciding import opened
from anybound.errors import InvalidModel
from anybound.generating.bracket import Bracket, Prober
from anybound.generating.folder import Folder
from anybound.generating.image_space import ImageSpace, Normalisation
from anybound.generating.question import Point, Question
from anybound.io.files import read_bytes
from anybound.io.records import Json, Record, RecordFile
from anybound.io.vnnlib import read_vnnlib
from anybound.outcome import Verdict
from anybound.registry import INTERMEDIATES, METHODS
from anybound.training.datasets.dataset import Dataset

__all__ = ["Choices", "Generation"]

_EXPECTED = {Verdict.HOLDS: "unsat", Verdict.VIOLATED: "sat"}
_DIGITS = 3  # of ε, as in the paper's data sets


@dataclass(frozen=True)
class Choices:
    """What is asked of every image. `target` is a class drawn at random, the runner-up, or all others."""

    target: str = "random"
    at: float = 0.5
    precision: float = 0.05
    method: str = "slopes"
    intermediate: str = "auto"
    clipped: bool = True
    packed: bool = False
    seed: int = 0

    def record(self) -> dict[str, Json]:
        """As plain data."""
        return {**self.__dict__, "method": repr(METHODS.parse(self.method))}


@dataclass(frozen=True, eq=False)
class Generation:
    """A network, the images that properties are balls around, and what is asked."""

    network: Path
    dataset: Dataset
    normalisation: Normalisation
    choices: Choices
    folder: Folder

    def begin(self, file: RecordFile) -> dict[int, Record]:
        """Prepare the folder; the records by image that an earlier run left."""
        self.check()
        return self.folder.begin(file, self._settings(), read_bytes(self.network))

    def records(self, images: Iterable[int], file: RecordFile) -> Iterator[Record]:
        """The records of these images. A property is written before its record."""
        for image in images:
            record = self._record(image)
            file.append(record)
            yield record

    def check(self) -> None:
        """Refuse what cannot be used, before anything is written."""
        _ = self._prober, self._space, self._classes

    def _settings(self) -> Record:
        return {
            "name": self.network.name,
            **self.choices.record(),
            "network": hashlib.sha256(read_bytes(self.network)).hexdigest(),
            "images": self.dataset.test.digest(),
            "mean": list(self.normalisation[0]),
            "std": list(self.normalisation[1]),
        }

    def _record(self, image: int) -> Record:
        label = int(self.dataset.test.labels[image])
        (pixels,) = self.dataset.test.images(slice(image, image + 1))
        center = self._space.point(pixels)
        scores = self._prober.original(center.astype(np.float64))
        predicted = int(scores.argmax())
        record = {"image": image, "label": label, "predicted": predicted, "property": None}
        if predicted != label or (scores >= scores[label]).sum() > 1:
            return {**record, "reason": "misclassified"}
        others = self._others(image, label, scores)
        question = Question(center, label, others, self._classes, self._valid)
        bracket = self._prober.bracket(question)
        if bracket.violated is None:
            return {**record, "reason": "the attack breaks it at no radius"}
        epsilon = self._epsilon(bracket.holds, bracket.violated)
        if float(epsilon) == 0:
            return {**record, "reason": "nothing is proved at any radius"}
        margin = float(scores[label] - scores[list(others)].max())
        found = self._written(image, question, epsilon, bracket, margin)
        return {**record, "property": found, "reason": ""}

    def _others(self, image: int, label: int, scores: np.ndarray) -> tuple[int, ...]:
        others = [other for other in range(self._classes) if other != label]
        if self.choices.target == "all":
            return tuple(others)
        if self.choices.target == "runner-up":
            return (max(others, key=lambda other: float(scores[other])),)
        random = np.random.default_rng((self.choices.seed, image))  # whatever was done before
        return (others[int(random.integers(len(others)))],)

    def _epsilon(self, holds: float, violated: float) -> str:
        """Three digits, rounded towards the end of the bracket that is closer."""
        at = self.choices.at
        value = Decimal(holds + at * (violated - holds))
        if value == 0:
            return "0"
        unit = Decimal(1).scaleb(value.adjusted() - _DIGITS + 1)
        rounded = value.quantize(unit, ROUND_DOWN if at <= 0.5 else ROUND_UP)
        return f"{rounded.normalize():f}"

    def _written(
        self, image: int, question: Question, epsilon: str, bracket: Bracket, margin: float
    ) -> Record:
        """Write the property; what is said of it is found out from the file."""
        target = question.others[0] if len(question.others) == 1 else None
        asked = "any other class" if target is None else f"target {target}"
        about = f"{self.network.name}, {self.dataset.name} test image {image}, class {question.label}, {asked}"
        kind = "" if target is None else f"-target{target}"
        stem = self.folder.network.removesuffix(".gz").removesuffix(".onnx")
        name = f"{stem}-idx{image}{kind}-eps{epsilon}.vnnlib{'.gz' if self.choices.packed else ''}"
        self.folder.write(name, question.text(epsilon, f"{about}, eps {epsilon}"))
        outcome = self._prober.decided(read_vnnlib(self.folder.path / "vnnlib" / name))
        return {
            "name": name,
            "idx": image,
            "label": question.label,
            "target": target,
            "epsilon": epsilon,
            "holds": bracket.holds,
            "violated": bracket.violated,
            "margin": margin,
            "expected": _EXPECTED.get(outcome.verdict, "unknown"),
        }

    @cached_property
    def _prober(self) -> Prober:
        original, network = opened(self.network)
        method, intermediate = self.choices.method, self.choices.intermediate
        return Prober(
            network,
            original,
            METHODS.parse(method),
            INTERMEDIATES.parse(intermediate),
            self.choices.precision,
            self.choices.seed,
        )

    @cached_property
    def _classes(self) -> int:
        size = self._prober.network.output_size
        if size != self.dataset.classes:
            raise InvalidModel(
                f"{self.network}: has {size} outputs, but {self.dataset.name} has "
                f"{self.dataset.classes} classes"
            )
        return size

    @cached_property
    def _space(self) -> ImageSpace:
        shape = tuple(self._prober.network.input_shape)
        return ImageSpace.of(shape, self.dataset.shape, self.normalisation)

    @cached_property
    def _valid(self) -> tuple[Point, Point] | None:
        return self._space.valid() if self.choices.clipped else None
