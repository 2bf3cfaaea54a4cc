"""Write the properties that come with the package, in VNN-LIB 1.0, and what is known of them.

    python experiments/make_properties.py src/anybound/data

Reads the networks there (see train.py). A label `sat` is written only with a witness at hand:
found by projected gradient descent, in the box as its decimals say, and replayed in onnxruntime.
The labels `unsat` were proved once, by mixed-integer programming with HiGHS (ReLU) and by interval
propagation (sigmoid), with margins of 0.3 and more; here the attack has to fail on them.
"""

import csv
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import torch
from numpy.typing import NDArray
from torch import Tensor

from anybound.training.architectures import ARCHITECTURES
from anybound.training.datasets.dataset import Dataset
from anybound.training.datasets.digits import digits
from anybound.training.onnx_export import load_weights

_TIMEOUT = 60
_STARTS, _STEPS = 32, 40

Box = list[tuple[Decimal, Decimal]]


@dataclass(frozen=True)
class Spec:
    """Around each of the images (of one class), is any of the unsafe sets of outputs reachable?

    The images are numbers in the test set. Without `all_of`, an output is unsafe if any other class
    scores at least as high as the true one; with it, if all the classes listed do.
    """

    network: str
    images: tuple[int, ...]
    epsilon: str
    expected: str
    all_of: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        """The name of the property's file."""
        images = "_".join(map(str, self.images))
        conjunction = "".join(f"_and{other}" for other in self.all_of)
        return f"digits_{self.network}_image{images}{conjunction}_eps{self.epsilon}.vnnlib"

    def label(self, dataset: Dataset) -> int:
        """The class that the images share."""
        labels = {int(dataset.test.labels[image]) for image in self.images}
        if len(labels) != 1:
            raise ValueError(f"{self.name}: images of several classes, {sorted(labels)}")
        return labels.pop()

    def boxes(self, dataset: Dataset) -> list[Box]:
        """One box for each image, within the valid range; exact, as pixels are sixteenths."""
        radius = Decimal(self.epsilon)
        images = [dataset.test.pixels[image].flatten().tolist() for image in self.images]
        return [
            [
                (max(Decimal(x) - radius, Decimal(0)), min(Decimal(x) + radius, Decimal(1)))
                for x in image
            ]
            for image in images
        ]

    def clauses(self, dataset: Dataset) -> list[list[int]]:
        """Disjunction of conjunctions: the classes that score at least as high as the true one."""
        if self.all_of:
            return [list(self.all_of)]
        return [[other] for other in range(dataset.classes) if other != self.label(dataset)]


SPECS = (
    Spec("dense", (0,), "0.05", "unsat"),
    Spec("dense", (4,), "0.1", "sat"),
    Spec("dense", (2, 5), "0.08", "unsat"),
    Spec("conv", (4,), "0.05", "unsat"),
    Spec("conv", (11,), "0.15", "sat"),
    Spec("conv", (11,), "0.15", "unsat", all_of=(3, 8)),
    Spec("residual", (5,), "0.02", "unsat"),
    Spec("residual", (2,), "0.03", "unsat"),
    Spec("residual", (5,), "0.06", "sat"),
    Spec("sigmoid", (7,), "0.05", "unsat"),
    Spec("sigmoid", (2,), "0.1", "sat"),
    Spec("sigmoid", (8,), "0.055", "sat"),
)


def render(spec: Spec, dataset: Dataset) -> str:
    """The text of the property's file."""
    boxes, label = spec.boxes(dataset), spec.label(dataset)
    images = " or ".join(f"test image {image}" for image in spec.images)
    lines = [f"; digits_{spec.network}: {images} (a {label}), each pixel within {spec.epsilon}"]
    lines += [f"(declare-const X_{i} Real)" for i in range(len(boxes[0]))]
    lines += [f"(declare-const Y_{j} Real)" for j in range(dataset.classes)]
    if len(boxes) == 1:
        lines += [f"(assert {bound})" for bound in _bounds(boxes[0])]
    else:
        alternatives = "\n".join(f"  (and {' '.join(_bounds(box))})" for box in boxes)
        lines.append(f"(assert (or\n{alternatives}\n))")
    clauses = spec.clauses(dataset)
    if len(clauses) == 1:
        lines += [f"(assert (>= Y_{other} Y_{label}))" for other in clauses[0]]
    else:
        unsafe = "\n".join(f"  (and (>= Y_{other} Y_{label}))" for (other,) in clauses)
        lines.append(f"(assert (or\n{unsafe}\n))")
    return "\n".join(lines) + "\n"


