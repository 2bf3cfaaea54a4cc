"""All benchmarks, one after the other.

    python benchmarks/run.py [--short] [--only iteration search …] [-o FOLDER]

`--short` takes a few minutes: fewer sizes, methods and instances. Benchmarks that need the corpus are left out, with a
word, where it is not at hand; those that do not run on the bundled networks then. Tables are printed, records go to
the folder; exit code 1 if a benchmark failed.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cases import BUNDLED, default_names
from records import add_output

_HERE = Path(__file__).parent
_SCRIPTS = ("--tool", f"scripts={_HERE.parent / 'scripts' / 'vnncomp'}")


@dataclass(frozen=True)
class Benchmark:
    """A script, its arguments in both forms, and what it needs; `output` is its file if it takes no folder."""

    name: str
    short: Sequence[str] = ()
    full: Sequence[str] = ()
    corpus: bool = False
    output: str = ""


ALL = (
    Benchmark("iteration", ("--batches", "9", "64", "--runs", "2")),
    Benchmark("bounds", ("--images", "6", "--methods", "wk", "crown", "slopes(iterations=10)",
                         "supergradient(iterations=100)", "proximal(iterations=100)"), corpus=True),
    Benchmark("compact", ("base",), corpus=True),
    Benchmark("affine"),
    Benchmark("search", ("--instances", "digits_dense", "digits_conv", "--timeout", "30")),
    Benchmark("start", ("--runs", "2"), ("--cold",)),
    Benchmark("scaling", ("--widths", "4", "8", "16", "--depths", "2", "3", "4",
                          "--batches", "16", "64", "256")),
    Benchmark("complete", ("--count", "1", "--timeout", "20", "--networks", "base", "--rows",
                           "anybound"), corpus=True),
    Benchmark("certificates", ("--count", "1", "--timeout", "20", "--patience", "20",
                               "--benchmarks", "paper_base_kw"), corpus=True,
              output="certificates.jsonl"),
    Benchmark("peers", (*_SCRIPTS, "--count", "3", "--timeout", "30"), _SCRIPTS),
)  # fmt: skip


def main() -> None:
    names = [benchmark.name for benchmark in ALL]
    parser = ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--short", action="store_true", help="a few minutes")
    parser.add_argument("--only", nargs="+", choices=names, default=names)
    add_output(parser)
    options = parser.parse_args()
    has_corpus = tuple(default_names()) != tuple(BUNDLED)
    failed = []
    for benchmark in ALL:
        if benchmark.name not in options.only:
            continue
        if benchmark.corpus and not has_corpus:
            print(f"\n# {benchmark.name}: left out; set ANYBOUND_BENCHMARKS to the corpus\n")
        elif not succeeds(benchmark, options):
            failed.append(benchmark.name)
    if failed:
        raise SystemExit(f"failed: {', '.join(failed)}")


def succeeds(benchmark: Benchmark, options: Namespace) -> bool:
    """Run a script, which prints for itself; then how long it took."""
    arguments = [*(benchmark.short if options.short else benchmark.full)]
    if benchmark.name not in ("affine", "compact"):  # which only print
        arguments += ["-o", str((options.output / benchmark.output).resolve())]
    print(f"\n# {benchmark.name} {' '.join(arguments)}\n", flush=True)
    command = [sys.executable, str(_HERE / f"{benchmark.name}.py"), *arguments]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "ANYBOUND_PYTHON": sys.executable}
    start, before = time.monotonic(), os.times()
    done = subprocess.run(command, check=False, env=environment).returncode == 0
    after = os.times()
    used = (
        after.children_user + after.children_system - before.children_user - before.children_system
    )
    print(f"\n({used:.0f} CPU seconds, {time.monotonic() - start:.0f} of the clock)", flush=True)
    return done


if __name__ == "__main__":
    main()
