"""Flattened loops do what the nests did; the reference backend runs both."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from support.irbuild import run

import tilewright as ct
from tilewright.analysis.gpu.target import parse_target
from tilewright.analysis.manager import AnalysisManager
from tilewright.backends.reference import BACKEND as REFERENCE
from tilewright.ir.core import Function, Op, Value
from tilewright.ir.verifier import verify
from tilewright.runtime.launch import specialization
from tilewright.runtime.launchable import Launchable
from tilewright.transforms.gpu.persistent_flattening import FlattenPersistentLoops, multicast_loads
from tilewright.transforms.pipelines import optimize

HOPPER = parse_target("sm_90")


def shared_loads(function: Function) -> Mapping[Op, Value]:
    """The loads that 2-CTA clusters share."""
    return AnalysisManager(function).get(multicast_loads)


@ct.kernel
def product(a, b, bias, c, first, step, TILE: ct.Constant[int]):
    """Every ``step``-th part of K from ``first`` on, and a bias where the column is even."""
    columns = ct.cdiv(c.shape[1], TILE)
    for tile in range(ct.bid(0), ct.cdiv(c.shape[0], TILE) * columns, ct.num_blocks(0)):
        i, j = tile // columns, tile % columns
        even = j % 2 == 0
        total = ct.zeros((TILE, TILE), ct.float32)
        for k in range(first, ct.cdiv(a.shape[1], 16), step):
            x = ct.load(a, (i, k), (TILE, 16), padding_mode=ct.PaddingMode.ZERO)
            y = ct.load(b, (k, j), (16, TILE), padding_mode=ct.PaddingMode.ZERO)
            if a.dtype == ct.float32:
                x, y = x.astype(ct.tfloat32), y.astype(ct.tfloat32)
            total = ct.mma(x, y, total)
        if even:
            total = total + ct.load(bias, (j,), (TILE,), padding_mode=ct.PaddingMode.ZERO)[None, :]
        ct.store(c, (i, j), total)


@ct.kernel
def in_place(a, b, c):
    """The next tile may read what this one stored."""
    for i in range(ct.bid(0), 4, ct.num_blocks(0)):
        total = ct.zeros((64, 64), ct.float32)
        for k in range(ct.cdiv(a.shape[1], 64)):
            total = ct.mma(ct.load(a, (i, k), (64, 64)), ct.load(b, (k, 0), (64, 64)), total)
        ct.store(a, (i, 0), total.astype(a.dtype))


@ct.kernel
def carrying(a, b, c):
    """The loop over tiles has a result."""
    last = ct.zeros((64, 64), ct.float32)
    for i in range(4):
        total = ct.zeros((64, 64), ct.float32)
        for k in range(2):
            total = ct.mma(ct.load(a, (i, k), (64, 64)), ct.load(b, (k, 0), (64, 64)), total)
        ct.store(c, (i, 0), total + last)
        last = total


def optimized(kernel: Launchable, *args: Any) -> Function:
    return optimize(specialization(kernel, args, "reference").function)


def flattened(function: Function) -> Function:
    return FlattenPersistentLoops(HOPPER, realign=True).run(function)


@pytest.mark.parametrize(
    ("depth", "first", "step", "blocks"), [(80, 0, 1, 4), (80, 1, 3, 3), (64, 7, 1, 2), (32, 0, 1, 20)]
)
@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_the_same_result(depth: int, first: int, step: int, blocks: int, dtype: Any) -> None:
    """Products of float32 carry transposed sums."""
    rng = np.random.default_rng(depth)
    a, b = (rng.integers(-4, 5, shape).astype(dtype) for shape in ((96, depth), (depth, 160)))
    values: dict[str, Any] = {"a": a, "b": b, "bias": rng.integers(-4, 5, 160).astype(np.float32)}
    values |= {"first": first, "step": step}
    out = np.full((2, 96, 160), np.nan, np.float32)
    function = optimized(product, a, b, values["bias"], out[0], first, step, 64)
    flat = flattened(function)
    assert flat is not function
    assert any(op.name == "permute" for op in flat.walk()) == (dtype is np.float32)
    verify(flat)
    for form, c in zip((function, flat), out):
        run(REFERENCE, form, (blocks,), c=c, **values)
    np.testing.assert_array_equal(out[0], out[1])
    assert np.isfinite(out).all()


@pytest.mark.parametrize("blocks", [1, 2, 3, 4, 7, 20])
def test_pairs_of_blocks_share_loads(blocks: int) -> None:
    """They run the same number of steps, and share what both need."""
    rng = np.random.default_rng(blocks)
    a, b = (rng.integers(-4, 5, shape).astype(np.float16) for shape in ((200, 40), (40, 168)))
    bias, c = rng.integers(-4, 5, 168).astype(np.float32), np.full((200, 168), np.nan, np.float32)
    function = optimized(product, a, b, bias, c, 0, 1, 64)
    flat = FlattenPersistentLoops(HOPPER, realign=True).run(function)
    assert len(shared_loads(flat)) == 1
    assert not shared_loads(FlattenPersistentLoops(HOPPER, realign=True, multicast=False).run(function))
    verify(flat)
    run(REFERENCE, flat, (blocks,), a=a, b=b, bias=bias, c=c, first=0, step=1)
    expected = a.astype(np.float32) @ b + np.where(np.arange(168) // 64 % 2 == 0, bias, 0)
    np.testing.assert_array_equal(c, expected)


@ct.kernel
def thirds(a, b, c, done):
    """The right operands are larger together than the left one; blocks tell others at the end, and may wait then."""
    columns = ct.cdiv(c.shape[1], 192)
    for tile in range(ct.bid(0), ct.cdiv(c.shape[0], 64) * columns, ct.num_blocks(0)):
        i, j = tile // columns, tile % columns
        left = middle = right = ct.zeros((64, 64), ct.float32)
        for k in range(ct.cdiv(a.shape[1], 16)):
            x = ct.load(a, (i, k), (64, 16), padding_mode=ct.PaddingMode.ZERO)
            left = ct.mma(x, ct.load(b, (k, 3 * j), (16, 64), padding_mode=ct.PaddingMode.ZERO), left)
            middle = ct.mma(x, ct.load(b, (k, 3 * j + 1), (16, 64), padding_mode=ct.PaddingMode.ZERO), middle)
            right = ct.mma(x, ct.load(b, (k, 3 * j + 2), (16, 64), padding_mode=ct.PaddingMode.ZERO), right)
        ct.store(c, (i, 3 * j), left)
        ct.store(c, (i, 3 * j + 1), middle)
        ct.store(c, (i, 3 * j + 2), right)
    ct.atomic_add(done, 0, 1)
    while ct.atomic_add(done, 0, 0) == 0:
        pass


@pytest.mark.parametrize("blocks", [1, 3, 4])
def test_pairs_share_all_tiles_of_one_operand_before_they_may_wait(blocks: int) -> None:
    rng = np.random.default_rng(blocks)
    a, b = (rng.integers(-4, 5, shape).astype(np.float16) for shape in ((200, 40), (40, 392)))
    c, done = np.full((200, 392), np.nan, np.float32), np.zeros(1, np.int32)
    flat = FlattenPersistentLoops(HOPPER, realign=True).run(optimized(thirds, a, b, c, done))
    assert [load.result.tile.shape for load in shared_loads(flat)] == [(16, 64)] * 3
    verify(flat)
    run(REFERENCE, flat, (blocks,), a=a, b=b, c=c, done=done)
    np.testing.assert_array_equal(c, a.astype(np.float32) @ b)


@ct.kernel
def apart(a, b, c, flags):
    """How many steps a block has depends on the block."""
    for tile in range(ct.bid(0), 4, ct.num_blocks(0)):
        i, j = tile // 2, tile % 2
        total = ct.zeros((64, 64), ct.float32)
        for k in range(ct.bid(0), ct.cdiv(a.shape[1], 64)):
            total = ct.mma(ct.load(a, (i, k), (64, 64)), ct.load(b, (k, j), (64, 64)), total)
        ct.store(c, (i, j), total)


@ct.kernel
def choosing(a, b, c, flags):
    """How many tiles there are depends on the block."""
    tiles = 4
    if ct.bid(0) == 1:
        tiles = c.shape[0] // 64
    for tile in range(ct.bid(0), tiles, ct.num_blocks(0)):
        i, j = tile // 2, tile % 2
        total = ct.zeros((64, 64), ct.float32)
        for k in range(ct.cdiv(a.shape[1], 64)):
            total = ct.mma(ct.load(a, (i, k), (64, 64)), ct.load(b, (k, j), (64, 64)), total)
        ct.store(c, (i, j), total)


@ct.kernel
def strided(a, b, c, flags):
    """Blocks do not take neighbouring tiles."""
    for tile in range(ct.bid(0) * 2, 4, ct.num_blocks(0) * 2):
        i, j = tile // 2, tile % 2
        total = ct.zeros((64, 64), ct.float32)
        for k in range(ct.cdiv(a.shape[1], 64)):
            total = ct.mma(ct.load(a, (i, k), (64, 64)), ct.load(b, (k, j), (64, 64)), total)
        ct.store(c, (i, j), total)


@ct.kernel
def waiting(a, b, c, flags):
    """Blocks may wait for each other."""
    while ct.atomic_add(flags, 0, 0) == 0:
        pass
    for tile in range(ct.bid(0), 4, ct.num_blocks(0)):
        i, j = tile // 2, tile % 2
        total = ct.zeros((64, 64), ct.float32)
        for k in range(ct.cdiv(a.shape[1], 64)):
            total = ct.mma(ct.load(a, (i, k), (64, 64)), ct.load(b, (k, j), (64, 64)), total)
        ct.store(c, (i, j), total)


@ct.kernel
def counting(a, b, c, flags):
    """A tile must not be done twice."""
    for tile in range(ct.bid(0), 4, ct.num_blocks(0)):
        i, j = tile // 2, tile % 2
        total = ct.zeros((64, 64), ct.float32)
        for k in range(ct.cdiv(a.shape[1], 64)):
            total = ct.mma(ct.load(a, (i, k), (64, 64)), ct.load(b, (k, j), (64, 64)), total)
        ct.store(c, (i, j), total)
        ct.atomic_add(flags, 0, 1)


@ct.kernel
def reading(a, b, c, flags):
    """The threads read the tiles too."""
    for tile in range(ct.bid(0), 4, ct.num_blocks(0)):
        i, j = tile // 2, tile % 2
        total = ct.zeros((64, 64), ct.float32)
        for k in range(ct.cdiv(a.shape[1], 64)):
            x, y = ct.load(a, (i, k), (64, 64)), ct.load(b, (k, j), (64, 64))
            total = ct.mma(x, y, total) + x + y
        ct.store(c, (i, j), total)


@ct.kernel
def sharing(a, b, c, flags):
    """What those above would be without what they are about."""
    for tile in range(ct.bid(0), 4, ct.num_blocks(0)):
        i, j = tile // 2, tile % 2
        total = ct.zeros((64, 64), ct.float32)
        for k in range(ct.cdiv(a.shape[1], 64)):
            total = ct.mma(ct.load(a, (i, k), (64, 64)), ct.load(b, (k, j), (64, 64)), total)
        ct.store(c, (i, j), total)


@pytest.mark.parametrize("kernel", [apart, choosing, strided, waiting, counting, reading, sharing])
def test_blocks_that_do_not_share(kernel: Launchable) -> None:
    a, c, flags = np.zeros((264, 264), np.float16), np.zeros((264, 264), np.float32), np.zeros(1, np.int32)
    flat = FlattenPersistentLoops(HOPPER, realign=True).run(optimized(kernel, a, a.copy(), c, flags))
    assert len(shared_loads(flat)) == (kernel is sharing)


@pytest.mark.parametrize("kernel", [in_place, carrying])
def test_what_stays_a_nest(kernel: Launchable) -> None:
    a = np.zeros((256, 128), np.float16)
    function = optimized(kernel, a, a.copy(), np.zeros((256, 256), np.float32))
    assert flattened(function) is function
