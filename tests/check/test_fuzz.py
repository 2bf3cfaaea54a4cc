"""The checker on random and on damaged files: an answer, in little time and memory, and never a crash."""

from __future__ import annotations

import io
import resource
import subprocess
import sys
import time
import tracemalloc
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable
from functools import cache
from hashlib import sha256
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper
from random_graphs import RandomGraph
from random_proofs import STYLES, certificate
from tiny_networks import network, text

from anybound.cli import main as module
from anybound_check import check
from anybound_check.arithmetic import Unreadable
from anybound_check.network import read_network
from anybound_check.vnnlib import read_property

Rng = np.random.Generator
SECONDS = 3.0  # of CPU, for one file; a healthy one takes milliseconds
DATA = Path(module.__file__).parents[1] / "data"
PARTS = [b"", b"\x00", b"\xff" * 8, b"1e999", b"-1", b'"', b"[", b"]", b"{}", b",", b":", b"null", b"999999999",
         b"a0", b"manifest.json", b"columns", b"PK\x01\x02", b"PK\x03\x04", b"0.5", b"\\ud800"]  # fmt: skip


def edited(content: bytes, rng: Rng) -> bytes:
    """A few bytes flipped, dropped, doubled, moved, or replaced by something that means something."""
    data = bytearray(content)
    for _ in range(int(rng.integers(1, 4))):
        at, size = int(rng.integers(len(data) + 1)), int(rng.integers(1, 12))
        choice = rng.integers(5)
        if choice == 0 and at < len(data):
            data[at] ^= 1 << int(rng.integers(8))
        elif choice == 1:
            del data[at : at + size]
        elif choice == 2:
            data[at:at] = data[at : at + size]
        elif choice == 3:
            data[at : at + size] = PARTS[rng.integers(len(PARTS))]
        else:
            data[at : at + size] = rng.bytes(size)
    return bytes(data)


@cache
def originals() -> list[tuple[bytes, bytes, bytes]]:
    found, seed = list[tuple[bytes, bytes, bytes]](), 0
    while len(found) < 3:
        seed += 1
        rng = np.random.default_rng(seed)
        model, _ = network(rng, "gemm")
        spec = text([(-0.5, 0.5)] * 2, 2, [[("Y_0", "-0.6")], [("Y_0", "-0.5"), ("Y_1", "-0.5")]])
        proof = certificate(model, spec, rng, STYLES[seed % len(STYLES)])
        if proof is not None and any(len(p.split) > 1 for p in proof.groups[0].proofs):
            found.append((model, spec, proof.to_bytes()))
    return found


def parts(content: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(content)) as file:
        return {name: file.read(name) for name in file.namelist()}


