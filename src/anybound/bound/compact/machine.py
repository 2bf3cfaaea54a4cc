"""What kernels are made of: addresses of arrays, and vectors of 64 bytes.

Numba counts the references of every array it touches, and vectorises a loop only where it can show
that arrays do not overlap; both would cost more here than the arithmetic. So a kernel turns its
arrays into plain addresses once, `addresses(record)`, and its loops say what they mean: vectors of
`LANES` problems at a time,

    for lane in range(0, width, LANES):
        store(z, row, lane, load(z, row, lane) * splat(scale) + …)

which LLVM keeps in registers and splits on machines whose registers are shorter. A matrix of
addresses has rows of `WIDTH` numbers. Vectors know + − * / and the functions below.

Here stands what kernels may write; what it compiles to stands in `operations`, which needs the compiler. A kernel that
is compiled already does without both.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

WIDTH = 128  # numbers in a row of a matrix: problems in a full chunk
ROWS = 4  # of a block
BYTES = 64  # of a vector
LANES, LANES64 = 16, 8  # numbers in a vector, by dtype
STEP = 32  # widths are multiples of this


@dataclass(frozen=True)
class Operation:
    """A word of kernels; `operations` has its meaning."""

    name: str

    def __call__(self, *arguments: Any) -> Any:
        raise TypeError(f"{self.name}{arguments!r}: only compiled kernels have such an operation")


# A record of arrays as the same record of addresses, numbers and inner records included.
addresses = Operation("addresses")
load = Operation("load")  # matrix, row, lane: matrix[row, lane : lane + LANES]
store = Operation("store")  # matrix, row, lane, value
splat = Operation("splat")  # the vector whose entries are one number
minimum = Operation("minimum")  # the smaller of each pair
maximum = Operation("maximum")  # the larger of each pair
where_less = Operation("where_less")  # a, b, then, otherwise: `then` where a < b
where_zero = Operation("where_zero")  # a, then, otherwise: `then` where a = 0
absolute = Operation("absolute")  # |a|
copysign = Operation("copysign")  # size, sign: |size| with the sign of `sign`
square_root = Operation("square_root")  # √a
smallest = Operation("smallest")  # the smallest entry of a vector, as a number; NaN is skipped
multiply_add = Operation("multiply_add")  # a·b + c, fused or not
total = Operation("total")  # the sum of a vector's entries, in any order
# column, weight, x, out, start, stop, width: one block of four sparse rows times a batch of columns, in registers:
# out[q, i] = Σ_p weight[p, q] · x[column[p], i]        p in [start, stop),  q in 0 … 3,  i in [0, width)
block_product = Operation("block_product")
