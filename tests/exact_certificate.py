"""A second checker of certificates, in fractions: written from docs/certificate-format.md alone, slow and small.

Every element of every tensor is an affine form over variables: inputs, and behind them neurons' outputs. So affine
nodes are merged exactly, and a bound is found by eliminating the neurons from the last to the first:

    h t  =  (h relu(x) - nu x) + nu x  >=  min over [l, u] of (h relu(x) - nu x)  +  nu (the form of x).

Known: MatMul, Gemm, Add, Sub, Relu, Sigmoid, Tanh, Conv, MaxPool, Flatten, Reshape; anything else raises. Nothing of
anybound and nothing of anybound_check takes part. Intervals are rounded outwards to multiples of 2^-64: else
denominators grow.
"""

from __future__ import annotations

import io
import itertools
import json
import math
import re
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from hashlib import sha256
from typing import Any

import mpmath
import numpy as np
import onnx
from onnx import helper, numpy_helper

Form = dict[int, Fraction]  # variable -> coefficient; CONSTANT -> the constant
CONSTANT = -1
ZERO, ONE = Fraction(0), Fraction(1)
GRID = 2**64
Interval = tuple[Fraction, Fraction]


class Wrong(Exception):
    """The certificate does not prove the property, or is not of the form described."""


def demand(condition: object, reason: str) -> None:
    if not condition:
        raise Wrong(reason)


# --- forms ---


def combined(*terms: tuple[Fraction, Form]) -> Form:
    """The sum of factors times forms."""
    total: Form = {}
    for factor, form in terms:
        if factor:
            for variable, a in form.items():
                total[variable] = total.get(variable, ZERO) + factor * a
    return total


# --- the network ---


@dataclass
class Forms:
    """`neurons[j]`: the form of neuron j's input, over the inputs and the neurons of earlier activations; neuron j's
    output is the variable `inputs` + j. `first[k]`: the first neuron of activation k."""

    inputs: int
    neurons: list[Form] = field(default_factory=list)
    first: list[int] = field(default_factory=lambda: [0])
    outputs: list[Form] = field(default_factory=list)
    curves: dict[int, str] = field(default_factory=dict)  # "sigmoid" or "tanh", of such neurons

    def relu(self, x: Any, curve: Any = None) -> Any:
        flat = x.reshape(-1).tolist()
        start = self.inputs + len(self.neurons)
        if curve is not None:
            self.curves |= {start - self.inputs + i: curve for i in range(len(flat))}
        self.neurons += flat
        self.first.append(len(self.neurons))
        return array([{start + i: ONE} for i in range(len(flat))], x.shape)

    def values(self, point: list[Fraction]) -> list[Fraction]:
        """The outputs at a point, exactly; of curves, 50 digits."""
        known = {CONSTANT: ONE, **dict(enumerate(point))}
        for j, form in enumerate(self.neurons):
            x = _at(form, known)
            known[self.inputs + j] = curve(self.curves[j], x) if j in self.curves else max(ZERO, x)
        return [_at(form, known) for form in self.outputs]


def _at(form: Form, known: dict[int, Fraction]) -> Fraction:
    return sum((a * known[variable] for variable, a in form.items()), ZERO)


def array(elements: list[Any], shape: tuple[int, ...]) -> Any:
    result = np.empty(len(elements), object)
    result[:] = elements
    return result.reshape(shape)


@lru_cache(64)
def read_network(content: bytes) -> Forms:
    graph = onnx.load_model_from_string(content).graph
    known: dict[str, Any] = {w.name: numpy_helper.to_array(w) for w in graph.initializer}
    (entry,) = (entry for entry in graph.input if entry.name not in known)
    shape = tuple(d.dim_value or 1 for d in entry.type.tensor_type.shape.dim)
    size = int(np.prod(shape))
    forms = Forms(size)
    known[entry.name] = array([{i: ONE} for i in range(size)], shape)
    for node in graph.node:
        given = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        inputs = [known[name] if name else None for name in node.input]
        known[node.output[0]] = OPERATORS[node.op_type](forms, given, *inputs)
    forms.outputs = known[graph.output[0].name].reshape(-1).tolist()
    return forms


