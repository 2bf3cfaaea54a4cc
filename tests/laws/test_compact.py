"""Laws of the compact engine on random graphs: dense, convolutional, residual, several branches.

Oracles: q in 150 digits from its definition, the portable engine's q, finite differences, samples
of the input set run forward, and the linear program of the same leaf (HiGHS).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

import mpmath
import numpy as np
import pytest
import torch
from exact_dual import exact_q
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from random_networks import Case, Draw, case, pre_activations
from scipy.optimize import linprog
from scipy.sparse import random_array

from anybound.bound.bounds import Bounds
from anybound.bound.compact import plain
from anybound.bound.compact.cuts import transposed
from anybound.bound.compact.network import CompactNetwork, supports
from anybound.bound.compact.objective import Aim, CompactObjective
from anybound.bound.compact.packing import Blocks, is_sorted, pack
from anybound.bound.compact.problems import Children, Parents, starting_slopes
from anybound.bound.compact.refine import Adam, refine
from anybound.bound.compact.rigorous import exact_workspace, rigorous
from anybound.bound.compact.roots import RootBounds
from anybound.bound.compact.solve import Climb, Solved, solve, workspace
from anybound.bound.compact.sparse import SparseNetwork
from anybound.bound.compact.tighten import Tightening
from anybound.bound.decomposition import Decomposition
from anybound.bound.interval import interval
from anybound.model.affine.csr import Csr
from anybound.model.domains.box import Box
from anybound.spec.problem import Objective

seeds = st.integers(0, 2**32 - 1)
KINDS = ("relu", "relu", "relu", "leaky", "abs", "identity")
Array = NDArray[np.float64]


def cases(count: int) -> settings:
    return settings(max_examples=count, deadline=None, derandomize=True, database=None)


@dataclass(frozen=True, eq=False)
class Leaves:
    """A random case on the compact engine, and random sub-problems of it."""

    case: Case
    draw: Draw
    count: int
    clauses: tuple[slice, ...] | None = None

    @cached_property
    def sparse(self) -> SparseNetwork:
        return SparseNetwork(self.case.network)

    @cached_property
    def box(self) -> Box:
        assert isinstance(self.case.domain, Box)
        return self.case.domain

    @cached_property
    def network(self) -> CompactNetwork:
        return CompactNetwork.of(self.sparse, self.case.bounds, self.box)

    @cached_property
    def objective(self) -> CompactObjective:
        return CompactObjective.of(self.case.problem.objective, self.network, self.clauses)

    @cached_property
    def parents(self) -> Parents:
        """Random splits of about a third of the neurons, random slopes and multipliers."""
        rng, size = self.draw.rng, (self.count, len(self.network.ambiguous))
        sign = rng.choice(np.array([0, 0, 0, 0, 1, -1], np.int8), size)
        left = self.network.rows.left[self.network.rows.bends]
        slope = left + rng.random(size) * (1 - left)
        slope = np.where(sign == 0, slope, np.abs(rng.normal(size=size)) * (rng.random(size) < 0.7))
        row = rng.integers(0, len(self.objective.exact.start), self.count)
        return Parents(row, sign, slope.astype(np.float32), self.weights(row))

    def weights(self, clause: NDArray[np.int64]) -> NDArray[np.float32]:
        """1 where the clause has one row, else random on the simplex, some of them 0."""
        even = self.objective.weights(clause)
        if self.clauses is None:
            return even
        drawn = even * self.draw.rng.random(even.shape) * (self.draw.rng.random(even.shape) < 0.8)
        drawn[drawn.sum(1) == 0] = even[drawn.sum(1) == 0]
        return (drawn / drawn.sum(1, keepdims=True)).astype(np.float32)

    @cached_property
    def children(self) -> Children:
        """Each parent with one more split, where it has a neuron left and chance wills it."""
        rng, neuron = self.draw.rng, np.full(self.count, -1)
        for i in range(self.count):
            (open_,) = np.nonzero(self.parents.sign[i] == 0)
            if len(open_) and rng.random() < 0.5:
                neuron[i] = rng.choice(open_)
        sign = rng.choice(np.array([-1, 1], np.int8), self.count)
        return Children(
            np.arange(self.count), neuron, np.where(neuron >= 0, sign, 0).astype(np.int8)
        )

    @cached_property
    def sign(self) -> Array:
        return plain.signs(self.parents, self.children)

    @cached_property
    def slope(self) -> Array:
        """The slopes at which the children start: a new multiplier is 0."""
        slope = self.parents.slope.astype(np.float64)
        (split,) = np.nonzero(self.children.neuron >= 0)
        slope[split, self.children.neuron[split]] = 0
        return slope

    def plain(self, slope: Array) -> plain.Backward:
        weight = self.parents.weight
        row = self.parents.row
        return plain.backward(
            self.network, self.objective, self.sign, row, slope, weight=weight.astype(np.float64)
        )

    def leaf(self, i: int) -> Case:
        """Child i for the portable engine: its own function, bounds cut by its splits."""
        at, sign = torch.from_numpy(self.network.neuron), torch.from_numpy(self.sign[i])
        lower, upper = (x.data.clone() for x in (self.case.bounds.lower, self.case.bounds.upper))
        lower[0, 0, at] = torch.where(sign > 0, lower[0, 0, at].clamp(min=0), lower[0, 0, at])
        upper[0, 0, at] = torch.where(sign < 0, upper[0, 0, at].clamp(max=0), upper[0, 0, at])
        like = self.case.bounds.lower.like
        rows = self.case.rows[self.rows(i)]
        weight = torch.from_numpy(self.parents.weight[i, : len(rows)].astype(np.float64))
        row = torch.tensordot(weight, rows, 1).unsqueeze(0)
        return replace(self.case, bounds=Bounds(like(lower), like(upper)), rows=row)

    def rows(self, i: int) -> slice:
        """The rows of child i's clause."""
        clause = int(self.parents.row[i])
        return slice(clause, clause + 1) if self.clauses is None else self.clauses[clause]

    def climbed(self, climb: Climb, stop_above: float = np.inf) -> Solved:
        return solve(
            self.network, self.objective, self.parents, self.children, climb, stop_above=stop_above
        )


