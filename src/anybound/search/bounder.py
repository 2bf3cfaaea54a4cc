"""The protocol between the search and what bounds its sub-problems.

A batch of sub-problems is a NamedTuple of arrays `[N, …]`, the columns of the pool; the search itself reads only those
named here. Which neurons there are to split, how a sub-problem is written down and what its warm start is, only the
bounder knows.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol, Self

from numpy.typing import NDArray

from anybound.search.rule import Index, Matrix, OpenProblems, Vector


class Batch(Protocol):
    """N sub-problems. A NamedTuple: its other fields are columns too."""

    @property
    def row(self) -> Index:
        """Which function of the objective has to be proved positive."""

    @property
    def bound(self) -> Matrix:
        """The lower bound so far, as the search sees it."""

    @property
    def node(self) -> Index:
        """The number in the tree."""

    def take(self, index: Index) -> Self:
        """Some of the sub-problems."""

    def _asdict(self) -> dict[str, Any]:
        """The columns."""

    def _replace(self, **columns: NDArray[Any]) -> Self:
        """With other columns."""


class Expansion(NamedTuple):
    """Bounded sub-problems: the batch, what branching scores are made of, and the minimisers z_0 (or no rows)."""

    batch: Any  # Batch: a NamedTuple cannot be generic in a protocol of tuples
    coefficient: Matrix  # [N, A]
    input: Matrix  # [N, inputs]


class Bounder(Protocol):
    """Bounds of sub-problems. Nothing it says closes one but `certify`."""

    @property
    def neurons(self) -> int:
        """A, how many neurons there are to split."""

    def roots(self, row: Index, node: Index) -> Expansion:
        """The problem without splits, once for each row."""

    def children(self, parents: Any, neuron: Index, threshold: float, *, inputs: bool) -> Expansion:
        """Both children of each parent, the one above the split point first; `node` is still the parent's.

        A bound above `threshold` is good enough. `inputs` asks for the minimisers."""

    def polish(self, batch: Any, threshold: float) -> Expansion:
        """The same sub-problems, bounded with all effort: for those with nothing left to split.

        A bound above `threshold` is good enough."""

    def certify(self, batch: Any) -> Vector:
        """Rigorous lower bounds, `[N]`."""

    def open_problems(self, expansion: Expansion, threshold: float) -> OpenProblems:
        """What a branching rule sees."""