def _product(weight: Any, x: list[Form]) -> list[Form]:
    return [
        combined(*zip(map(Fraction, row.tolist()), x, strict=True))
        for row in weight.astype(np.float64)
    ]


def _matmul(_: Forms, __: Any, a: Any, b: Any) -> Any:
    rows = a.reshape(-1, a.shape[-1])
    out = [form for row in rows for form in _product(b.T, row.tolist())]
    return array(out, (*a.shape[:-1], b.shape[1]))


def _gemm(forms: Forms, given: Any, a: Any, b: Any, c: Any = None) -> Any:
    if given.keys() - {"transB", "alpha", "beta"}:
        raise NotImplementedError(given)
    y = _matmul(forms, {}, a, b.T if given.get("transB") else b)
    alpha, beta = (Fraction(given.get(key, 1.0)) for key in ("alpha", "beta"))
    c = np.zeros(y.shape) if c is None else np.broadcast_to(c, y.shape)
    pairs = zip(y.reshape(-1), c.reshape(-1).tolist(), strict=True)
    return array([combined((alpha, f), (beta, {CONSTANT: Fraction(b)})) for f, b in pairs], y.shape)


def _add(_: Forms, __: Any, a: Any, b: Any, sign: int = 1) -> Any:
    shape = np.broadcast_shapes(a.shape, b.shape)
    a, b = (np.broadcast_to(_as_forms(x), shape).reshape(-1).tolist() for x in (a, b))
    return array(
        [combined((ONE, f), (Fraction(sign), g)) for f, g in zip(a, b, strict=True)], shape
    )


def _as_forms(x: Any) -> Any:
    if x.dtype == object:
        return x
    return array([{CONSTANT: Fraction(float(v))} for v in x.reshape(-1)], x.shape)


def _padded(x: Any, pads: list[int], nothing: Any) -> Any:
    h, w = x.shape[2:]
    result = np.empty((*x.shape[:2], h + pads[0] + pads[2], w + pads[1] + pads[3]), object)
    for place in np.ndindex(result.shape):
        result[place] = nothing
    result[:, :, pads[0] : pads[0] + h, pads[1] : pads[1] + w] = x
    return result


def _conv(_: Forms, given: Any, x: Any, w: Any, b: Any = None) -> Any:
    if given.get("group", 1) != 1 or given.get("dilations", [1, 1]) != [1, 1]:
        raise NotImplementedError("groups or dilations")
    x = _padded(x, given.get("pads", [0] * 4), {})
    (sy, sx), (kh, kw) = given.get("strides", [1, 1]), w.shape[2:]
    rows, columns = (x.shape[2] - kh) // sy + 1, (x.shape[3] - kw) // sx + 1
    out = np.empty((1, len(w), rows, columns), object)
    for i, j in np.ndindex(rows, columns):
        window = x[0, :, i * sy : i * sy + kh, j * sx : j * sx + kw].reshape(-1).tolist()
        for f, form in enumerate(_product(w.reshape(len(w), -1), window)):
            bias = ZERO if b is None else Fraction(float(b[f]))
            out[0, f, i, j] = combined((ONE, form), (ONE, {CONSTANT: bias}))
    return out


def _maxpool(forms: Forms, given: Any, x: Any) -> Any:
    """Without padding: axis by axis, pairs of taps in order, each pair a ReLU of its own."""
    if any(given.get("pads", [])) or given.get("ceil_mode", 0):
        raise NotImplementedError("padded pooling")
    strides = given.get("strides", [1, 1])
    for axis, k, s in zip((2, 3), given["kernel_shape"], strides, strict=True):
        places = (x.shape[axis] - k) // s + 1
        level = [np.take(x, [tap + s * p for p in range(places)], axis) for tap in range(k)]
        while len(level) > 1:
            pairs = list(zip(level[::2], level[1::2], strict=False))
            bent = [forms.relu(_add(forms, {}, a, b, -1)) for a, b in pairs]
            joined = [_add(forms, {}, b, t) for (_, b), t in zip(pairs, bent, strict=True)]
            level = [*joined, *level[2 * len(pairs) :]]
        x = level[0]
    return x


def _flatten(_: Forms, given: Any, x: Any) -> Any:
    return x.reshape(int(np.prod(x.shape[: given.get("axis", 1)])), -1)


