"""Certificates: proofs as plain data, and the file that `anybound_check` verifies.

A certificate never states a bound. It says with which slopes a bound is to be computed, and how a
clause was split: whatever it proposes, what the checker computes from it is valid. So slopes may be
rounded at will, here to multiples of 2^-bits; the format is described in docs/certificate-format.md.

Activations are numbered in the order of the ONNX file, and neurons through all of them, each
activation's in C order. R problems, A neurons with slopes, N leaves, m rows of a clause.
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from anybound.errors import InvalidInput
from anybound_check.proof import paths

__all__ = [
    "Arrays",
    "Certificate",
    "ClauseProof",
    "Group",
    "Slopes",
    "Step",
    "TreeOrder",
    "preorder",
    "proof_fields",
    "step_fields",
]

Index = NDArray[np.int64]
FloatArray = NDArray[np.floating[Any]]

_LARGEST = 2**16 - 1
_MARGIN = 2**20  # bytes that any certificate may unpack to, see `anybound_check`


@dataclass(frozen=True, eq=False)
class Slopes:
    """`values` [T, A] at the neurons `columns` [A]; problem j uses row `of[j]`, by default row j
    (or the only one). Other neurons get the checker's own slopes, CROWN's."""

    columns: Index
    values: FloatArray
    bits: int = 7
    of: Index | None = None

    def part(self, kept: NDArray[np.bool_]) -> Slopes:
        """Those of some of the problems [R]."""
        if self.of is not None:
            return replace(self, of=self.of[kept])
        if len(self.values) == 1 < len(kept):
            return self
        return replace(self, values=self.values[kept])

    def encoded(self, count: int) -> tuple[NDArray[Any], Index]:
        """The distinct rows as integers, and which of them each of `count` problems uses."""
        scaled = np.rint(self.values.astype(np.float64) * 2.0**self.bits)
        if not np.isfinite(scaled).all():
            raise InvalidInput("slopes are NaN or infinite; a proof needs finite numbers")
        table, place = np.unique(scaled.clip(0, _LARGEST), axis=0, return_inverse=True)
        of = np.arange(count) if len(place) == count else np.zeros(count, np.int64)
        dtype = np.uint8 if table.max(initial=0) < 256 else np.dtype("<u2")
        return table.astype(dtype), place.reshape(-1)[of if self.of is None else self.of]


@dataclass(frozen=True, eq=False)
class Step:
    """Lower bounds of the neurons `lower` of an activation's input and upper bounds of those of
    `upper` (numbers within the activation); together R problems, each with its slopes. Under the
    negated property, `weights` [R, m] >= 0 multiply the clause's rows.

    With `split`, each problem has a tree, one behind the other as `ClauseProof` has one; slopes are
    those of all their leaves, and a bound is the lowest of a tree's leaves."""

    activation: int
    lower: Index
    upper: Index
    slopes: Slopes | None = None
    weights: FloatArray | None = None
    split: Index | None = None
    beta: FloatArray | None = None

    def part(self, kept: NDArray[np.bool_]) -> Step:
        """Some of the R problems [R]."""
        low, high = kept[: len(self.lower)], kept[len(self.lower) :]
        slopes, weights, split, beta = self.slopes, self.weights, self.split, self.beta
        tree, leaf, cut = _trees(np.full(len(kept), -1) if split is None else split, len(kept))
        return Step(
            self.activation,
            self.lower[low],
            self.upper[high],
            None if slopes is None else slopes.part(kept[leaf]),
            None if weights is None else weights[kept],
            None if split is None else split[kept[tree]],
            None if beta is None else beta[kept[cut]],
        )


def _trees(split: Index, count: int) -> tuple[Index, Index, Index]:
    """Of trees in preorder, the tree of each node, of each leaf, and of each leaf's splits."""
    found = list(paths(split.tolist(), count))
    leaf = np.array([tree for tree, _ in found], np.int64)
    node = np.repeat(np.arange(count), 2 * np.bincount(leaf, minlength=count) - 1)
    return node, leaf, np.repeat(leaf, [len(path) for _, path in found])


@dataclass(frozen=True, eq=False)
class ClauseProof:
    """Why no input violates the property by this clause: bounds of its own, and a tree.

    `split` has an entry per node in preorder: −1 for a leaf; j splits neuron j, and (number of
    neurons + i) input i, into x >= a and then x <= a, `at` [nodes] being a, 0 if absent. Leaves are
    in the same order: `slopes` and row `weights` [N, m] are theirs, and `beta` holds the multiplier
    of every split above a leaf, from the root, leaf by leaf. `renew` are the activations whose
    bounds are computed again in every leaf."""

    clause: int
    steps: Sequence[Step] = ()
    split: Index = field(default_factory=lambda: np.full(1, -1))
    at: FloatArray | None = None
    slopes: Slopes | None = None
    beta: FloatArray | None = None
    weights: FloatArray | None = None
    renew: Sequence[int] = ()


@dataclass(frozen=True, eq=False)
class Group:
    """Clauses over one box, and the intermediate bounds that they share."""

    steps: Sequence[Step]
    proofs: Sequence[ClauseProof]


