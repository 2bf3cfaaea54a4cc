"""`anybound generate NET -o FOLDER`: properties around images, neither easy to prove nor to break.

A run that was killed goes on where it was, and ends with the same files.
"""

from __future__ import annotations

import argparse
import time
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anybound.cli.command import Command, Example
from anybound.cli.live import Display, clock, display
from anybound.cli.output import Output, Record
from anybound.cli.parser import Parser, number, positive_int, seconds, whole
from anybound.cli.plugin_text import plugin_text
from anybound.cli.training import add_dataset_options, dataset_of
from anybound.errors import InvalidConfig, InvalidInput

if TYPE_CHECKING:
    from anybound.generating.generation import Choices, Generation
    from anybound.generating.image_space import Normalisation
    from anybound.io.records import RecordFile

__all__ = ["COMMAND"]

# Records are plain JSON data, whose types the type checker cannot follow by key.
Data = Any
_COUNT, _TIMEOUT = 100, 3600.0


def _configure(parser: Parser) -> None:
    parser.add_argument("network", metavar="NET", help="the network, .onnx or .onnx.gz")
    parser.add_argument(
        "-o", "--output", metavar="FOLDER", required=True, help="where to put files and lists"
    )
    add_dataset_options(parser)
    parser.add_argument(
        "--start", metavar="I", type=whole, default=0, help="the first test image (default: 0)"
    )
    parser.add_argument(
        "--count", metavar="N", type=positive_int, default=_COUNT, help="images (default: 100)"
    )
    parser.add_argument(
        "--target",
        choices=("random", "runner-up", "all"),
        default="random",
        help="the class that may not score as high as the true one (default: random)",
    )
    parser.add_argument(
        "--at",
        metavar="T",
        type=_share,
        default=0.5,
        help="where the radius lies from what bounds prove, 0, to what the attack breaks, 1 "
        "(default: 0.5)",
    )
    parser.add_argument(
        "--precision",
        metavar="P",
        type=number,
        default=0.05,
        help="width of either bisection as a share of its upper end (default: 0.05)",
    )
    _add_form(parser)


def _add_form(parser: Parser) -> None:
    """What proves, how the network reads images, and the form of the files."""
    parser.add_argument(
        "--method", metavar="M", type=plugin_text, help="what proves (default: slopes)"
    )
    parser.add_argument(
        "--intermediate",
        metavar="M",
        type=plugin_text,
        help="how hidden layers are bounded (default: auto)",
    )
    parser.add_argument(
        "--mean",
        metavar="X",
        type=number,
        nargs="+",
        help="the network reads (pixel - mean) / std, a number for each channel (default: as NET.json "
        "says)",
    )
    parser.add_argument("--std", metavar="X", type=number, nargs="+", help="see --mean")
    parser.add_argument(
        "--unclipped",
        action="store_true",
        help="balls may leave the range of valid images, as the paper's do",
    )
    parser.add_argument("--gzip", action="store_true", help="write .vnnlib.gz")
    parser.add_argument(
        "--timeout",
        metavar="S",
        type=seconds,
        default=_TIMEOUT,
        help="seconds that instances.csv grants each (default: 3600)",
    )
    parser.add_argument("--seed", metavar="N", type=whole, default=0, help="of all that is random")


def _share(text: str) -> float:
    value = number(text)
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0 to 1")
    return value


def _run(options: Namespace, output: Output) -> int:
    started = time.monotonic()
    from anybound.io.records import RecordFile
    from anybound.runtime.signals import sigterm_interrupts
    from anybound.threads import at_most

    generation = _generation(options)
    generation.check()
    if options.start >= len(generation.dataset.test):
        raise InvalidConfig(
            f"--start: {options.start}; there are {len(generation.dataset.test)} test images"
        )
    with (
        RecordFile(generation.folder.records) as file,
        sigterm_interrupts(),
        display(output, started) as shown,
        at_most(options.threads),
    ):
        known = generation.begin(file)
        try:
            records = _generated(generation, known, options, file, shown)
        finally:
            generation.folder.list(options.timeout)
    summary = {**_summary(records), "folder": options.output, "seconds": time.monotonic() - started}
    if 2 * summary["misclassified"] > summary["images"] and not generation.normalisation[0]:
        output.note(
            "most images are misclassified: if the network reads normalised ones, say so with --mean and --std"
        )
    from anybound.cli.views import generation_view

    output.result(summary, lambda: generation_view(summary))
    return 0