OPERATORS: dict[str, Any] = {
    "MatMul": _matmul,
    "Gemm": _gemm,
    "Add": _add,
    "Sub": lambda forms, given, a, b: _add(forms, given, a, b, -1),
    "Relu": lambda forms, _, x: forms.relu(x),
    "Conv": _conv,
    "MaxPool": _maxpool,
    "Sigmoid": lambda forms, _, x: forms.relu(x, "sigmoid"),
    "Tanh": lambda forms, _, x: forms.relu(x, "tanh"),
    "Flatten": _flatten,
    "Reshape": lambda _, __, x, shape: x.reshape(shape.tolist()),
}


# --- the property ---


@dataclass(frozen=True)
class Clause:
    """A box of inputs, and rows (coefficients, b): sum of coefficients times outputs <= b."""

    box: tuple[Interval, ...]
    rows: tuple[tuple[dict[int, int], Fraction], ...]


@lru_cache(64)
def read_property(content: bytes) -> list[Clause]:
    words = re.findall(r"[()]|[^\s()]+", re.sub(r";[^\r\n]*", "", content.decode()))
    forms, formulas, names = [[]], [], []
    for word in words:
        if word == "(":
            forms.append([])
        elif word == ")":
            done = forms.pop()
            forms[-1].append(done)
        else:
            forms[-1].append(word)
    for form in forms[0]:
        if form[0] == "declare-const":
            names.append(form[1])
        else:
            formulas.append(_alternatives(form[1]))
    inputs = sum(name.startswith("X_") for name in names)
    single = [atom for options in formulas if len(options) == 1 for atom in options[0]]
    found = []
    for choice in itertools.product(*(options for options in formulas if len(options) > 1)):
        clause = _clause([*single, *itertools.chain(*choice)], inputs)
        found += [] if clause is None else [clause]
    return found


def _alternatives(form: Any) -> list[list[Any]]:
    if form[0] == "or":
        return [atoms for part in form[1:] for atoms in _alternatives(part)]
    if form[0] == "and":
        parts = itertools.product(*map(_alternatives, form[1:]))
        return [list(itertools.chain(*choice)) for choice in parts]
    left, right = form[1:] if form[0] == "<=" else form[:0:-1]
    return [[(left, right)]]


def _clause(atoms: list[Any], inputs: int) -> Clause | None:
    low, high = dict[int, Fraction](), dict[int, Fraction]()
    rows = []
    for left, right in atoms:
        if left.startswith("X_"):
            i = int(left[2:])
            high[i] = min(Fraction(right), high.get(i, Fraction(right)))
        elif right.startswith("X_"):
            i = int(right[2:])
            low[i] = max(Fraction(left), low.get(i, Fraction(left)))
        else:
            row, b = dict[int, int](), ZERO
            for side, sign in ((left, 1), (right, -1)):
                if side.startswith("Y_"):
                    row[int(side[2:])] = row.get(int(side[2:]), 0) + sign
                else:
                    b -= sign * Fraction(side)
            rows.append((row, b))
    if any(low[i] > high[i] for i in range(inputs)):
        return None
    return Clause(tuple((low[i], high[i]) for i in range(inputs)), tuple(rows))


# --- sigmoid and tanh: 50 digits, of which 40 are relied on ---


DIGITS, SLACK = 50, Fraction(1, 10**40)


@lru_cache(10_000)
def curve(kind: str, x: Fraction) -> Fraction:
    if kind == "sigmoid":
        return (1 + curve("tanh", x / 2)) / 2
    with mpmath.workdps(DIGITS):
        return _fraction(mpmath.tanh(_mpf(x)))


def curve_minimum(kind: str, h: Fraction, nu: Fraction, l: Fraction, u: Fraction) -> Fraction:
    """Of h sigma(x) - nu x on [l, u]: at an end, or where the derivative vanishes."""
    points, scale = [l, u], 4 if kind == "sigmoid" else 1
    if h and 0 < scale * nu / h < 1:
        with mpmath.workdps(DIGITS):
            root = mpmath.atanh(mpmath.sqrt(1 - _mpf(scale * nu / h)))
            stationary = _fraction(root * (2 if kind == "sigmoid" else 1))
        points += [x for x in (stationary, -stationary) if l < x < u]
    return min(h * curve(kind, x) - nu * x for x in points) - SLACK * (1 + abs(h) + abs(nu))


