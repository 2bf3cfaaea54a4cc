"""Several exact forms of the adjoint of a convolution,

    (Wᵀ ρ)[c, i] = Σ { weight[o, c, k] · ρ[o, t] : s·t + d·k = i + p }.

**Transposed** is PyTorch's `conv_transpose`, on CPUs often several times slower than its twin.

**Phases** (sub-pixel): write i + p = s·q + f and d·k = s·m + f' with 0 ≤ f, f' < s. The sum is
over f' = f and t = q − m, so every phase f of the result is a convolution of ρ with stride 1; all
of them together are one, with s times as many channels and kernel length M + 1, M = max m. What
remains is to shuffle the phases into their places: **Phases** by one permutation, **Interleaved**
by one strided write per phase. Where s = 1 there is one phase and nothing to shuffle: it is the
convolution with the flipped kernel.

**Columns** is one matrix product and `fold`, its sums over overlapping windows.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from math import prod
from typing import TYPE_CHECKING

from torch import Tensor
from torch.nn import functional

if TYPE_CHECKING:
    from anybound.model.affine.conv import Conv
    from anybound.model.affine.race import Form

_CONV = {1: functional.conv1d, 2: functional.conv2d, 3: functional.conv3d}
_TRANSPOSED = {
    1: functional.conv_transpose1d,
    2: functional.conv_transpose2d,
    3: functional.conv_transpose3d,
}
Index = tuple[slice | int, ...]
_ALL = slice(None)
MOST_WASTE = 4.0  # a phase form may do this many times the multiplications that are needed
MOST_PHASES = 16


def adjoint_forms(conv: Conv) -> tuple[Form, ...]:
    """The forms worth trying, the likely winner first: `[N, *out_shape]` to `[N, *in_shape]`."""
    forms: list[Form] = []
    axes = tuple(PhaseAxis.of(conv, axis) for axis in range(len(conv.kernel)))
    waste = prod(a.stride * a.taps for a in axes) / prod(conv.kernel)
    phases = prod(a.stride for a in axes)
    if waste <= MOST_WASTE and phases <= MOST_PHASES:
        weight = phase_weight(conv, axes)
        if phases > 1:
            forms.append(Interleaved(conv, axes, weight))
        forms.append(Phases(conv, axes, weight))
    forms.append(Transposed(conv))
    if len(axes) == 2 and conv.groups == 1 and symmetric(conv):
        forms.append(Columns(conv, conv.weight.flatten(1).T.contiguous()))
    return tuple(forms)


def symmetric(conv: Conv) -> bool:
    """Whether PyTorch's own padding argument can say this padding."""
    return all(before == after >= 0 for before, after in conv.pads)


@dataclass(frozen=True, eq=False)
class Transposed:
    """`conv_transpose`, then cropped or padded to the size of z."""

    conv: Conv

    @property
    def name(self) -> str:
        return "transposed"

    def __call__(self, rho: Tensor) -> Tensor:
        conv = self.conv
        reach = [
            s * (t - 1) + d * (k - 1) + 1
            for s, t, d, k in zip(
                conv.stride, conv.out_shape[1:], conv.dilation, conv.kernel, strict=True
            )
        ]
        missing = [
            size + sum(pads) - r
            for size, pads, r in zip(conv.in_shape[1:], conv.pads, reach, strict=True)
        ]
        run = _TRANSPOSED[len(reach)]
        w, s, d, groups = conv.weight, conv.stride, conv.dilation, conv.groups
        if symmetric(conv):
            return run(rho, w, None, s, [before for before, _ in conv.pads], missing, groups, d)
        out = run(rho, w, None, s, 0, 0, groups, d)
        # First the zeros beyond the last window: a crop may be longer than what the windows reach.
        whole = functional.pad(out, [side for m in reversed(missing) for side in (0, m)])
        return functional.pad(whole, [-side for pads in reversed(conv.pads) for side in pads])