def _generation(options: Namespace) -> Generation:
    from anybound.generating.folder import Folder
    from anybound.generating.generation import Generation

    network, folder = Path(options.network), Path(options.output)
    if folder.exists() and not folder.is_dir():
        raise InvalidInput(f"{folder}: is a file, expected a folder")
    return Generation(
        network,
        dataset_of(options),
        _normalisation(options),
        _choices(options),
        Folder(folder, network.name),
    )


def _choices(options: Namespace) -> Choices:
    from anybound.generating.generation import Choices

    if not 0 < options.precision < 1:
        raise InvalidConfig(f"--precision: {options.precision}; expected a number between 0 and 1")
    return Choices(
        options.target,
        options.at,
        options.precision,
        options.method or "slopes",
        options.intermediate or "auto",
        not options.unclipped,
        options.gzip,
        options.seed,
    )


def _normalisation(options: Namespace) -> Normalisation:
    from anybound.generating.image_space import normalisation_of

    if options.mean is None and options.std is None:
        return normalisation_of(Path(options.network))
    mean, std = tuple(options.mean or ()), tuple(options.std or ())
    if len(mean) != len(std) or any(value <= 0 for value in std):
        raise InvalidConfig("--mean and --std: expected as many numbers, those of --std above 0")
    return mean, std


def _generated(
    generation: Generation,
    known: dict[int, Record],
    options: Namespace,
    file: RecordFile,
    shown: Display,
) -> list[Record]:
    """The records of all images asked for."""
    end = min(options.start + options.count, len(generation.dataset.test))
    images = range(options.start, end)
    found = {image: known[image] for image in images if image in known}
    if found:
        shown.note(f"{len(found)} of {len(images)} images are done already")
    shown.show(lambda passed: _so_far(len(found), len(images), passed))
    for record in generation.records((i for i in images if i not in known), file):
        found[_image(record)] = record
        shown.note(_line(record, len(found), len(images)))
    return list(found.values())


def _image(record: Data) -> int:
    return int(record["image"])


def _so_far(done: int, total: int, passed: float) -> str:
    return f"{done} of {total} images, {clock(passed)}"


def _line(record: Data, done: int, total: int) -> str:
    head = f"[{done}/{total}] image {record['image']}"
    prop = record["property"]
    if prop is None:
        return f"{head}: no property: {record['reason']}"
    target = "any other" if prop["target"] is None else prop["target"]
    return (
        f"{head}: class {prop['label']} against {target}, ε = {prop['epsilon']} between "
        f"{prop['holds']:.4g} proved and {prop['violated']:.4g} broken: {prop['expected']}"
    )


def _summary(records: list[Record]) -> dict[str, Any]:
    found: Data = [record["property"] for record in records if record["property"] is not None]
    reasons: Data = [record["reason"] for record in records]
    return {
        "images": len(records),
        "misclassified": reasons.count("misclassified"),
        "properties": len(found),
        "expected": {
            label: sum(prop["expected"] == label for prop in found)
            for label in ("unsat", "sat", "unknown")
        },
    }


COMMAND = Command(
    name="generate",
    summary="write properties of a network around images, neither easy to prove nor to break",
    examples=(
        Example(
            "anybound generate conv.onnx -o conv", "around digits, as an 'anybound bench' list"
        ),
        Example(
            "anybound generate base.onnx --dataset cifar10 --data cifar-10-batches-py "
            "--count 500 -o base",
            "around images; the same command goes on after it was killed",
        ),
        Example(
            "anybound generate cifar_base_kw.onnx --dataset cifar10 --data cifar10_test.npz "
            "--unclipped --gzip -o paper",
            "in the form of the paper's data sets: normalised images, one target, any radius",
        ),
        Example("anybound generate conv.onnx --at 0 --target all -o easy", "what bounds prove"),
    ),
    configure=_configure,
    run=_run,
)
