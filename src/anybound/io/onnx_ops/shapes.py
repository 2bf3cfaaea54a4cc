"""Operators that only move entries: another shape or order, only some, some of them repeated."""

from __future__ import annotations

from math import prod

import numpy as np

from anybound.io.onnx_ops.algebra import (
    concatenated,
    expanded,
    padded,
    permuted,
    rearranged,
    reshaped,
)
from anybound.io.onnx_ops.op import Op
from anybound.io.onnx_ops.value import Value
from anybound.model.affine.map import Shape


def flatten(op: Op) -> Value:
    value = op.value(0)
    rank = len(value.shape)
    axis = op.integer("axis", 1)
    # The one operator whose axis may equal the rank.
    axis = rank if axis == rank else op.axis(axis, max(rank, 1))
    return reshaped(value, (prod(value.shape[:axis]), prod(value.shape[axis:])))


def reshape(op: Op) -> Value:
    value = op.value(0)
    wanted = [int(extent) for extent in op.integers(1, "the shape").reshape(-1)]
    copied = not op.integer("allowzero", 0)
    for axis, extent in enumerate(wanted):
        if extent == 0 and copied:
            if axis >= len(value.shape):
                raise op.invalid(
                    f"shape {wanted} copies axis {axis} of a tensor of shape {value.shape}"
                )
            wanted[axis] = value.shape[axis]
    return reshaped(value, _filled(op, wanted, value.shape))


