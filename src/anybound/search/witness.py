"""The sealed entry of all attacks: whatever they propose, only a replayed violation comes out.

    x  → the closest point of the input set that the model can read, exactly inside
       → y = replay(x) on the original model
       → a witness if (x, y) lies in the unsafe set, in exact arithmetic and without tolerance

Attacks are streams that take turns, each getting the same number of points, so that a seed decides
what is found. Nothing they do can produce a false witness.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from anybound.budget import Budget
from anybound.outcome import Witness
from anybound.search.attack import Attack, Tried
from anybound.search.margins import Margins
from anybound.spec.input_sets import InputSet
from anybound.spec.problems import SafetyProblem
from anybound.spec.property import Property

__all__ = ["AttackResult", "OriginalModel", "WitnessFinder", "confirm", "find_witness"]

Point = NDArray[np.float64]
_SHRINKS = (0.0, *(2.0**-k for k in range(24, 0, -1)))


class OriginalModel(Protocol):
    """Runs the file itself, as `anybound.io.replay.Replay` does: flat float64 in and out."""

    @property
    def dtype(self) -> np.dtype[np.floating]:
        """The element type the model reads."""

    def __call__(self, x: Point, /) -> Point: ...


@dataclass(frozen=True, eq=False)
class AttackResult:
    """A witness, or how close the attacks came.

    `upper[i]`: the smallest margin of clause i at a point of its input set, in float64 on the normal
    form; infinite where no point was tried. `tries` counts evaluated points."""

    witness: Witness | None
    upper: Point
    seconds: float
    tries: int

    def __repr__(self) -> str:
        clause = None if self.witness is None else self.witness.clause
        found = "nothing found" if clause is None else f"a witness of clause {clause}"
        closest = float(self.upper.min())
        cost = f"{self.tries:,} points, {self.seconds:.2f} s"
        return f"AttackResult({found}, smallest margin {closest:.4g}, {cost})"


def find_witness(
    prop: Property,
    safety_problems: Sequence[SafetyProblem],
    replay: OriginalModel,
    attacks: Sequence[Attack],
    budget: Budget,
    generator: torch.Generator,
    starts: Sequence[Tensor] = (),
) -> AttackResult:
    """Attack all clauses until one is violated, the attacks are exhausted or the budget is spent.

    `starts` are promising points, for each of the safety problems one tensor
    `[C or 1, K, *input_shape]`."""
    return WitnessFinder(prop, safety_problems, replay).run(attacks, budget, generator, starts)


def confirm(prop: Property, replay: OriginalModel, x: Point) -> Witness | None:
    """The witness at, or next to, the flat point x; None if the original model is safe there."""
    return WitnessFinder(prop, (), replay).confirm(x)


@dataclass(frozen=True, eq=False)
class WitnessFinder:
    """`find_witness` and `confirm` for callers that ask often: what can be kept is kept."""

    prop: Property
    safety_problems: Sequence[SafetyProblem]
    replay: OriginalModel

    def confirm(self, x: Point) -> Witness | None:
        """See `anybound.search.witness.confirm`; the input set is the closest one."""
        sets = [input_set for input_set, _ in self._readable.groups()]
        distances = [float(np.abs(s.closest(x) - x).max()) for s in sets]
        nearest = min(distances)
        for input_set, distance in zip(sets, distances, strict=True):
            if distance == nearest:
                witness = self._confirm_in(input_set, x)
                if witness is not None:
                    return witness
        return None

    def run(
        self,
        attacks: Sequence[Attack],
        budget: Budget,
        generator: torch.Generator,
        starts: Sequence[Tensor] = (),
    ) -> AttackResult:
        """See `find_witness`."""
        clock = Budget()
        chase = Chase(self, attacks, generator, starts)
        witness = chase.go_on(budget)
        return AttackResult(witness, chase.upper, clock.elapsed(), chase.tries)

    @cached_property
    def _readable(self) -> Property:
        """The property for a model that reads numbers of the replay's precision."""
        return self.prop.in_precision(self.replay.dtype)

    @cached_property
    def margins(self) -> tuple[Margins, ...]:
        """In float32, which attacks compute in."""
        return tuple(m.to(torch.float32) for m in self._exact_margins)

    @cached_property
    def _exact_margins(self) -> tuple[Margins, ...]:
        return tuple(Margins.of(self.prop, safety) for safety in self.safety_problems)

    def _input_set(self, problem: int) -> InputSet:
        return self._readable.clauses[self.safety_problems[problem].clauses[0].clause].input_set

    def first_confirmed(self, front: _Front, problem: int, tried: Tried) -> Witness | None:
        for point in front.offer(tried):
            witness = self._confirm_in(self._input_set(problem), _flat(point))
            if witness is not None:
                return witness
        return None

    def _confirm_in(self, input_set: InputSet, x: Point) -> Witness | None:
        point = _readable_point(input_set, x, self.replay.dtype)
        if point is None:
            return None
        output = np.asarray(self.replay(point), dtype=np.float64).reshape(-1)
        clause = self._readable.violated_clause(point, output)
        return None if clause is None else Witness(point, output, clause)

    def upper(self, fronts: Sequence[_Front]) -> Point:
        """Per clause of the property, the margin in float64 at the best point in the set."""
        upper = np.full(len(self.prop.clauses), np.inf)
        for i, front in enumerate(fronts):
            if front.points is None:
                continue
            known = torch.isfinite(front.best)  # else the point may be no numbers
            points = torch.where(known.reshape(-1, 1), front.points.flatten(1), 0.0)
            inside = [self._input_set(i).closest(_flat(p)) for p in points]
            x = torch.tensor(np.array(inside)).reshape(front.points.unsqueeze(1).shape)
            values = self._exact_margins[i].values(x)[:, 0].numpy()
            members = self.safety_problems[i].clauses
            for member, value, is_known in zip(members, values, known.tolist(), strict=True):
                if is_known:
                    upper[member.clause] = value
        return upper


