"""Running sums of a long array in one pass: each block hands the sum of all before it on to the next one."""

import numpy as np
from harness import Array, Case, by, main

import tilewright as ct
from tilewright import lib

TILE = 512


@ct.kernel
def running_sums(
    x: ct.Array, out: ct.Array, tickets: ct.Array, sums: ct.Array, ready: ct.Array, TILE: ct.Constant[int]
) -> None:
    block = lib.next_block(tickets)  # blocks that have begun are numbered in order, so that none waits for ever
    within = ct.cumsum(ct.load(x, (block,), (TILE,), padding_mode=ct.PaddingMode.ZERO), 0)
    total = ct.extract(within, (TILE - 1,), (1,)).reshape(())  # the last of them
    ct.store(out, (block,), within + lib.block_prefix(block, total, sums, ready))


def prefix_sum(x: Array) -> Array:
    out, blocks = np.empty_like(x), ct.cdiv(x.size, TILE)
    state = np.zeros(1, np.int32), np.zeros(blocks, x.dtype), np.zeros(blocks, np.int32)
    ct.launch(None, (blocks,), running_sums, (x, out, *state, TILE))
    return out


def cases(small: bool = False) -> list[Case]:
    n = 30_007 if small else 4_000_003
    x = np.random.default_rng(0).integers(-100, 100, n, dtype=np.int32)
    return [Case("running sums", f"{by(n)} i32", lambda: prefix_sum(x), lambda: np.cumsum(x, dtype=np.int32))]


if __name__ == "__main__":
    main(cases)
