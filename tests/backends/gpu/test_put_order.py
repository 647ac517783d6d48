"""The TMA unit keeps no order among its stores: what may reach the same tile again waits until the tile is in memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.gpu_interpreter import interpreter_backend
from support.gpu_products import aligned
from support.ptx.backend import ptx_backend

import tilewright as ct
from tilewright.ir.core import Function
from tilewright.ir.ops.gpu.tma import TmaStoreWait
from tilewright.transforms.gpu.insert_barriers import InsertBarriers
from tilewright.transforms.instrumentation import observed_passes

Int = ct.Constant[int]


@ct.kernel
def stored_twice(a, b, c, M: Int):  # type: ignore[no-untyped-def]
    i, j = ct.bid(0), ct.bid(1)
    total = ct.zeros((M, 64), ct.float32)
    for k in range(ct.cdiv(a.shape[1], 64)):
        total = ct.mma(ct.load(a, (i, k), (M, 64)), ct.load(b, (k, j), (64, 64)), total)
    ct.store(c, (i, j), total.astype(c.dtype))
    ct.store(c, (i, j), (total * 2).astype(c.dtype))


@ct.kernel
def stored_in_each_step(a, b, c, M: Int):  # type: ignore[no-untyped-def]
    i, j = ct.bid(0), ct.bid(1)
    total = ct.zeros((M, 64), ct.float32)
    for k in range(ct.cdiv(a.shape[1], 64)):
        total = ct.mma(ct.load(a, (i, k), (M, 64)), ct.load(b, (k, j), (64, 64)), total)
        ct.store(c, (i, j), total.astype(c.dtype))


@ct.kernel
def stored_apart(a, b, c, M: Int):  # type: ignore[no-untyped-def]
    i = ct.bid(0)
    for j in range(ct.cdiv(b.shape[1], 64)):
        total = ct.zeros((M, 64), ct.float32)
        for k in range(ct.cdiv(a.shape[1], 64)):
            total = ct.mma(ct.load(a, (i, k), (M, 64)), ct.load(b, (k, j), (64, 64)), total)
        ct.store(c, (i, j), total.astype(c.dtype))


@ct.kernel
def stored_in_pairs(a, b, c, M: Int):  # type: ignore[no-untyped-def]
    columns = ct.cdiv(c.shape[1], 128)
    for tile in range(ct.bid(0), ct.cdiv(c.shape[0], M) * columns, ct.num_blocks(0)):
        i, j = tile // columns, 2 * (tile % columns)
        left, right = ct.zeros((M, 64), ct.float32), ct.zeros((M, 64), ct.float32)
        for k in range(ct.cdiv(a.shape[1], 64)):
            x = ct.load(a, (i, k), (M, 64))
            left = ct.mma(x, ct.load(b, (k, j), (64, 64)), left)
            right = ct.mma(x, ct.load(b, (k, j + 1), (64, 64)), right)
        ct.store(c, (i, j), left.astype(c.dtype))
        ct.store(c, (i, j + 1), right.astype(c.dtype))


@ct.kernel
def stored_in_two_sizes(a, b, c, M: Int):  # type: ignore[no-untyped-def]
    i = ct.bid(0)
    total, strip = ct.zeros((M, 64), ct.float32), ct.zeros((M, 16), ct.float32)
    for k in range(ct.cdiv(a.shape[1], 64)):
        total = ct.mma(ct.load(a, (i, k), (M, 64)), ct.load(b, (k, 0), (64, 64)), total)
    ct.store(c, (i, 0), total.astype(c.dtype), allow_tma=True)
    for k in range(ct.cdiv(a.shape[1], 64)):
        strip = ct.mma(ct.load(a, (i, k), (M, 64)), ct.load(b, (k, 4), (64, 16)), strip)
    ct.store(c, (i, 1), strip.astype(c.dtype), allow_tma=True)


def run(kernel: Any, rows: int, backend: str) -> None:
    generator = np.random.default_rng(0)
    a, b, c = (aligned((128, 128), np.float16) for _ in range(3))
    a[...], b[...] = (generator.integers(-2, 3, (128, 128)) for _ in range(2))
    columns = 1 if kernel in (stored_apart, stored_in_two_sizes) else 2
    grid = (1, 1) if kernel is stored_in_pairs else (128 // rows, columns)
    ct.launch(None, grid, kernel, (a, b, c, rows), backend=backend)
    expected = a.astype(np.float32) @ b.astype(np.float32) * (2 if kernel is stored_twice else 1)
    if kernel is stored_in_two_sizes:
        expected[:, 16:32], expected[:, 64:] = expected[:, 64:80], 0
    np.testing.assert_array_equal(c, expected)


def waits(kernel: Any, rows: int) -> list[bool]:
    """Of each wait for stores, whether it is one until they are in memory."""
    found: list[bool] = []

    def see(name: str, function: Function) -> None:
        if name == InsertBarriers.name:
            found.extend(op.written for op in function.ops_of(TmaStoreWait))

    with observed_passes(see), interpreter_backend(4, target="sm_90") as backend:
        run(kernel, rows, backend)
    return found


@pytest.mark.parametrize("rows", [64, 128])
@pytest.mark.parametrize(
    "kernel", [stored_twice, stored_in_each_step, stored_apart, stored_in_pairs, stored_in_two_sizes]
)
def test_the_last_store_is_what_stays(kernel: Any, rows: int) -> None:
    with ptx_backend(4, "sm_90") as backend:
        run(kernel, rows, backend)


def test_only_what_may_reach_the_same_tile_waits() -> None:
    assert any(waits(stored_twice, 64)) and any(waits(stored_in_each_step, 64))
    found = waits(stored_apart, 64)
    assert found and not any(found)


def test_a_tile_beside_one_that_has_waited_waits_for_nothing() -> None:
    assert waits(stored_in_pairs, 64) == [True, False, False]


@pytest.mark.parametrize("rows", [64, 128])
def test_tiles_of_another_size_wait_until_those_before_are_in_memory(rows: int) -> None:
    assert waits(stored_in_two_sizes, rows).count(True) >= 1