@dataclass(frozen=True, eq=False)
class Certificate:
    """A proof of a whole property; `network` and `property` are the contents of the (unpacked)
    files."""

    network: bytes
    property: bytes
    groups: Sequence[Group]
    semantics: str = "real"

    def to_bytes(self) -> bytes:
        """The file: the same proof always yields the same bytes."""
        arrays = Arrays()
        groups = [_group(group, arrays) for group in self.groups]
        manifest = {
            "format": "anybound certificate",
            "version": 2,
            "semantics": self.semantics,
            "network": hashlib.sha256(self.network).hexdigest(),
            "property": hashlib.sha256(self.property).hexdigest(),
            "groups": groups,
        }
        text = json.dumps(manifest, sort_keys=True, separators=(",", ":")).encode()
        entries = {"manifest.json": text}
        for name, array in arrays.content.items():
            buffer = io.BytesIO()
            np.lib.format.write_array(buffer, array, version=(1, 0), allow_pickle=False)
            entries[f"{name}.npy"] = buffer.getvalue()
        packed = _zipped(entries, zipfile.ZIP_DEFLATED)
        # The checker refuses what unpacks to many times its size; so rarely, do not pack.
        limit = 4 * (len(packed) + len(self.network) + len(self.property)) + _MARGIN
        if sum(map(len, entries.values())) > limit or len(text) > limit // 4:
            return _zipped(entries, zipfile.ZIP_STORED)
        return packed

    def write(self, path: str | Path) -> int:
        """Write the file; its size in bytes."""
        return Path(path).write_bytes(self.to_bytes())


class TreeOrder(NamedTuple):
    """A tree in preorder: `split` for `ClauseProof`, and which node each leaf is."""

    split: Index
    leaf: Index


def preorder(parent: NDArray[Any], split: NDArray[Any], root: int = 0) -> TreeOrder:
    """The tree below `root` of nodes with `parent`s and `split` ±(neuron + 1), 0 for a root, as
    `search.tree.Tree` keeps them: children come in pairs, x >= 0 and x <= 0 of one neuron."""
    children: dict[int, dict[int, int]] = {}
    for node in np.flatnonzero(parent >= 0).tolist():
        children.setdefault(int(parent[node]), {})[int(split[node])] = node
    order, leaves, pending = list[int](), list[int](), [root]
    while pending:
        node = pending.pop()
        own = children.get(node)
        if own is None:
            order.append(-1)
            leaves.append(node)
            continue
        code = max(own)
        if set(own) != {code, -code}:
            raise InvalidInput(f"node {node} is split into {sorted(own)}; expected ±(neuron + 1)")
        order.append(code - 1)
        pending += [own[-code], own[code]]
    return TreeOrder(np.array(order), np.array(leaves))


class Arrays:
    """Arrays by name, each content once."""

    def __init__(self) -> None:
        self.content: dict[str, NDArray[Any]] = {}
        self._names: dict[tuple[Any, ...], str] = {}

    def name(self, array: NDArray[Any]) -> str:
        """The name under which an array is kept."""
        key = (array.dtype.str, array.shape, array.tobytes())
        if key not in self._names:
            name = self._names[key] = f"a{len(self._names)}"
            self.content[name] = np.ascontiguousarray(array)
        return self._names[key]

    def integers(self, array: Index) -> str:
        values = np.asarray(array, np.int64)
        small = values.min(initial=0) >= 0 and values.max(initial=0) < 2**16
        return self.name(values.astype("<u2" if small else "<i4"))


def _group(group: Group, arrays: Arrays) -> Mapping[str, Any]:
    return {
        "steps": [step_fields(step, arrays) for step in group.steps],
        "proofs": [proof_fields(proof, arrays) for proof in group.proofs],
    }


def step_fields(step: Step, arrays: Arrays) -> Mapping[str, Any]:
    """A step as it is written."""
    fields: dict[str, Any] = {"layer": int(step.activation)}
    for key, neurons in (("lower", step.lower), ("upper", step.upper)):
        if len(neurons):
            fields[key] = arrays.integers(neurons)
    count = len(step.lower) + len(step.upper)
    if step.split is not None and len(step.split) > count:
        fields["split"], count = arrays.name(step.split.astype("<i4")), int((step.split < 0).sum())
    if step.beta is not None and len(step.beta):
        fields["beta"] = arrays.name(step.beta.astype("<f2"))
    if step.slopes is not None:
        fields |= _slopes(step.slopes, count, arrays)
    if step.weights is not None:
        fields["weights"] = arrays.name(step.weights.astype("<f4"))
    return fields


def proof_fields(proof: ClauseProof, arrays: Arrays) -> Mapping[str, Any]:
    """A clause's proof as it is written."""
    fields: dict[str, Any] = {"clause": int(proof.clause)}
    if proof.steps:
        fields["steps"] = [step_fields(step, arrays) for step in proof.steps]
    if len(proof.split) > 1:
        fields["split"] = arrays.name(proof.split.astype("<i4"))
    if proof.at is not None:
        fields["at"] = arrays.name(proof.at.astype("<f8"))
    if proof.slopes is not None:
        fields |= _slopes(proof.slopes, int((proof.split < 0).sum()), arrays)
    for key, values, kind in (("beta", proof.beta, "<f2"), ("weights", proof.weights, "<f4")):
        if values is not None:
            fields[key] = arrays.name(values.astype(kind))
    if proof.renew:
        fields["renew"] = arrays.integers(np.array(proof.renew))
    return fields


def _slopes(slopes: Slopes, count: int, arrays: Arrays) -> Mapping[str, Any]:
    table, of = slopes.encoded(count)
    if table.shape[1] == 0:
        return {}
    fields: dict[str, Any] = {
        "columns": arrays.integers(slopes.columns),
        "table": arrays.name(table),
        "bits": int(slopes.bits),
    }
    if len(table) > 1:
        fields["of"] = arrays.integers(of)
    return fields


def _zipped(entries: Mapping[str, bytes], method: int) -> bytes:
    """A zip without anything that differs between runs or systems."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        for name, data in entries.items():
            entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            entry.compress_type, entry.create_system, entry.external_attr = method, 3, 0o600 << 16
            file.writestr(entry, data, compresslevel=9)
    return buffer.getvalue()
