"""The descent that several attacks share, and the sizes of its steps.

    v ← μ v + ∂m(x) / mean|∂m(x)|,     x ← project(x + γ_t · downhill(v)),     γ_t = γ_0 · decay^t

μ = 0 is projected gradient descent: `downhill` does not depend on a gradient's scale. Steps are
relative to the input set: 1 goes from its middle to its border (a sign step in a box, a normalised
gradient in an l2 ball).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import torch
from torch import Tensor

from anybound.search.attack import Tried
from anybound.search.margins import Margins


def descend(
    margins: Margins,
    x: Tensor,
    step: Tensor,
    *,
    steps: int,
    decay: float,
    momentum: float = 0.0,
) -> Iterator[Tried]:
    """Every batch of points on the way from x `[C, S, *input_shape]`; `step` is γ_0."""
    velocity = torch.zeros_like(x)
    for _ in range(steps):
        margin, gradient = margins.slope(x)
        yield Tried(x, margin)
        size = gradient.abs().flatten(2).mean(-1).clamp(min=torch.finfo(x.dtype).tiny)
        velocity = momentum * velocity + gradient / _spread(size, x)
        x = margins.project(x + step * margins.downhill(velocity))
        step = step * decay
    yield Tried(x, margins.values(x))


def batches(
    margins: Margins, most: int, rounds: int, generator: torch.Generator
) -> Iterator[Tensor]:
    """Random starts, few at first so that an easy witness comes at once, then twice as many each
    time, up to `most` per clause or what a batch has room for; `rounds` = 0 goes on for ever.

    The first is the middle of the set; half of the others lie partly at its limits."""
    most = margins.room_for(most)
    size = min(8, most)
    for done in count() if rounds == 0 else range(rounds):
        inner = margins.scatter(size - size // 2, generator)
        x = torch.cat([inner, margins.sample(size // 2, generator)], dim=1)
        if done == 0:
            x[:, :1] = margins.project(margins.center())
        yield x
        size = min(2 * size, most)


def random_steps(x: Tensor, largest: float, smallest: float, generator: torch.Generator) -> Tensor:
    """A size for every point, log-uniform: narrow valleys need short steps, wide ones long."""
    share = torch.rand(x.shape[:2], generator=generator, dtype=x.dtype)
    return _spread(largest * (smallest / largest) ** share, x)


def _spread(values: Tensor, like: Tensor) -> Tensor:
    """`[C, S]` as `[C, S, 1, …]`."""
    return values.reshape(*values.shape, *[1] * (like.ndim - 2))