def leaves(seed: int, count: int = 3, kinds: tuple[str, ...] = KINDS, **options: bool) -> Leaves:
    one = case(seed, activations=kinds, domains=("box",), subproblems=1, **options)
    return Leaves(one, Draw(seed + 1), count)


def choices(seed: int, kinds: tuple[str, ...] = KINDS, **options: bool) -> Leaves:
    """Leaves of clauses of one to four random rows."""
    one = case(seed, activations=kinds, domains=("box",), subproblems=1, **options)
    draw = Draw(seed + 1)
    rows = torch.from_numpy(draw.rng.normal(size=(7, *one.network.output_shape)))
    ends = [0, 1, 3, 7] if draw.chance(0.7) else [0, 2, 4, 7]
    clauses = tuple(slice(a, b) for a, b in pairwise(ends))
    return Leaves(replace(one, rows=rows), draw, 3, clauses)


def close(a: Array, b: Array, tolerance: float) -> bool:
    return bool((np.abs(a - b) <= tolerance * (1 + np.abs(b))).all())


@cases(40)
@given(seeds)
def test_blocks_are_the_matrix(seed: int) -> None:
    """Every entry is in one block, every row in one block of its own layer, others are zero."""
    rng = np.random.default_rng(seed)
    layer = np.cumsum([0, *rng.integers(0, 12, 3)])
    rows, columns = int(layer[-1]), int(rng.integers(1, 30))
    pattern = random_array((4, columns), density=0.4, rng=rng).toarray()
    matrix = Csr.dense(pattern[rng.integers(0, 4, rows)] * rng.normal(size=(rows, columns)))
    main = rng.random(matrix.nnz) < 0.7 if rng.random() < 0.5 else None
    check_blocks(pack(matrix, layer, main), matrix, layer)