def curve_slope(kind: str, h: Fraction, l: Fraction, u: Fraction) -> Fraction:
    """Of a line below sigma on [l, u], or on [-u, -l] where h < 0; rounded, as any slope is valid."""
    a, b = (float(l), float(u)) if h >= 0 else (float(-u), float(-l))

    def sigma(x: float) -> tuple[float, float]:
        t = math.tanh(x if kind == "tanh" else x / 2)
        return (t, 1 - t * t) if kind == "tanh" else ((1 + t) / 2, (1 - t * t) / 4)

    (ya, steepest), (yb, _) = sigma(a), sigma(b)
    chord = (yb - ya) / (b - a) if b > a else steepest
    if a >= 0 or (b > 0 and chord <= steepest):
        return Fraction(chord)
    left, right = a, min(b, 0.0)
    for _ in range(40):
        middle = (left + right) / 2
        y, slope = sigma(middle)
        left, right = (middle, right) if y + slope * (b - middle) < yb else (left, middle)
    return Fraction(sigma(min(left, (a + b) / 2))[1])


def _mpf(x: Fraction) -> Any:
    return mpmath.mpf(x.numerator) / x.denominator


def _fraction(x: Any) -> Fraction:
    return Fraction(mpmath.nstr(x, DIGITS + 10))


# --- bounds ---


@dataclass
class Region:
    """Intervals of inputs and of neurons' inputs; `single` for the float32 semantics."""

    forms: Forms
    box: list[Interval]
    single: bool = False
    pre: list[Interval] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.pre = self.pre or [(Fraction(-(2**300)), Fraction(2**300)) for _ in self.forms.neurons]
        self.propagate(0)

    def copy(self) -> Region:
        twin = object.__new__(Region)
        twin.__dict__ |= vars(self) | {"box": self.box[:], "pre": self.pre[:]}
        return twin

    @property
    def empty(self) -> bool:
        return any(l > u for l, u in [*self.box, *self.pre])

    def out(self, variable: int) -> Interval:
        """Of a variable; of an empty interval, anything."""
        if variable == CONSTANT:
            return ONE, ONE
        if variable < self.forms.inputs:
            return self.box[variable]
        j = variable - self.forms.inputs
        l, u = self.pre[j]
        if j in self.forms.curves:
            ends = curve(self.forms.curves[j], l) - SLACK, curve(self.forms.curves[j], u) + SLACK
            return _outwards(*ends)
        return max(l, ZERO), max(u, ZERO)

    def propagate(self, first: int) -> None:
        """Interval arithmetic for all neurons from number `first` on."""
        for j in range(first, len(self.forms.neurons)):
            form = self.forms.neurons[j]
            ends = [(a, *self.out(v)) for v, a in form.items()]
            error = self.error(form)
            low = sum((min(a * l, a * u) for a, l, u in ends), -error)
            high = sum((max(a * l, a * u) for a, l, u in ends), error)
            self.meet(j, low, high)

    def meet(self, j: int, low: Fraction, high: Fraction) -> None:
        (l, u), (low, high) = self.pre[j], _outwards(low, high)
        self.pre[j] = max(l, low), min(u, high)

    def error(self, form: Form) -> Fraction:
        """Of a float32 sum that computes the form; 0 over the reals, and for copies."""
        if not self.single or (len(form) == 1 and set(form.values()) == {ONE}):
            return ZERO
        n = len(form)
        unit = n * Fraction(1, 2**24)
        size = sum((abs(a) * max(map(abs, self.out(v))) for v, a in form.items()), ZERO)
        return unit / (1 - unit) * size + n * Fraction(1, 2**125)

    def bound(
        self, goal: list[tuple[Fraction, Form]], slopes: dict[int, Fraction], splits: list[Any]
    ) -> Fraction | None:
        """A lower bound of the sum of factors times forms; None for infinity. `splits`: (neuron, sign, at, beta)."""
        total = -sum((abs(factor) * self.error(form) for factor, form in goal), ZERO)
        rest = combined(*goal)
        cut: dict[int, tuple[Fraction, Fraction, Fraction]] = {}
        for j, sign, at, beta in splits:
            l, u, shift = cut.get(j, (*self.pre[j], ZERO))
            l, u = (max(l, at), u) if sign > 0 else (l, min(u, at))
            cut[j] = l, u, shift + sign * beta
        if any(l > u for l, u, _ in cut.values()):
            return None
        for j in range(len(self.forms.neurons) - 1, -1, -1):
            h = rest.pop(self.forms.inputs + j, ZERO)
            if not h and j not in cut:
                continue
            l, u, shift = cut.get(j, (*self.pre[j], ZERO))
            kind = self.forms.curves.get(j)
            if kind is None:
                nu = _slope(h, l, u, slopes.get(j)) * h - shift
                ends = [l, u, *([ZERO] if l < 0 < u else [])]
                total += min(h * max(x, ZERO) - nu * x for x in ends)
            else:
                nu = (slopes[j] if j in slopes else curve_slope(kind, h, l, u)) * h - shift
                total += curve_minimum(kind, h, nu, l, u)
            total -= abs(nu) * self.error(self.forms.neurons[j])
            if nu:
                rest = combined((ONE, rest), (nu, self.forms.neurons[j]))
        for variable, a in rest.items():
            total += min(a * x for x in self.out(variable))
        return total


