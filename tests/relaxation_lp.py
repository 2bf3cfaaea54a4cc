"""The optimum of the convex relaxation by SciPy's linear programs, written without the project's facets.

The hull of σ's graph over [l, u] is what convex combinations of its points reach:

    ẑ = Σ_v λ_v x_v,   z = Σ_v λ_v σ(x_v),   λ >= 0,   Σ_v λ_v = 1

with x_v the ends and the bends of a piecewise linear σ (exact), a fine grid for a smooth one (slightly too high an
optimum).
"""

from __future__ import annotations

from functools import cache

import numpy as np
import torch
from numpy.typing import NDArray
from random_networks import Case
from scipy.optimize import linprog
from scipy.sparse import block_diag, coo_matrix, csr_matrix, hstack, identity, vstack

from anybound.model.activations import Activation, Clip
from anybound.model.activations.s_shaped import SShaped
from anybound.model.domains.box import Box

GRID = 600


def optimum(case: Case, d: int, r: int) -> float:
    """min of row r over the relaxation of sub-problem d; the input set is a box."""
    net, box = case.network, case.domain
    assert isinstance(box, Box)
    limits = [np.stack([_numbers(x[d % len(x)]) for x in (box.lower, box.upper)], axis=1)]
    # The variables of layer k are z_0, or the weights λ of its points; `post` and `pre` read z, ẑ off them.
    post = {0: identity(net.input_size, format="csr")}
    pre, ones = {}, {}
    for k in net.hidden:
        pre[k], post[k], ones[k] = _hull(case, d, k)
        limits.append(np.tile([0.0, 1.0], (pre[k].shape[1], 1)))
    equalities, right = [], []
    for k in net.hidden:
        equalities.append(_row_block(case, k, {k: pre[k]}, post))
        right.append(_bias(case, k))
        equalities.append(_place({k: ones[k]}, post))
        right.append(np.ones(ones[k].shape[0]))
    cost = -_row_block(case, net.n, {}, post).T @ _numbers(case.rows[r])
    constant = float(_bias(case, net.n) @ _numbers(case.rows[r]))
    solved = linprog(
        cost,
        A_eq=vstack(equalities) if equalities else None,
        b_eq=np.concatenate(right) if right else None,
        bounds=np.concatenate(limits),
        method="highs",
    )
    assert solved.status == 0, solved.message
    return float(solved.fun) + constant


@cache
def optima(case: Case) -> torch.Tensor:
    """`[D, R]`."""
    d, r = case.dual.batch
    return torch.tensor([[optimum(case, i, j) for j in range(r)] for i in range(d)]).double()


def _hull(case: Case, d: int, k: int) -> tuple[csr_matrix, csr_matrix, csr_matrix]:
    """What reads ẑ, z and Σ λ off the weights of layer k."""
    node = case.network.nodes[k]
    assert node.activation is not None
    pick = d % case.bounds.count
    lower, upper = (_numbers(x[k][pick]) for x in (case.bounds.lower, case.bounds.upper))
    points = [_points(node.activation, l, u) for l, u in zip(lower, upper, strict=True)]
    sigma = node.activation.flattened(node.shape)
    padded = np.zeros((max(map(len, points)), len(points)))
    for i, x in enumerate(points):
        padded[: len(x), i] = x
    values = sigma.value(torch.from_numpy(padded)).numpy()
    heights = [values[: len(x), i] for i, x in enumerate(points)]
    rows = [csr_matrix(np.ones((1, len(x)))) for x in points]
    return (
        block_diag([x[None] for x in points], format="csr"),
        block_diag([x[None] for x in heights], format="csr"),
        block_diag(rows, format="csr"),
    )


def _points(activation: Activation, l: float, u: float) -> NDArray[np.float64]:
    if isinstance(activation, SShaped):
        return np.linspace(l, u, GRID)
    bends = (activation.low, activation.high) if isinstance(activation, Clip) else (0.0,)
    return np.array([l, *(b for b in bends if l < b < u), u])


def _row_block(
    case: Case, k: int, own: dict[int, csr_matrix], post: dict[int, csr_matrix]
) -> csr_matrix:
    """own − Σ_j W_kj z_j over all variables."""
    blocks = dict(own)
    for edge in case.network.nodes[k].edges:
        share = -(edge.map.sparse().scipy() @ post[edge.source])
        j = edge.source
        blocks[j] = blocks[j] + share if j in blocks else share
    return _place(blocks, post)


def _place(blocks: dict[int, csr_matrix], post: dict[int, csr_matrix]) -> csr_matrix:
    rows = next(iter(blocks.values())).shape[0]
    parts = [blocks.get(j, coo_matrix((rows, post[j].shape[1]))) for j in sorted(post)]
    return hstack(parts, format="csr")


def _bias(case: Case, k: int) -> NDArray[np.float64]:
    total = np.zeros(case.network.nodes[k].shape).reshape(-1)
    for edge in case.network.nodes[k].edges:
        if edge.map.bias is not None:
            total = total + _numbers(edge.map.bias.expand(edge.map.out_shape))
    return total


def _numbers(x: torch.Tensor) -> NDArray[np.float64]:
    return np.asarray(x.detach().double().reshape(-1).numpy())