def check_blocks(blocks: Blocks, matrix: Csr, layer: NDArray[np.int64]) -> None:
    first, last, columns = int(layer[0]), int(layer[-1]), matrix.shape[1]
    dense, seen = np.zeros((matrix.shape[0] + 1, columns)), []
    for k in range(len(layer) - 1):
        for g in range(blocks.layer[k], blocks.layer[k + 1]):
            at = slice(blocks.start[g], blocks.start[g + 1])
            assert (np.diff(blocks.column[at]) > 0).all()
            for q, row in enumerate(blocks.rows[g]):
                dense[row, blocks.column[at]] += blocks.weight[at, q]
                if row < matrix.shape[0]:
                    assert layer[k] <= row < layer[k + 1]
                    seen.append(row)
    assert sorted(seen) == list(range(first, last))
    np.testing.assert_array_equal(dense[first:last], matrix.toarray()[first:last])


@cases(60)
@given(seeds)
def test_blocks_are_the_maps_between_live_rows(seed: int) -> None:
    """In both directions, for networks of which some neurons are ambiguous: these are numbered first."""
    network = leaves(seed).network
    assert is_sorted(network.matrix)
    check_blocks(network.forward, network.matrix, network.first[1 : network.hidden + 2])
    check_blocks(network.adjoint, transposed(network.matrix), network.first)


def test_rows_out_of_order_are_refused() -> None:
    """They were packed beyond the ends of arrays."""
    matrix = Csr(np.array([0, 2]), np.array([1, 0]), np.ones(2), (1, 2))
    with pytest.raises(ValueError, match="not sorted"):
        pack(matrix, np.array([0, 1]), None)


@pytest.mark.parametrize("made", [leaves, choices])
@cases(60)
@given(seeds)
def test_slopes_give_the_portable_engines_value_at_their_rho(
    made: Callable[[int], Leaves], seed: int
) -> None:
    """The bound of slopes is q at ρ = −ν; splits are clipped bounds."""
    some = made(seed)
    sweep = some.plain(some.slope)
    rho = plain.multipliers(some.network, sweep.nu)
    for i in range(some.count):
        q = some.leaf(i).dual.value(rho.like(rho.data[:, i : i + 1]))
        assert close(q.numpy(), sweep.value[i], 1e-9)


@pytest.mark.parametrize("made", [leaves, choices])
@cases(60)
@given(seeds)
def test_one_step_is_the_plain_sweep(made: Callable[[int], Leaves], seed: int) -> None:
    some = made(seed)
    solved, sweep = some.climbed(Climb(steps=1)), some.plain(some.slope)
    assert close(solved.bound, sweep.value, 2e-4)
    assert close(solved.coefficient, sweep.h[:, some.network.ambiguous], 2e-4)
    np.testing.assert_array_equal(solved.slope, some.slope.astype(np.float32))


@cases(40)
@given(seeds)
def test_derivatives_are_finite_differences(seed: int) -> None:
    """Of the plain sweep, wherever no coefficient changes sign in between."""
    some = leaves(seed, count=1)
    sweep = some.plain(some.slope)
    gradient = plain.forward(some.network, sweep, some.sign, some.slope).slope
    for a in range(len(some.network.ambiguous)):
        moved = [some.slope.copy() for _ in range(2)]
        moved[0][0, a] += 1e-6
        moved[1][0, a] -= 1e-6
        up, down = (some.plain(s) for s in moved)
        smooth = (np.sign(up.h) == np.sign(sweep.h)).all() and (
            np.sign(down.h) == np.sign(sweep.h)
        ).all()
        if smooth:
            assert close((up.value - down.value) / 2e-6, gradient[:, a], 1e-4)


