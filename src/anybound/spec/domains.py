"""From a property's input sets, which are plain arrays, to domains of a network's inputs."""

from __future__ import annotations

from math import prod

import torch
from torch import Tensor

from anybound.errors import InvalidProperty
from anybound.model.affine.map import Shape
from anybound.model.domains.box import Box
from anybound.model.domains.clipped_ball import ClippedBall
from anybound.model.domains.domain import Domain
from anybound.model.domains.l1_ball import L1Ball
from anybound.model.domains.l2_ball import L2Ball
from anybound.rounding import outward
from anybound.spec.input_sets import BallSet, BoxSet, InputSet
from anybound.spec.rounding import FloatArray

__all__ = ["from_input_set"]


def from_input_set(input_set: InputSet, shape: Shape, dtype: torch.dtype = torch.float64) -> Domain:
    """The set as a shared domain (D = 1) of points of the network's input `shape`, outwards."""
    if input_set.size != prod(shape):
        raise InvalidProperty(
            f"the property has {input_set.size} inputs, the network's input shape {shape} has "
            f"{prod(shape)}; check that the two files belong together"
        )
    if isinstance(input_set, BoxSet):
        return _box(input_set, shape, dtype)
    return _ball(input_set, shape, dtype)


def _box(box: BoxSet, shape: Shape, dtype: torch.dtype) -> Box:
    return Box(*outward(_points(box.lower, shape), _points(box.upper, shape), dtype))


def _ball(ball: BallSet, shape: Shape, dtype: torch.dtype) -> Domain:
    kind = L1Ball if ball.norm == 1 else L2Ball
    radius = torch.tensor([[ball.radius]], dtype=torch.float64)
    exact = kind(_points(ball.center, shape), radius).to(dtype)
    return exact if ball.clip is None else ClippedBall(exact, _box(ball.clip, shape, dtype))


def _points(values: FloatArray, shape: Shape) -> Tensor:
    return torch.tensor(values, dtype=torch.float64).reshape(1, 1, *shape)