def _outwards(low: Fraction, high: Fraction) -> Interval:
    return Fraction((low * GRID).__floor__(), GRID), Fraction((high * GRID).__ceil__(), GRID)


def _slope(h: Fraction, l: Fraction, u: Fraction, proposed: Fraction | None) -> Fraction:
    if u <= 0:
        return ZERO
    if l >= 0:
        return ONE
    if h >= 0:
        return proposed if proposed is not None else ONE if u > -l else ZERO
    return Fraction(float(u / (u - l)))  # rounded: any slope is valid


# --- the certificate ---


def read_archive(content: bytes) -> tuple[dict[str, Any], dict[str, Any]]:
    with zipfile.ZipFile(io.BytesIO(content)) as file:
        names = file.namelist()
        demand(len(set(names)) == len(names), "a name twice")
        parts = {name: file.read(name) for name in names}
    manifest = json.loads(parts.pop("manifest.json"), object_pairs_hook=_once)
    arrays = {}
    for name, data in parts.items():
        stream = io.BytesIO(data)
        arrays[name.removesuffix(".npy")] = np.lib.format.read_array(stream, allow_pickle=False)
        demand(not stream.read(), "bytes behind an array")
    return manifest, arrays


def _once(pairs: list[Any]) -> dict[str, Any]:
    demand(len(dict(pairs)) == len(pairs), "a key twice")
    return dict(pairs)


