"""Matrix products in the forms that warp groups multiply, with numbers whose sums are exact."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

import tilewright as ct


def _left(a: ct.Array, i: int, k: int, M: int, K: int, turned: bool) -> Any:
    if turned:
        return ct.transpose(ct.load(a, (k, i), (K, M), padding_mode=ct.PaddingMode.ZERO))
    return ct.load(a, (i, k), (M, K), padding_mode=ct.PaddingMode.ZERO)


def _right(b: ct.Array, k: int, j: int, K: int, N: int, turned: bool) -> Any:
    if turned:
        return ct.transpose(ct.load(b, (j, k), (N, K), padding_mode=ct.PaddingMode.ZERO))
    return ct.load(b, (k, j), (K, N), padding_mode=ct.PaddingMode.ZERO)


def matmul(
    a: ct.Array, b: ct.Array, c: ct.Array, M: ct.Constant[int], N: ct.Constant[int], K: ct.Constant[int],
    left: ct.Constant[bool], right: ct.Constant[bool], sums: ct.Constant[Any], rounded: ct.Constant[bool],
) -> None:  # fmt: skip
    """A grid of tiles."""
    i, j = ct.bid(0), ct.bid(1)
    total = ct.zeros((M, N), sums)
    for k in range(ct.cdiv(a.shape[0 if left else 1], K)):
        x, y = _left(a, i, k, M, K, left), _right(b, k, j, K, N, right)
        if rounded:
            x, y = x.astype(ct.tfloat32), y.astype(ct.tfloat32)
        total = ct.mma(x, y, total)
    ct.store(c, (i, j), total.astype(c.dtype))


def persistent(
    a: ct.Array, b: ct.Array, c: ct.Array, M: ct.Constant[int], N: ct.Constant[int], K: ct.Constant[int],
    left: ct.Constant[bool], right: ct.Constant[bool], sums: ct.Constant[Any], rounded: ct.Constant[bool],
) -> None:  # fmt: skip
    """Each block has several tiles."""
    columns = ct.cdiv(c.shape[1], N)
    for tile in range(ct.bid(0), ct.cdiv(c.shape[0], M) * columns, ct.num_blocks(0)):
        i, j = tile // columns, tile % columns
        total = ct.zeros((M, N), sums)
        for k in range(ct.cdiv(a.shape[0 if left else 1], K)):
            total = ct.mma(_left(a, i, k, M, K, left), _right(b, k, j, K, N, right), total)
        ct.store(c, (i, j), total.astype(c.dtype))


def sum_of(a: ct.Array, b: ct.Array, i: int, j: int, M: int, N: int, K: int, stop: int) -> Any:
    total = ct.zeros((M, N), ct.float32)
    for k in range(stop):
        x = ct.load(a, (i, k), (M, K), padding_mode=ct.PaddingMode.ZERO)
        total = ct.mma(x, ct.load(b, (k, j), (K, N), padding_mode=ct.PaddingMode.ZERO), total)
    return total


def strips(
    a: ct.Array, b: ct.Array, c: ct.Array, M: ct.Constant[int], N: ct.Constant[int], K: ct.Constant[int],
    left: ct.Constant[bool], right: ct.Constant[bool], sums: ct.Constant[Any], rounded: ct.Constant[bool],
) -> None:  # fmt: skip
    """Whole tiles, and then strips of 16 columns, by each block for itself: the last one begins."""
    steps, rows, columns = ct.cdiv(a.shape[1], K), ct.cdiv(c.shape[0], M), c.shape[1] // N
    for tile in range(ct.bid(0), rows * columns, ct.num_blocks(0)):
        i, j = tile // columns, tile % columns
        ct.store(c, (i, j), sum_of(a, b, i, j, M, N, K, steps).astype(c.dtype))
    for part in range(
        ct.num_blocks(0) - 1 - ct.bid(0), rows * (ct.cdiv(c.shape[1], 16) - columns * (N // 16)), ct.num_blocks(0)
    ):
        i, j = part % rows, columns * (N // 16) + part // rows
        ct.store(c, (i, j), sum_of(a, b, i, j, M, 16, K, steps).astype(c.dtype))


def shares(
    a: ct.Array, b: ct.Array, c: ct.Array, M: ct.Constant[int], N: ct.Constant[int], K: ct.Constant[int],
    left: ct.Constant[bool], right: ct.Constant[bool], sums: ct.Constant[Any], rounded: ct.Constant[bool],
) -> None:  # fmt: skip
    """Tiles as long as each block has one, and then one more for some: the pair says how many steps it takes."""
    steps, columns = ct.cdiv(a.shape[1], K), ct.cdiv(c.shape[1], N)
    tiles, block = ct.cdiv(c.shape[0], M) * columns, ct.bid(0)
    rest = tiles % ct.num_blocks(0)
    for tile in range(block, tiles - rest, ct.num_blocks(0)):
        i, j = tile // columns, tile % columns
        ct.store(c, (i, j), sum_of(a, b, i, j, M, N, K, steps).astype(c.dtype))
    part = block // 2 * 2 + block % 2
    last = tiles - rest + min(part, rest - 1)
    total = sum_of(a, b, last // columns, last % columns, M, N, K, ct.where(block // 2 * 2 < rest, steps, 0))
    if part < rest:
        ct.store(c, (last // columns, last % columns), total.astype(c.dtype))


def aligned(shape: Sequence[int], dtype: Any) -> Any:
    """Zeros at an address that is a multiple of 64."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    room = np.zeros(size + 64, np.uint8)
    start = -room.ctypes.data % 64
    return room[start : start + size].view(dtype).reshape(shape)


