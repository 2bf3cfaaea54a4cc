"""Sliding windows: strides, dilations and pads of convolutions and poolings, explicit or automatic.

A window of reach r = d·(k − 1) + 1 slides in steps of s over n + before + after positions:

    count = ⌊(n + before + after − r) / s⌋ + 1          SAME:  count = ⌈n / s⌉ decides the pads
"""

from __future__ import annotations

from dataclasses import dataclass

from anybound.io.onnx_ops.op import Op
from anybound.io.onnx_ops.value import Value
from anybound.model.affine.map import Shape

Pads = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Windows:
    """Per spatial axis: the step, the spacing inside a window, the padding, how many windows."""

    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads: Pads
    counts: Shape


def batch_of_one(op: Op, value: Value) -> Shape:
    """The shape `[C, *I]` of an input `[1, C, *I]`."""
    batch, *inner = value.shape or (0,)
    if len(value.shape) < 3 or 0 in value.shape:
        raise op.invalid(f"needs an input [batch, channels, ...], got shape {value.shape}")
    if batch != 1:
        raise op.unsupported(
            f"has a batch of {batch}; re-export with batch size 1 or a free batch axis"
        )
    return tuple(inner)


def windows(op: Op, sizes: Shape, kernel: Shape, *, ceil_mode: bool = False) -> Windows:
    """The windows of a convolution or pooling over axes of these sizes."""
    rank = len(sizes)
    strides, dilations = op.counts("strides", rank), op.counts("dilations", rank)
    reach = tuple(d * (k - 1) + 1 for d, k in zip(dilations, kernel, strict=True))
    mode = op.text("auto_pad", "NOTSET")
    if mode.startswith("SAME") and max(dilations) > 1:
        raise op.unsupported(
            f"auto_pad {mode} with dilations, which onnxruntime pads otherwise than ONNX says; "
            "export with explicit pads"
        )
    pads = _automatic(op, mode, sizes, reach, strides)
    slack = [n + sum(pad) - r for n, pad, r in zip(sizes, pads, reach, strict=True)]
    if min(slack) < 0:
        raise op.invalid(f"a window of {kernel} with pads {pads} is larger than its input {sizes}")
    counts = []
    for n, s, pad, room in zip(sizes, strides, pads, slack, strict=True):
        count = room // s + 1
        # ceil_mode admits one incomplete window, if it starts inside the input or before it.
        if ceil_mode and room % s and count * s < n + pad[0]:
            count += 1
        counts.append(count)
    return Windows(strides, dilations, pads, tuple(counts))


def _automatic(op: Op, mode: str, sizes: Shape, reach: Shape, strides: tuple[int, ...]) -> Pads:
    if mode in ("NOTSET", ""):
        return op.pads(len(sizes))
    if mode == "VALID":
        return ((0, 0),) * len(sizes)
    if mode not in ("SAME_UPPER", "SAME_LOWER"):
        raise op.invalid(f"auto_pad '{mode}' is not one of ONNX's")
    pads = []
    for n, r, s in zip(sizes, reach, strides, strict=True):
        total = max(0, (-(-n // s) - 1) * s + r - n)
        small = total // 2
        pads.append((small, total - small) if mode == "SAME_UPPER" else (total - small, small))
    return tuple(pads)