@dataclass
class Proof:
    """Follows the certificate's instructions."""

    forms: Forms
    clauses: list[Clause]
    manifest: dict[str, Any]
    arrays: dict[str, Any]

    def check(self) -> None:
        """Raise `Wrong` unless everything is proved."""
        single = self.manifest["semantics"] == "float32"
        open_clauses = set(range(len(self.clauses)))
        for group in self.manifest["groups"]:
            own = [proof["clause"] for proof in group["proofs"]]
            demand(own and all(type(c) is int and c >= 0 for c in own), "clauses")
            demand(len({self.clauses[c].box for c in own}) == 1, "several boxes in a group")
            region = Region(self.forms, [_rounded(i) for i in self.clauses[own[0]].box], single)
            for step in group.get("steps", []):
                self.step(region, step, None)
            for proof in group["proofs"]:
                demand(proof["clause"] in open_clauses, "proved twice")
                open_clauses.remove(proof["clause"])
                self.clause(region.copy(), self.clauses[proof["clause"]], proof)
        demand(not open_clauses, "a clause is not proved")

    def numbers(self, record: dict[str, Any], key: str, below: int, least: int = 0) -> list[int]:
        if key not in record:
            return []
        values = self.arrays[record[key]]
        demand(values.dtype.kind in "iu" and values.ndim == 1, key)
        found: list[int] = values.tolist()
        demand(all(least <= value < below for value in found), key)
        return found

    def floats(self, record: dict[str, Any], key: str, shape: tuple[int | None, ...]) -> Any:
        if key not in record:
            return None
        values = self.arrays[record[key]]
        demand(values.dtype.kind == "f" and np.isfinite(values).all(), key)
        pairs = itertools.zip_longest(values.shape, shape, fillvalue=-1)
        demand(all(wanted in (None, size) for size, wanted in pairs), key)
        return values.tolist()

    def slopes(self, record: dict[str, Any], count: int) -> list[dict[int, Fraction]]:
        columns = self.numbers(record, "columns", len(self.forms.neurons))
        if not columns:
            return [{}] * count
        demand(len(set(columns)) == len(columns), "a neuron has two slopes")
        table, bits = self.arrays[record["table"]], record["bits"]
        demand(table.dtype.kind == "u" and table.shape[1:] == (len(columns),), "table")
        demand(type(bits) is int and 0 <= bits <= 16, "bits")
        of = self.numbers(record, "of", len(table)) if "of" in record else [0] * count
        demand(len(of) == count, "of")
        rows = [
            {c: Fraction(n, 2**bits) for c, n in zip(columns, row, strict=True)}
            for row in table.tolist()
        ]
        return [rows[i] for i in of]

    def goal(self, clause: Clause, w: list[float]) -> list[tuple[Fraction, Form]]:
        """w.(A y - b), the constant as a form of its own."""
        demand(all(x >= 0 for x in w), "a negative weight")
        found, constant = list[tuple[Fraction, Form]](), ZERO
        total = dict[int, Fraction]()
        for x, (row, b) in zip(w, clause.rows, strict=True):
            constant -= Fraction(x) * b
            for i, a in row.items():
                total[i] = total.get(i, ZERO) + Fraction(x) * a
        found = [(factor, self.forms.outputs[i]) for i, factor in total.items()]
        return [*found, (constant, {CONSTANT: ONE})]

    def step(self, region: Region, step: dict[str, Any], clause: Clause | None) -> None:
        layer = step["layer"]
        demand(type(layer) is int and 0 <= layer < len(self.forms.first) - 1, "layer")
        first, last = self.forms.first[layer : layer + 2]
        low, high = (self.numbers(step, key, last - first) for key in ("lower", "upper"))
        demand(all(len(set(side)) == len(side) for side in (low, high)), "a neuron twice")
        aims = [(j, 1) for j in low] + [(j, -1) for j in high]
        split = self.numbers(step, "split", len(self.forms.neurons), -1) or [-1] * len(aims)
        forest = _forest(split, len(aims))
        slopes = iter(self.slopes(step, split.count(-1)))
        cuts = self.cuts(step, split)
        rows = 0 if clause is None else len(clause.rows)
        weights = self.floats(step, "weights", (len(aims), rows))
        found = []
        for i, ((j, sign), tree) in enumerate(zip(aims, forest, strict=True)):
            goal = [(Fraction(sign), self.forms.neurons[first + j])]
            if clause is not None and weights is not None:
                goal += self.goal(clause, weights[i])
            last = first if weights is None else len(self.forms.neurons)  # what the goal reads
            above = [[cut for cut in cuts(path) if cut[0] < last] for path in tree]
            values = [region.bound(goal, next(slopes), own) for own in above]
            found.append(min((value for value in values if value is not None), default=None))
        for (j, sign), value in zip(aims, found, strict=True):
            if value is not None:
                l, u = region.pre[first + j]
                low_high = (value, u) if sign > 0 else (l, -value)
                region.meet(first + j, *low_high)
        region.propagate(first)

    def clause(self, region: Region, clause: Clause, proof: dict[str, Any]) -> None:
        for step in proof.get("steps", []):
            self.step(region, step, clause)
            if region.empty:
                return
        n, neurons = self.forms.inputs, len(self.forms.neurons)
        split = self.numbers(proof, "split", neurons + n, -1) or [-1]
        (paths,) = _forest(split, 1)
        slopes = self.slopes(proof, len(paths))
        weights = self.floats(proof, "weights", (len(paths), len(clause.rows)))
        demand(weights is not None or len(clause.rows) == 1, "weights are missing")
        cuts_above = self.cuts(proof, split)
        renew = self.numbers(proof, "renew", len(self.forms.first) - 1)
        demand(len(set(renew)) == len(renew), "renew")
        for leaf, path in enumerate(paths):
            own = cuts_above(path)
            local = region.copy()
            if renew or any(code >= neurons for code in split):
                self.narrow(local, own, renew)
            w = [1.0] if weights is None else weights[leaf]
            goal = self.goal(clause, w)
            if not local.empty:
                cuts = [cut for cut in own if cut[0] < neurons]
                value = local.bound(goal, slopes[leaf], cuts)
                demand(value is None or value > 0, f"leaf {leaf}: {value and float(value)}")

    def cuts(
        self, record: dict[str, Any], split: list[int]
    ) -> Callable[[list[tuple[int, int]]], list[Any]]:
        """Of each leaf in turn, given its path, (neuron, side, at, beta) of the splits above it."""
        at = self.floats(record, "at", (len(split),)) or [0.0] * len(split)
        beta = iter(self.floats(record, "beta", (None,)) or itertools.repeat(0.0))

        def above(path: list[tuple[int, int]]) -> list[Any]:
            try:
                return [
                    (split[node], sign, Fraction(at[node]), Fraction(next(beta)))
                    for node, sign in path
                ]
            except StopIteration:
                raise Wrong("beta is too short") from None

        return above

    def narrow(self, region: Region, own: list[Any], renew: list[int]) -> None:
        """A leaf's own intervals."""
        for j, sign, at, _ in own:
            side, k = (
                (region.pre, j)
                if j < len(region.pre)
                else (region.box, j - len(region.forms.neurons))
            )
            l, u = side[k]
            side[k] = (max(l, at), u) if sign > 0 else (l, min(u, at))
        region.propagate(0)
        for layer in renew:
            first, last = self.forms.first[layer : layer + 2]
            bent = [j for j in range(first, last) if region.pre[j][0] < 0 < region.pre[j][1]]
            found = [
                [
                    region.bound([(Fraction(sign), self.forms.neurons[j])], {}, [])
                    for sign in (1, -1)
                ]
                for j in bent
            ]
            for j, (low, high) in zip(bent, found, strict=True):
                if low is not None and high is not None:
                    region.meet(j, low, -high)
            region.propagate(first)


