"""What a chunk of problems can reach: the rows and blocks that its sweeps have to visit.

A problem without splits whose objective is one pre-activation ẑ_t, and nothing else, depends on the ancestors of
row t only: its *cone*. Everywhere else h_j = 0 and ν_j = 0, exactly, so that neither the value nor a derivative gains
from a visit. With a convolution's neurons sorted by where they look, a chunk's cone is a small part of the network.

A row is *reached* if it is a target, or in an adjoint block that reads a reached row. A forward block is visited if it
has a reached row, and writes only those: `x` stays 0 in every other row, which is what blocks that read it rely on.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from anybound.bound.compact.jit import exact
from anybound.bound.compact.machine import ROWS
from anybound.bound.compact.network import CompactNetwork
from anybound.bound.compact.objective import Aim
from anybound.bound.compact.packing import Blocks
from anybound.bound.compact.problems import Children, Parents
from anybound.bound.compact.rows import Index


class Reach(NamedTuple):
    """Lists as long as they may get, and how much of them is in use."""

    row: NDArray[np.int8]  # [rows + 1]: whether it is reached
    adjoint: NDArray[np.int32]  # [G]: numbers of blocks, layer by layer
    first: Index  # [nodes + 1]: where each node's begin in `adjoint`
    forward: NDArray[np.int32]  # [G']
    bent: NDArray[np.int32]  # [A]: numbers of ambiguous rows
    used: Index  # [2]: the lengths in use of `forward` and `bent`


def in_cones(aim: Aim, parents: Parents, children: Children) -> bool:
    """Whether all objectives are pre-activations and nothing else, of problems without splits.

    (A split's multiplier counts wherever its neuron is.)"""
    aimed = bool((aim.scale == 0).all() and (aim.target >= 0).all())
    return aimed and not parents.sign.any() and bool((children.neuron < 0).all())


def whole(network: CompactNetwork, *, forward: bool = True) -> Reach:
    """All rows of a network; without `forward`, there is no list of forward blocks."""
    blocks = len(network.forward.rows) if forward else 0
    return Reach(
        np.ones(network.count + 1, np.int8),
        np.arange(len(network.adjoint.rows), dtype=np.int32),
        network.adjoint.layer.copy(),
        np.arange(blocks, dtype=np.int32),
        np.arange(len(network.ambiguous), dtype=np.int32),
        np.array([blocks, len(network.ambiguous)]),
    )


def example_reach() -> Reach:
    """An example of the kernels' argument."""
    wide, narrow = np.zeros(1, np.int64), np.zeros(1, np.int32)
    return Reach(np.zeros(1, np.int8), narrow, wide, narrow, narrow, wide)


@exact
def reach_all(blocks: Blocks, reach: Any) -> Any:
    """The adjoint lists name everything again; the forward list is not touched."""
    for row in range(len(reach.row)):
        reach.row[row] = 1
    for g in range(len(reach.adjoint)):
        reach.adjoint[g] = g
    for layer in range(len(reach.first)):
        reach.first[layer] = blocks.layer[layer]
    for a in range(len(reach.bent)):
        reach.bent[a] = a
    reach.used[1] = len(reach.bent)


@exact
def restrict(net: Any, reach: Any, x: Any, target: Any, width: Any) -> Any:
    """Reach the cones of the first `width` targets; `x` becomes 0 in what is left."""
    for row in range(len(reach.row)):
        if reach.row[row]:
            reach.row[row] = 0
            for i in range(x.shape[1]):
                x[row, i] = 0
    for i in range(width):
        reach.row[target[i]] = 1
    _list_adjoint(net.adjoint, reach)
    used = 0
    for row in range(len(reach.row)):
        if reach.row[row] and net.ambiguous[row] >= 0:
            reach.bent[used] = net.ambiguous[row]
            used += 1
    reach.used[1] = used


@exact
def _list_adjoint(blocks: Any, reach: Any) -> Any:
    """From the last layer to the input; a block's rows are reached together."""
    # The lists of later layers are found first: they are filled from the back.
    place = len(reach.adjoint)
    for layer in range(len(reach.first) - 2, -1, -1):
        reach.first[layer + 1] = place
        for g in range(blocks.layer[layer + 1] - 1, blocks.layer[layer] - 1, -1):
            if _reads(blocks, g, reach.row):
                place -= 1
                reach.adjoint[place] = g
                for q in range(ROWS):
                    reach.row[blocks.rows[g, q]] = 1
    reach.first[0] = place


@exact
def _reads(blocks: Any, g: Any, reached: Any) -> Any:
    """Whether a block has a reached row, or reads one."""
    for q in range(ROWS):
        if reached[blocks.rows[g, q]] and blocks.rows[g, q] < len(reached) - 1:
            return True
    for entry in range(blocks.start[g], blocks.start[g + 1]):  # noqa: SIM110 (Numba: no generators)
        if reached[blocks.column[entry]]:
            return True
    return False


@exact
def list_forward(blocks: Any, reach: Any) -> Any:
    """The forward blocks that have a reached row."""
    used = 0
    for g in range(len(blocks.rows)):
        for q in range(ROWS):
            row = blocks.rows[g, q]
            if reach.row[row] and row < len(reach.row) - 1:
                reach.forward[used] = g
                used += 1
                break
    reach.used[0] = used
