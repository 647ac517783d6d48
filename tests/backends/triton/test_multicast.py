"""Pairs of blocks in kernels with a tile for each block: what they share is the same tile in both, and the result stays
the same; the reference backend runs the functions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pytest
from support.irbuild import run

import tilewright as ct
from tilewright.analysis.gpu.target import parse_target
from tilewright.analysis.manager import AnalysisManager
from tilewright.backends.reference import BACKEND as REFERENCE
from tilewright.ir.builder import Builder
from tilewright.ir.core import Block, Function, Op, Value
from tilewright.ir.dtypes import int32
from tilewright.ir.ops.arith import Add, Cast, Mul
from tilewright.ir.ops.memory import Bid, NumBlocks, Store
from tilewright.ir.ops.shape import PtrOffset
from tilewright.ir.parser import parse_function
from tilewright.ir.printer import print_function
from tilewright.ir.verifier import verify
from tilewright.runtime.launch import specialization
from tilewright.runtime.launchable import Launchable
from tilewright.transforms.gpu.persistent_flattening import FlattenPersistentLoops, multicast_loads
from tilewright.transforms.pipelines import optimize

TM, TN = 64, 32

HOPPER = parse_target("sm_90")


def shared_loads(function: Function) -> Mapping[Op, Value]:
    """The loads that 2-CTA clusters share."""
    return AnalysisManager(function).get(multicast_loads)


def place(tile: Any, rows: Any, columns: Any, GROUP: Any) -> Any:
    """The row and the column of a tile; GROUP rows of tiles are done together."""
    first = tile // (GROUP * columns) * GROUP
    height = min(rows - first, GROUP)
    return first + tile % (GROUP * columns) % height, tile % (GROUP * columns) // height


@ct.kernel
def swizzled(a, b, c, flags, rows, columns, GROUP: ct.Constant[int]):
    i, j = place(ct.bid(0), rows, columns, GROUP)
    total = ct.zeros((64, 32), ct.float32)
    for k in range(ct.cdiv(a.shape[1], 16)):
        x = ct.load(a, (i, k), (64, 16), padding_mode=ct.PaddingMode.ZERO)
        total = ct.mma(x, ct.load(b, (k, j), (16, 32), padding_mode=ct.PaddingMode.ZERO), total)
    ct.store(c, (i, j), total)


@ct.kernel
def in_grid(a, b, c, flags, rows, columns, GROUP: ct.Constant[int]):
    """Rows of tiles along the first axis of the grid, or, without GROUP, along the second."""
    i, j = (ct.bid(0), ct.bid(1)) if GROUP else (ct.bid(1), ct.bid(0))
    total = ct.zeros((64, 32), ct.float32)
    for k in range(ct.cdiv(a.shape[1], 16)):
        x = ct.load(a, (i, k), (64, 16), padding_mode=ct.PaddingMode.ZERO)
        total = ct.mma(x, ct.load(b, (k, j), (16, 32), padding_mode=ct.PaddingMode.ZERO), total)
    ct.store(c, (i, j), total)


@ct.kernel
def summing(a, b, c, flags, rows, columns, GROUP: ct.Constant[int]):
    """Blocks along the second axis each begin at another step of all."""
    i, j = place(ct.bid(0), rows, columns, GROUP)
    total = ct.zeros((64, 32), ct.float32)
    for k in range(ct.bid(1), ct.cdiv(a.shape[1], 16), ct.num_blocks(1)):
        x = ct.load(a, (i, k), (64, 16), padding_mode=ct.PaddingMode.ZERO)
        total = ct.mma(x, ct.load(b, (k, j), (16, 32), padding_mode=ct.PaddingMode.ZERO), total)
    ct.store(c, (i + ct.bid(1) * rows, j), total)


@ct.kernel
def in_shares(a, b, c, flags, rows, columns, SPLITS: ct.Constant[int]):
    """Neighbouring blocks do the same share of the steps of two tiles, the last of which may be no tile."""
    pair = ct.bid(0) // 2
    tile, split = pair // SPLITS * 2 + ct.bid(0) % 2, pair % SPLITS
    i, j = tile // columns, tile % columns
    total, steps = ct.zeros((64, 32), ct.float32), ct.cdiv(a.shape[1], 16)
    for k in range(split * steps // SPLITS, (split + 1) * steps // SPLITS):
        x = ct.load(a, (i, k), (64, 16), padding_mode=ct.PaddingMode.ZERO)
        total = ct.mma(x, ct.load(b, (k, j), (16, 32), padding_mode=ct.PaddingMode.ZERO), total)
    if i < rows:
        ct.store(c, (i + split * rows, j), total)


def shared(kernel: Launchable, *args: Any) -> tuple[Function, Function]:
    function = optimize(specialization(kernel, args, "reference").function)
    return function, FlattenPersistentLoops(HOPPER, realign=True).run(function)


def telling(flat: Function) -> Function:
    """The function, in which each block stores whether it shares the loads, in rows of ``flags``."""
    (flags,) = (v for v, p in zip(flat.body.args, flat.params) if (p.argument, p.role) == ("flags", "base"))
    added = Block()
    b = Builder(added, flat.loc)
    with b.at(added):
        x, y, count = b.emit(Bid, axis=0), b.emit(Bid, axis=1), b.emit(NumBlocks, axis=0)
        for k, flag in enumerate(shared_loads(flat).values()):
            row = b.emit(Add, y, b.emit(Mul, b.constant(k, int32), b.emit(NumBlocks, axis=1)))
            at = b.emit(PtrOffset, flags, b.emit(Add, b.emit(Mul, row, count), x))
            b.emit_op(Store, at, b.emit(Cast, flag, dtype=int32), None)
    flat.body.splice(added.ops, before=flat.body.terminator)
    verify(flat)
    return flat


def grids(rows: int, columns: int) -> Iterator[tuple[Launchable, int, tuple[int, int, int], Any]]:
    """Kernels with their group, the grid for so many tiles, and which tile a block has."""
    for group in (1, 2, 3, 8):
        yield swizzled, group, (rows * columns, 1, 1), lambda x, y, g=group: place(x, rows, columns, g)
    yield summing, 3, (rows * columns, 2, 1), lambda x, y: place(x, rows, columns, 3)
    yield in_grid, 1, (rows, columns, 1), lambda x, y: (x, y)
    yield in_grid, 0, (columns, rows, 1), lambda x, y: (y, x)


@pytest.mark.parametrize(("rows", "columns"), [(4, 3), (3, 4), (3, 3), (5, 2), (1, 5), (6, 1), (1, 1), (7, 5)])
def test_pairs_share_what_both_need(rows: int, columns: int) -> None:
    """A load is shared where it is of the same tile in both blocks, and only there; with one tile in each block of a
    row or column of a grid, no load is shared that never could be."""
    rng = np.random.default_rng(rows)
    m, n, k = rows * TM - 5, columns * TN - 8, 72
    a, b = (rng.integers(-4, 5, shape).astype(np.float16) for shape in ((m, k), (k, n)))
    for kernel, group, grid, tile in grids(rows, columns):
        parts = grid[1] if kernel is summing else 1
        c = np.full((parts * rows * TM, n), np.nan, np.float32)
        flags = np.full((2, grid[1], grid[0]), -1, np.int32)
        args = a, b, c, flags, rows, columns, group
        function, flat = shared(kernel, *args)
        assert flat is not function
        operands = [0, 1] if kernel is not in_grid else [1] if group else [0]
        assert [load.result.tile.shape == (16, TN) for load in shared_loads(flat)] == [bool(n) for n in operands]
        assert not shared_loads(FlattenPersistentLoops(HOPPER, realign=True, multicast=False).run(function))
        values = {"a": a, "b": b, "c": c, "flags": flags, "rows": rows, "columns": columns}
        run(REFERENCE, telling(flat), grid, **values)
        total = c.reshape(parts, rows * TM, n).sum(axis=0)[:m]
        np.testing.assert_array_equal(total, a.astype(np.float32) @ b, err_msg=f"{kernel} {grid}")
        for x in range(grid[0]):
            for y in range(grid[1]):
                mate = min(x ^ 1, grid[0] - 1)
                same = [ours == theirs for ours, theirs in zip(tile(x, y), tile(mate, y))]
                assert list(flags[: len(operands), y, x]) == [same[n] for n in operands]


@pytest.mark.parametrize(("rows", "columns", "splits"), [(3, 4, 1), (3, 4, 3), (5, 3, 2), (3, 1, 4)])
def test_pairs_with_the_same_share_of_the_steps(rows: int, columns: int, splits: int) -> None:
    rng = np.random.default_rng(rows)
    m, n, k = rows * TM - 5, columns * TN - 8, 136
    a, b = (rng.integers(-4, 5, shape).astype(np.float16) for shape in ((m, k), (k, n)))
    c = np.full((splits * rows * TM, n), np.nan, np.float32)
    blocks = -(-rows * columns // 2) * 2 * splits
    flags = np.full((2, blocks), -1, np.int32)
    _, flat = shared(in_shares, a, b, c, flags, rows, columns, splits)
    values = {"a": a, "b": b, "c": c, "flags": flags, "rows": rows, "columns": columns}
    run(REFERENCE, telling(flat), (blocks, 1, 1), **values)
    total = c.reshape(splits, rows * TM, n).sum(axis=0)[:m]
    np.testing.assert_array_equal(total, a.astype(np.float32) @ b)
    for block in range(blocks):
        tiles = [block // 2 // splits * 2 + side for side in (0, 1)]
        assert list(flags[:, block]) == [tiles[0] // columns == tiles[1] // columns, columns == 1]


@ct.kernel
def thirds(a, b, c, extra):
    """Of three blocks in turn the first and the last have other steps, in some pairs."""
    total, share = ct.zeros((64, 64), ct.float32), ct.bid(0) // 3
    for k in range(share, share + 4):
        total = ct.mma(ct.load(a, (ct.bid(0), k), (64, 64)), ct.load(b, (k, 0), (64, 64)), total)
    ct.store(c, (ct.bid(0), 0), total)


@ct.kernel
def rounded_up(a, b, c, extra):
    """The second block of a pair has the steps of the first one of the next."""
    total, share = ct.zeros((64, 64), ct.float32), ct.cdiv(ct.bid(0), 2)
    for k in range(share, share + 4):
        total = ct.mma(ct.load(a, (ct.bid(0), k), (64, 64)), ct.load(b, (k, 0), (64, 64)), total)
    ct.store(c, (ct.bid(0), 0), total)


@ct.kernel
def in_halves(a, b, c, extra):
    """Half the number of a block, in floats, is no number of a pair."""
    total = ct.zeros((64, 64), ct.float32)
    half = ct.truediv(ct.bid(0).astype(ct.float32), 2.0, rounding_mode=ct.RoundingMode.RM)
    share = (half * 2.0).astype(ct.int32)
    for k in range(share, share + 4):
        total = ct.mma(ct.load(a, (ct.bid(0), k), (64, 64)), ct.load(b, (k, 0), (64, 64)), total)
    ct.store(c, (ct.bid(0), 0), total)


@ct.kernel
def apart(a, b, c, extra):
    """How many steps a block has depends on the block."""
    total = ct.zeros((64, 64), ct.float32)
    for k in range(ct.bid(0), ct.cdiv(a.shape[1], 64)):
        total = ct.mma(ct.load(a, (ct.bid(0), k), (64, 64)), ct.load(b, (k, 0), (64, 64)), total)
    ct.store(c, (ct.bid(0), 0), total)


@ct.kernel
def leaving(a, b, c, extra):
    """Some blocks have nothing to do."""
    if ct.bid(0) > 4:
        return
    total = ct.zeros((64, 64), ct.float32)
    for k in range(ct.cdiv(a.shape[1], 64)):
        total = ct.mma(ct.load(a, (ct.bid(0), k), (64, 64)), ct.load(b, (k, 0), (64, 64)), total)
    ct.store(c, (ct.bid(0), 0), total)


@ct.kernel
def stopping(a, b, c, extra):
    """The loop may end early."""
    total = ct.zeros((64, 64), ct.float32)
    for k in range(ct.cdiv(a.shape[1], 64)):
        total = ct.mma(ct.load(a, (ct.bid(0), k), (64, 64)), ct.load(b, (k, 0), (64, 64)), total)
        if k > ct.bid(0):
            break
    ct.store(c, (ct.bid(0), 0), total)


@ct.kernel
def skipping(a, b, c, extra):
    """Some steps have no products."""
    total = ct.zeros((64, 64), ct.float32)
    for k in range(ct.cdiv(a.shape[1], 64)):
        if k % 2 == ct.bid(0) % 2:
            continue
        total = ct.mma(ct.load(a, (ct.bid(0), k), (64, 64)), ct.load(b, (k, 0), (64, 64)), total)
    ct.store(c, (ct.bid(0), 0), total)


@ct.kernel
def counted(a, b, c, extra):
    """How many steps there are is in memory, where blocks may see different numbers."""
    total = ct.zeros((64, 64), ct.float32)
    for k in range(ct.load(extra, (0,), ()).item()):
        total = ct.mma(ct.load(a, (ct.bid(0), k), (64, 64)), ct.load(b, (k, 0), (64, 64)), total)
    ct.store(c, (ct.bid(0), 0), total)


@ct.kernel
def gathered(a, b, c, extra):
    """Which tiles a block needs is in memory."""
    i = ct.load(extra, (ct.bid(0),), ()).item()
    total = ct.zeros((64, 64), ct.float32)
    for k in range(ct.cdiv(a.shape[1], 64)):
        total = ct.mma(ct.load(a, (i, k), (64, 64)), ct.load(b, (k, i), (64, 64)), total)
    ct.store(c, (ct.bid(0), 0), total)


@ct.kernel
def waiting(a, b, c, extra):
    """Blocks may wait for each other."""
    while ct.atomic_add(extra, 0, 0) == 0:
        pass
    total = ct.zeros((64, 64), ct.float32)
    for k in range(ct.cdiv(a.shape[1], 64)):
        total = ct.mma(ct.load(a, (ct.bid(0), k), (64, 64)), ct.load(b, (k, 0), (64, 64)), total)
    ct.store(c, (ct.bid(0), 0), total)


@ct.kernel
def asserting(a, b, c, extra):
    """A block may end at an assert."""
    total = ct.zeros((64, 64), ct.float32)
    ct.assert_(ct.bid(0) < 4)
    for k in range(ct.cdiv(a.shape[1], 64)):
        total = ct.mma(ct.load(a, (ct.bid(0), k), (64, 64)), ct.load(b, (k, 0), (64, 64)), total)
    ct.store(c, (ct.bid(0), 0), total)


@ct.kernel
def ascending(a, b, c, extra):
    """Which tiles are loaded depends on the steps before."""
    total, at = ct.zeros((64, 64), ct.float32), ct.bid(0)
    for k in range(ct.cdiv(a.shape[1], 64)):
        total = ct.mma(ct.load(a, (at, k), (64, 64)), ct.load(b, (k, at), (64, 64)), total)
        at = at + k
    ct.store(c, (ct.bid(0), 0), total)


@ct.kernel
def in_bytes(a, b, c, extra):
    total, share = ct.zeros((64, 64), ct.float32), (ct.bid(0).astype(ct.int8) // ct.int8(2)).astype(ct.int32)
    for k in range(share, share + 4):
        total = ct.mma(ct.load(a, (ct.bid(0), k), (64, 64)), ct.load(b, (k, 0), (64, 64)), total)
    ct.store(c, (ct.bid(0), 0), total)


def test_halves_towards_zero_of_narrow_numbers() -> None:
    """Blocks 128 and 129 are numbers below zero in a byte, whose halves towards zero differ."""
    a, c, extra = np.zeros((264, 264), np.float16), np.zeros((264, 264), np.float32), np.zeros(4, np.int32)
    text = print_function(optimize(specialization(in_bytes, (a, a.copy(), c, extra), "reference").function))
    assert text.count("RoundingMode.RM") == 1
    function = parse_function(text.replace("RoundingMode.RM", "RoundingMode.RZ"))
    assert not shared_loads(FlattenPersistentLoops(HOPPER, realign=True).run(function))
    wide = text.replace("i8", "i32").replace("RoundingMode.RM", "RoundingMode.RZ")
    assert shared_loads(FlattenPersistentLoops(HOPPER, realign=True).run(parse_function(wide)))


@ct.kernel
def reading(a, b, c, extra):
    """The threads read the tiles too."""
    total = ct.zeros((64, 64), ct.float32)
    for k in range(ct.cdiv(a.shape[1], 64)):
        x, y = ct.load(a, (ct.bid(0), k), (64, 64)), ct.load(b, (k, 0), (64, 64))
        total = ct.mma(x, y, total) + ct.sum(ct.transpose(x).astype(ct.float32)) + y
    ct.store(c, (ct.bid(0), 0), total)


@ct.kernel
def keeping(a, b, c, extra):
    """The threads read the tiles in the next step."""
    total, last = ct.zeros((64, 64), ct.float32), ct.zeros((64, 64), ct.float16)
    for k in range(ct.cdiv(a.shape[1], 64)):
        x, y = ct.load(a, (ct.bid(0), k), (64, 64)), ct.load(b, (k, 0), (64, 64))
        total = ct.mma(x, y, total) + last
        last = x if k > 2 else y
    ct.store(c, (ct.bid(0), 0), total)


@ct.kernel
def sometimes(a, b, c, extra):
    """Some steps have another product of the tiles."""
    total = ct.zeros((64, 64), ct.float32)
    for k in range(ct.cdiv(a.shape[1], 64)):
        x, y = ct.load(a, (ct.bid(0), k), (64, 64)), ct.load(b, (k, 0), (64, 64))
        total = ct.mma(x, y, total)
        if k % 2 == 0:
            total = ct.mma(x, y, total)
    ct.store(c, (ct.bid(0), 0), total)


@ct.kernel
def flat(a, b, c, extra):
    """Not the tensor cores of Hopper multiply so few rows, but the threads, from registers."""
    total, low = ct.zeros((64, 64), ct.float32), ct.zeros((32, 64), ct.float32)
    for k in range(ct.cdiv(a.shape[1], 64)):
        x, y = ct.load(a, (ct.bid(0), k), (64, 64)), ct.load(b, (k, 0), (64, 64))
        total = ct.mma(x, y, total)
        low = ct.mma(ct.load(a, (ct.bid(0), k), (32, 64)), y, low)
        low = ct.mma(ct.load(b, (ct.bid(0), k), (32, 64)), ct.transpose(x), low)
    ct.store(c, (ct.bid(0), 0), total + ct.sum(low))


@ct.kernel
def short(a, b, c, extra):
    """Where K is too small for the tensor cores, tiles are filled up in registers."""
    total = ct.zeros((64, 64), ct.float32)
    for k in range(ct.cdiv(a.shape[1], 8)):
        x, y = ct.load(a, (ct.bid(0), k), (64, 8)), ct.load(b, (k, 0), (8, 64))
        total = ct.mma(x, y, total)
    ct.store(c, (ct.bid(0), 0), total)


@ct.kernel
def reshaped(a, b, c, extra):
    """The rows of a tile are others in the product."""
    total = ct.zeros((64, 64), ct.float32)
    for k in range(ct.cdiv(a.shape[1], 64)):
        x, y = ct.load(a, (ct.bid(0), k), (32, 128)), ct.load(b, (k, 0), (128, 32))
        total = ct.mma(x.reshape((64, 64)), y.reshape((64, 64)), total)
    ct.store(c, (ct.bid(0), 0), total)


KERNELS = [
    apart,
    thirds,
    rounded_up,
    in_halves,
    leaving,
    stopping,
    skipping,
    counted,
    gathered,
    waiting,
    asserting,
    ascending,
]
KERNELS += [reading, keeping, sometimes, flat, short, reshaped]


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.__name__)
def test_blocks_that_do_not_share(kernel: Launchable) -> None:
    a, c, extra = np.zeros((264, 264), np.float16), np.zeros((264, 264), np.float32), np.zeros(4, np.int32)
    assert not shared_loads(shared(kernel, a, a.copy(), c, extra)[1])


@ct.kernel
def telling_others(a, b, c, extra):
    """Blocks wait for each other after the loop."""
    total = ct.zeros((64, 64), ct.float32)
    for k in range(ct.cdiv(a.shape[1], 64)):
        total = ct.mma(ct.load(a, (ct.bid(0), k), (64, 64)), ct.load(b, (k, 0), (64, 64)), total)
    ct.store(c, (ct.bid(0), 0), total)
    ct.atomic_add(extra, 0, 1)
    while ct.atomic_add(extra, 0, 0) == 0:
        pass


def test_blocks_share_before_they_wait() -> None:
    a, c, extra = np.zeros((264, 264), np.float16), np.zeros((264, 264), np.float32), np.zeros(4, np.int32)
    assert len(shared_loads(shared(telling_others, a, a.copy(), c, extra)[1])) == 1


@ct.kernel
def turned(a, b, c, extra):
    """The tiles are transposed and get another axis on the way to the product."""
    total = ct.zeros((1, 64, 64), ct.float32)
    for k in range(ct.cdiv(a.shape[1], 32)):
        x, y = ct.load(a, (k, 0), (32, 64)), ct.load(b, (0, k), (64, 32))
        total = ct.mma(ct.transpose(x)[None], ct.permute(y[None], (0, 2, 1)), total)
    ct.store(c, (ct.bid(0), 0), total.reshape((64, 64)))


def test_tiles_may_be_seen_otherwise_in_shared_memory() -> None:
    a, c, extra = np.zeros((264, 264), np.float16), np.zeros((264, 264), np.float32), np.zeros(4, np.int32)
    assert len(shared_loads(shared(turned, a, a.copy(), c, extra)[1])) == 2


@pytest.mark.parametrize(
    ("width", "dtype"), [(256, np.float16), (272, np.float16), (260, np.float32), (257, np.float16)]
)
def test_rows_of_whole_sectors_and_copies_are_not_shared(width: int, dtype: Any) -> None:
    a, flags = np.zeros((width, width), dtype), np.zeros(4, np.int32)
    function, flat = shared(swizzled, a, a.copy(), np.zeros((width, width), np.float32), flags, 3, 3, 2)
    assert not shared_loads(flat) and flat is function