def _rounded(ends: Interval) -> Interval:
    """To floats, outwards, as a checker in floating point has to."""
    low, high = (float(x) for x in ends)
    low = low if Fraction(low) <= ends[0] else float(np.nextafter(low, -np.inf))
    high = high if Fraction(high) >= ends[1] else float(np.nextafter(high, np.inf))
    return Fraction(low), Fraction(high)


def _forest(split: list[int], count: int) -> list[list[list[tuple[int, int]]]]:
    """Of each leaf of each tree the splits above it."""
    trees, found, pending = [], list[list[tuple[int, int]]](), [list[tuple[int, int]]()]
    for node, code in enumerate(split):
        demand(len(trees) < count, "the tree goes on behind its end")
        path = pending.pop()
        demand(len(path) <= 2_000, "the tree is too deep")
        if code < 0:
            found.append(path)
        else:
            pending += [[*path, (node, -1)], [*path, (node, 1)]]
        if not pending:
            trees.append(found)
            found, pending = [], [[]]
    demand(len(trees) == count, "the tree lacks a leaf")
    return trees


def why_not(model: bytes, spec: bytes, certificate: bytes) -> str:
    """Why a certificate is no proof; empty if it is one."""
    try:
        manifest, arrays = read_archive(certificate)
        demand(manifest["format"] == "anybound certificate", "format")
        demand(type(manifest["version"]) is int and manifest["version"] == 2, "version")
        demand(manifest["semantics"] in ("real", "float32"), "semantics")
        demand(manifest["network"] == sha256(model).hexdigest(), "network")
        demand(manifest["property"] == sha256(spec).hexdigest(), "property")
        Proof(read_network(model), read_property(spec), manifest, arrays).check()
    except (Wrong, KeyError, IndexError, zipfile.BadZipFile) as error:
        return repr(error)
    return ""