class Chase:
    """Attacks that take turns, and can be left and gone on with at any time."""

    def __init__(
        self,
        finder: WitnessFinder,
        attacks: Sequence[Attack],
        generator: torch.Generator,
        starts: Sequence[Tensor] = (),
    ) -> None:
        self.finder, self.generator, self.tries = finder, generator, 0
        self._fronts = [_Front(margins) for margins in finder.margins]
        self._streams = _streams(self._fronts, attacks, generator, starts)

    def go_on(self, budget: Budget) -> Witness | None:
        """The first witness, or None when the attacks are exhausted or the budget is spent."""
        while self._streams and not budget.is_spent():
            stream = min(self._streams, key=lambda s: s.tries)
            tried = next(stream.points, None)
            if tried is None:
                self._streams.remove(stream)
                continue
            stream.tries += tried.margins.numel()
            self.tries += tried.margins.numel()
            witness = self.finder.first_confirmed(stream.front, stream.problem, tried)
            if witness is not None:
                return witness
        return None

    def add(self, attack: Attack, starts: Sequence[Tensor]) -> None:
        """One more attack, from promising points of each safety problem; its turn is next."""
        self._streams += _streams(self._fronts, [attack], self.generator, starts)

    def try_points(self, problem: int, points: Tensor) -> tuple[Tensor, Witness | None]:
        """The margins `[C, K]` of one safety problem at points `[C, K, *input_shape]`, and a witness."""
        front = self._fronts[problem]
        tried = Tried(points, front.margins.values(points))
        self.tries += tried.margins.numel()
        return tried.margins, self.finder.first_confirmed(front, problem, tried)

    @property
    def upper(self) -> Point:
        """The smallest margin so far of each clause; see `AttackResult`."""
        return self.finder.upper(self._fronts)


class _Front:
    """The best points so far of the clauses over one input set."""

    def __init__(self, margins: Margins) -> None:
        self.margins = margins
        self.best = torch.full((margins.clauses,), torch.inf)
        self.points: Tensor | None = None

    def offer(self, tried: Tried) -> list[Tensor]:
        """Keep what is better; of that, the points that look unsafe, the most unsafe first."""
        best, at = tried.margins.nan_to_num(nan=torch.inf).min(dim=1)
        better = best < self.best
        if not bool(better.any()):
            return []
        points = tried.points[torch.arange(len(at)), at]
        old = points if self.points is None else self.points
        self.points = torch.where(better.reshape(-1, *[1] * (points.ndim - 1)), points, old)
        self.best = torch.where(better, best, self.best)
        unsafe = [c for c in torch.argsort(best).tolist() if better[c] and best[c] <= 0]
        return [points[c] for c in unsafe]


@dataclass
class _Stream:
    """One attack on one input set, and how many points it has tried."""

    front: _Front
    problem: int
    points: Iterator[Tried]
    tries: int = 0


def _streams(
    fronts: Sequence[_Front],
    attacks: Sequence[Attack],
    generator: torch.Generator,
    starts: Sequence[Tensor],
) -> list[_Stream]:
    streams = []
    for attack in attacks:
        for i, front in enumerate(fronts):
            shape = front.margins.network.input_shape
            own = starts[i] if starts else torch.zeros(1, 0, *shape)
            own = own.to(torch.float32).expand(front.margins.clauses, -1, *shape)
            streams.append(_Stream(front, i, attack.run(front.margins, own, generator)))
    return streams


def _readable_point(input_set: InputSet, x: Point, dtype: np.dtype[np.floating]) -> Point | None:
    """A point of the set near x whose numbers are of the type; None if there seems to be none.

    In a box that was rounded to the type, clipping yields one. In a ball, rounding may leave it; then
    a point closer to the middle is tried."""
    near = input_set.closest(x)
    middle = input_set.closest((input_set.lower + input_set.upper) / 2)
    for shrink in _SHRINKS:
        point = (near + shrink * (middle - near)).astype(dtype).astype(np.float64)
        if input_set.contains(point):
            return point
    return None


def _flat(point: Tensor) -> Point:
    array: Point = point.reshape(-1).double().numpy()
    return array
