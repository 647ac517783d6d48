"""Counts values with atomic additions: every block has counters of its own, which are added up at the end."""

import numpy as np
from harness import Array, Case, by, main

import tilewright as ct

TILE, BLOCKS = 4096, 16


@ct.kernel
def count(values: ct.Array, counts: ct.Array, TILE: ct.Constant[int]) -> None:
    i, whole = ct.bid(0), values.shape[0] // TILE
    for j in range(i, whole, ct.num_blocks(0)):
        add(counts, i, ct.load(values, (j,), (TILE,)))
    if i == 0:
        rest = whole * TILE + ct.arange(TILE, dtype=ct.int32)
        # Past the end of the array the gather gives -1, and an atomic operation outside its array does nothing.
        add(counts, i, ct.gather(values, rest, padding_value=-1))


@ct.function
def add(counts: ct.Array, row: int, found: ct.Tile) -> None:
    """No other block adds to this row, so that the scope of a block is enough: a CPU then adds as ever."""
    order, scope = ct.MemoryOrder.RELAXED, ct.MemoryScope.BLOCK
    ct.atomic_add(counts, (row, found), 1, memory_order=order, memory_scope=scope)


@ct.kernel
def add_up(counts: ct.Array, total: ct.Array, BLOCKS: ct.Constant[int], BINS: ct.Constant[int]) -> None:
    i = ct.bid(0)
    ct.store(total, (i,), ct.sum(ct.load(counts, (0, i), (BLOCKS, BINS)), axis=0))


def histogram(values: Array, bins: int) -> Array:
    counts, total = np.zeros((BLOCKS, bins), np.int32), np.empty(bins, np.int32)
    ct.launch(None, (BLOCKS,), count, (values, counts, TILE))
    ct.launch(None, (ct.cdiv(bins, 64),), add_up, (counts, total, BLOCKS, 64))
    return total


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
    main(cases)
