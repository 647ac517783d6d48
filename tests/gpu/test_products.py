"""Products by few blocks with many tiles, and by a block for each tile: exact, since their numbers are small
integers."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from support.cuda import DeviceArray

import tilewright as ct


@ct.kernel
def persistent(a, b, c, GROUP: ct.Constant[int], TK: ct.Constant[int]):
    rows, columns = ct.cdiv(c.shape[0], 64), ct.cdiv(c.shape[1], 128)
    for tile in range(ct.bid(0), rows * columns, ct.num_blocks(0)):
        first = tile // (GROUP * columns) * GROUP
        height = min(rows - first, GROUP)
        i, j = first + tile % (GROUP * columns) % height, tile % (GROUP * columns) // height
        total = ct.zeros((64, 128), ct.float32)
        for k in range(ct.cdiv(a.shape[1], TK)):
            x = ct.load(a, (i, k), (64, TK), padding_mode=ct.PaddingMode.ZERO)
            y = ct.load(b, (k, j), (TK, 128), padding_mode=ct.PaddingMode.ZERO)
            if a.dtype == ct.float32:
                x, y = x.astype(ct.tfloat32), y.astype(ct.tfloat32)
            total = ct.mma(x, y, total)
        ct.store(c, (i, j), total)


@pytest.mark.parametrize(
    ("dtype", "m", "n", "k"),
    [
        (np.float16, 520, 776, 200),  # rows of whole units of 16 bytes that are not of 32: 2-CTA clusters share loads
        (np.float16, 512, 768, 192),
        (np.float16, 130, 257, 67),
        (np.float32, 300, 260, 72),  # few steps for each tile
        (np.float32, 300, 260, 2000),  # many
    ],
)
@pytest.mark.parametrize("group", [1, 3, 8])
@pytest.mark.parametrize("ctas", [None, 2])
def test_every_number_of_blocks(dtype: Any, m: int, n: int, k: int, group: int, ctas: int | None) -> None:
    kernel = persistent if ctas is None else persistent.replace_hints(num_ctas=ctas)
    rng = np.random.default_rng(k)
    a, b = rng.integers(-2, 3, (m, k)).astype(dtype), rng.integers(-2, 3, (k, n)).astype(dtype)
    wanted = a.astype(np.float32) @ b.astype(np.float32)
    on_device = DeviceArray.of(a), DeviceArray.of(b)
    for blocks in (1, 2, 3, 4, 7, 8, 33, 200):
        out = DeviceArray((m, n), np.float32)
        ct.launch(None, (blocks,), kernel, (*on_device, out, group, 128 // a.itemsize))
        np.testing.assert_array_equal(out.numpy(), wanted, err_msg=f"{blocks} blocks")


@ct.kernel
def one_tile(a, b, c, GROUP: ct.Constant[int], TM: ct.Constant[int], TN: ct.Constant[int], TK: ct.Constant[int]):
    """A tile for each block: GROUP rows of tiles are done together; of a grid of two axes without a GROUP, the first
    is that of rows, or of columns if it is negative."""
    if GROUP > 0:
        rows, columns = ct.cdiv(c.shape[0], TM), ct.cdiv(c.shape[1], TN)
        first = ct.bid(0) // (GROUP * columns) * GROUP
        height = max(min(rows - first, GROUP), 1)
        i, j = first + ct.bid(0) % (GROUP * columns) % height, ct.bid(0) % (GROUP * columns) // height
    elif GROUP == 0:
        i, j = ct.bid(0), ct.bid(1)
    else:
        i, j = ct.bid(1), ct.bid(0)
    total = ct.zeros((TM, TN), ct.float32)
    for k in range(ct.cdiv(a.shape[1], TK)):
        x = ct.load(a, (i, k), (TM, TK), padding_mode=ct.PaddingMode.ZERO)
        y = ct.load(b, (k, j), (TK, TN), padding_mode=ct.PaddingMode.ZERO)
        total = ct.mma(x, y, total)
    ct.store(c, (i, j), total)


@pytest.mark.parametrize(
    ("m", "n", "k", "tile"),
    [
        (
            520,
            776,
            200,
            (64, 128, 64),
        ),  # rows of whole units of 16 bytes that are not of 32: 2-CTA clusters share loads
        (1000, 1000, 1000, (64, 128, 128)),
        (72, 2056, 4104, (64, 64, 64)),
        (3000, 264, 1016, (128, 256, 64)),
        (1928, 520, 8, (128, 64, 64)),  # fewer steps than stages
        (1928, 520, 136, (128, 64, 64)),
        (512, 768, 192, (64, 128, 64)),
        (130, 257, 67, (64, 128, 64)),
    ],
)
def test_a_tile_for_each_block(m: int, n: int, k: int, tile: tuple[int, int, int]) -> None:
    """In grids of even and of odd numbers of blocks, also of more than there are tiles."""
    rng = np.random.default_rng(k)
    a, b = (rng.integers(-2, 3, shape).astype(np.float16) for shape in ((m, k), (k, n)))
    wanted = a.astype(np.float32) @ b.astype(np.float32)
    on_device = DeviceArray.of(a), DeviceArray.of(b)
    rows, columns = -(-m // tile[0]), -(-n // tile[1])
    for more in (0, 1):
        grids = [(group, (rows * columns + more,)) for group in (1, 2, 3, 5, 8)]
        grids += [(0, (rows + more, columns)), (-1, (columns + more, rows))]
        for group, grid in grids:
            out = DeviceArray((m, n), np.float32)
            ct.launch(None, grid, one_tile, (*on_device, out, group, *tile))
            np.testing.assert_array_equal(out.numpy(), wanted, err_msg=f"{grid} in groups of {group}")


@ct.kernel
def side_by_side(
    a,
    b,
    c,
    ROWS: ct.Constant[int],
    COLUMNS: ct.Constant[int],
    TM: ct.Constant[int],
    TN: ct.Constant[int],
    TK: ct.Constant[int],
):
    """Tiles of ROWS times COLUMNS parts."""
    rows, columns = ct.cdiv(c.shape[0], ROWS * TM), ct.cdiv(c.shape[1], COLUMNS * TN)
    for tile in range(ct.bid(0), rows * columns, ct.num_blocks(0)):
        i, j = tile % rows, tile // rows
        sums = tuple(ct.zeros((TM, TN), ct.float32) for n in ct.static_iter(range(ROWS * COLUMNS)))
        for k in range(ct.cdiv(a.shape[1], TK)):
            left = tuple(
                ct.load(a, (ROWS * i + n, k), (TM, TK), padding_mode=ct.PaddingMode.ZERO)
                for n in ct.static_iter(range(ROWS))
            )
            right = tuple(
                ct.load(b, (k, COLUMNS * j + n), (TK, TN), padding_mode=ct.PaddingMode.ZERO)
                for n in ct.static_iter(range(COLUMNS))
            )
            sums = tuple(
                ct.mma(left[n // COLUMNS], right[n % COLUMNS], sums[n]) for n in ct.static_iter(range(ROWS * COLUMNS))
            )
        for n in ct.static_iter(range(ROWS * COLUMNS)):
            ct.store(c, (ROWS * i + n // COLUMNS, COLUMNS * j + n % COLUMNS), sums[n].astype(c.dtype))


@pytest.mark.parametrize(("m", "n", "k"), [(384, 768, 192), (384, 392, 200), (520, 1160, 72)])
@pytest.mark.parametrize(("warps", "stages"), [(4, 3), (4, 4), (8, 4), (8, 1)])
@pytest.mark.parametrize(
    ("rows", "columns", "tiles"),
    [
        (1, 2, ((64, 64, 64), (128, 64, 32), (128, 64, 64))),
        (1, 3, ((64, 64, 64), (128, 64, 32), (128, 64, 64))),
        (1, 4, ((64, 64, 64), (128, 64, 32), (128, 64, 64))),
        (1, 5, ((64, 32, 64), (128, 32, 64))),
        (2, 3, ((64, 64, 64), (64, 32, 32))),
        (3, 3, ((64, 32, 64), (64, 16, 64))),
    ],
)
def test_products_side_by_side(
    m: int, n: int, k: int, warps: int, stages: int, rows: int, columns: int, tiles: tuple[tuple[int, int, int], ...]
) -> None:
    """Wider products take their place; 2-CTA clusters share loads where rows are not whole sectors."""
    rng = np.random.default_rng(k + columns)
    a, b = rng.integers(-2, 3, (m, k)).astype(np.float16), rng.integers(-2, 3, (k, n)).astype(np.float16)
    wanted = (a.astype(np.float32) @ b).astype(np.float16)
    on_device = DeviceArray.of(a), DeviceArray.of(b)
    kernel = side_by_side.replace_options("triton", num_warps=warps, num_stages=stages)
    for blocks, tile in itertools.product((1, 5, 8, 132), tiles):
        out = DeviceArray((m, n), np.float16)
        ct.launch(None, (blocks,), kernel, (*on_device, out, rows, columns, *tile))
        np.testing.assert_array_equal(out.numpy(), wanted, err_msg=f"{blocks} blocks, {tile}")


def tile_of_product(a, b, i, j, first, stop):
    total = ct.zeros((128, 128), ct.float32)
    for k in range(first, stop):
        x = ct.load(a, (i, k), (128, 64), padding_mode=ct.PaddingMode.ZERO)
        y = ct.load(b, (k, j), (64, 128), padding_mode=ct.PaddingMode.ZERO)
        total = ct.mma(x, y, total)
    return total


def add_up(c, i, j, total, sums, counts, part, split, SPLITS):
    """The block that comes last adds up the sums of all splits."""
    ct.store(sums, (part, split, 0, 0), total.reshape((1, 1, 128, 128)))
    if ct.atomic_add(counts, part, 1) == SPLITS - 1:
        total = ct.zeros((128, 128), ct.float32)
        for other in range(SPLITS):
            total += ct.load(sums, (part, other, 0, 0), (1, 1, 128, 128)).reshape((128, 128))
        ct.store(counts, part, 0)
        ct.store(c, (i, j), total)


@ct.kernel
def with_splits(a, b, c, sums, counts, SPLITS: ct.Constant[int]):
    """Whole tiles as long as every block has one, then the splits of the others, in turns."""
    block, blocks = ct.bid(0), ct.num_blocks(0)
    rows, columns, all_steps = ct.cdiv(c.shape[0], 128), ct.cdiv(c.shape[1], 128), ct.cdiv(a.shape[1], 64)
    rest = rows * columns % blocks
    for tile in range(block, rows * columns - rest, blocks):
        ct.store(c, (tile % rows, tile // rows), tile_of_product(a, b, tile % rows, tile // rows, 0, all_steps))
    steps = ct.cdiv(all_steps, SPLITS)
    for work in range(block, rest * SPLITS, blocks):
        part, split = work // SPLITS, work % SPLITS
        i, j = (rows * columns - rest + part) % rows, (rows * columns - rest + part) // rows
        total = tile_of_product(a, b, i, j, split * steps, min(split * steps + steps, all_steps))
        add_up(c, i, j, total, sums, counts, part, split, SPLITS)


@ct.kernel
def with_shares(a, b, c, sums, counts, SPLITS: ct.Constant[int]):
    """Two neighbouring blocks have the same split of two tiles."""
    rows, columns, all_steps = ct.cdiv(c.shape[0], 128), ct.cdiv(c.shape[1], 128), ct.cdiv(a.shape[1], 64)
    pair, steps = ct.bid(0) // 2, ct.cdiv(all_steps, SPLITS)
    part, split = pair // SPLITS * 2 + ct.bid(0) % 2, pair % SPLITS
    i, j = part % rows, part // rows
    stop = ct.where(pair // SPLITS * 2 < rows * columns, min(split * steps + steps, all_steps), 0)
    total = tile_of_product(a, b, i, j, split * steps, stop)
    if part < rows * columns:
        add_up(c, i, j, total, sums, counts, part, split, SPLITS)


@pytest.mark.parametrize(("m", "n", "k"), [(640, 896, 1032), (640, 900, 1024), (600, 904, 520)])
@pytest.mark.parametrize("splits", [2, 5])
def test_splits_after_pairs(m: int, n: int, k: int, splits: int) -> None:
    rng = np.random.default_rng(k)
    a, b = rng.integers(-2, 3, (m, k)).astype(np.float16), rng.integers(-2, 3, (k, n)).astype(np.float16)
    on_device = DeviceArray.of(a), DeviceArray.of(b)
    sums, counts = DeviceArray((64, splits, 128, 128), np.float32), DeviceArray.of(np.zeros(64, np.int32))
    for blocks in (1, 4, 6, 8, 32, 132):
        out = DeviceArray((m, n), np.float32)
        ct.launch(None, (blocks,), with_splits, (*on_device, out, sums, counts, splits))
        np.testing.assert_array_equal(out.numpy(), a.astype(np.float32) @ b, err_msg=f"{blocks} blocks")
        assert not counts.numpy().any()


@pytest.mark.parametrize(("m", "n", "k"), [(640, 904, 1032), (600, 264, 520), (640, 256, 512), (100, 104, 648)])
@pytest.mark.parametrize("splits", [1, 2, 5])
def test_splits_of_pairs(m: int, n: int, k: int, splits: int) -> None:
    rng = np.random.default_rng(k)
    a, b = rng.integers(-2, 3, (m, k)).astype(np.float16), rng.integers(-2, 3, (k, n)).astype(np.float16)
    on_device = DeviceArray.of(a), DeviceArray.of(b)
    sums, counts = DeviceArray((64, splits, 128, 128), np.float32), DeviceArray.of(np.zeros(64, np.int32))
    least = -(-(-(-m // 128) * -(-n // 128)) // 2) * 2 * splits
    for blocks in (least, least + 2, least + 7):  # of odd numbers no two are a pair
        out = DeviceArray((m, n), np.float32)
        ct.launch(None, (blocks,), with_shares, (*on_device, out, sums, counts, splits))
        np.testing.assert_array_equal(out.numpy(), a.astype(np.float32) @ b, err_msg=f"{blocks} blocks")
        assert not counts.numpy().any()
