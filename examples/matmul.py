"""Matrix product in three ways: a block per tile, a few blocks that walk over the tiles, and K split among blocks."""

from typing import Union

import numpy as np
from harness import Array, Case, by, main, normal

import tilewright as ct

TILE_M, TILE_N, TILE_K = 128, 128, 128
Scalar = Union[int, ct.Tile]  # a number, or what the kernel computes


def product_tile(
    a: ct.Array, b: ct.Array, i: Scalar, j: Scalar, first: Scalar, last: Scalar, TM: int, TN: int, TK: int
) -> ct.Tile:
    """Tile (i, j) of a @ b, summed over the tiles ``first`` up to ``last`` of the common axis."""
    total = ct.zeros((TM, TN), ct.float32)
    for k in range(first, last):
        left = ct.load(a, (i, k), (TM, TK), padding_mode=ct.PaddingMode.ZERO)
        right = ct.load(b, (k, j), (TK, TN), padding_mode=ct.PaddingMode.ZERO)
        total = ct.mma(left, right, total)
    return total


@ct.kernel
def matmul_plain(
    a: ct.Array, b: ct.Array, c: ct.Array, TM: ct.Constant[int], TN: ct.Constant[int], TK: ct.Constant[int]
) -> None:
    i, j = ct.bid(0), ct.bid(1)
    tile = product_tile(a, b, i, j, 0, ct.num_tiles(a, 1, (TM, TK)), TM, TN, TK)
    ct.store(c, (i, j), tile.astype(c.dtype))


@ct.kernel
def matmul_persistent(
    a: ct.Array, b: ct.Array, c: ct.Array, TM: ct.Constant[int], TN: ct.Constant[int], TK: ct.Constant[int]
) -> None:
    columns = ct.num_tiles(c, 1, (TM, TN))
    count = ct.num_tiles(c, 0, (TM, TN)) * columns
    for t in range(ct.bid(0), count, ct.num_blocks(0)):
        i, j = t // columns, t % columns
        tile = product_tile(a, b, i, j, 0, ct.num_tiles(a, 1, (TM, TK)), TM, TN, TK)
        ct.store(c, (i, j), tile.astype(c.dtype))


@ct.kernel
def matmul_split_k(
    a: ct.Array,
    b: ct.Array,
    c: ct.Array,
    locks: ct.Array,
    TM: ct.Constant[int],
    TN: ct.Constant[int],
    TK: ct.Constant[int],
) -> None:
    i, j = ct.bid(0), ct.bid(1)
    steps = ct.num_tiles(a, 1, (TM, TK))
    share = ct.cdiv(steps, ct.num_blocks(2))
    first = ct.bid(2) * share
    tile = product_tile(a, b, i, j, first, min(first + share, steps), TM, TN, TK)
    # Blocks with the same (i, j) add to the same tile of c, one at a time.
    while ct.atomic_cas(locks, (i, j), 0, 1, memory_order=ct.MemoryOrder.ACQUIRE) == 1:
        pass
    ct.store(c, (i, j), ct.load(c, (i, j), (TM, TN)) + tile)
    ct.atomic_xchg(locks, (i, j), 0, memory_order=ct.MemoryOrder.RELEASE)


def matmul(a: Array, b: Array) -> Array:
    c = np.empty((a.shape[0], b.shape[1]), a.dtype)
    grid = ct.cdiv(a.shape[0], TILE_M), ct.cdiv(b.shape[1], TILE_N)
    ct.launch(None, grid, matmul_plain, (a, b, c, TILE_M, TILE_N, TILE_K))
    return c


def matmul_with_few_blocks(a: Array, b: Array, blocks: int = 8) -> Array:
    c = np.empty((a.shape[0], b.shape[1]), a.dtype)
    ct.launch(None, (blocks,), matmul_persistent, (a, b, c, TILE_M, TILE_N, TILE_K))
    return c


def matmul_with_split_k(a: Array, b: Array, parts: int = 4) -> Array:
    c = np.zeros((a.shape[0], b.shape[1]), np.float32)
    grid = ct.cdiv(a.shape[0], TILE_M), ct.cdiv(b.shape[1], TILE_N), parts
    locks = np.zeros(grid[:2], np.int32)
    ct.launch(None, grid, matmul_split_k, (a, b, c, locks, TILE_M, TILE_N, TILE_K))
    return c


def cases(small: bool = False) -> list[Case]:
    m, n, k = (200, 300, 500) if small else (1024, 1024, 1024)
    a, b = normal(m, k), normal(k, n, seed=1)
    long_a, long_b = (a, b) if small else (normal(256, 16384), normal(16384, 256, seed=1))
    size = f"{by(m, n, k)} f32"
    long_size = f"{by(long_a.shape[0], *long_b.shape[::-1])} f32"
    return [
        Case("matmul", size, lambda: matmul(a, b), lambda: a @ b, 1e-5),
        Case("matmul, persistent", size, lambda: matmul_with_few_blocks(a, b), lambda: a @ b, 1e-5),
        Case(
            "matmul, split K",
            long_size,
            lambda: matmul_with_split_k(long_a, long_b),
            lambda: long_a @ long_b,
            1e-5,
        ),
    ]


if __name__ == "__main__":
    main(cases)
