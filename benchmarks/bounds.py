"""Gap to the LP optimum against time, for every method, side by side in one run.

    python benchmarks/bounds.py [--images 6 9] [--kinds madry sgd] [--methods "slopes(10)" …] [-o FOLDER]

Each method bounds the nine margins of an image from the same intermediate bounds (the paper's). The time is the
CPU time of the last layer alone, as in the paper. Writes `bounds.jsonl`, prints a table and draws `bounds.png` and
`bounds.svg`.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch

from anybound.bound.bounds import Bounds
from anybound.bound.decomposition import Decomposition
from anybound.bound.intermediates.wk import BestOfIntervalAndWK
from anybound.bound.method import maximise
from anybound.registry import METHODS
from anybound.spec.problem import Objective, Problem
from corpus import Margins, margins

PAPER = (
    "interval",
    "wk",
    "crown",
    "dsg(iterations=520)",
    "dsg(iterations=1040)",
    "dec_dsg(iterations=1040)",
    "supergradient(iterations=370)",
    "supergradient(iterations=740)",
    "supergradient(iterations=740, schedule=geometric(3e-2, 1e-5))",
    "proximal(iterations=200)",
    "proximal(iterations=400)",
    "slopes(iterations=10)",
    "slopes(iterations=20)",
    "slopes(iterations=50)",
)


@dataclass(frozen=True)
class Record:
    """One method on one image."""

    method: str
    kind: str
    image: int
    seconds: float
    gap: float
    wk_gap: float
    curve_seconds: Sequence[float]
    curve_gap: Sequence[float]


def run(case: Margins, between: Bounds, text: str) -> Record:
    """Mean gap of the nine margins: what the method reports, evaluated rigorously."""
    optimum = case.lp_optimum
    if optimum is None:
        raise SystemExit(
            f"image {case.image} of {case.kind} has no LP optimum in the reference file"
        )
    method = METHODS.parse(text)
    exact = Decomposition.between(
        Problem(case.network, case.domain, Objective.rows(case.network, case.rows)), between
    )
    search = Decomposition.between(exact.problem.to(torch.float32), between.to(torch.float32))
    start = time.process_time()
    found = maximise(search, method)
    seconds = time.process_time() - start
    curve = maximise(search, method, trace=True).trace
    proved = exact.rigorous(found.rho.to(torch.float64))
    if method.reports_own:
        proved = torch.fmin(proved, found.value.double())
    wk = exact.rigorous(METHODS.parse("wk").rho(exact))
    share = seconds / curve[-1].seconds if curve and curve[-1].seconds else 1.0
    return Record(
        text,
        case.kind,
        case.image,
        seconds,
        float((optimum - proved[0].numpy()).mean()),
        float((optimum - wk[0].numpy()).mean()),
        [point.seconds * share for point in curve],
        [float((optimum - point.value[0].double().numpy()).mean()) for point in curve],
    )


def table(records: Sequence[Record]) -> str:
    """One line per method: seconds per image, mean gap, and the gap as a share of WK's, by network."""
    kinds = sorted({r.kind for r in records})
    head = f"{'method':62}" + "".join(f"{k + ' s':>10}{'gap':>10}{'% of WK':>9}" for k in kinds)
    lines = [head]
    for name in dict.fromkeys(r.method for r in records):
        line = f"{name:62}"
        for kind in kinds:
            mine = [r for r in records if r.method == name and r.kind == kind]
            seconds, gap, wk = (
                np.mean([getattr(r, f) for r in mine]) for f in ("seconds", "gap", "wk_gap")
            )
            line += f"{seconds:10.3f}{gap:10.4f}{100 * gap / wk:8.2f}%"
        lines.append(line)
    return "\n".join(lines)


def draw(records: Sequence[Record], folder: Path) -> None:
    """Gap against CPU seconds on log axes, one curve per method, averaged over the images."""
    from matplotlib.figure import Figure

    kinds = sorted({r.kind for r in records})
    figure = Figure(figsize=(5.4 * len(kinds), 4.2), layout="constrained")
    panels = figure.subplots(1, len(kinds), squeeze=False)[0]
    for axes, kind in zip(panels, kinds, strict=True):
        for name in dict.fromkeys(r.method for r in records):
            mine = [r for r in records if r.method == name and r.kind == kind]
            length = min(len(r.curve_gap) for r in mine)
            x = np.mean([r.curve_seconds[:length] for r in mine], axis=0)
            y = np.mean([r.curve_gap[:length] for r in mine], axis=0)
            keep = np.isfinite(y) & (x > 0) & (y > 0)
            axes.plot(x[keep], y[keep], "o-" if keep.sum() < 2 else "-", markersize=4, label=name)
        axes.set(
            xscale="log",
            yscale="log",
            title=f"cifar_{kind}_8px",
            xlabel="CPU seconds per image (9 margins)",
        )
        axes.set_ylabel("mean gap to the LP optimum")
        axes.grid(visible=True, which="major", linewidth=0.4)
    figure.legend(
        *panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=2, fontsize=7
    )
    for suffix in ("png", "svg"):
        figure.savefig(folder / f"bounds.{suffix}", dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--images", type=int, nargs="+", default=[6, 9])
    parser.add_argument("--kinds", nargs="+", default=["madry", "sgd"], choices=["madry", "sgd"])
    parser.add_argument("--methods", nargs="+", default=list(PAPER))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("-o", "--output", type=Path, default=Path("build/benchmarks"))
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    options.output.mkdir(parents=True, exist_ok=True)
    records = []
    with (options.output / "bounds.jsonl").open("w") as file:
        for kind in options.kinds:
            for case in margins(kind, options.images):
                between = BestOfIntervalAndWK().bounds(case.network, case.domain)
                for text in options.methods:
                    records.append(run(case, between, text))
                    file.write(json.dumps(asdict(records[-1])) + "\n")
                    file.flush()
    print(table(records))
    draw(records, options.output)
    print(f"records and pictures are in {options.output}")


if __name__ == "__main__":
    main()
