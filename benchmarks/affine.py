"""What each linear map of the paper's networks costs, forwards and back, in the forms there are.

    python benchmarks/affine.py [--float64]

One line per layer and batch size: milliseconds of `conv2d`, of PyTorch's transposed convolution, of
the form that the race chose, and how many times faster than the transposed convolution it is.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from time import perf_counter

import torch
from torch import Tensor

from anybound.model.affine import Conv
from anybound.model.affine.forms import Transposed

BATCHES = (1, 9, 64, 256)
LAYERS = {  # in_shape, outputs, kernel, stride, padding
    "base 1": ((3, 32, 32), 8, 4, 2, 1),
    "wide 1": ((3, 32, 32), 16, 4, 2, 1),
    "base 2": ((8, 16, 16), 16, 4, 2, 1),
    "wide 2": ((16, 16, 16), 32, 4, 2, 1),
    "deep 2": ((8, 16, 16), 8, 4, 2, 1),
    "deep 3": ((8, 8, 8), 8, 3, 1, 1),
    "3x3, stride 2": ((16, 15, 15), 32, 3, 2, 1),
    "5x5, stride 3": ((8, 28, 28), 16, 5, 3, 0),
}


def milliseconds(run: Callable[[Tensor], Tensor], x: Tensor, repeats: int = 15) -> float:
    """The fastest of several calls."""
    times = []
    for _ in range(repeats):
        start = perf_counter()
        run(x)
        times.append(perf_counter() - start)
    return 1e3 * min(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--float64", action="store_true")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    dtype = torch.float64 if options.float64 else torch.float32
    print(f"{'layer':14} {'batch':>5} {'conv2d':>8} {'transposed':>11} {'chosen':>8}  form (gain)")
    for name, (in_shape, outputs, kernel, stride, pads) in LAYERS.items():
        weight = torch.randn(outputs, in_shape[0], kernel, kernel, dtype=dtype)
        conv = Conv.of(in_shape, weight, stride=stride, pads=pads)
        for batch in BATCHES:
            report(name, conv, batch)


@torch.inference_mode()
def report(name: str, conv: Conv, batch: int) -> None:
    """One line of the table."""
    z = torch.randn(batch, *conv.in_shape, dtype=conv.dtype)
    rho = torch.randn(batch, *conv.out_shape, dtype=conv.dtype)
    form = conv.adjoint.fastest(rho)
    forward = milliseconds(conv.linear, z)
    slow, fast = milliseconds(Transposed(conv), rho), milliseconds(conv.transpose, rho)
    times = f"{forward:8.3f} {slow:11.3f} {fast:8.3f}"
    print(f"{name:14} {batch:5} {times}  {form.name} ({slow / fast:.1f}x)")


if __name__ == "__main__":
    main()
