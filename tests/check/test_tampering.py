"""Certificates that were changed: none is accepted unless it is still a proof.

Whether it is, a second checker decides in fractions, written from the format's description alone
(`exact_certificate`). A changed slope usually is: that is the point of the dual.
"""

from __future__ import annotations

import io
import json
import struct
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from hashlib import sha256
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from exact_cells import minimum
from exact_certificate import read_archive, read_network, read_property, why_not
from numpy.typing import NDArray
from onnx import numpy_helper
from random_proofs import STYLES, certificate
from tiny_networks import KINDS, network, text

from anybound.certificate import Certificate
from anybound_check import check
from anybound_check.arithmetic import Invalid, Unreadable
from anybound_check.check import _prove

PLACES = 40  # of each kind of change
CASES = 12

Rng = np.random.Generator
Files = tuple[bytes, bytes, bytes]  # network, property, certificate


@dataclass
class Draft:
    """A certificate taken apart, and the files it is about."""

    model: bytes
    spec: bytes
    manifest: dict[str, Any]
    arrays: dict[str, NDArray[Any]]

    def signed(self) -> None:
        """With the hashes of the files, as a forger would write them."""
        for key, content in (("network", self.model), ("property", self.spec)):
            self.manifest[key] = sha256(content).hexdigest()

    def files(self) -> Files:
        return self.model, self.spec, packed(self.entries())

    def entries(self) -> dict[str, bytes]:
        text = json.dumps(self.manifest).encode()
        return {"manifest.json": text, **{f"{k}.npy": saved(v) for k, v in self.arrays.items()}}

    @property
    def proofs(self) -> list[dict[str, Any]]:
        return [proof for group in self.manifest["groups"] for proof in group["proofs"]]

    @property
    def steps(self) -> list[dict[str, Any]]:
        holders = [*self.manifest["groups"], *self.proofs]
        return [step for holder in holders for step in holder.get("steps", [])]

    def owned(self, record: dict[str, Any], key: str) -> NDArray[Any]:
        """An array of this record alone."""
        values = self.arrays[record[key]].copy()
        self.put(record, key, values)
        return values

    def put(self, record: dict[str, Any], key: str, values: NDArray[Any]) -> None:
        record[key] = f"own{len(self.arrays)}"
        self.arrays[record[key]] = values

    def with_key(self, rng: Rng, *keys: str, records: list[dict[str, Any]] | None = None) -> Any:
        """A record and a key in it that names an array with entries; None if there is none."""
        records = [*self.steps, *self.proofs] if records is None else records
        found = [
            (record, key)
            for record in records
            for key in keys
            if key in record and self.arrays[record[key]].size
        ]
        return found[rng.integers(len(found))] if found else None


def saved(values: NDArray[Any]) -> bytes:
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, values, version=(1, 0), allow_pickle=False)
    return buffer.getvalue()


