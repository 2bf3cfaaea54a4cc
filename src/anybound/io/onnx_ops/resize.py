"""Resize and Upsample with nearest neighbours: along each axis, entry i of the result is entry
⌊f(i)⌉ of the input.

`coordinate_transformation_mode` says what f is and `nearest_mode` how it is rounded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from anybound.io.onnx_ops.algebra import rearranged
from anybound.io.onnx_ops.op import Op
from anybound.io.onnx_ops.value import Value
from anybound.model.affine.map import Shape

Floats = NDArray[np.float32]
_Number = TypeVar("_Number", int, float)

# ONNX's computation is in float32, and which entry is nearest may depend on it.
_ROUNDINGS: Mapping[str, Callable[[Floats], Floats]] = MappingProxyType(
    {
        "round_prefer_floor": lambda x: np.ceil(x - np.float32(0.5)),
        "round_prefer_ceil": lambda x: np.floor(x + np.float32(0.5)),
        "floor": np.floor,
        "ceil": np.ceil,
    }
)
_OLD = "of opset 10"  # which had no nearest_mode: up where the tensor shrinks, else down


def upsample(op: Op) -> Value:
    value = op.value(0)
    if op.text("mode", "nearest") != "nearest":
        raise op.unsupported("interpolates; only mode 'nearest' is read")
    scales = _scales(op, 1) if op.optional(1) is not None else op.reals("scales")
    return _resized(op, value, _sizes(op, value.shape, scales), scales, "asymmetric", "floor")


def resize(op: Op) -> Value:
    value = op.value(0)
    if op.text("mode", "nearest") != "nearest":
        raise op.unsupported("interpolates; only mode 'nearest' is read")
    if op.opset < 11:
        scales = _scales(op, 1)
        return _resized(op, value, _sizes(op, value.shape, scales), scales, "asymmetric", _OLD)
    if op.text("keep_aspect_ratio_policy", "stretch") != "stretch":
        raise op.unsupported("keeps the aspect ratio; re-export with explicit sizes")
    transform = op.text("coordinate_transformation_mode", "half_pixel")
    rounding = op.text("nearest_mode", "round_prefer_floor")
    rank = len(value.shape)
    axes = op.axes(op.ints("axes", range(rank)) or (), rank)
    given = _scales(op, 2) if _present(op, 2) else ()
    if given:
        scales = _on_axes(op, axes, given, (1.0,) * rank)
        return _resized(op, value, _sizes(op, value.shape, scales), scales, transform, rounding)
    wanted = tuple(int(extent) for extent in op.integers(3, "the sizes").reshape(-1))
    sizes = tuple(int(extent) for extent in _on_axes(op, axes, wanted, value.shape))
    scales = tuple(new / max(old, 1) for new, old in zip(sizes, value.shape, strict=True))
    return _resized(op, value, sizes, scales, transform, rounding)


def _present(op: Op, position: int) -> bool:
    given = op.optional(position)
    return given is not None and given.size > 0


def _scales(op: Op, position: int) -> tuple[float, ...]:
    scales = tuple(float(scale) for scale in op.floats(position, "the scales").array.reshape(-1))
    if min(scales, default=1.0) <= 0.0:
        raise op.invalid(f"scales {scales} must be positive")
    return scales


def _on_axes(
    op: Op, axes: tuple[int, ...], given: tuple[_Number, ...], default: tuple[_Number, ...]
) -> tuple[_Number, ...]:
    if len(given) != len(axes):
        raise op.invalid(f"{len(given)} scales or sizes do not fit {len(axes)} axes")
    chosen = dict(zip(axes, given, strict=True))
    return tuple(chosen.get(axis, value) for axis, value in enumerate(default))


def _sizes(op: Op, shape: Shape, scales: tuple[float, ...]) -> Shape:
    if len(scales) != len(shape):
        raise op.invalid(f"{len(scales)} scales do not fit shape {shape}")
    with np.errstate(over="ignore"):  # an infinite size is refused when it becomes an integer
        sizes = np.array(shape, dtype=np.float32) * np.array(scales, dtype=np.float32)
    return op.room(tuple(int(size) for size in sizes))


def _resized(
    op: Op, value: Value, sizes: Shape, scales: tuple[float, ...], transform: str, rounding: str
) -> Value:
    op.room(sizes)
    if sizes == value.shape:  # onnxruntime copies it then, whatever the scales
        return value
    for axis, (old, new, scale) in enumerate(zip(value.shape, sizes, scales, strict=True)):
        if new != old or scale != 1.0:
            taps = _nearest(op, old, new, scale, transform, rounding)
            value = rearranged(value, lambda array, t=taps, k=axis: np.take(array, t, axis=k))  # type: ignore[misc]
    return value


def _nearest(
    op: Op, old: int, new: int, scale: float, transform: str, rounding: str
) -> NDArray[np.int64]:
    """Which of `old` entries each of `new` entries is."""
    i, s = np.arange(new, dtype=np.float32), np.float32(scale)
    half = np.float32(0.5)
    match transform:
        case "asymmetric":
            x = i / s
        case "half_pixel":
            x = (i + half) / s - half
        case "pytorch_half_pixel":
            x = (i + half) / s - half if new > 1 else np.zeros(new, np.float32)
        case "align_corners":
            x = i * np.float32(old - 1) / np.float32(max(new - 1, 1))
        case _:
            raise op.unsupported(
                f"coordinate_transformation_mode '{transform}'; "
                "export with half_pixel or asymmetric"
            )
    if rounding == _OLD:
        rounding = "ceil" if scale < 1.0 else "floor"
    if rounding not in _ROUNDINGS:
        raise op.invalid(f"nearest_mode '{rounding}' is not one of ONNX's")
    return np.clip(_ROUNDINGS[rounding](x), 0, max(old - 1, 0)).astype(np.int64)
