"""Conv and ConvTranspose in one, two or three dimensions, with ONNX's automatic padding."""

from __future__ import annotations

from collections.abc import Sequence

from anybound.io.onnx_ops.algebra import applied, tensor
from anybound.io.onnx_ops.op import Op
from anybound.io.onnx_ops.value import Constant, Value
from anybound.io.onnx_ops.windows import Windows, batch_of_one, windows
from anybound.model.affine.conv import Conv
from anybound.model.affine.conv_transpose import ConvTranspose
from anybound.model.affine.map import AffineMap, Shape, WeightError


def conv(op: Op) -> Value:
    value, kernel, bias = op.value(0), op.floats(1, "the kernel"), _bias(op)
    inner = batch_of_one(op, value)
    groups = op.integer("group", 1)
    _check(op, inner, kernel, groups)
    if kernel.shape[1] * groups != inner[0]:
        raise op.invalid(
            f"kernel {kernel.shape} in {groups} groups does not fit {inner[0]} channels"
        )
    place = windows(op, inner[1:], kernel.shape[2:])
    op.room((kernel.shape[0], *place.counts))
    map_ = Conv.of(
        inner,
        tensor(kernel.array),
        None if bias is None else tensor(bias.array),
        stride=place.strides,
        pads=place.pads,
        dilation=place.dilations,
        groups=groups,
        error=WeightError(absolute=kernel.error, bias=0.0 if bias is None else bias.error),
    )
    return applied(map_, value, (1, *map_.out_shape))


def conv_transpose(op: Op) -> Value:
    value, kernel, bias = op.value(0), op.floats(1, "the kernel"), _bias(op)
    inner = batch_of_one(op, value)
    groups = op.integer("group", 1)
    _check(op, inner, kernel, groups)
    if kernel.shape[0] != inner[0]:
        raise op.invalid(f"kernel {kernel.shape} does not fit {inner[0]} channels")
    place, extra = _spread(op, inner[1:], kernel.shape[2:])
    map_: AffineMap = ConvTranspose.of(
        inner,
        tensor(kernel.array),
        None if bias is None else tensor(bias.array),
        stride=place.strides,
        pads=place.pads,
        output_padding=extra,
        dilation=place.dilations,
        groups=groups,
        error=WeightError(absolute=kernel.error, bias=0.0 if bias is None else bias.error),
    )
    return applied(map_, value, (1, *map_.out_shape))


def _bias(op: Op) -> Constant | None:
    return None if op.optional(2) is None else op.floats(2, "the bias")


def _check(op: Op, inner: Shape, kernel: Constant, groups: int) -> None:
    if not 1 <= len(kernel.shape) - 2 <= 3 or len(kernel.shape) != len(inner) + 1:
        raise op.invalid(
            f"kernel {kernel.shape} does not fit an input of shape {(1, *inner)}; "
            "expected as many axes, 3 to 5"
        )
    if groups < 1 or kernel.shape[0] % groups or 0 in kernel.shape:
        raise op.invalid(f"kernel {kernel.shape} cannot be divided into {groups} groups")
    given = op.ints("kernel_shape", kernel.shape[2:])
    if given != kernel.shape[2:]:
        raise op.invalid(f"kernel_shape {given} contradicts the kernel's shape {kernel.shape}")


def _spread(op: Op, sizes: Shape, kernel: Shape) -> tuple[Windows, tuple[int, ...]]:
    """Where a transposed convolution puts its windows, and its output padding.

    The result has s·(T − 1) + o + d·(K − 1) + 1 − (pads) entries, or `output_shape` decides the
    pads.
    """
    rank = len(sizes)
    strides, dilations = op.counts("strides", rank), op.counts("dilations", rank)
    extra = op.ints("output_padding", (0,) * rank) or ()
    if len(extra) != rank or min(extra) < 0:
        raise op.invalid(f"output_padding {extra} does not fit {rank} axes")
    full = tuple(
        s * (t - 1) + o + d * (k - 1) + 1
        for s, t, o, d, k in zip(strides, sizes, extra, dilations, kernel, strict=True)
    )
    mode = op.text("auto_pad", "NOTSET")
    wanted = op.ints("output_shape")
    if wanted is None and mode.startswith("SAME"):
        wanted = tuple(t * s for t, s in zip(sizes, strides, strict=True))
    if wanted is not None:
        pads = _pads_for(op, full, wanted[-rank:], mode)
    elif mode == "VALID":
        pads = ((0, 0),) * rank
    else:
        pads = op.pads(rank)
    out = tuple(f - sum(pad) for f, pad in zip(full, pads, strict=True))
    if min(out) < 1:
        raise op.invalid(f"computes an empty result of shape {out}")
    op.room(full)
    return Windows(strides, dilations, pads, out), extra


def _pads_for(op: Op, full: Shape, wanted: Sequence[int], mode: str) -> tuple[tuple[int, int], ...]:
    """Pads that leave `wanted` of `full` entries; an odd one goes to the end for SAME_UPPER."""
    if len(wanted) != len(full) or min(wanted) < 1:
        raise op.invalid(f"output_shape {tuple(wanted)} does not fit {len(full)} axes")
    pads = []
    for size, want in zip(full, wanted, strict=True):
        total = max(0, size - want)
        if size < want:
            raise op.unsupported(
                f"output_shape {tuple(wanted)} is larger than the full result {full}"
            )
        small = total // 2
        pads.append((small, total - small) if mode == "SAME_UPPER" else (total - small, small))
    return tuple(pads)
