"""Kernels whose tiles are divided among several blocks do what they do in one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.irbuild import run

import tilewright as ct
from tilewright.backends.reference import BACKEND as REFERENCE
from tilewright.ir.core import Function
from tilewright.ir.verifier import verify
from tilewright.runtime.launch import specialization
from tilewright.transforms.gpu.tile_splitting import divide
from tilewright.transforms.pipelines import optimize


@ct.kernel
def products(a, b, out, TM: ct.Constant[int], TN: ct.Constant[int], TK: ct.Constant[int]):
    """By few blocks, of transposed tiles."""
    columns = ct.cdiv(out.shape[1], TN)
    for tile in range(ct.bid(0), ct.cdiv(out.shape[0], TM) * columns, ct.num_blocks(0)):
        i, j = tile // columns, tile % columns
        total = ct.zeros((TM, TN), ct.float32)
        for k in range(ct.cdiv(b.shape[1], TK)):
            x = ct.load(a, (i, k), (TM, TK), padding_mode=ct.PaddingMode.ZERO)
            y = ct.transpose(ct.load(b, (j, k), (TN, TK), padding_mode=ct.PaddingMode.ZERO))
            total = ct.mma(x, y, total)
        ct.store(out, (i, j), total.astype(out.dtype))


@ct.kernel
def chained(q, k, v, out):
    """Products that follow each other, with folds along the other axis and a mask, as attention has them."""
    i = ct.bid(0)
    x = ct.load(q, (i, 0), (256, 16), padding_mode=ct.PaddingMode.ZERO)
    total = ct.zeros((256, 32), ct.float32)
    largest = ct.full((256, 1), -100, ct.float32)
    for j in range(min(ct.cdiv(k.shape[0], 32), 8 * (i + 1))):
        s = x @ ct.load(k, (j, 0), (32, 16), padding_mode=ct.PaddingMode.ZERO).transpose()
        inside = (i * 256 + ct.arange(256, dtype=ct.int32))[:, None] >= (j * 32 + ct.arange(32, dtype=ct.int32))[
            None, :
        ]
        s = ct.where(inside, s.astype(ct.float32), -8)
        new = ct.maximum(largest, ct.max(s, axis=1, keepdims=True))
        if j % 2 == 0:
            total = total - new
        z = ct.load(v, (j, 0), (32, 32), padding_mode=ct.PaddingMode.ZERO)
        total = ct.mma(ct.maximum(s - new, -2).astype(ct.float16), z, total)
        largest = new
    ct.store(out, (i, 0), total + largest)


@ct.kernel
def rows(x, places, out, sums):
    """Folds, scans, gathers, reshaped tiles, and a loop with an end in its middle."""
    i = ct.bid(0)
    tile = ct.load(x, (i, 0), (16, 32), padding_mode=ct.PaddingMode.ZERO)
    at = ct.load(places, (i,), (16,), padding_mode=ct.PaddingMode.ZERO)
    tile = tile + ct.gather(x, (at[:, None], ct.arange(32, dtype=ct.int32)[None, :]), padding_value=5)
    turn = 0
    while True:
        tile = tile + ct.cumsum(tile, axis=1).reshape((16, 4, 8)).reshape((16, 32))
        turn = turn + 1
        if turn >= 2 + i:
            break
    tile = ct.cat((ct.extract(tile, (0, 1), (16, 16)), ct.extract(tile, (0, 0), (16, 16))), 1)
    ct.store(sums, (i,), ct.sum(tile, axis=1))
    ct.store(out, (0, i), ct.transpose(tile))


@ct.kernel
def windows(x, out):
    """Tiles that overlap, in the other order, stored by pointers."""
    i, j = ct.bid(0), ct.bid(1)
    tile = x.tiled_view((8, 16), traversal_steps=(4, 8), padding_mode=ct.PaddingMode.NEG_INF).load((i, j))
    tile = tile + ct.load(x, (j, i), (8, 16), order="F", padding_mode=ct.PaddingMode.ZERO)
    at = i * 8 + ct.arange(8, dtype=ct.int32)[:, None], j * 16 + ct.arange(16, dtype=ct.int32)[None, :]
    ct.scatter(out, at, tile)


def numbers(*shape: int, dtype: Any = np.float32) -> np.ndarray[Any, Any]:
    """Sums of them are exact."""
    return np.random.default_rng(len(shape)).integers(-3, 4, shape).astype(dtype)


HALF = np.float16
KERNELS: dict[str, tuple[Any, tuple[Any, ...], tuple[int, ...]]] = {
    "products": (products, (numbers(300, 72, dtype=HALF), numbers(600, 72, dtype=HALF), numbers(300, 600), 128, 256, 32), (3,)),
    "chained": (chained, (numbers(500, 16, dtype=HALF), numbers(300, 16, dtype=HALF), numbers(300, 32, dtype=HALF), numbers(500, 32)), (2,)),
    "rows": (rows, (numbers(40, 32), np.arange(40, dtype=np.int32)[::-1].copy(), numbers(32, 40), numbers(40)), (3,)),
    "windows": (windows, (numbers(30, 50), numbers(40, 60)), (5, 4)),
}  # fmt: skip


def function_of(kernel: Any, arguments: tuple[Any, ...]) -> Function:
    return optimize(specialization(kernel, arguments, "reference").function)


def after(function: Function, arguments: tuple[Any, ...], grid: tuple[int, ...]) -> list[np.ndarray[Any, Any]]:
    """The arrays among ``arguments`` as ``function`` leaves them."""
    names = [p.argument for p in function.params if p.role == "base"]
    arrays = dict(zip(names, (a.copy() for a in arguments if isinstance(a, np.ndarray))))
    run(REFERENCE, function, grid, **arrays)
    return list(arrays.values())


def largest_store(function: Function) -> int:
    return max(op.operands[1].tile.size for op in function.walk() if op.name in ("store", "store_view"))


@pytest.mark.parametrize("blocks", [2, 4, 8])
@pytest.mark.parametrize("name", KERNELS)
def test_blocks_do_together_what_one_does(name: str, blocks: int) -> None:
    kernel, arguments, grid = KERNELS[name]
    function = function_of(kernel, arguments)
    parts = divide(function, blocks)
    verify(parts.function)
    assert parts.blocks == min(blocks, 4 if name == "chained" else 8)
    assert largest_store(parts.function) * parts.blocks == largest_store(function)
    wanted = after(function, arguments, grid)
    for mine, theirs in zip(after(parts.function, arguments, (grid[0] * parts.blocks, *grid[1:])), wanted):
        np.testing.assert_array_equal(mine, theirs)


@ct.kernel
def in_place(x, out):
    ct.store(x, (0, 0), ct.load(x, (0, 0), (64, 64)) + 1)


@ct.kernel
def counted(x, out):
    ct.atomic_add(out, (ct.arange(64, dtype=ct.int32), 0), 1)
    ct.store(x, (0, 0), ct.zeros((64, 64), x.dtype))


@ct.kernel
def folded(x, out):
    tile = ct.load(x, (0, 0), (1, 64))
    ct.store(out, (0, 0), tile - ct.sum(tile, axis=1, keepdims=True))


@ct.kernel
def shifted(x, out):
    """Elements of one turn are stored over by other ones of the next."""
    for i in range(4):
        ct.scatter(out, (i + ct.arange(32, dtype=ct.int32), 0), ct.load(x, (i, 0), (1, 32)).reshape((32,)))


@ct.kernel
def turned(x, out):
    """The halves of the second tile are not those of the first."""
    ct.store(out, (0, 0), ct.load(x, (0, 0), (64, 16)))
    ct.store(out, (0, 0), ct.load(x, (0, 0), (16, 64)))


@ct.kernel
def narrow(x, out):
    ct.store(out, (0, 0), ct.load(x, (0, 0), (64, 16)) @ ct.load(x, (0, 0), (16, 16)))


@pytest.mark.parametrize("kernel", [in_place, counted, folded, shifted, turned, narrow], ids=lambda k: k.name)
def test_what_blocks_would_have_to_wait_for_is_left_to_one(kernel: Any) -> None:
    function = function_of(kernel, (numbers(64, 64), numbers(64, 64)))
    assert divide(function, 2) == (function, 1)


def test_indices_far_outside_stay_outside() -> None:
    @ct.kernel
    def kernel(places, x, out):
        i = ct.load(places, (ct.bid(0),), ())
        ct.store(out, (ct.bid(0), 0), ct.load(x, (i, 0), (4, 8), padding_mode=ct.PaddingMode.ZERO))
        ct.store(out, (i, 1), ct.full((4, 8), 9, out.dtype))

    info = np.iinfo(np.int32)
    places = np.array([info.min, info.max, info.max // 2, info.max // 2 + 1, info.min // 2, -1, 1 << 29, 1], np.int32)
    arguments = places, numbers(20, 8), numbers(32, 20)
    function = function_of(kernel, arguments)
    parts = divide(function, 4)
    assert parts.blocks == 4
    for mine, theirs in zip(after(parts.function, arguments, (32,)), after(function, arguments, (8,))):
        np.testing.assert_array_equal(mine, theirs)
