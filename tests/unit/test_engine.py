"""What the search loop reports, with a bounder whose sub-problems are worth what the test says."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

from anybound.budget import Budget
from anybound.search import engine
from anybound.search.bounder import Expansion
from anybound.search.branchings.random import Random
from anybound.search.engine import Ended, SearchPlan, SearchResult, search
from anybound.search.rule import NOTHING_LEFT, Index, Matrix, Vector, best

NEURONS = 3


class _Batch(NamedTuple):
    row: Index
    bound: Matrix
    node: Index

    def take(self, index: Index) -> _Batch:
        return _Batch(self.row[index], self.bound[index], self.node[index])


class _Open(NamedTuple):
    bound: Matrix
    threshold: float

    def intercepts(self) -> Matrix:
        return np.ones((len(self.bound), NEURONS), np.float32)

    def probe(self, problem: Index, neuron: Index, sign: Any) -> Matrix:
        raise NotImplementedError


class _Bounder:
    """Row r's sub-problems are all worth `worth[r]`."""

    neurons = NEURONS

    def __init__(self, *worth: float) -> None:
        self.worth = np.array(worth)

    def _expand(self, row: Index, node: Index) -> Expansion:
        count = len(row)
        batch = _Batch(row, self.worth[row].astype(np.float32), node)
        return Expansion(batch, np.zeros((count, NEURONS), np.float32), np.zeros((count, 1), "f4"))

    def roots(self, row: Index, node: Index) -> Expansion:
        return self._expand(row, node)

    def children(self, parents: Any, neuron: Index, threshold: float, *, inputs: bool) -> Expansion:
        return self._expand(np.repeat(parents.row, 2), np.repeat(parents.node, 2))

    def polish(self, batch: Any, threshold: float) -> Expansion:
        return self._expand(batch.row, batch.node)

    def certify(self, batch: Any) -> Vector:
        return np.asarray(self.worth[batch.row])

    def open_problems(self, expansion: Expansion, threshold: float) -> Any:
        return _Open(expansion.batch.bound, threshold)


class _Deep(_Bounder):
    """What five splits make is positive, and nothing before."""

    def __init__(self) -> None:
        super().__init__(-1.0)

    def _expand(self, row: Index, node: Index, depth: Matrix | None = None) -> Expansion:
        bound = np.full(len(row), -5.0, np.float32) if depth is None else depth
        batch = _Batch(row, bound, node)
        count = len(row)
        return Expansion(batch, np.zeros((count, NEURONS), np.float32), np.zeros((count, 1), "f4"))

    def children(self, parents: Any, neuron: Index, threshold: float, *, inputs: bool) -> Expansion:
        row, node = np.repeat(parents.row, 2), np.repeat(parents.node, 2)
        return self._expand(row, node, np.repeat(parents.bound + 1 + 0.2, 2).astype(np.float32))

    def certify(self, batch: Any) -> Vector:
        return np.asarray(batch.bound, np.float64)


def _run(bounder: _Bounder, looks: int) -> SearchResult:
    """A witness is seen at the given look."""
    seen: list[Matrix] = []

    def inspect(minimisers: Matrix) -> bool:
        seen.append(minimisers)
        return len(seen) == looks

    rows, plan = np.arange(len(bounder.worth)), SearchPlan(Random(), subproblems=100)
    return search(bounder, rows, plan, Budget(), inspect)


@pytest.mark.parametrize("looks", [1, 2])
def test_a_witness_leaves_no_row_with_a_bound_that_was_not_proved(looks: int) -> None:
    """What was at hand when it was found is in no pool, and is open all the same."""
    found = _run(_Bounder(-1.0, 2.0), looks)
    assert found.ended is Ended.WITNESS
    assert found.lower[0] <= -1.0
    assert found.lower[1] <= 2.0


def test_a_bound_that_is_no_number_proves_nothing() -> None:
    found = _run(_Bounder(np.nan, 2.0), looks=100)
    assert not found.lower[0] > 0
    assert found.lower[1] == 2.0