@cases(60)
@given(seeds)
def test_a_step_goes_along_the_sign_of_the_derivative(seed: int) -> None:
    some = leaves(seed)
    solved = some.climbed(Climb(steps=2, slope_step=0.01, split_step=0.5))
    sweep = some.plain(some.slope)
    gradient = plain.forward(some.network, sweep, some.sign, some.slope).slope
    h = sweep.h[:, some.network.ambiguous]
    left = some.network.rows.left[some.network.rows.bends]
    size = np.where(some.sign == 0, 0.01, 0.5 * np.abs(h))
    expected = some.slope + np.sign(gradient) * size
    expected = np.where(
        some.sign == 0, expected.clip(left.astype(np.float32), 1), expected.clip(min=0)
    )
    reads = np.abs(some.network.matrix.scipy()).sum(0) > 0  # that something reads
    untied = (np.abs(sweep.h[:, np.asarray(reads).reshape(-1)]) > 1e-4).all(1)
    certain = (np.abs(gradient) > 1e-4) & (np.abs(h) > 1e-4) & untied[:, None]
    assert close(solved.slope[certain], expected[certain], 2e-4)


@pytest.mark.parametrize("made", [leaves, choices])
@cases(30)
@given(seeds)
def test_rigorous_is_below_the_exact_value_and_close_to_it(
    made: Callable[[int], Leaves], seed: int
) -> None:
    """q in 150 digits at ρ = −ν, for any slopes: outside their range, and with negative
    multipliers, too."""
    some = made(seed)
    slope = some.slope.astype(np.float32)
    if some.draw.chance(0.5):
        slope += some.draw.rng.normal(size=slope.shape).astype(np.float32)
    bound = rigorous(some.network, some.objective, some.parents, some.children, slope)
    rho = plain.multipliers(some.network, some.plain(slope.astype(np.float64)).nu)
    for i in range(some.count):
        leaf = some.leaf(i)
        q = exact_q(leaf, rho.data[0, i], 0, 0)
        portable = float(leaf.dual.rigorous(rho.like(rho.data[:, i : i + 1])))
        size = 1 + float(rho.data[0, i].abs().sum() + leaf.rows.abs().sum())
        with mpmath.workdps(50):
            # The plain sweep's ρ is the kernel's up to rounding, which moves q by as much.
            assert mpmath.mpf(bound[i]) <= q + 1e-13 * size
            assert q - mpmath.mpf(bound[i]) <= 1e-10 * size
        assert abs(bound[i] - portable) <= 1e-9 * size


@cases(25)
@given(seeds)
def test_rigorous_never_exceeds_what_samples_show(seed: int) -> None:
    some = leaves(seed, count=4)
    solved = some.climbed(Climb(steps=20))
    bound = rigorous(some.network, some.objective, some.parents, some.children, solved.slope)
    for i in range(some.count):
        assert bound[i] <= float(some.leaf(i).sampled_minimum(300))


@pytest.mark.parametrize("weight", [1e-20, 1e20, 1e200])
def test_badly_scaled_weights_are_sound(weight: float) -> None:
    some = leaves(5)
    rows = some.case.rows * weight
    scaled = Leaves(replace(some.case, rows=rows), Draw(6), 3)
    bound = rigorous(
        scaled.network, scaled.objective, scaled.parents, scaled.children, scaled.parents.slope
    )
    for i in range(scaled.count):
        assert bound[i] <= float(scaled.leaf(i).sampled_minimum(100))
        assert not np.isnan(bound[i])


@cases(15)
@given(seeds)
def test_converged_slopes_reach_the_linear_program_of_the_leaf(seed: int) -> None:
    """Of ReLU networks; the bound is below the optimum (or the leaf is empty), and close to it."""
    some = leaves(seed, kinds=("relu",), cuts=False)  # cut bounds are constraints of their own
    slope = np.where(some.parents.sign == 0, starting_slopes(some.network), 0).astype(np.float32)
    solved = refine(
        some.network,
        some.objective,
        some.parents._replace(slope=slope),
        some.children,
        Adam(steps=400, step=0.3, decay=0.985),
    )
    bound = rigorous(some.network, some.objective, some.parents, some.children, solved.slope)
    for i in range(some.count):
        optimum = linear_program(some.leaf(i))
        assert bound[i] <= optimum + 1e-7 * (1 + abs(optimum))
        start = float(some.leaf(i).dual.value(some.leaf(i).dual.zeros()))
        if np.isfinite(optimum):
            assert optimum - bound[i] <= 0.05 * (optimum - start) + 0.01 * (1 + abs(optimum))


