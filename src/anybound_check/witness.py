"""A witness in the competition's format, `sat` and then (X_0 0.5) ... (Y_0 1.25): an input of the set
whose output is unsafe, in onnxruntime if there is one, and over the reals by interval arithmetic.
The outputs that the file states are not looked at."""

from __future__ import annotations

import re
from fractions import Fraction

import numpy as np

from anybound_check.arithmetic import Array, Invalid, Unreadable
from anybound_check.bounds import Region
from anybound_check.network import Network, read_network
from anybound_check.vnnlib import Clause, read_property

_VALUE = re.compile(rb"\(\s*X_(\d{1,8})\s+([-+0-9.eE]{1,60})\s*\)")


def replay(model: bytes, spec: bytes, content: bytes) -> str:
    """In which semantics the witness holds; raises `Invalid` if in none."""
    network = read_network(model)
    outputs = network.nodes[network.output].size
    clauses = read_property(spec, network.nodes[0].size, outputs, outward=False)
    x = _input(content, network)
    inside = [clause for clause in clauses if ((clause.lower <= x) & (x <= clause.upper)).all()]
    if not inside:
        raise Invalid("the witness lies outside the input set")
    region = Region(network, x, x, False)
    found = [("real", *region.out[network.output])]
    y = _executed(model, network, x)
    found += [] if y is None else [("onnxruntime", y, y)]
    held = [name for name, l, u in found if any(_unsafe(c, l[:, 0], u[:, 0]) for c in inside)]
    if not held:
        raise Invalid(f"the output is not unsafe in {' nor in '.join(name for name, *_ in found)}")
    return f"witness: {' and '.join(held)}"


def _input(content: bytes, network: Network) -> Array:
    """[n, 1], in the precision of the network's input."""
    given = dict(found := _VALUE.findall(content))
    if len(given) < len(found):
        raise Unreadable("the witness states an input twice")
    try:
        values = [float(given[b"%d" % i]) for i in range(network.nodes[0].size)]
    except (KeyError, ValueError) as error:
        raise Unreadable(f"the witness lacks an input, or it is no number: {error}") from error
    x = np.array(values).astype(network.dtype).astype(np.float64)
    return x[:, None]


def _executed(model: bytes, network: Network, x: Array) -> Array | None:
    """The outputs [m, 1] by onnxruntime; None without it, or if it fails."""
    try:
        import onnxruntime as ort  # optional
    except ImportError:
        return None
    options = ort.SessionOptions()
    options.log_severity_level = 4
    try:
        session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        point = x.reshape(network.shape).astype(network.dtype)
        (y,) = session.run(None, {session.get_inputs()[0].name: point})
    except Exception:  # noqa: BLE001  (its errors have no common type; there are the reals as well)
        return None
    return np.asarray(y, np.float64).reshape(-1, 1)


def _unsafe(clause: Clause, low: Array, high: Array) -> bool:
    """Whether A y <= b for all y in [low, high], exactly."""
    if not (np.isfinite(low) & np.isfinite(high)).all():
        return False
    worst = [
        sum(Fraction(a) * Fraction(high[i] if a > 0 else low[i]) for i, a in enumerate(row) if a)
        for row in clause.matrix.tolist()
    ]
    return all(sum_ <= Fraction(b) for sum_, b in zip(worst, clause.offset.tolist(), strict=True))
