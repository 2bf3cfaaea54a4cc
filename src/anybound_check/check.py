"""From three files to an answer: a proof, or a witness, is valid or not."""

from __future__ import annotations

import gzip
import hashlib
import time
import zlib
from dataclasses import dataclass
from functools import partial
from io import BufferedIOBase
from itertools import islice
from pathlib import Path

import numpy as np

from anybound_check.archive import read_archive
from anybound_check.arithmetic import Invalid, Unreadable
from anybound_check.network import read_network
from anybound_check.proof import Checker
from anybound_check.vnnlib import read_property
from anybound_check.witness import replay

MAX_FILE, BLOCK = 2**31, 2**20  # to read so much at once would take it from memory at once


@dataclass(frozen=True)
class Report:
    """`unreadable`: a file cannot be understood, so nothing is said about the proof."""

    valid: bool
    reason: str
    semantics: str
    seconds: float
    unreadable: bool = False


def check(network: str | Path, prop: str | Path, certificate: str | Path) -> Report:
    """Whether a certificate proves that the network has the property; or whether the witness in a
    result file of the verification competition shows that it has not."""
    begun = time.perf_counter()
    semantics, reason, unreadable = "", "", False
    try:
        model, spec = (_content(Path(path), unpack=True) for path in (network, prop))
        proof = _content(Path(certificate))
        with np.errstate(all="ignore"):  # what is not finite is refused where it matters
            if proof.split(maxsplit=1)[:1] == [b"sat"]:
                semantics = replay(model, spec, proof)
            else:
                semantics = _prove(model, spec, proof)
    except Invalid as error:
        reason = str(error)
    except (Unreadable, MemoryError, RecursionError) as error:
        reason, unreadable = str(error) or type(error).__name__, True
    return Report(not reason, reason, semantics, time.perf_counter() - begun, unreadable)


def _prove(model: bytes, spec: bytes, proof: bytes) -> str:
    """The semantics of a certificate that is valid."""
    manifest = read_archive(proof, 4 * (len(model) + len(spec) + len(proof)) + 2**20)
    fields = manifest.fields
    version = fields.get("version")
    if fields.get("format") != "anybound certificate" or type(version) is not int or version != 2:
        raise Unreadable("not a certificate of version 2")
    for key, content in (("network", model), ("property", spec)):
        if fields.get(key) != hashlib.sha256(content).hexdigest():
            raise Invalid(f"the certificate is about another {key}")
    semantics = fields.get("semantics")
    if semantics not in ("real", "float32"):
        raise Unreadable("semantics is neither real nor float32")
    net = read_network(model)
    clauses = read_property(spec, net.nodes[0].size, net.nodes[net.output].size)
    Checker(net, clauses, semantics == "float32").prove(manifest)
    return str(semantics)


def _content(path: Path, unpack: bool = False) -> bytes:
    """A file's bytes, unpacked if they are gzip'd and may be."""
    try:
        with path.open("rb") as file:
            is_packed = unpack and file.peek(2)[:2] == b"\x1f\x8b"
            source: BufferedIOBase = gzip.GzipFile(fileobj=file) if is_packed else file
            blocks = iter(partial(source.read, BLOCK), b"")
            content = b"".join(islice(blocks, MAX_FILE // BLOCK + 1))
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise Unreadable(f"{path.name}: {error}") from error
    if len(content) > MAX_FILE:
        raise Unreadable(f"{path.name} has more than {MAX_FILE} bytes")
    return content
