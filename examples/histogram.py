"""Counts values with atomic additions: blocks share the counters."""

import numpy as np
from harness import Array, Case, by, main

import tilewright as ct

TILE = 1024


@ct.kernel
def count(values: ct.Array, counts: ct.Array, TILE: ct.Constant[int]) -> None:
    i = ct.bid(0)
    position = i * TILE + ct.arange(TILE, dtype=ct.int32)
    # Past the end of the array the gather gives -1, and an atomic operation outside its array does nothing.
    ct.atomic_add(counts, ct.gather(values, position, padding_value=-1), 1)


def histogram(values: Array, bins: int) -> Array:
    counts = np.zeros(bins, np.int32)
    ct.launch(None, (ct.cdiv(values.size, TILE),), count, (values, counts, TILE))
    return counts


def cases(small: bool = False) -> list[Case]:
    n, bins = (10_007, 64) if small else (4_000_003, 1024)
    values = np.random.default_rng(0).integers(0, bins, n, dtype=np.int32)
    return [
        Case(
            "histogram, atomics",
            f"{by(n)} i32, {bins} bins",
            lambda: histogram(values, bins),
            lambda: np.bincount(values, minlength=bins),
        )
    ]


if __name__ == "__main__":
    main(cases())