@cases(15)
@given(seeds)
def test_converged_weights_reach_the_linear_program_of_the_largest_row(seed: int) -> None:
    """max over w of min Σ w_r f_r = min over the relaxation of max_r f_r."""
    some = choices(seed, kinds=("relu",), cuts=False)
    slope = np.where(some.parents.sign == 0, starting_slopes(some.network), 0).astype(np.float32)
    start = some.parents._replace(slope=slope)
    adam = Adam(steps=600, step=0.3, decay=0.99)
    solved = refine(some.network, some.objective, start, some.children, adam)
    bound = rigorous(
        some.network, some.objective, start, some.children, solved.slope, weight=solved.weight
    )
    assert (np.abs(solved.weight.sum(1) - 1) <= 1e-5).all()
    assert (solved.weight >= 0).all()
    for i in range(some.count):
        leaf = replace(some.leaf(i), rows=some.case.rows[some.rows(i)])
        optimum = linear_program(leaf)
        assert bound[i] <= optimum + 1e-5 * (1 + abs(optimum))  # the weights' sum is 1 ± 1e-6
        start_value = float(some.leaf(i).dual.value(some.leaf(i).dual.zeros()))
        if np.isfinite(optimum):
            gap = optimum - min(start_value, optimum)
            assert optimum - bound[i] <= 0.05 * gap + 0.02 * (1 + abs(optimum))


@cases(20)
@given(seeds)
def test_a_clause_of_equal_rows_is_one_row(seed: int) -> None:
    """Whatever the weights do; and naming clauses of one row changes nothing at all."""
    some = leaves(seed, count=4)
    rows = len(some.case.rows)
    named = replace(some, clauses=tuple(slice(r, r + 1) for r in range(rows)))
    twice = replace(
        some,
        case=replace(some.case, rows=some.case.rows.repeat_interleave(2, 0)),
        clauses=tuple(slice(2 * r, 2 * r + 2) for r in range(rows)),
    )
    climb = Climb(steps=6)
    one = some.climbed(climb)
    other = solve(some.network, named.objective, some.parents, some.children, climb)
    np.testing.assert_array_equal(one.bound, other.bound)
    np.testing.assert_array_equal(one.slope, other.slope)
    start = some.parents._replace(weight=twice.weights(some.parents.row))
    pair = solve(some.network, twice.objective, start, some.children, climb)
    assert close(pair.bound, one.bound, 1e-3)