def _filled(op: Op, wanted: list[int], shape: Shape) -> Shape:
    """`wanted` with its −1, if any, worked out."""
    size, known = prod(shape), prod(extent for extent in wanted if extent != -1)
    unknown = wanted.count(-1)
    if unknown == 1 and known > 0 and size % known == 0:
        wanted = [size // known if extent == -1 else extent for extent in wanted]
    elif unknown or known != size or min(wanted, default=0) < 0:
        raise op.invalid(f"cannot reshape {shape} to {tuple(wanted)}")
    return tuple(wanted)


def transpose(op: Op) -> Value:
    value = op.value(0)
    rank = len(value.shape)
    axes = op.ints("perm", tuple(reversed(range(rank)))) or ()
    if sorted(axes) != list(range(rank)):
        raise op.invalid(f"perm {axes} does not permute the axes of shape {value.shape}")
    return permuted(value, axes)


def squeeze(op: Op) -> Value:
    value = op.value(0)
    axes = op.integer_list(1, "axes")
    if axes is None:
        dropped = tuple(axis for axis, extent in enumerate(value.shape) if extent == 1)
    else:
        dropped = op.axes(axes, len(value.shape))
    if any(value.shape[axis] != 1 for axis in dropped):
        raise op.invalid(f"axes {axes} of shape {value.shape} are not all of length 1")
    return reshaped(value, tuple(e for axis, e in enumerate(value.shape) if axis not in dropped))


def unsqueeze(op: Op) -> Value:
    value = op.value(0)
    axes = op.integer_list(1, "axes")
    if axes is None:
        raise op.invalid("has no axes")
    rank = len(value.shape) + len(axes)
    inserted = op.axes(axes, rank)
    rest = iter(value.shape)
    return reshaped(value, tuple(1 if axis in inserted else next(rest) for axis in range(rank)))


def expand(op: Op) -> Value:
    value = op.value(0)
    wanted = tuple(int(extent) for extent in op.integers(1, "the shape").reshape(-1))
    if min(wanted, default=0) < 0:
        raise op.invalid(f"shape {wanted} has negative extents")
    return expanded(value, op.broadcast(value.shape, wanted))


def tile(op: Op) -> Value:
    value = op.value(0)
    repeats = tuple(int(count) for count in op.integers(1, "the repeats").reshape(-1))
    if len(repeats) != len(value.shape):
        raise op.invalid(f"{len(repeats)} repeats do not fit shape {value.shape}")
    op.room(tuple(e * r for e, r in zip(value.shape, repeats, strict=True)))
    return rearranged(value, lambda array: np.tile(array, repeats))


def concat(op: Op) -> Value:
    values = [op.value(position) for position in range(len(op.inputs))]
    rank = len(values[0].shape)
    axis = op.axis(op.integer("axis", 1), rank)
    rests = {value.shape[:axis] + value.shape[axis + 1 :] for value in values}
    if len(rests) > 1 or any(len(value.shape) != rank for value in values):
        raise op.invalid(f"shapes {[value.shape for value in values]} differ beyond axis {axis}")
    total = sum(value.shape[axis] for value in values)
    op.room((*values[0].shape[:axis], total, *values[0].shape[axis + 1 :]))
    return concatenated(values, axis)


def gather(op: Op) -> Value:
    value = op.value(0)
    axis = op.axis(op.integer("axis", 0), len(value.shape))
    extent = value.shape[axis]
    index = op.integers(1, "the indices")
    if index.size and not -extent <= int(index.min()) <= int(index.max()) < extent:
        raise op.invalid(f"indices are outside axis {axis} of shape {value.shape}")
    op.room((*value.shape[:axis], *index.shape, *value.shape[axis + 1 :]))
    return rearranged(value, lambda array: np.take(array, index % max(extent, 1), axis=axis))


def split(op: Op) -> tuple[Value, ...]:
    value = op.value(0)
    axis = op.axis(op.integer("axis", 0), len(value.shape))
    extent = value.shape[axis]
    sizes = op.integer_list(1, "split")
    if sizes is None:
        parts = op.integer("num_outputs", len(op.outputs))
        if not 1 <= parts <= max(extent, 1):
            raise op.invalid(f"cannot split an axis of length {extent} into {parts} parts")
        step = -(-extent // parts)
        sizes = (*(step for _ in range(parts - 1)), extent - step * (parts - 1))
    if sum(sizes) != extent or min(sizes, default=0) < 0 or len(sizes) != len(op.outputs):
        raise op.invalid(
            f"sizes {sizes} do not split axis {axis} of shape {value.shape} into "
            f"{len(op.outputs)} parts"
        )
    ends = np.cumsum(sizes)
    before: tuple[slice, ...] = (slice(None),) * axis
    return tuple(
        rearranged(value, lambda array, s=slice(end - size, end): array[(*before, s)])  # type: ignore[misc]
        for size, end in zip(sizes, ends, strict=True)
    )


def slice_(op: Op) -> Value:
    value = op.value(0)
    rank = len(value.shape)
    starts, ends = op.integer_list(1, "starts"), op.integer_list(2, "ends")
    if starts is None or ends is None:
        raise op.invalid("has no starts or no ends")
    axes = op.axes(op.integer_list(3, "axes", range(len(starts))) or (), rank)
    steps = op.integer_list(4, "steps", (1,) * len(starts)) or ()
    if not len(starts) == len(ends) == len(axes) == len(steps) or 0 in steps:
        raise op.invalid(f"starts {starts}, ends {ends}, axes {axes}, steps {steps} do not match")
    cut = [slice(None)] * rank
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        cut[axis] = _slice(start, end, step, value.shape[axis])
    return rearranged(value, lambda array: array[tuple(cut)])


def _slice(start: int, end: int, step: int, extent: int) -> slice:
    """ONNX's clamping: both ends count from the back where negative, then move into range."""
    start = start + extent if start < 0 else start
    end = end + extent if end < 0 else end
    if step > 0:
        return slice(min(max(start, 0), extent), min(max(end, 0), extent), step)
    start, end = min(max(start, 0), extent - 1), min(max(end, -1), extent - 1)
    return slice(start, None if end < 0 else end, step)


def pad(op: Op) -> Value:
    value = op.value(0)
    rank = len(value.shape)
    mode = op.text("mode", "constant")
    pads = op.integer_list(1, "pads")
    if pads is None:
        raise op.invalid("has no pads")
    axes = op.axes(op.integer_list(3, "axes", range(rank)) or (), rank)
    if len(pads) != 2 * len(axes):
        raise op.invalid(f"{len(pads)} pads do not fit {len(axes)} axes")
    width = [(0, 0)] * rank
    for position, axis in enumerate(axes):
        width[axis] = (pads[position], pads[position + len(axes)])
    _check_width(op, value.shape, width)
    if mode == "constant":
        return padded(value, width, _fill(op))
    return _mirrored(op, value, width, mode)


def _fill(op: Op) -> float:
    if op.optional(2) is None:
        return op.real("value", 0.0)
    fill = op.floats(2, "the padding value")
    if fill.size != 1:
        raise op.invalid(f"needs one padding value, got {fill.size}")
    return float(fill.array.reshape(-1)[0])


def _check_width(op: Op, shape: Shape, width: list[tuple[int, int]]) -> None:
    kept = [extent + min(0, a) + min(0, b) for extent, (a, b) in zip(shape, width, strict=True)]
    op.room(tuple(kept))
    op.room(tuple(extent + a + b for extent, (a, b) in zip(shape, width, strict=True)))


def _mirrored(op: Op, value: Value, width: list[tuple[int, int]], mode: str) -> Value:
    """Padding with entries of the tensor itself: reflect, edge or wrap."""
    if mode not in ("reflect", "edge", "wrap"):
        raise op.unsupported(f"mode '{mode}'; export with constant, reflect, edge or wrap padding")
    if min(min(pair) for pair in width) < 0 or 0 in value.shape:
        raise op.unsupported(f"mode '{mode}' with negative pads or an empty tensor; slice instead")
    if mode == "reflect" and any(
        max(pair) >= extent for extent, pair in zip(value.shape, width, strict=True)
    ):
        raise op.invalid(f"reflects more than shape {value.shape} has: pads {width}")
    return rearranged(value, lambda array: np.pad(array, width, mode=mode))  # type: ignore[call-overload]