def packed(entries: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as file:
        for name, content in entries.items():
            file.writestr(name, content)
    return buffer.getvalue()


def answer(files: Files) -> str:
    """What the checker says; anything but its two exceptions is a crash, and fails the test."""
    try:
        with np.errstate(all="ignore"):
            _prove(*files)
    except Invalid:
        return "invalid"
    except Unreadable:
        return "unreadable"
    return "valid"


@cache
def originals() -> list[Files]:
    """Certificates of every style."""
    found, seed = list[Files](), 0
    while len(found) < CASES - 2:
        rng = np.random.default_rng(seed)
        kind, style = KINDS[seed % len(KINDS)], STYLES[len(found) % len(STYLES)]
        seed += 1
        model, inputs = network(rng, kind)
        center = rng.normal(size=inputs)
        radius = np.where(np.arange(inputs) < 2, 0.8, 0.0)
        box = [(round(c - r, 3), round(c + r, 3)) for c, r in zip(center, radius, strict=True)]
        exact = [(Fraction(str(l)), Fraction(str(u))) for l, u in box]
        least = [
            float(minimum(read_network(model), exact, [({i: 1}, Fraction(0))])) for i in (0, 1)
        ]
        proof = _tight(model, box, least, rng, style, "float32" if len(found) == 5 else "real")
        if proof is not None:
            found.append(proof)
    return [*found, *(_smooth(kind) for kind in ("Sigmoid", "Tanh"))]


def _smooth(activation: str) -> Files:
    """A proof with room: slopes of curves are not the same in both checkers."""
    rng = np.random.default_rng(len(activation))
    while True:
        model, inputs = network(rng, "gemm", activation=activation)
        box = [(round(c - 0.4, 3), round(c + 0.4, 3)) for c in rng.normal(size=inputs)]
        forms = read_network(model)
        points = [[Fraction(str(x)) for x in corner] for corner in product(*box)]
        least = min(forms.values(point)[0] for point in points)
        spec = text(box, 2, [[("Y_0", f"{float(least) - 0.1:.6f}")]])
        proof = certificate(model, spec, rng, "elsewhere" if activation == "Tanh" else "inputs")
        if proof is not None and 1 < len(proof.groups[0].proofs[0].split) < 30:
            return model, spec, proof.to_bytes()


def _tight(
    model: bytes, box: Any, least: list[float], rng: Rng, style: str, semantics: str
) -> Files | None:
    """A proof of as much as it proves: with a unit more, 1e-6, it is none."""

    def files(units: int, proof: Certificate | None = None) -> Files:
        rows = [("Y_0", f"{least[0] + 0.1:.6f}"), ("Y_1", f"{least[1] - 0.2:.6f}")]
        spec = text(box, 2, [[("Y_0", f"{least[0] - 0.05 + units * 1e-6:.6f}")], rows])
        return model, spec, b"" if proof is None else replace(proof, property=spec).to_bytes()

    proof = certificate(*files(0)[:2], rng, style, semantics)
    if proof is None or len(proof.groups[0].proofs[0].split) > 40:
        return None
    proved, false = 0, 60_000
    while false - proved > 1:
        units = (proved + false) // 2
        proved, false = (
            (units, false) if answer(files(units, proof)) == "valid" else (proved, units)
        )
    return files(proved, proof)


def draft(files: Files) -> Draft:
    return Draft(*files[:2], *deepcopy(read_archive(files[2])))


Change = Callable[[Draft, Rng], Files | None]
CHANGES: dict[str, Change] = {}
NEVER = set[str]()  # accepted, whatever the place


def change(function: Change) -> Change:
    CHANGES[function.__name__] = function
    return function


def never(function: Change) -> Change:
    NEVER.add(function.__name__)
    return change(function)


# --- the tree ---


def trees(d: Draft, rng: Rng) -> Any:
    """A proof with a tree, and its `split`; None if there is none."""
    found = d.with_key(rng, "split")
    return None if found is None else (found[0], d.owned(*found))


def _of_leaves(record: dict[str, Any]) -> tuple[str, ...]:
    """What has a row for each leaf; weights of a step have one for each neuron."""
    return ("of",) if "layer" in record else ("of", "weights")


def _subtree(split: list[int], start: int) -> int:
    """Where a subtree ends."""
    missing, i = 1, start
    while missing:
        missing += 1 if split[i] >= 0 else -1
        i += 1
    return i


@change
def flipped_side(d: Draft, rng: Rng) -> Files | None:
    """The two children of a split change places, their leaves' numbers do not."""
    found = trees(d, rng)
    if found is None:
        return None
    record, split = found
    codes = split.tolist()
    node = int(rng.choice(np.flatnonzero(split >= 0)))
    middle = _subtree(codes, node + 1)
    last = _subtree(codes, middle)
    order = [
        *range(node + 1),
        *range(middle, last),
        *range(node + 1, middle),
        *range(last, len(split)),
    ]
    d.put(record, "split", split[order])
    if "at" in record:
        d.put(record, "at", d.arrays[record["at"]][order])
    return d.files()


def _edited_tree(d: Draft, rng: Rng, edit: Callable[[list[int], int], list[int]]) -> Files | None:
    """A leaf is edited; other arrays of the tree follow as far as they can."""
    found = trees(d, rng)
    if found is None:
        return None
    record, split = found
    node = int(rng.choice(np.flatnonzero(split < 0)))
    d.put(record, "split", np.array(edit(split.tolist(), node), split.dtype))
    leaf = int((split[:node] < 0).sum())
    by = int((d.arrays[record["split"]] < 0).sum()) - int((split < 0).sum())
    longer = len(d.arrays[record["split"]]) - len(split)
    for key, place, amount in (("at", node, longer), *((k, leaf, by) for k in _of_leaves(record))):
        if key in record:
            values = d.arrays[record[key]]
            where = [place] * abs(amount)
            values = (
                np.insert(values, where, values[place], 0)
                if amount > 0
                else np.delete(values, [place + i for i in range(-amount)], 0)
            )
            d.put(record, key, values)
    if "beta" in record and rng.random() < 0.5:
        d.put(record, "beta", np.append(d.arrays[record["beta"]], np.zeros(99, "<f2")))
    return d.files()


@never
def leaf_left_out(d: Draft, rng: Rng) -> Files | None:
    return _edited_tree(d, rng, lambda split, i: split[:i] + split[i + 1 :])


@never
def leaf_added(d: Draft, rng: Rng) -> Files | None:
    return _edited_tree(d, rng, lambda split, i: [*split[:i], -1, *split[i:]])


@never
def half_a_split(d: Draft, rng: Rng) -> Files | None:
    return _edited_tree(d, rng, lambda split, i: [*split[:i], 0, *split[i:]])


@change
def subtree_cut_off(d: Draft, rng: Rng) -> Files | None:
    """A split becomes a leaf."""
    found = trees(d, rng)
    if found is None:
        return None
    record, split = found
    codes = split.tolist()
    node = int(rng.choice(np.flatnonzero(split >= 0)))
    end, leaf = _subtree(codes, node), int((split[:node] < 0).sum())
    gone = int((split[node:end] < 0).sum()) - 1
    d.put(record, "split", np.array([*codes[:node], -1, *codes[end:]], split.dtype))
    for key, cut in (
        ("at", slice(node + 1, end)),
        *((k, slice(leaf, leaf + gone)) for k in _of_leaves(record)),
    ):
        if key in record:
            d.put(record, key, np.delete(d.arrays[record[key]], cut, 0))
    return d.files()


@change
def other_neuron_split(d: Draft, rng: Rng) -> Files | None:
    found = trees(d, rng)
    if found is None:
        return None
    split = found[1]
    split[rng.choice(np.flatnonzero(split >= 0))] += rng.choice([-3, -2, -1, 1, 2, 3])
    return d.files()


@change
def other_split_point(d: Draft, rng: Rng) -> Files | None:
    found = trees(d, rng)
    if found is None:
        return None
    record, split = found
    if "at" not in record:
        d.put(record, "at", np.zeros(len(split)))
    at = d.owned(record, "at")
    at[rng.integers(len(at))] += rng.choice([-1e6, -1.0, -1e-3, 1e-3, 0.2, 1e6])
    return d.files()


@change
def swapped_leaves(d: Draft, rng: Rng) -> Files | None:
    """Two leaves use each other's slopes and weights."""
    found = d.with_key(rng, "of", "weights", records=d.proofs)
    if found is None:
        return None
    values = d.owned(*found)
    i, j = rng.integers(len(values), size=2)
    values[[i, j]] = values[[j, i]]
    return d.files()


@change
def too_many_splits(d: Draft, rng: Rng) -> Files | None:
    """A chain of splits, too deep or not, before a leaf."""
    record = d.proofs[rng.integers(len(d.proofs))]
    depth = int(rng.choice([5, 30, 2_001], p=[0.7, 0.25, 0.05]))
    chain = [code for _ in range(depth) for code in (0, -1)]
    d.put(record, "split", np.array([*chain, -1], "<i4"))
    for key in ("at", "of", "columns", "table", "bits", "beta", "steps", "renew"):
        record.pop(key, None)
    rows = d.arrays[record["weights"]].shape[1]
    d.put(record, "weights", np.ones((depth + 1, rows), "<f4"))
    return d.files()


# --- proposals ---


@change
def slope_by_one_unit(d: Draft, rng: Rng) -> Files | None:
    found = d.with_key(rng, "table")
    if found is None:
        return None
    table = d.owned(*found)
    table.reshape(-1)[rng.integers(table.size)] += rng.choice([1, 255])
    return d.files()


@change
def random_slopes(d: Draft, rng: Rng) -> Files | None:
    found = d.with_key(rng, "table")
    if found is None:
        return None
    shape = d.arrays[found[0]["table"]].shape
    kind, top = [("|u1", 255), ("<u2", 2**16 - 1), ("<u8", 2**64 - 1)][rng.integers(3)]
    d.put(*found, rng.integers(0, top, shape, np.uint64, endpoint=True).astype(kind))
    return d.files()


@change
def other_bits(d: Draft, rng: Rng) -> Files | None:
    records = [record for record in [*d.steps, *d.proofs] if "bits" in record]
    record = records[rng.integers(len(records))]
    record["bits"] = int(rng.choice([0, 1, 3, 5, 7, 16, 17, 10**6]))
    return d.files()


@change
def other_columns(d: Draft, rng: Rng) -> Files | None:
    found = d.with_key(rng, "columns")
    if found is None:
        return None
    columns = d.owned(*found)
    i, j = rng.integers(len(columns), size=2)
    columns[i] = columns[j] if rng.random() < 0.3 else rng.integers(0, 14)
    return d.files()


@change
def other_beta(d: Draft, rng: Rng) -> Files | None:
    found = d.with_key(rng, "beta")
    if found is None:
        return None
    beta = d.owned(*found)
    beta[rng.integers(len(beta))] *= rng.choice([-1.0, 0.0, 0.5, 3.0, 1e4])
    return d.files()


@change
def beta_out_of_step(d: Draft, rng: Rng) -> Files | None:
    found = d.with_key(rng, "beta")
    if found is None:
        return None
    beta = d.owned(*found)
    d.put(*found, np.delete(beta, rng.integers(len(beta))))
    return d.files()


@change
def negative_row_weight(d: Draft, rng: Rng) -> Files | None:
    found = d.with_key(rng, "weights", records=d.proofs)
    if found is None:
        return None
    weights = d.owned(*found)
    weights.reshape(-1)[rng.integers(weights.size)] = -(2.0 ** -rng.integers(0, 100))
    return d.files()


@change
def other_row_weights(d: Draft, rng: Rng) -> Files | None:
    found = d.with_key(rng, "weights")
    if found is None:
        return None
    weights = d.owned(*found)
    weights.reshape(-1)[rng.integers(weights.size)] = rng.choice([0.0, 0.5, 2.0, 1e6, 1e30])
    return d.files()


# --- steps ---


@change
def step_left_out(d: Draft, rng: Rng) -> Files | None:
    holders = [h for h in [*d.manifest["groups"], *d.proofs] if h.get("steps")]
    if not holders:
        return None
    holder = holders[rng.integers(len(holders))]
    holder["steps"].pop(rng.integers(len(holder["steps"])))
    return d.files()


@change
def other_layer(d: Draft, rng: Rng) -> Files | None:
    if not d.steps:
        return None
    step = d.steps[rng.integers(len(d.steps))]
    step["layer"] += int(rng.choice([-2, -1, 1, 2]))
    return d.files()


@change
def sides_of_a_step_swapped(d: Draft, rng: Rng) -> Files | None:
    """Slopes for lower bounds are used for upper ones."""
    steps = [step for step in d.steps if "lower" in step and "upper" in step]
    if not steps:
        return None
    step = steps[rng.integers(len(steps))]
    step["lower"], step["upper"] = step["upper"], step["lower"]
    return d.files()


@change
def neuron_of_a_step(d: Draft, rng: Rng) -> Files | None:
    found = d.with_key(rng, "lower", "upper")
    if found is None:
        return None
    neurons = d.owned(*found)
    neurons[rng.integers(len(neurons))] = rng.integers(0, 6)
    return d.files()


@change
def step_for_everybody(d: Draft, rng: Rng) -> Files | None:
    """A step that holds where a clause is reached is taken for all."""
    own = [proof for proof in d.proofs if proof.get("steps")]
    if not own:
        return None
    steps = own[rng.integers(len(own))]["steps"]
    group = d.manifest["groups"][0]
    group["steps"] = [*group.get("steps", []), steps.pop(rng.integers(len(steps)))]
    if rng.random() < 0.7:
        group["steps"][-1].pop("weights", None)
    return d.files()


@change
def step_repeated(d: Draft, rng: Rng) -> Files | None:
    holders = [h for h in [*d.manifest["groups"], *d.proofs] if h.get("steps")]
    if not holders:
        return None
    steps = holders[rng.integers(len(holders))]["steps"]
    steps.insert(0, steps[rng.integers(len(steps))])
    return d.files()


@change
def layers_renewed(d: Draft, rng: Rng) -> Files | None:
    record = d.proofs[rng.integers(len(d.proofs))]
    d.put(record, "renew", rng.integers(0, 3, rng.integers(1, 4)).astype("<u2"))
    return d.files()


# --- clauses ---


@change
def other_clause(d: Draft, rng: Rng) -> Files | None:
    proofs = d.proofs
    if rng.random() < 0.5:
        proofs[0]["clause"], proofs[-1]["clause"] = proofs[-1]["clause"], proofs[0]["clause"]
    else:
        proofs[rng.integers(len(proofs))]["clause"] = int(rng.integers(-2, 4))
    return d.files()


@never
def clause_left_out(d: Draft, rng: Rng) -> Files | None:
    group = d.manifest["groups"][0]
    group["proofs"].pop(rng.integers(len(group["proofs"])))
    if rng.random() < 0.3:
        d.manifest["groups"] = []
    return d.files()


@never
def clause_proved_twice(d: Draft, rng: Rng) -> Files | None:
    group = d.manifest["groups"][0]
    if rng.random() < 0.5:
        group["proofs"].append(group["proofs"][rng.integers(len(group["proofs"]))])
    else:
        d.manifest["groups"].append(deepcopy(group))
    return d.files()


@change
def proofs_exchanged(d: Draft, rng: Rng) -> Files | None:
    """Parts of another certificate, with this one's hashes."""
    other = draft(originals()[rng.integers(CASES)])
    key = str(rng.choice(["groups", "arrays", "proofs"]))
    if key == "arrays":
        d.arrays = other.arrays
    elif key == "groups":
        d.arrays, d.manifest["groups"] = other.arrays, other.manifest["groups"]
    else:
        d.arrays |= {f"other{name}": values for name, values in other.arrays.items()}
        renamed = json.loads(
            json.dumps(other.manifest["groups"][0]["proofs"]).replace('"a', '"othera')
        )
        d.manifest["groups"][0]["proofs"] = [
            {k.replace("other", ""): v for k, v in proof.items()} for proof in renamed
        ]
    return d.files()


# --- the files it is about ---


def _changed_weight(model: bytes, rng: Rng) -> bytes:
    """One weight by one unit in the last place, or by more."""
    proto = onnx.load_model_from_string(model)
    tensor = proto.graph.initializer[rng.integers(len(proto.graph.initializer))]
    values = numpy_helper.to_array(tensor).copy()
    flat = values.reshape(-1)
    i, step = rng.integers(flat.size), rng.integers(4)
    near = np.nextafter(flat[i], np.float32(rng.choice([-np.inf, np.inf])))
    flat[i] = [near, -flat[i], flat[i] + np.float32(0.1), np.float32(0)][step]
    tensor.CopyFrom(numpy_helper.from_array(values, tensor.name))
    content: bytes = proto.SerializeToString()
    return content


@never
def other_weight(d: Draft, rng: Rng) -> Files | None:
    d.model = _changed_weight(d.model, rng)
    return d.files()


@change
def other_weight_signed(d: Draft, rng: Rng) -> Files | None:
    d.model = _changed_weight(d.model, rng)
    d.signed()
    return d.files()


@change
def other_network_signed(d: Draft, rng: Rng) -> Files | None:
    d.model = originals()[rng.integers(CASES)][0]
    d.signed()
    return d.files()


def _changed_number(spec: bytes, rng: Rng) -> bytes:
    """One decimal by one unit of its last digit, or by more."""
    words = spec.split(b" ")
    numbers = [i for i, word in enumerate(words) if b"." in word]
    i = int(rng.choice(numbers))
    body = words[i].split(b")")[0]
    value = float(body) + float(rng.choice([-1e-6, 1e-6, -0.02, 0.02, 0.1]))
    words[i] = words[i].replace(body, f"{value:.6f}".encode(), 1)
    return b" ".join(words)


@never
def other_bound(d: Draft, rng: Rng) -> Files | None:
    d.spec = _changed_number(d.spec, rng)
    return d.files()


@change
def other_bound_signed(d: Draft, rng: Rng) -> Files | None:
    d.spec = _changed_number(d.spec, rng)
    d.signed()
    return d.files()


@never
def tightened_by_one_unit_signed(d: Draft, rng: Rng) -> Files | None:
    """The first clause's number is raised by its last digit, or by a few of them."""
    if b"(or (and (<= Y_0 " not in d.spec:  # it was not made tight
        return None
    number = d.spec.split(b"(or (and (<= Y_0 ", 1)[1].split(b")")[0]
    raised = f"{float(number) + 1e-6 * int(rng.integers(1, 30)):.6f}"
    d.spec = d.spec.replace(b"(or (and (<= Y_0 " + number, b"(or (and (<= Y_0 " + raised.encode())
    d.signed()
    return d.files()


@change
def other_property_signed(d: Draft, rng: Rng) -> Files | None:
    choice = rng.integers(4)
    if choice == 0:
        d.spec = originals()[rng.integers(CASES)][1]
    elif choice == 1:
        d.spec = d.spec.replace(b"(<= Y_0", b"(>= Y_0")
    elif choice == 2:
        d.spec = d.spec.replace(b"Y_0", b"Y_9").replace(b"Y_1", b"Y_0").replace(b"Y_9", b"Y_1")
    else:
        lines = d.spec.split(b"\n")
        at = rng.integers(len(lines))
        d.spec = b"\n".join(lines[:at] + lines[at + 1 :])
    d.signed()
    return d.files()


@never
def wrong_hash(d: Draft, rng: Rng) -> Files | None:
    key = str(rng.choice(["network", "property"]))
    text, i = d.manifest[key], int(rng.integers(64))
    digit = "0123456789abcdef"[(int(text[i], 16) + int(rng.integers(1, 16))) % 16]
    forged = [text[:i] + digit + text[i + 1 :], text[:-1], text + "0", "", None, [text], 0]
    d.manifest[key] = forged[rng.integers(len(forged)) if rng.random() < 0.5 else 0]
    return d.files()


@never
def hashes_swapped(d: Draft, rng: Rng) -> Files | None:
    m = d.manifest
    if rng.random() < 0.5:
        m["network"], m["property"] = m["property"], m["network"]
    else:
        m[str(rng.choice(["network", "property"]))] = "".join(
            rng.choice(list("0123456789abcdef"), 64)
        )
    return d.files()


@change
def other_semantics(d: Draft, rng: Rng) -> Files | None:
    options = ["float32", "real", "Real", "float64", None, ["real"], 1]
    d.manifest["semantics"] = options[int(rng.integers(len(options))) * int(rng.random() < 0.5)]
    return d.files()


# --- the manifest ---


@change
def key_left_out(d: Draft, rng: Rng) -> Files | None:
    records = [d.manifest, *d.manifest["groups"], *d.steps, *d.proofs]
    record = records[rng.integers(len(records))]
    record.pop(list(record)[rng.integers(len(record))])
    return d.files()


VALUES: list[Any] = [
    None, True, -1, 0, 1, 10**30, 0.5, 1e308, "", "a0", "manifest", [], [[]], [{}], {}, "\ud800", "a" * 10**4
]  # fmt: skip


@change
def other_value(d: Draft, rng: Rng) -> Files | None:
    """Something of another type."""
    records = [d.manifest, *d.manifest["groups"], *d.steps, *d.proofs]
    record = records[rng.integers(len(records))]
    record[list(record)[rng.integers(len(record))]] = VALUES[rng.integers(len(VALUES))]
    return d.files()


def _rewritten(d: Draft, rng: Rng, edit: Callable[[str], str]) -> Files:
    entries = d.entries()
    entries["manifest.json"] = edit(entries["manifest.json"].decode()).encode()
    return d.model, d.spec, packed(entries)


@never
def duplicate_key(d: Draft, rng: Rng) -> Files | None:
    keys = ['"clause": ', '"proofs": ', '"network": ', '"semantics": "real", ']
    key = keys[rng.integers(3)]
    value = rng.choice(["0", "1", "[]", '"x"'])
    return _rewritten(d, rng, lambda text: text.replace(key, f"{key}{value}, {key}", 1))


@never
def not_a_number_in_json(d: Draft, rng: Rng) -> Files | None:
    value = str(rng.choice(["NaN", "Infinity", "-Infinity", "0x1", "01", "1_0", "+1"]))
    return _rewritten(d, rng, lambda text: text.replace('"clause": 0', f'"clause": {value}', 1))


@never
def huge_integer_in_json(d: Draft, rng: Rng) -> Files | None:
    value = str(rng.choice(["9" * 20, "9" * 5000, str(2**64), str(2**63), "1e400", str(-(2**63))]))
    return _rewritten(d, rng, lambda text: text.replace('"clause": 0', f'"clause": {value}', 1))


@never
def nested_without_end(d: Draft, rng: Rng) -> Files | None:
    depth = int(rng.choice([10, 900, 5_000]))
    nest = "[" * depth + "]" * depth
    return _rewritten(d, rng, lambda text: text.replace('"clause": 0', f'"clause": {nest}', 1))


# --- the arrays ---


@change
def array_of_another_type(d: Draft, rng: Rng) -> Files | None:
    name = list(d.arrays)[rng.integers(len(d.arrays))]
    kind = str(
        rng.choice(
            ["|u1", "<u2", "<u8", "<i2", "<i8", "<f2", "<f4", "<f8", ">f4", "|b1", "<c8", "<U1"]
        )
    )
    values = d.arrays[name]
    if rng.random() < 0.5:
        with np.errstate(all="ignore"):
            d.arrays[name] = values.astype(kind)
    elif values.nbytes % np.dtype(kind).itemsize == 0 and values.ndim == 1:
        d.arrays[name] = np.frombuffer(values.tobytes(), kind)
    else:
        d.arrays[name] = values.astype(values.dtype.newbyteorder(">"))
    return d.files()


@change
def array_of_another_shape(d: Draft, rng: Rng) -> Files | None:
    name = list(d.arrays)[rng.integers(len(d.arrays))]
    values = d.arrays[name]
    shapes = [
        values.T,
        values[:-1],
        values[None],
        values[..., None],
        np.tile(values, 2),
        values[:0],
    ]
    shapes += [np.asfortranarray(values), np.atleast_2d(values).repeat(2, 0), values.reshape(-1)[0]]
    d.arrays[name] = shapes[rng.integers(len(shapes))]
    return d.files()


@never
def nan_in_an_array(d: Draft, rng: Rng) -> Files | None:
    found = d.with_key(rng, "weights", "beta", "at")
    if found is None:
        return None
    values = d.owned(*found)
    values.reshape(-1)[rng.integers(values.size)] = rng.choice([np.nan, np.inf, -np.inf])
    return d.files()


@never
def huge_integer_in_an_array(d: Draft, rng: Rng) -> Files | None:
    found = d.with_key(rng, "columns", "of", "lower", "upper", "renew", "split")
    if found is None:
        return None
    values = d.owned(*found)
    big = [2**31, 2**32, 2**63 - 1, 2**63, 2**64 - 2, -(2**63), -2, 10**6]
    value = big[rng.integers(len(big))]
    wide = values.astype("<u8" if value >= 2**63 else "<i8")
    if value >= 2**63 and (values < 0).any():
        wide = np.abs(values).astype("<u8")
    wide[rng.integers(len(wide))] = value
    d.put(*found, wide)
    return d.files()


def _damaged(d: Draft, rng: Rng, edit: Callable[[bytes], bytes]) -> Files:
    """One array's entry, which is used."""
    used = {v for r in [*d.steps, *d.proofs] for v in r.values() if isinstance(v, str)}
    entries = d.entries()
    name = f"{sorted(used)[rng.integers(len(used))]}.npy"
    entries[name] = edit(entries[name])
    return d.model, d.spec, packed(entries)


@never
def truncated_array(d: Draft, rng: Rng) -> Files | None:
    return _damaged(d, rng, lambda data: data[: rng.integers(len(data))])


@never
def lengthened_array(d: Draft, rng: Rng) -> Files | None:
    return _damaged(d, rng, lambda data: data + rng.bytes(int(rng.integers(1, 30))))


@change
def header_of_an_array(d: Draft, rng: Rng) -> Files | None:
    def edit(data: bytes) -> bytes:
        at = int(rng.integers(min(118, len(data))))
        return data[:at] + rng.bytes(1) + data[at + 1 :]

    return _damaged(d, rng, edit)


# --- the archive ---


@never
def entry_twice(d: Draft, rng: Rng) -> Files | None:
    """With other content first or last; readers differ in which of them they take."""
    buffer, entries = io.BytesIO(), list(d.entries().items())
    name = entries[rng.integers(len(entries))][0]
    entries.insert(int(rng.integers(len(entries) + 1)), (name, b"{}"))
    with zipfile.ZipFile(buffer, "w") as file:
        for place, (key, content) in enumerate(entries):
            file.writestr(key if key != name else f"{place:0{len(key)}}", content)
    content = buffer.getvalue()
    for place in [place for place, (key, _) in enumerate(entries) if key == name]:
        content = content.replace(f"{place:0{len(name)}}".encode(), name.encode())
    return d.model, d.spec, content


@change
def entry_added(d: Draft, rng: Rng) -> Files | None:
    names = [
        "b.npy",
        "../a0.npy",
        "a0",
        "A0.npy",
        "manifest.json.npy",
        "/etc/x.npy",
        "x/",
        "a0.npy ",
    ]
    content = [b"", b"\x00", saved(np.zeros(3)), rng.bytes(50)][rng.integers(4)]
    entries = d.entries() | {names[rng.integers(len(names))]: content}
    return d.model, d.spec, packed(entries)


@change
def entry_left_out(d: Draft, rng: Rng) -> Files | None:
    used = {v for r in [*d.steps, *d.proofs] for v in r.values() if isinstance(v, str)}
    names, entries = ["manifest.json", *(f"{name}.npy" for name in sorted(used))], d.entries()
    entries.pop(names[rng.integers(len(names))])
    return d.model, d.spec, packed(entries)


@change
def byte_of_the_file(d: Draft, rng: Rng) -> Files | None:
    content = bytearray(d.files()[2])
    content[rng.integers(len(content))] ^= 1 << int(rng.integers(8))
    return d.model, d.spec, bytes(content)


@never
def content_without_its_checksum(d: Draft, rng: Rng) -> Files | None:
    """A byte of an array that the archive's checksum no longer fits."""
    used = {v for r in [*d.steps, *d.proofs] for v in r.values() if isinstance(v, str)}
    data = d.entries()[f"{sorted(used)[rng.integers(len(used))]}.npy"]
    content = bytearray(d.files()[2])
    content[content.index(data) + int(rng.integers(len(data)))] ^= 1 << int(rng.integers(8))
    return d.model, d.spec, bytes(content)


@never
def truncated_file(d: Draft, rng: Rng) -> Files | None:
    content = d.files()[2]
    return d.model, d.spec, content[: rng.integers(len(content))]


@never
def sizes_that_lie(d: Draft, rng: Rng) -> Files | None:
    """An entry's size in the directory, or in both places: too small, too large, 4 GB."""
    used = {v for r in [*d.steps, *d.proofs] for v in r.values() if isinstance(v, str)}
    name = f"{sorted(used)[rng.integers(len(used))]}.npy".encode()
    content = bytearray(d.files()[2])
    place = content.rindex(name) - 46
    (size,) = struct.unpack_from("<I", content, place + 24)
    options = [0, size - 1, size + 1, size + 1000, 2**32 - 2, 2**32 - 1, 2**31]
    value = options[rng.integers(len(options))]
    struct.pack_into("<I", content, place + 24, value)
    if rng.random() < 0.5:
        struct.pack_into("<I", content, place + 20, value)
    return d.model, d.spec, bytes(content)


@never
def bomb(d: Draft, rng: Rng) -> Files | None:
    """An array, or the manifest, of megabytes in a few kilobytes."""
    entries, buffer = d.entries(), io.BytesIO()
    name = [*entries][rng.integers(len(entries))] if rng.random() < 0.5 else "bomb.npy"
    size = int(rng.choice([2**21, 2**22]))
    entries[name] = entries.get(name, b"") + (b" " if name == "manifest.json" else b"\0") * size
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as file:
        for key, data in entries.items():
            file.writestr(key, data)
    return d.model, d.spec, buffer.getvalue()


@never
def other_packing(d: Draft, rng: Rng) -> Files | None:
    """Methods that are not of the format; or a locked entry."""
    buffer, method = io.BytesIO(), [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA, None][rng.integers(3)]
    with zipfile.ZipFile(buffer, "w", method or zipfile.ZIP_STORED) as file:
        for key, data in d.entries().items():
            file.writestr(key, data)
    content = bytearray(buffer.getvalue())
    if method is None:
        content[content.rindex(b"PK\x01\x02") + 8] |= 1
    return d.model, d.spec, bytes(content)


@never
def not_even_a_zip(d: Draft, rng: Rng) -> Files | None:
    content = d.files()[2]
    options = [
        b"",
        rng.bytes(500),
        zlib.compress(content),
        b"sat",
        b"PK\x05\x06" + bytes(18),
        b"unsat\n",
    ]
    return d.model, d.spec, options[rng.integers(len(options))]


# --- the tests ---


# Changes of what is proposed, not of its form: there both checkers say the same, as it is described,
# if there are no affine nodes to join (which tightens intervals).
PROPOSALS = (
    "flipped_side", "subtree_cut_off", "other_neuron_split", "other_split_point", "swapped_leaves",
    "slope_by_one_unit", "random_slopes", "other_bits", "other_columns", "other_beta",
    "beta_out_of_step", "negative_row_weight", "other_row_weights", "step_left_out", "other_layer",
    "sides_of_a_step_swapped", "neuron_of_a_step", "step_for_everybody", "step_repeated",
    "layers_renewed", "other_clause", "proofs_exchanged", "other_weight_signed",
    "other_bound_signed", "other_semantics",
)  # fmt: skip


def changed(kind: str) -> Iterator[tuple[Files, bool]]:
    """Files, and whether the network is of ReLUs and has no nodes to join."""
    rng = np.random.default_rng(zlib.crc32(kind.encode()))
    count, tries = 0, 0
    while count < PLACES:
        original = originals()[tries % CASES]
        tries += 1
        assert tries < 20 * PLACES, "no place for this change"
        files = CHANGES[kind](draft(original), rng)
        if files is not None and files != original:
            count += 1
            operators = {node.op_type for node in onnx.load_model_from_string(files[0]).graph.node}
            joined = "MaxPool" in operators or {"Gemm", "Add"} <= operators
            yield files, "Relu" in operators and not joined


def test_the_originals_are_accepted() -> None:
    for files in originals():
        assert answer(files) == "valid"
        assert why_not(*files) == ""
        assert answer(draft(files).files()) == "valid"


def test_there_are_enough_kinds() -> None:
    assert len(CHANGES) >= 25
    assert set(PROPOSALS) <= CHANGES.keys()


def holds(files: Files) -> bool:
    """By the exact optimum of every clause, which only networks of ReLUs have.

    It judges where affine nodes are joined: default slopes depend on intervals, and those of the exact
    evaluation are tighter there, so that a proof that holds for one may fail for the other."""
    graph = onnx.load_model_from_string(files[0]).graph
    if {node.op_type for node in graph.node} & {"Sigmoid", "Tanh"}:
        return False
    forms = read_network(files[0])
    return all(minimum(forms, clause.box, clause.rows) > 0 for clause in read_property(files[1]))


@pytest.mark.parametrize("kind", CHANGES)
def test_what_is_accepted_is_a_proof(kind: str) -> None:
    said = Counter[str]()
    for files, plain in changed(kind):
        word = answer(files)
        said[word] += 1
        if word == "valid":
            assert kind not in NEVER
            assert why_not(*files) == "" or (not plain and holds(files))
        elif plain and kind in PROPOSALS:
            assert why_not(*files) != ""
    assert said.total() == PLACES


def test_files_are_judged_as_their_contents_are(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("net.onnx", "prop.vnnlib", "proof.abc")]
    for kind in ("random_slopes", "wrong_hash", "truncated_file"):
        for (files, _), _ in zip(changed(kind), range(5), strict=False):
            for path, content in zip(paths, files, strict=True):
                path.write_bytes(content)
            report = check(*paths)
            word = "valid" if report.valid else "unreadable" if report.unreadable else "invalid"
            assert word == answer(files)