@dataclass(frozen=True)
class Product:
    """Sizes, dtypes and tiles of a product; ``left`` and ``right`` are turned where those are true."""

    size: tuple[int, int, int] = (128, 64, 128)
    tile: tuple[int, int, int] = (64, 64, 64)
    dtype: Any = np.float16
    out: Any = np.float32
    left: bool = False
    right: bool = False
    rounded: bool = False  # to tfloat32
    sums: Any = None  # the dtype of sums, if that is not the widest

    def __str__(self) -> str:
        form = f"{'t' if self.left else 'n'}{'t' if self.right else 'n'}"
        sizes = ["x".join(map(str, s)) for s in (self.size, self.tile)]
        return f"{sizes[0]}-{sizes[1]}-{np.dtype(self.dtype).name}-{np.dtype(self.out).name}-{form}"

    def run(self, backend: str, kernel: Any = matmul, blocks: int = 2, **hints: Any) -> None:
        """Multiply small integers, and compare with the exact product."""
        (m, n, k), (tm, tn, _) = self.size, self.tile
        rng = np.random.default_rng(m + n + k)
        a = aligned((k, m) if self.left else (m, k), self.dtype)
        b = aligned((n, k) if self.right else (k, n), self.dtype)
        c = aligned((m, n), self.out)
        for x in (a, b):
            x[...] = rng.integers(0 if x.dtype == np.uint8 else -4, 5, x.shape)
        c[...] = 99
        grid = (-(-m // tm), -(-n // tn)) if kernel is matmul else (blocks,)
        sums = self.sums or (ct.int32 if np.dtype(self.dtype).kind in "iu" else ct.float32)
        arguments = (a, b, c, *self.tile, self.left, self.right, sums, self.rounded)
        fresh = ct.kernel(kernel, **hints)  # which remembers no other schedule
        ct.launch(None, grid, fresh, arguments, backend=backend)
        x, y = a.astype(np.float64), b.astype(np.float64)
        wanted = (x.T if self.left else x) @ (y.T if self.right else y)
        assert (c == wanted.astype(self.out)).all()


BF16, E4M3, E5M2 = ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2


def random_product(seed: int) -> Product:
    """Any sizes, tiles, dtypes and forms that warp groups multiply; rows of arrays are whole units of 16 bytes."""
    r = random.Random(seed)
    dtype = r.choice([np.float16, BF16, np.float16, E4M3, E5M2, np.int8, np.uint8, np.float32])
    item = np.dtype(dtype).itemsize
    wide = item == 2
    left, right = wide and r.random() < 0.4, r.random() < 0.5
    m = r.choice([64, 128, 256] if r.random() < 0.7 else [64])
    n = r.choice([n for n in (16, 32, 64, 128) if right or n * item >= 32])
    k = r.choice([k for k in (16, 32, 64, 128) if k * item >= 32])
    unit = 16 // item

    def extent(tile: int) -> int:
        return max(r.randrange(tile // 2, 3 * tile) // 16 * 16, unit, 16)

    out = np.int32 if item == 1 and np.dtype(dtype).kind in "iu" else r.choice([np.float32, np.float16, BF16])
    sizes, rounded = (extent(m), extent(n), extent(k)), dtype is np.float32
    narrow = dtype in (np.float16, E4M3, E5M2) and r.random() < 0.3
    return Product(sizes, (m, n, k), dtype, out, left, right, rounded, ct.float16 if narrow else None)