def packed(entries: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as file:
        for name, content in entries.items():
            file.writestr(name, content)
    return buffer.getvalue()


def written(folder: Path) -> list[list[Path]]:
    """Three certificates with their networks and properties, as files."""
    found = []
    for number, files in enumerate(originals()[:3]):
        paths = [folder / f"{number}.{ending}" for ending in ("onnx", "vnnlib", "abc")]
        for path, content in zip(paths, files, strict=True):
            path.write_bytes(content)
        found.append(paths)
    return found


def random_bytes(_: bytes, rng: Rng) -> bytes:
    start = [b"", b"PK\x03\x04", b"sat\n((X_0 ", b"\x1f\x8b"][rng.integers(4)]
    return start + rng.bytes(int(rng.integers(0, 3000)))


def edited_manifest(content: bytes, rng: Rng) -> bytes:
    entries = parts(content)
    return packed(entries | {"manifest.json": edited(entries["manifest.json"], rng)})


def edited_array(content: bytes, rng: Rng) -> bytes:
    entries = parts(content)
    name = [name for name in entries if name != "manifest.json"][rng.integers(len(entries) - 1)]
    return packed(entries | {name: edited(entries[name], rng)})


KINDS: tuple[Callable[[bytes, Rng], bytes], ...] = (
    random_bytes,
    edited,
    edited_manifest,
    edited_array,
)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_a_certificate_gets_an_answer(kind: Callable[[bytes, Rng], bytes], tmp_path: Path) -> None:
    rng, said = np.random.default_rng(zlib.crc32(kind.__name__.encode())), Counter[str]()
    folders = written(tmp_path)
    for turn in range(150):
        paths, content = folders[turn % 3], originals()[turn % 3][2]
        paths[2].write_bytes(kind(content, rng))
        begun = time.process_time()
        report = check(*paths)
        assert time.process_time() - begun < SECONDS
        assert report.valid == (not report.reason)
        assert report.reason.isprintable() or not report.valid
        said["valid" if report.valid else "unreadable" if report.unreadable else "invalid"] += 1
    assert said["unreadable"] > 50


def refused(read: Callable[[], object]) -> bool:
    """Whether the file is refused; anything but the checker's own exception fails the test."""
    begun = time.process_time()
    try:
        with np.errstate(all="ignore"):
            read()
    except Unreadable:
        return True
    finally:
        assert time.process_time() - begun < SECONDS
    return False


def test_a_network_is_read_or_refused() -> None:
    rng, count = np.random.default_rng(1), 0
    for turn in range(400):
        content = edited(originals()[turn % 3][0], rng) if turn < 300 else rng.bytes(turn)
        count += refused(lambda content=content: read_network(content))  # type: ignore[misc]
    assert 100 < count < 400


NAMES = ("strides", "pads", "dilations", "kernel_shape", "group", "axis", "axes", "perm", "alpha", "transB",
         "epsilon", "value", "auto_pad")  # fmt: skip
VALUES = [0, -1, 1, 3, 2**31, -(2**63), 2**62, 0.0, 1e38, float("nan"), b"SAME_UPPER", b"", b"\xff",
          [0], [-1, -1], [2**40, 1], [0, 0, 0, 0], [10**6] * 4, [0.5, 1.5], [b"x"]]  # fmt: skip


def test_attributes_of_any_kind_are_read_or_refused() -> None:
    """Numbers for lists, text for numbers, zero and negative strides, paddings of gigabytes."""
    rng, count = np.random.default_rng(2), 0
    for turn in range(400):
        graph = RandomGraph(rng)
        graph.grow()
        proto = onnx.load_model_from_string(graph.content())
        node = proto.graph.node[rng.integers(len(proto.graph.node))]
        known = [a.name for a in node.attribute] + [NAMES[rng.integers(len(NAMES))]]
        name = known[rng.integers(len(known))]
        for place in [i for i, a in enumerate(node.attribute) if a.name == name][::-1]:
            del node.attribute[place]
        node.attribute.append(helper.make_attribute(name, VALUES[turn % len(VALUES)]))
        content = proto.SerializeToString()
        count += refused(lambda content=content: read_network(content))  # type: ignore[misc]
    assert 100 < count < 400


def test_a_property_is_read_or_refused() -> None:
    rng, count = np.random.default_rng(3), 0
    words = [
        b"(",
        b")",
        b"and",
        b"or",
        b"<=",
        b">=",
        b"X_0",
        b"Y_1",
        b"1e-99",
        b"assert",
        b";",
        b"|",
        b"not",
    ]
    for turn in range(600):
        spec = originals()[turn % 3][1]
        if turn % 3 == 0:
            spec = edited(spec, rng)
        else:
            tokens = spec.replace(b"(", b" ( ").replace(b")", b" ) ").split()
            tokens[rng.integers(len(tokens))] = words[rng.integers(len(words))]
            spec = b" ".join(tokens)
        count += refused(lambda spec=spec: read_property(spec, 2, 2))  # type: ignore[misc]
    assert 300 < count < 600


@pytest.mark.parametrize("unit", [b"(", b"(or ", b"(and (or ", b"(assert (and "])
def test_nesting_without_end_is_refused(unit: bytes) -> None:
    spec = originals()[0][1]
    for depth in (300, 990, 50_000):
        closed = unit * depth + b"(<= Y_0 0)" + b")" * (unit.count(b"(") * depth)
        for tail in (closed, unit * depth):
            refused(lambda tail=tail: read_property(spec + b"(assert " + tail + b")", 2, 2))  # type: ignore[misc]


def test_memory_is_a_few_times_the_files(tmp_path: Path) -> None:
    """At most ten times certificate, network and property, beyond what a minute's work needs anyway."""
    model = (DATA / "networks" / "digits_dense.onnx").read_bytes()
    spec = (DATA / "properties" / "digits_dense_image0_eps0.05.vnnlib").read_bytes()
    rng = np.random.default_rng(4)
    hashes = {"network": sha256(model).hexdigest(), "property": sha256(spec).hexdigest()}
    manifest = parts(originals()[0][2])["manifest.json"].decode()
    for key, value in hashes.items():
        at = manifest.index(f'"{key}":"') + len(key) + 4
        manifest = manifest[:at] + value + manifest[at + 64 :]
    paths = [tmp_path / name for name in ("net.onnx", "prop.vnnlib", "proof.abc")]
    for path, data in zip(paths, (model, spec), strict=False):
        path.write_bytes(data)
    check(*paths[:2], paths[0])  # what is imported late is not counted
    for turn in range(12):
        entries = parts(originals()[turn % 3][2]) | {"manifest.json": manifest.encode()}
        zeros = b"\0" * int(rng.integers(10**4, 10**6))
        extra = [{}, {"b.npy": zeros}, {"manifest.json": manifest.encode() + b" " * len(zeros)}][
            turn % 3
        ]
        content = packed(entries | extra) if turn < 9 else rng.bytes(10**6)
        paths[2].write_bytes(content)
        tracemalloc.start()
        check(*paths)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 10 * (len(model) + len(spec) + len(content)) + 2**23


def test_the_command_keeps_within_limits(tmp_path: Path) -> None:
    """In a process that may take 20 seconds and 2 GB of addresses: exit codes 0, 1 and 2 only."""
    rng = np.random.default_rng(5)
    folders, lines = written(tmp_path), []
    for turn in range(60):
        paths = [str(path) for path in folders[turn % 3]]
        content = KINDS[turn % len(KINDS)](originals()[turn % 3][2], rng)
        paths[2] = str(tmp_path / f"{turn}.abc")
        Path(paths[2]).write_bytes(content)
        if turn % 10 == 0:
            paths[turn // 10 % 2] = paths[2]
        lines.append(f"print('code', main({paths!r}))")
    program = "\n".join(["from anybound_check.__main__ import main", *lines])

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (20, 20))
        resource.setrlimit(resource.RLIMIT_AS, (2**31, 2**31))

    run = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=limit,
    )
    assert (run.returncode, run.stderr) == (0, "")
    codes = [line.split()[1] for line in run.stdout.splitlines() if line.startswith("code ")]
    assert len(codes) == 60
    assert set(codes) <= {"0", "1", "2"}