def linear_program(leaf: Case) -> float:
    """The minimum over the relaxation of the largest row: ∞ where it is empty."""
    net, bounds = leaf.network, leaf.bounds
    offset = np.cumsum([0, *(int(np.prod(node.shape)) for node in net.nodes[:-1])])
    total, hidden = int(offset[-1]), int(offset[-1] - offset[1])
    size = total + hidden  # z_0 … z_{n−1}, ẑ_1 … ẑ_{n−1}
    equal, right = np.zeros((hidden, size)), np.zeros(hidden)
    for k in net.hidden:
        at = slice(offset[k] - offset[1], offset[k + 1] - offset[1])
        for edge in net.nodes[k].edges:
            equal[at, offset[edge.source] : offset[edge.source + 1]] -= edge.map.sparse().toarray()
            if edge.map.bias is not None:
                right[at] += edge.map.bias.expand(edge.map.out_shape).reshape(-1).numpy()
    equal[:, total:] = np.eye(hidden)
    l, u = bounds.lower.data[0, 0].numpy(), bounds.upper.data[0, 0].numpy()
    box = leaf.domain.box()
    limits = [*zip(box[0].flatten().tolist(), box[1].flatten().tolist(), strict=True)]
    limits += [(0, None)] * hidden + [*zip(l.tolist(), u.tolist(), strict=True)]
    less, most = [], []
    for j in range(hidden):
        if l[j] > u[j]:
            return np.inf
        above, below = np.zeros(size), np.zeros(size)
        s = 1.0 if l[j] >= 0 else 0.0 if u[j] <= 0 else u[j] / (u[j] - l[j])
        above[offset[1] + j], above[total + j] = 1, -s  # z − s·ẑ <= t
        below[offset[1] + j], below[total + j] = -1, 1  # ẑ <= z
        less += [above, below]
        most += [0.0 if l[j] >= 0 or u[j] <= 0 else -s * l[j], 0.0]
    objective = leaf.problem.objective
    for r, constant in enumerate(objective.constant[0].tolist()):  # f_r <= t
        row = np.zeros(size)
        for j, a in objective.coefficients.items():
            row[offset[j] : offset[j + 1]] += a[0, r].flatten().numpy()
        less.append(row)
        most.append(-constant)
    largest = np.zeros((len(less), 1))
    largest[len(less) - objective.constant.shape[1] :] = -1
    inequalities = np.hstack([np.array(less), largest]), np.array(most)
    equalities = (np.pad(equal, ((0, 0), (0, 1))), right) if hidden else (None, None)
    cost = np.append(np.zeros(size), 1.0)
    found = linprog(cost, *inequalities, *equalities, [*limits, (None, None)], method="highs")
    return np.inf if found.status == 2 else float(found.fun)


@cases(15)
@given(seeds)
def test_results_do_not_depend_on_the_batch(seed: int) -> None:
    """One problem alone, as the last of a chunk, and in a second chunk."""
    some = leaves(seed, count=3)
    work = workspace(some.network, some.objective)
    alone = some.climbed(Climb(steps=5))
    for count in (33, 128, 130, 300):
        repeated = some.children._replace(
            parent=np.arange(count) % 3,
            neuron=np.resize(some.children.neuron, count),
            sign=np.resize(some.children.sign, count),
        )
        many = solve(
            some.network, some.objective, some.parents, repeated, Climb(steps=5), work=work
        )
        # A row that a neighbour splits takes another formula of the same value.
        assert close(many.bound, np.resize(alone.bound, count), 1e-4)


@cases(25)
@given(seeds)
def test_a_decided_problem_keeps_the_slopes_that_decide_it(seed: int) -> None:
    some = leaves(seed, count=5)
    first = some.climbed(Climb(steps=1)).bound
    solved = some.climbed(Climb(steps=12), stop_above=float(np.median(first)))
    bound = rigorous(some.network, some.objective, some.parents, some.children, solved.slope)
    decided = solved.bound > np.median(first)
    assert (bound[decided] >= np.median(first) - 2e-4 * (1 + np.abs(bound[decided]))).all()
    assert (solved.bound >= first - 1e-6 * (1 + np.abs(first))).all()


@cases(30)
@given(seeds)
def test_cones_are_all_that_bounds_of_neurons_depend_on(seed: int) -> None:
    """A problem of another kind in the batch makes every sweep visit the whole network."""
    some = leaves(seed, count=3)
    if some.network.count == some.network.inputs:
        return
    start = Parents.roots(some.network, np.zeros(1, np.int64))
    draw = np.random.default_rng(seed)
    target = np.sort(draw.integers(some.network.inputs, some.network.count, 150))
    weight = draw.choice(np.array([1, -1], np.float32), 150)
    aim = Aim(np.zeros(150, np.float32), target, weight)
    mixed = Aim(*(np.append(many, one) for many, one in zip(aim, Aim.none(1), strict=True)))
    children, more = (Children.of(np.zeros(count, np.int64)) for count in (150, 151))
    own = some.network, some.objective, start
    cones = refine(*own, children, Adam(steps=4), aim)
    everywhere = refine(*own, more, Adam(steps=4), mixed)
    np.testing.assert_array_equal(cones.bound, everywhere.bound[:150])

    work = exact_workspace(some.network, some.objective)
    slope = everywhere.slope
    whole = rigorous(*own, more, slope, mixed, work=work)[:150]
    for proposed in (slope[:150], cones.slope):  # outside the cones, slopes play no part
        np.testing.assert_array_equal(rigorous(*own, children, proposed, aim, work=work), whole)
    np.testing.assert_array_equal(rigorous(*own, more, slope, mixed, work=work)[:150], whole)


