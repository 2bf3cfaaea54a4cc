"""A network executed in float32, every sum in an order of its own: what `float32` semantics has to allow.

A sum of products is taken forwards, backwards, shuffled, from the largest to the smallest, in pairs, in lanes, or
through fused multiply-adds; a bias, and the other summand of an addition, may enter it anywhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

Single = NDArray[np.float32]
ORDERS = ("forwards", "backwards", "shuffled", "largest first", "smallest first")
WAYS = ("one by one", "pairs", "lanes", "fused")


@dataclass
class _Sum:
    """y = W x + the summands, [m] each; not yet computed. `shape` is y's."""

    weight: Single  # [m, n]
    x: Single  # [n]
    summands: list[Single]
    shape: tuple[int, ...]


class Execution:
    """One way to execute a network."""

    def __init__(self, content: bytes, rng: np.random.Generator) -> None:
        self.graph, self.rng = onnx.load_model_from_string(content).graph, rng
        self.weights = {w.name: numpy_helper.to_array(w) for w in self.graph.initializer}

    def run(self, x: Single) -> Single:
        """The output, flat."""
        known: dict[str, Any] = {**self.weights, self.graph.input[0].name: x}
        for node in self.graph.node:
            inputs = [known[name] for name in node.input]
            if node.op_type != "Add":
                inputs = [self.value(value) for value in inputs]
            given = {a.name: helper.get_attribute_value(a) for a in node.attribute}
            known[node.output[0]] = getattr(self, f"_{node.op_type.lower()}")(given, *inputs)
        return self.value(known[self.graph.output[0].name]).reshape(-1)

    def value(self, value: Any) -> Single:
        if not isinstance(value, _Sum):
            return np.asarray(value)
        return self._total(value).reshape(value.shape)

    def _total(self, s: _Sum) -> Single:
        """Of all outputs at once, in one order for all."""
        way = str(self.rng.choice(WAYS))
        terms = np.stack([*(s.weight * s.x).T, *s.summands])  # products are rounded here
        order = self._order(terms)
        if way == "fused":
            return self._fused(s, order)
        terms = terms[order]
        if way == "one by one":
            return _in_turn(terms)
        if way == "lanes":
            count = int(self.rng.integers(2, 9))
            return _in_turn(
                np.stack([_in_turn(terms[i::count]) for i in range(min(count, len(terms)))])
            )
        while len(terms) > 1:
            half = len(terms) // 2
            terms = np.concatenate(
                [terms[0 : 2 * half : 2] + terms[1 : 2 * half : 2], terms[2 * half :]]
            )
        return terms[0]

    def _order(self, terms: Single) -> NDArray[np.int64]:
        order = str(self.rng.choice(ORDERS))
        size = np.abs(terms).max(1)
        return {
            "forwards": np.arange(len(terms)),
            "backwards": np.arange(len(terms))[::-1],
            "shuffled": self.rng.permutation(len(terms)),
            "largest first": np.argsort(-size, kind="stable"),
            "smallest first": np.argsort(size, kind="stable"),
        }[order]

    @staticmethod
    def _fused(s: _Sum, order: NDArray[np.int64]) -> Single:
        """w x + total with one rounding: the product is exact in float64, which rounds much finer."""
        total = np.zeros(len(s.weight), np.float32)
        for i in order:
            if i < len(s.x):
                product = s.weight[:, i].astype(np.float64) * np.float64(s.x[i])
                total = (product + total).astype(np.float32)
            else:
                total = total + s.summands[i - len(s.x)]
        return total

    # operators

    def _gemm(self, given: Any, a: Single, b: Single, c: Single) -> _Sum:
        weight = b if given.get("transB") else b.T
        c = np.broadcast_to(c, (1, len(weight))).reshape(-1)
        return _Sum(weight, a.reshape(-1), [c], (1, len(weight)))

    def _matmul(self, _: Any, a: Single, b: Single) -> _Sum:
        return _Sum(b.T, a.reshape(-1), [], (1, b.shape[1]))

    def _add(self, _: Any, a: Any, b: Any) -> Any:
        """Merged into the sum of either summand, or by itself."""
        if isinstance(b, _Sum) and (not isinstance(a, _Sum) or self.rng.random() < 0.5):
            a, b = b, a
        if not isinstance(a, _Sum) or self.rng.random() < 0.2:
            a, b = self.value(a), self.value(b)
            return np.add(a, b, dtype=np.float32)
        other = np.broadcast_to(self.value(b), a.shape).reshape(-1)
        return _Sum(a.weight, a.x, [*a.summands, other], a.shape)

    def _conv(self, given: Any, x: Single, w: Single, b: Single) -> _Sum:
        top, left, bottom, right = given["pads"]
        (channels, h, width), (kh, kw) = x.shape[1:], w.shape[2:]
        rows, columns = h + top + bottom - kh + 1, width + left + right - kw + 1
        weight = np.zeros((len(w), rows, columns, channels, h, width), np.float32)
        for i, j, p, q in np.ndindex(rows, columns, kh, kw):
            at = i + p - top, j + q - left
            if 0 <= at[0] < h and 0 <= at[1] < width:
                weight[:, i, j, :, at[0], at[1]] = w[:, :, p, q]
        bias = np.repeat(b, rows * columns)
        weight = weight.reshape(len(bias), -1)
        return _Sum(weight, x.reshape(-1), [bias], (1, len(w), rows, columns))

    def _relu(self, _: Any, x: Single) -> Single:
        return np.maximum(x, np.float32(0))

    def _flatten(self, _: Any, x: Single) -> Single:
        return x.reshape(1, -1)

    def _maxpool(self, given: Any, x: Single) -> Single:
        (kh, kw), (sy, sx) = given["kernel_shape"], given["strides"]
        windows = np.lib.stride_tricks.sliding_window_view(x, (kh, kw), (2, 3))[:, :, ::sy, ::sx]
        largest: Single = windows.max((-2, -1))
        return largest


def _in_turn(terms: Single) -> Single:
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return total
