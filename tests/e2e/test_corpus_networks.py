"""Every network of the development corpus is read rightly, or refused for the right reason.

The oracle is onnxruntime; what is refused must multiply two values that depend on the input.
"""

from __future__ import annotations

import gzip
import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from anybound.errors import UnsupportedModel
from anybound.io.files import read_bytes
from anybound.io.model_info import Model
from anybound.io.onnx_reader import read_onnx
from anybound.io.trust import compare
from anybound.model.network import Network

ROOT = Path(__file__).parents[2]
BENCHMARKS = Path(os.environ.get("ANYBOUND_BENCHMARKS", ROOT / "../shared/benchmarks"))
DEV = BENCHMARKS / "dev"
ATTENTION = {"vit_2023"}

pytestmark = [
    pytest.mark.corpus,
    pytest.mark.skipif(not DEV.is_dir(), reason=f"no benchmarks in {DEV}: set ANYBOUND_BENCHMARKS"),
]


@dataclass(frozen=True)
class Row:
    """A line of the table."""

    benchmark: str
    file: str
    nodes: int
    neurons: int
    parameters: int
    seconds: float
    verdict: str

    def __str__(self) -> str:
        return (
            f"{self.benchmark:22} {self.file[-44:]:44} {self.nodes:5d} {self.neurons:8,d} "
            f"{self.parameters:11,d} {self.seconds:6.3f}  {self.verdict[:100]}"
        )


def unpacked_size(path: Path) -> int:
    if path.suffix != ".gz":
        return path.stat().st_size
    with path.open("rb") as file:
        file.seek(-4, os.SEEK_END)
        return int.from_bytes(file.read(4), "little")


def networks() -> list[Path]:
    """All networks but those that unpack to more than 32 MB, one of which has a test of its own."""
    return [path for path in sorted(DEV.rglob("*.onnx*")) if unpacked_size(path) < 2**25]


def row(path: Path) -> Row:
    benchmark = path.relative_to(DEV).parts[0]
    start = time.perf_counter()
    model = read(path)
    seconds = time.perf_counter() - start
    if isinstance(model, UnsupportedModel):
        return Row(benchmark, path.name, 0, 0, 0, seconds, f"refused: {model}")
    difference = compare(read_bytes(path), model.network, points(model.network))
    return Row(
        benchmark,
        path.name,
        len(model.network.nodes),
        model.network.layout.total,
        sum(model.info.weights.values()),
        seconds,
        f"loaded, within {difference:.1e} of onnxruntime",
    )


def read(path: Path) -> Model | UnsupportedModel:
    try:
        return read_onnx(path)
    except UnsupportedModel as error:
        return error


def points(network: Network) -> list[np.ndarray[tuple[int, ...], np.dtype[np.float64]]]:
    rng = np.random.default_rng(1)
    return [rng.uniform(-1.0, 1.0, network.input_shape) for _ in range(2)]


def test_all_networks(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [row(path) for path in networks()]
    head = f"{'benchmark':22} {'network':44} nodes  neurons  parameters      s  verdict"
    with capsys.disabled():
        sys.stdout.write("\n".join(["", head, *map(str, rows), ""]))
    for r in rows:
        refused = r.verdict.startswith("refused")
        assert refused == (r.benchmark in ATTENTION), r
        assert (
            not refused or "multiplies two values that depend on the network's input" in r.verdict
        )
    assert {r.benchmark for r in rows} == {
        path.name for path in DEV.iterdir() if any(path.rglob("*.onnx*"))
    }


def test_small_benchmarks_are_read_quickly() -> None:
    for benchmark in ("oval21", "acasxu"):
        paths = sorted((DEV / benchmark).rglob("*.onnx"))[:4]
        start = time.process_time()
        for path in paths:
            read_onnx(path)
        assert (time.process_time() - start) / len(paths) <= 0.3


def test_huge_network_of_few_nonzeros_is_read() -> None:
    """Matrices of up to 3072 × 6144 numbers, nearly all of them zero."""
    path = DEV / "tllverifybench_2023/onnx/tllBench_n=2_N=M=48_m=1_instance_5_0.onnx.gz"
    network = read_onnx(path).network
    nonzeros = sum(edge.map.sparse().nnz for node in network.nodes for edge in node.edges)
    assert nonzeros < 10**5
    x = np.random.default_rng(0).uniform(-1.0, 1.0, network.input_shape)
    compare(gzip.decompress(path.read_bytes()), network, [x])