def find_witness(spec: Spec, dataset: Dataset, path: Path) -> NDArray[np.float32] | None:
    """An input `[1, C, H, W]` in a box of the property whose output is unsafe, if one is found."""
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    for box in spec.boxes(dataset):
        for x in _descend(spec, dataset, path, box):
            (output,) = session.run(None, {"input": x})
            if is_witness(spec, dataset, x, output[0]):
                return x
    return None


def is_witness(
    spec: Spec, dataset: Dataset, x: NDArray[np.float32], output: NDArray[np.float32]
) -> bool:
    """Whether `x` lies in a box and `output` in the unsafe set, both exactly."""
    values = [Decimal(value) for value in x.ravel().tolist()]
    inside = any(
        all(lower <= value <= upper for value, (lower, upper) in zip(values, box, strict=True))
        for box in spec.boxes(dataset)
    )
    score = output[spec.label(dataset)]
    return inside and any(
        all(output[other] >= score for other in clause) for clause in spec.clauses(dataset)
    )


def main(arguments: Sequence[str]) -> int:
    """Write properties/*.vnnlib, instances.csv and expected.csv into the folder given."""
    if len(arguments) != 1:
        print("usage: python experiments/make_properties.py FOLDER", file=sys.stderr)
        return 2
    folder, dataset = Path(arguments[0]), digits()
    torch.set_num_threads(1)
    (folder / "properties").mkdir(exist_ok=True)
    for spec in SPECS:
        witness = find_witness(spec, dataset, folder / "networks" / f"digits_{spec.network}.onnx")
        if (witness is not None) != (spec.expected == "sat"):
            print(f"{spec.name}: {spec.expected}, but the attack says otherwise", file=sys.stderr)
            return 1
        (folder / "properties" / spec.name).write_text(render(spec, dataset))
    instances = [(f"networks/digits_{s.network}.onnx", f"properties/{s.name}") for s in SPECS]
    _write_csv(folder / "instances.csv", [(*pair, str(_TIMEOUT)) for pair in instances])
    labels = [(*pair, spec.expected) for pair, spec in zip(instances, SPECS, strict=True)]
    _write_csv(folder / "expected.csv", [("onnx", "vnnlib", "expected"), *labels])
    return 0


def _bounds(box: Box) -> list[str]:
    return [
        constraint
        for i, (lower, upper) in enumerate(box)
        for constraint in (f"(>= X_{i} {_decimal(lower)})", f"(<= X_{i} {_decimal(upper)})")
    ]


def _decimal(value: Decimal) -> str:
    return f"{value.normalize():f}"


def _descend(spec: Spec, dataset: Dataset, path: Path, box: Box) -> list[NDArray[np.float32]]:
    """For each clause the best of several runs, by the clause's smallest margin."""
    model = ARCHITECTURES[spec.network](dataset.shape, dataset.classes)
    load_weights(model, onnx.load(path))
    lower, upper = _inwards(box, dataset.shape)
    random = torch.Generator().manual_seed(0)
    found = []
    for clause in spec.clauses(dataset):
        x = lower + torch.rand(_STARTS, *dataset.shape, generator=random) * (upper - lower)
        for step in np.linspace(0.25, 0.005, _STEPS):
            x.requires_grad_(True)
            (gradient,) = torch.autograd.grad(_margin(model(x), spec, dataset, clause).sum(), x)
            ascended = x.detach() + float(step) * (upper - lower) * gradient.sign()
            x = torch.minimum(torch.maximum(ascended, lower), upper)
        best = _margin(model(x), spec, dataset, clause).argmax()
        found.append(x[best : best + 1].numpy())
    return found


def _margin(output: Tensor, spec: Spec, dataset: Dataset, clause: list[int]) -> Tensor:
    """At least 0 where all of the clause's classes score at least as high as the true one."""
    label = spec.label(dataset)
    return (output[:, clause] - output[:, label : label + 1]).amin(dim=1)


def _inwards(box: Box, shape: tuple[int, int, int]) -> tuple[Tensor, Tensor]:
    """The box in float32, rounded so that none of its numbers lies outside the decimals."""
    lower = np.array([_round(low, towards=np.inf) for low, _ in box], dtype=np.float32)
    upper = np.array([_round(high, towards=-np.inf) for _, high in box], dtype=np.float32)
    return torch.from_numpy(lower).reshape(shape), torch.from_numpy(upper).reshape(shape)


def _round(value: Decimal, towards: float) -> np.float32:
    nearest = np.float32(float(value))
    beyond = Decimal(float(nearest)) < value if towards > 0 else Decimal(float(nearest)) > value
    return np.nextafter(nearest, np.float32(towards)) if beyond else nearest


def _write_csv(path: Path, rows: Sequence[tuple[str, ...]]) -> None:
    with path.open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(rows)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
