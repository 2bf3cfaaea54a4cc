"""What a branching rule sees of sub-problems on the portable engine: estimates, and cheap bounds, of splits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from anybound.bound.backward import propagate
from anybound.bound.hull import Slopes
from anybound.memory import Pieces
from anybound.model.activations.activation import Activation
from anybound.search.duals import Duals, Work
from anybound.search.rule import Index, Matrix

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class PortableView:
    """N sub-problems with their β `[N, A]` and the coefficients g `[N, A]` of the ambiguous neurons."""

    duals: Duals
    work: Work
    beta: Tensor
    coefficient: Tensor
    bound: Matrix
    threshold: float
    pieces: Pieces

    def intercepts(self) -> Matrix:
        """|g| times the gap between σ and its envelope at the split point, above σ for g < 0, below it for g > 0.

        For a ReLU −min(g, 0)·(−l u/(u − l)), as in BaBSR: below, its envelope is σ itself."""
        with torch.inference_mode():
            parts = self._in_pieces(len(self.beta), self._intercepts)
        return np.asarray(torch.cat(parts).numpy())

    def _intercepts(self, at: Tensor) -> Tensor:
        cells, g = self.work.cells.take(at).nonempty(), self.coefficient[at]
        root = self.duals.root
        points = root.split_points(cells)
        hull = self.duals.of(self.work.take(at)).hull
        above, below = (root.gather(gap) for gap in hull.columns(_gap, 2))
        score = (-g).clamp(min=0) * above + g.clamp(min=0) * below
        return torch.where(root.splittable(cells, points), score, -1.0)

    def probe(self, problem: Index, neuron: Index, sign: NDArray[np.int8]) -> Matrix:
        """One backward sweep for each child, with its parent's lines and CROWN's at the split neuron."""
        if len(problem) == 0:
            return np.empty(0, np.float32)
        index, chosen = torch.from_numpy(problem), torch.from_numpy(neuron)
        above = torch.from_numpy(sign) > 0
        with torch.inference_mode():
            parts = self._in_pieces(
                len(index), lambda at: self._probe(index[at], chosen[at], above[at])
            )
        return np.asarray(torch.cat(parts).numpy())

    def _probe(self, problem: Tensor, neuron: Tensor, above: Tensor) -> Tensor:
        parents = self.work.take(problem)
        cells = self.duals.root.cut(parents.cells, neuron, above)
        dual = self.duals.of(parents._replace(cells=cells))
        (lower, upper), beta = self._lines
        low_min, low_max, up_min, up_max = dual.hull.slope_limits
        lines = Slopes(lower[problem].clamp(low_min, low_max), upper[problem].clamp(up_min, up_max))
        sweep = propagate(dual, lines, beta[problem])
        value = dual.value_at(*sweep)[:, 0].nan_to_num(-torch.inf, neginf=-torch.inf)
        return torch.where(cells.empty, torch.inf, value)

    @cached_property
    def _lines(self) -> tuple[Slopes, Tensor]:
        """Of all sub-problems, `[N, 1, total]`."""
        parts = self._in_pieces(len(self.beta), self._lines_of)
        lower, upper, beta = (torch.cat(column) for column in zip(*parts, strict=True))
        return Slopes(lower, upper), beta

    def _lines_of(self, at: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        dual = self.duals.of(self.work.take(at))
        rho, (_, g) = self.duals.decode(dual, self.beta[at])
        lines, beta = self.duals.lines(dual, rho, g)
        return lines.lower, lines.upper, beta

    def _in_pieces(self, count: int, work: Callable[[Tensor], T]) -> list[T]:
        return self.pieces.run(count, lambda first, last: work(torch.arange(first, last)))


def _gap(activation: Activation, l: Tensor, u: Tensor) -> tuple[Tensor, Tensor]:
    """How far the best of some lines above σ, and below it, are from σ at the split point."""
    x = activation.split_at(l, u)
    at_x = activation.value(x)
    low_min, low_max, up_min, up_max = activation.slopes(l, u)
    above = torch.minimum(*(s * x + activation.upper_offset(s, l, u) for s in (up_min, up_max)))
    below = torch.maximum(*(s * x + activation.lower_offset(s, l, u) for s in (low_min, low_max)))
    return (above - at_x).clamp(min=0), (at_x - below).clamp(min=0)
