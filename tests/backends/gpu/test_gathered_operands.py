"""Operands that threads gather or convert, and put into shared memory while MMA ops of warp groups are in flight."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import pytest
from support.gpu_interpreter import interpreter_backend
from support.gpu_products import BF16, E4M3, aligned
from support.ptx.backend import ptx_backend

import tilewright as ct
from tilewright.backends.gpu.backend import GpuBackend
from tilewright.backends.gpu.kernel_classes import has_slower_mma
from tilewright.ir.core import Function
from tilewright.ir.ops.gpu.memory import AsyncCopy, Barrier, SharedAlloc
from tilewright.ir.ops.gpu.mma import GpuMma
from tilewright.ir.ops.gpu.specialize import WarpSpecialize
from tilewright.ir.ops.gpu.wgmma import Wgmma
from tilewright.runtime.launch import specialization
from tilewright.transforms.gpu.insert_barriers import InsertBarriers
from tilewright.transforms.instrumentation import observed_passes

Tile = tuple[int, int, int]


def gathered(a, rows, b, c, M: ct.Constant[int], N: ct.Constant[int], K: ct.Constant[int]):
    """Rows of ``a`` by their numbers; those out of range are zeros."""
    i, j = ct.bid(0), ct.bid(1)
    total = ct.zeros((M, N), ct.float32)
    chosen = ct.load(rows, (i,), (M,))
    for k in range(ct.cdiv(a.shape[1], K)):
        columns = k * K + ct.arange(K, dtype=ct.int32)
        x = ct.gather(a, (chosen[:, None], columns[None, :]))
        y = ct.load(b, (j, k), (N, K), padding_mode=ct.PaddingMode.ZERO)
        total = ct.mma(x, ct.transpose(y), total)
    ct.store(c, (i, j), total.astype(c.dtype))


def persistent(a, rows, b, c, M: ct.Constant[int], N: ct.Constant[int], K: ct.Constant[int]):
    """A block has several tiles, and copies for the next one when it has multiplied the last one."""
    across = ct.num_tiles(c, 1, (M, N))
    for tile in range(ct.bid(0), ct.num_tiles(c, 0, (M, N)) * across, ct.num_blocks(0)):
        total = ct.zeros((M, N), ct.float32)
        chosen = ct.load(rows, (tile // across,), (M,))
        for k in range(ct.cdiv(a.shape[1], K)):
            columns = k * K + ct.arange(K, dtype=ct.int32)
            x = ct.gather(a, (chosen[:, None], columns[None, :]))
            y = ct.load(b, (tile % across, k), (N, K), padding_mode=ct.PaddingMode.ZERO)
            total = ct.mma(x, ct.transpose(y), total)
        ct.store(c, (tile // across, tile % across), total.astype(c.dtype))


def converted(a, b, c, M: ct.Constant[int], N: ct.Constant[int], K: ct.Constant[int]):
    """A right operand of another type."""
    i, j = ct.bid(0), ct.bid(1)
    total = ct.zeros((M, N), ct.float32)
    for k in range(ct.cdiv(a.shape[1], K)):
        x = ct.load(a, (i, k), (M, K), padding_mode=ct.PaddingMode.ZERO)
        y = ct.load(b, (k, j), (K, N), padding_mode=ct.PaddingMode.ZERO)
        total = ct.mma(x, y.astype(a.dtype), total)
    ct.store(c, (i, j), total.astype(c.dtype))


def integers(shape: tuple[int, int], dtype: Any) -> Any:
    found = aligned(shape, dtype)
    found[...] = np.random.default_rng(sum(shape)).integers(-3, 4, shape)
    return found


def gather_arguments(tile: Tile, dtype: Any = np.float16, depth: int = 208, start: int = 0) -> tuple[Any, ...]:
    """Rows of ``a`` begin at its column ``start``."""
    rows = aligned((2 * tile[0],), np.int32)
    rows[...] = np.random.default_rng(0).integers(0, 90, rows.shape)
    rows[:2] = -1, 90
    a, b = integers((90, depth + start), dtype)[:, start:], integers((2 * tile[1], depth), dtype)
    return a, rows, b, aligned((2 * tile[0], 2 * tile[1]), np.float32), *tile


def run(kernel: Any, arguments: tuple[Any, ...], backend: str) -> Function:
    """Launch it, compare with the exact product, and give the function of the gpu stage."""
    found: list[Function] = []

    def see(name: str, function: Function) -> None:
        if name == InsertBarriers.name:
            found.append(function)

    grid = (2,) if kernel is persistent else (2, 2)
    with observed_passes(see):
        ct.launch(None, grid, ct.kernel(kernel), arguments, backend=backend)
    if kernel is converted:
        a, b, c, *_ = arguments
        wanted = a.astype(np.float64) @ b.astype(np.float64)
    else:
        a, rows, b, c, *_ = arguments
        there = (rows >= 0) & (rows < len(a))
        wanted = np.where(there[:, None], a[rows * there].astype(np.float64), 0) @ b.astype(np.float64).T
    np.testing.assert_array_equal(c, wanted.astype(c.dtype))
    return found[-1]


def interpreters() -> dict[str, AbstractContextManager[str]]:
    return {"dialect": interpreter_backend(None, target="sm_90"), "ptx": ptx_backend(None, "sm_90")}


@pytest.mark.parametrize("where", interpreters())
@pytest.mark.parametrize(
    ("kernel", "tile", "dtype", "depth"),
    [
        (gathered, (64, 64, 64), np.float16, 208),
        (gathered, (128, 64, 64), BF16, 144),
        (gathered, (64, 32, 64), E4M3, 208),
        (gathered, (128, 128, 64), BF16, 48),  # fewer steps than copies, and two warp groups
        (persistent, (64, 64, 64), np.float16, 208),
    ],
)
def test_rows_that_threads_gather(where: str, kernel: Any, tile: Tile, dtype: Any, depth: int) -> None:
    with interpreters()[where] as backend:
        found = run(kernel, gather_arguments(tile, dtype, depth), backend)
    ops = list(found.walk())
    assert not any(isinstance(op, GpuMma) for op in ops)
    # In flight, while the next tiles arrive; of two warp groups the MMA ops of other CTAs are.
    assert [op.pending for op in ops if isinstance(op, Wgmma)] == [1 if tile[0] == 64 else None]
    assert any(isinstance(op, AsyncCopy) for op in ops)


def test_a_step_has_one_barrier() -> None:
    with interpreter_backend(None, target="sm_90") as backend:
        found = run(gathered, gather_arguments((64, 64, 64)), backend)
    (mma,) = (op for op in found.walk() if isinstance(op, Wgmma))
    assert mma.block is not None
    assert sum(isinstance(op, Barrier) for op in mma.block.ops) == 1


@pytest.mark.parametrize("where", interpreters())
def test_rows_that_begin_anywhere_go_through_registers(where: str) -> None:
    """The copies of threads are of 4 bytes at least."""
    with interpreters()[where] as backend:
        found = run(gathered, gather_arguments((64, 64, 64), start=1), backend)
    ops = list(found.walk())
    assert any(isinstance(op, Wgmma) for op in ops) and not any(isinstance(op, AsyncCopy) for op in ops)


def stored(a, rows, b, c, M: ct.Constant[int], N: ct.Constant[int], K: ct.Constant[int]):
    """A step stores to rows that the next one gathers."""
    i, j = ct.bid(0), ct.bid(1)
    total = ct.zeros((M, N), ct.float32)
    chosen = ct.load(rows, (i,), (M,))
    for k in range(ct.cdiv(a.shape[1], K)):
        columns = k * K + ct.arange(K, dtype=ct.int32)
        x = ct.gather(a, (chosen[:, None], columns[None, :]))
        ct.scatter(a, (chosen[:, None], (columns + K)[None, :]), x)
        y = ct.load(b, (j, k), (N, K), padding_mode=ct.PaddingMode.ZERO)
        total = ct.mma(x, ct.transpose(y), total)
    ct.store(c, (i, j), total.astype(c.dtype))


@pytest.mark.parametrize("where", interpreters())
def test_what_a_step_stores_the_next_one_gathers(where: str) -> None:
    a, _, b, _, *tile = gather_arguments((64, 64, 64), depth=192)
    rows, c = np.arange(64, dtype=np.int32), aligned((64, 64), np.float32)
    wanted = np.tile(a[:64, :64].astype(np.float64), 3) @ b[:64].T.astype(np.float64)
    with interpreters()[where] as backend:
        ct.launch(None, (1, 1), ct.kernel(stored), (a, rows, b[:64], c, *tile), backend=backend)
    np.testing.assert_array_equal(c, wanted.astype(np.float32))


@pytest.mark.parametrize("where", interpreters())
@pytest.mark.parametrize(("tile", "copies"), [((64, 128, 64), 3), ((64, 64, 64), 2), ((128, 64, 64), 2)])
def test_what_threads_convert_is_multiplied_while_they_convert_more(where: str, tile: Tile, copies: int) -> None:
    """The MMA op stays in flight; of no more columns than rows, those of other CTAs."""
    a, b = integers((2 * tile[0], 208), BF16), integers((208, 2 * tile[1]), np.int8)
    with interpreters()[where] as backend:
        found = run(converted, (a, b, aligned((2 * tile[0], 2 * tile[1]), np.float32), *tile), backend)
    ops = list(found.walk())
    assert [op.pending for op in ops if isinstance(op, Wgmma)] == [1 if copies == 3 else None]
    (roles,) = (op for op in ops if isinstance(op, WarpSpecialize))
    assert copies in [op.type.copies for op in roles.consumer.walk() if isinstance(op, SharedAlloc)]


@pytest.mark.parametrize(("dtype", "taken"), [(np.float16, True), (E4M3, False)])
def test_gathered_operands_of_8_bits_stay(dtype: Any, taken: bool) -> None:
    function = specialization(ct.kernel(gathered), gather_arguments((64, 64, 64), dtype), "reference").function
    assert has_slower_mma(function, GpuBackend("sm_90")) == taken