@cases(25)
@given(seeds)
def test_root_bounds_hold_and_are_no_looser_than_intervals(seed: int) -> None:
    some = leaves(seed, cuts=False)
    for method in (RootBounds(), RootBounds(None), RootBounds(Adam(steps=3))):
        bounds = method.bounds(some.sparse, some.box)
        wide = interval(some.case.network, some.box)
        assert bool((bounds.lower.data >= wide.lower.data - 1e-9).all())
        assert bool((bounds.upper.data <= wide.upper.data + 1e-9).all())
        x = some.box.sample(200, torch.Generator().manual_seed(seed))
        zhat = (
            torch.cat([z.flatten(2) for z in some.case.network.trace(x)[1:-1]], -1)
            if some.case.network.n > 1
            else x[..., :0].flatten(2)
        )
        assert bool((zhat >= bounds.lower.data).all())
        assert bool((zhat <= bounds.upper.data).all())


@cases(25)
@given(seeds)
def test_tightened_bounds_hold_wherever_the_property_is_violated(seed: int) -> None:
    """On samples with f <= 0; if an interval is empty there are none."""
    some = leaves(seed, cuts=False)
    net, box = some.case.network, some.box
    if net.n < 2:
        return
    x = box.sample(400, torch.Generator().manual_seed(seed))
    f = some.case.values(x)[0, :, 0]
    offset = -torch.quantile(f, 0.1).reshape(1)
    objective = Objective.rows(net, some.case.rows[:1], offset)
    bounds = RootBounds().bounds(some.sparse, box)
    tight = Tightening((1, 2)).bounds(some.sparse, bounds, box, objective, slice(0, 1))
    zhat = pre_activations(net, x)[0, f + offset <= 0]
    assert len(zhat)
    assert bool((zhat >= tight.lower.data[0]).all())
    assert bool((zhat <= tight.upper.data[0]).all())


def test_an_impossible_violation_is_found_out() -> None:
    """f is large everywhere: tightening alone empties an interval, or leaves the bounds valid."""
    found = 0
    for seed in range(30):
        some = leaves(seed, kinds=("relu",), cuts=False)
        net, box = some.case.network, some.box
        bounds = RootBounds().bounds(some.sparse, box)
        dual = Decomposition.between(some.case.problem, bounds)
        if net.n < 2 or len(CompactNetwork.of(some.sparse, bounds, box).ambiguous) == 0:
            continue
        offset = 1 - dual.rigorous(dual.zeros())[0, :1]
        objective = Objective.rows(net, some.case.rows[:1], offset)
        tight = Tightening((2, 2)).bounds(some.sparse, bounds, box, objective, slice(0, 1))
        found += bool(tight.is_empty().any())
    assert found


def test_support_is_told() -> None:
    one = case(3, activations=("tanh",), domains=("box",), subproblems=1)
    while one.network.n < 2:
        one = case(one.network.n + 10, activations=("tanh",), domains=("box",), subproblems=1)
    assert "Tanh" in supports(one.network, one.domain)
    some = leaves(1)
    assert supports(some.case.network, some.box) == ""
    ball = case(1, domains=("l2",), subproblems=1)
    assert "L2Ball" in supports(ball.network, ball.domain)