@dataclass(frozen=True)
class PhaseAxis:
    """One spatial axis in the notation of the module's docstring."""

    size: int  # I
    stride: int  # s
    taps: int  # kernel length of a phase
    dilation: int
    pads: tuple[int, int]  # of ρ, such that the phases' q run over every i
    length: int  # how many q there are
    crop: int  # i = 0 is at q·s + f = crop
    place: tuple[tuple[int, int], ...]  # per k: its phase f and its position in the phase's kernel

    @classmethod
    def of(cls, conv: Conv, axis: int) -> PhaseAxis:
        s, d, k, p = conv.stride[axis], conv.dilation[axis], conv.kernel[axis], conv.pads[axis][0]
        size, windows = conv.in_shape[axis + 1], conv.out_shape[axis + 1]
        most = d * (k - 1) // s  # M
        first, last = p // s, (p + size - 1) // s  # q of i = 0 and of i = I − 1
        # With s = 1 the kernel keeps its dilation, otherwise its gaps are filled with zeros.
        taps, dilation = (k, d) if s == 1 else (most + 1, 1)
        # ρ[q − m] is the entry M − m of the window that ends at q: the kernel is flipped.
        place = tuple((d * j % s, (most - d * j // s) // dilation) for j in range(k))
        pads = (most - first, last - windows + 1)
        return cls(size, s, taps, dilation, pads, last - first + 1, p - s * first, place)

    def targets(self, f: int) -> tuple[slice, slice]:
        """Where the phase f goes in z, and which of its entries do."""
        start = (f - self.crop) % self.stride
        skipped = (start + self.crop) // self.stride
        count = len(range(start, self.size, self.stride))
        return slice(start, None, self.stride), slice(skipped, skipped + count)


def phase_weight(conv: Conv, axes: tuple[PhaseAxis, ...]) -> Tensor:
    """The kernel `[groups · ∏s · C/groups, O/groups, *taps]` of all phases at once."""
    kernel = conv.weight.reshape(conv.groups, -1, *conv.weight.shape[1:])
    grouped = kernel.transpose(1, 2)  # [G, C/G, O/G, *K]
    groups, channels, outputs = grouped.shape[:3]
    strides, taps = [a.stride for a in axes], [a.taps for a in axes]
    weight = grouped.new_zeros(groups, *strides, channels, outputs, *taps)
    for k in product(*(range(size) for size in conv.kernel)):
        places = [a.place[j] for a, j in zip(axes, k, strict=True)]
        phase, position = [f for f, _ in places], [tap for _, tap in places]
        into: Index = (_ALL, *phase, _ALL, _ALL, *position)
        taken: Index = (_ALL, _ALL, _ALL, *k)
        weight[into] = grouped[taken]
    return weight.reshape(-1, outputs, *taps)


@dataclass(frozen=True, eq=False)
class Phases:
    """One convolution, one permutation, a crop."""

    conv: Conv
    axes: tuple[PhaseAxis, ...]
    weight: Tensor

    @property
    def name(self) -> str:
        return "phases"

    def __call__(self, rho: Tensor) -> Tensor:
        out = all_phases(self, rho)  # [N, G, *s, C/G, *Q]
        if any(a.stride > 1 for a in self.axes):
            n = len(self.axes)
            order = [x for axis in range(n) for x in (n + 3 + axis, 2 + axis)]
            out = out.permute(0, 1, n + 2, *order)
        sizes = [a.stride * a.length for a in self.axes]
        out = out.reshape(len(rho), self.conv.in_shape[0], *sizes)
        inside = [slice(a.crop, a.crop + a.size) for a in self.axes]
        return out[(_ALL, _ALL, *inside)]


@dataclass(frozen=True, eq=False)
class Interleaved(Phases):
    """One convolution, one strided write per phase."""

    @property
    def name(self) -> str:
        return "interleaved"

    def __call__(self, rho: Tensor) -> Tensor:
        phases = all_phases(self, rho)
        channels, sizes = phases.shape[-1 - len(self.axes)], [a.size for a in self.axes]
        out = rho.new_empty(len(rho), self.conv.groups, channels, *sizes)
        for f in product(*(range(a.stride) for a in self.axes)):
            targets = [a.targets(phase) for a, phase in zip(self.axes, f, strict=True)]
            into: Index = (_ALL, _ALL, _ALL, *(place for place, _ in targets))
            taken: Index = (_ALL, _ALL, *f, _ALL, *(part for _, part in targets))
            out[into] = phases[taken]
        return out.reshape(len(rho), *self.conv.in_shape)


def all_phases(form: Phases, rho: Tensor) -> Tensor:
    """The phases of the result before the shuffle, `[N, groups, *s, C/groups, *Q]`."""
    padding = [before for before, _ in (a.pads for a in form.axes)]
    if any(before != after or before < 0 for before, after in (a.pads for a in form.axes)):
        sides = [side for a in reversed(form.axes) for side in a.pads]
        rho, padding = functional.pad(rho, sides), [0] * len(padding)
    dilation, groups = [a.dilation for a in form.axes], form.conv.groups
    out = _CONV[len(padding)](rho, form.weight, None, 1, padding, dilation, groups)
    strides, lengths = [a.stride for a in form.axes], [a.length for a in form.axes]
    channels = form.conv.in_shape[0] // groups
    return out.reshape(len(rho), groups, *strides, channels, *lengths)


@dataclass(frozen=True, eq=False)
class Columns:
    """One matrix product, then the sums over overlapping windows; two axes, one group."""

    conv: Conv
    weight: Tensor  # [C·∏K, O]

    @property
    def name(self) -> str:
        return "columns"

    def __call__(self, rho: Tensor) -> Tensor:
        conv, padding = self.conv, tuple(before for before, _ in self.conv.pads)
        columns, size = self.weight @ rho.flatten(2), conv.in_shape[1:]
        return functional.fold(columns, size, conv.kernel, conv.dilation, padding, conv.stride)
