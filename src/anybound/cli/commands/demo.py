"""`anybound demo`: bound a bundled network, decide a bundled property, draw pictures of it."""

from __future__ import annotations

import time
from argparse import Namespace
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from anybound.cli.command import Command, Example
from anybound.cli.output import Output, Record
from anybound.cli.parser import Parser
from anybound.errors import MissingDependency

if TYPE_CHECKING:
    from anybound.cli.showcase import ClauseBounds, Region

__all__ = ["COMMAND", "NETWORK", "PROPERTY"]

NETWORK = "networks/digits_residual.onnx"
PROPERTY = "properties/digits_residual_image2_eps0.03.vnnlib"


@dataclass(frozen=True)
class _Files:
    """What the demo leaves in its folder."""

    folder: Path

    @property
    def network(self) -> Path:
        return self.folder / Path(NETWORK).name

    @property
    def property(self) -> Path:
        return self.folder / Path(PROPERTY).name

    def unpack(self) -> None:
        """Copy the bundled files, so that they are at hand for other commands."""
        from importlib.resources import files

        self.folder.mkdir(parents=True, exist_ok=True)
        data = files("anybound") / "data"
        for source, target in ((NETWORK, self.network), (PROPERTY, self.property)):
            target.write_bytes((data / source).read_bytes())


def _configure(parser: Parser) -> None:
    parser.add_argument(
        "folder",
        metavar="FOLDER",
        nargs="?",
        default="anybound-demo",
        help="where to put the files and pictures (default: anybound-demo)",
    )


def _run(options: Namespace, output: Output) -> int:
    demo = _Files(Path(options.folder))
    demo.unpack()
    output.note("1/3 reading a network and a property")
    from anybound.cli.inspection import network_record

    network = network_record(demo.network, demo.property)
    output.note("2/3 bounding the network over the property's inputs")
    started = time.monotonic()
    region, clauses = _bounded(demo)
    seconds = time.monotonic() - started
    output.note("3/3 drawing pictures")
    pictures = _draw(demo.folder, region, clauses, output)
    record = {
        "folder": str(demo.folder),
        "network": network,
        **_bounds_record(region, clauses),
        "seconds": seconds,
        "pictures": [str(picture) for picture in pictures],
    }
    from anybound.cli.views import demo_view

    output.result(record, lambda: demo_view(record))
    return 0


def _bounded(demo: _Files) -> tuple[Region, ClauseBounds]:
    from anybound.cli.showcase import clause_bounds, region_of
    from anybound.io.onnx_reader import read_onnx
    from anybound.io.vnnlib import read_vnnlib

    prop = read_vnnlib(demo.property)
    region = region_of(read_onnx(demo.network).network, prop)
    return region, clause_bounds(region, prop)


def _bounds_record(region: Region, clauses: ClauseBounds) -> Record:
    loose, tight = region.by_intervals, region.by_dual
    return {
        "verdict": "holds" if clauses.unreachable else "unknown",
        "clauses": [{"lower": margin} for margin in clauses.margins.tolist()],
        "outputs": region.outputs.tolist(),
        "interval": {"lower": loose[0].tolist(), "upper": loose[1].tolist()},
        "lower": tight[0].tolist(),
        "upper": tight[1].tolist(),
    }


def _draw(folder: Path, region: Region, clauses: ClauseBounds, output: Output) -> list[Path]:
    """The pictures drawn, or none where matplotlib is missing."""
    from anybound.report.figures import draw_bounds, draw_curves, draw_images

    pictures = [folder / f"{name}.png" for name in ("images", "bounds", "time")]
    lower, upper = region.corners
    images = {"darkest": lower, "centre": region.center, "brightest": upper}
    bounds = {"interval propagation": region.by_intervals, "dual ascent": region.by_dual}
    seconds, worst = zip(*clauses.history, strict=True)
    try:
        draw_images(pictures[0], {name: i.reshape(i.shape[-2:]) for name, i in images.items()})
        draw_bounds(
            pictures[1],
            "Certified bounds of every class; above the dashed line: no other",
            bounds,
            region.outputs,
        )
        draw_curves(
            pictures[2],
            "How the bound of the smallest margin rises",
            {"worst class": (seconds, worst)},
        )
    except MissingDependency as error:
        output.note(f"no pictures: {error}")
        return []
    return pictures


COMMAND = Command(
    name="demo",
    summary="bound a bundled network, decide a bundled property, and draw pictures of it",
    examples=(
        Example("anybound demo", "writes into ./anybound-demo"),
        Example("anybound demo /tmp/demo", "writes elsewhere"),
    ),
    configure=_configure,
    run=_run,
)