def test_without_neurons_to_split_there_is_nothing_to_choose() -> None:
    """A clause of several rows may stay open on a network whose neurons are all stable."""
    assert best(np.zeros((2, 0), np.float32)).tolist() == [NOTHING_LEFT, NOTHING_LEFT]


def test_bounds_and_counts_are_told_while_it_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """And what is told at any time is the least of all leaves', open ones by an ancestor's if need be."""
    monkeypatch.setattr(engine, "TELL_EVERY", 0.0)
    told: list[tuple[list[float], int]] = []
    bounder = _Bounder(-1.0, 2.0)
    plan = SearchPlan(Random(), subproblems=100, batch=4)
    found = search(
        bounder, np.arange(2), plan, Budget(), advance=lambda b, n: told.append((b.tolist(), n))
    )
    assert found.ended is Ended.COUNT
    assert [bounds for bounds, _ in told] == [[-1.0, 2.0]] * len(told)
    counts = [count for _, count in told]
    assert len(counts) > 5
    assert counts == sorted(set(counts))
    assert found.lower.tolist() == [-1.0, 2.0]


def test_without_time_an_open_leaf_has_the_bound_of_an_ancestor(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Rigorous evaluation of all that is open may take long, and the time is over."""

    class _Rising(_Bounder):
        """Sub-problems are worth more, the deeper they are."""

        def children(
            self, parents: Any, neuron: Index, threshold: float, *, inputs: bool
        ) -> Expansion:
            self.worth = self.worth + 0.125
            return super().children(parents, neuron, threshold, inputs=inputs)

    for seconds in ("_LAST_PROVING", "_LONGEST_PROVING"):
        monkeypatch.setattr(engine, seconds, 0.0)
    plan = SearchPlan(Random(), subproblems=10, batch=4)
    found = search(_Rising(-10.0), np.arange(1), plan, Budget())
    assert found.lower.tolist() == [-10.0]
    monkeypatch.undo()
    found = search(_Rising(-10.0), np.arange(1), plan, Budget())
    assert -10.0 < found.lower[0] < 0


@pytest.mark.parametrize("place", ["children", "certify", "open_problems"])
@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("can't allocate memory")])
def test_where_memory_runs_out_batches_are_halved(place: str, error: Exception) -> None:
    """And nothing is lost, nor counted twice."""
    sizes: list[int] = []

    class _Scarce(_Deep):
        """Memory is enough for two parents."""

        def _spend(self, what: str, count: int) -> None:
            if what == place and sizes.append(count) is None and count > 4:
                raise error

        def children(
            self, parents: Any, neuron: Index, threshold: float, *, inputs: bool
        ) -> Expansion:
            self._spend("children", 2 * len(neuron))
            return super().children(parents, neuron, threshold, inputs=inputs)

        def certify(self, batch: Any) -> Vector:
            self._spend("certify", len(batch.row))
            return super().certify(batch)

        def open_problems(self, expansion: Expansion, threshold: float) -> Any:
            self._spend("open_problems", len(expansion.batch.row))
            return super().open_problems(expansion, threshold)

    whole, scarce = (
        search(kind(), np.arange(1), SearchPlan(Random(), batch=64), Budget(), keep_leaves=True)
        for kind in (_Deep, _Scarce)
    )
    assert max(sizes) > 4
    assert scarce.ended is whole.ended is Ended.PROVED
    assert scarce.subproblems == whole.subproblems == 2**6 - 2
    assert len(scarce.tree) == len(whole.tree) == 2**6 - 1
    assert scarce.lower.tolist() == whole.lower.tolist()
    leaves = np.concatenate([batch.node for batch in scarce.leaves])
    inner = np.isin(np.arange(len(scarce.tree)), scarce.tree.parent)
    assert np.array_equal(np.sort(leaves), np.flatnonzero(~inner))


def test_an_error_that_is_not_of_memory_is_a_defect() -> None:
    class _Broken(_Deep):
        def certify(self, batch: Any) -> Vector:
            if len(batch.row) > 1:
                raise RuntimeError("shapes differ")
            return super().certify(batch)

    with pytest.raises(RuntimeError, match="shapes differ"):
        search(_Broken(), np.arange(1), SearchPlan(Random()), Budget())
