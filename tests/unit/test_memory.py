"""Memory that runs out halves the work at hand, and nothing is lost."""

import numpy as np
import pytest
import torch
from small_networks import small

from anybound.bound.intermediates.crown import BestOfIntervalAndCrown
from anybound.budget import Budget
from anybound.memory import Pieces, is_out_of_memory
from anybound.search.branchings.babsr import BaBSR
from anybound.search.duals import Duals, Work
from anybound.search.engine import Ended
from anybound.search.input_split.engine import BoxPlan, BoxSearch, Cut
from anybound.search.input_split.splitter import Boxes, InputSplitter
from anybound.search.portable_search import PortablePlan, search_clauses
from anybound.spec.problems import problems


def test_pieces_are_halved_until_they_fit() -> None:
    tried: list[tuple[int, int]] = []

    def work(first: int, last: int) -> range:
        tried.append((first, last))
        if last - first > 3:
            raise MemoryError
        return range(first, last)

    pieces = Pieces(10, 100)
    done = pieces.run(17, work)
    assert [i for part in done for i in part] == list(range(17))
    assert tried[:3] == [(0, 10), (0, 5), (0, 2)]
    tried.clear()
    pieces.run(4, work)
    assert tried == [(0, 2), (2, 4)]  # it was learned


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        RuntimeError(
            "[enforce fail at alloc_cpu.cpp:124] . DefaultCPUAllocator: can't allocate memory"
        ),
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"),
    ],
)
def test_one_item_that_does_not_fit_is_an_error(error: Exception) -> None:
    def work(first: int, last: int) -> None:
        raise error

    assert is_out_of_memory(error)
    with pytest.raises(type(error)):
        Pieces(1, 8).run(8, work)


def test_other_errors_pass() -> None:
    def work(first: int, last: int) -> None:
        tried.append(last)
        raise RuntimeError("shapes differ")

    tried: list[int] = []
    with pytest.raises(RuntimeError, match="shapes differ"):
        Pieces(1, 8).run(8, work)
    assert tried == [8]


def test_a_search_goes_on_in_smaller_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    case = small(31, "relu", np.inf)
    shift = min(e.lower for e in case.exact) - 0.01
    (safety,) = problems(case.network, case.shifted(shift))
    bounds = BestOfIntervalAndCrown().bounds(case.network, safety.problem.domain)
    rows = [clause.rows for clause in safety.clauses]

    def decide() -> tuple[Ended, int]:
        found = search_clauses(safety.problem, rows, PortablePlan(BaBSR()), Budget(), bounds)
        assert (found.lower <= [e.upper - shift + 1e-9 for e in case.exact]).all()
        return found.ended, found.subproblems

    ended, count = decide()
    whole, sizes = Duals.of, list[int]()

    def scarce(self: Duals, work: Work, dtype: torch.dtype = torch.float32) -> object:
        sizes.append(len(work.clause))
        if len(work.clause) > 4:
            raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate")
        return whole(self, work, dtype)

    monkeypatch.setattr(Duals, "of", scarce)
    assert decide() == (ended, count)
    assert ended is Ended.PROVED
    assert max(sizes) > 4


def test_boxes_are_split_in_smaller_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    case = small(31, "relu", np.inf)
    shift = min(e.lower for e in case.exact) - 0.001
    (safety,) = problems(case.network, case.shifted(shift))
    bounds = BestOfIntervalAndCrown().bounds(case.network, safety.problem.domain)
    rows = [range(clause.rows.start, clause.rows.stop) for clause in safety.clauses]

    def decide(cut: Cut) -> BoxSearch:
        run = BoxSearch(InputSplitter.of(safety.problem, bounds, rows, symbols=0), BoxPlan(cut=cut))
        assert run.run(Budget(seconds=20)) is Ended.PROVED
        assert (run.lower <= [e.upper - shift + 1e-9 for e in case.exact]).all()
        assert run.done == pytest.approx(1.0)
        return run

    whole, longest = decide(Cut.ERROR), decide(Cut.LONGEST)
    assert whole.subproblems != longest.subproblems
    bound, sizes = InputSplitter.bound, list[int]()

    def scarce(self: InputSplitter, boxes: Boxes) -> object:
        sizes.append(len(boxes.lower))
        if len(boxes.lower) > 4:
            raise MemoryError
        return bound(self, boxes)

    monkeypatch.setattr(InputSplitter, "bound", scarce)
    assert decide(Cut.ERROR).subproblems == whole.subproblems
    assert max(sizes) > 4
