"""Operands that threads gather or convert, and put into shared memory while MMA ops of warp groups are in flight."""

from __future__ import annotations

import itertools
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import pytest
from support.gpu_interpreter import interpreter_backend
from support.gpu_products import BF16, E4M3, aligned
from support.gpu_stage import Fault
from support.passes import after, without
from support.ptx.backend import ptx_backend

import tilewright as ct
from tilewright.backends.gpu.backend import GpuBackend
from tilewright.backends.gpu.kernel_classes import has_slower_mma
from tilewright.ir.core import Function
from tilewright.ir.layouts import WARP
from tilewright.ir.ops.arith import Cmp
from tilewright.ir.ops.control import For
from tilewright.ir.ops.gpu.memory import AsyncCopy, Barrier, GlobalLoad, SharedAlloc, SharedStore
from tilewright.ir.ops.gpu.mma import GpuMma
from tilewright.ir.ops.gpu.specialize import WarpSpecialize
from tilewright.ir.ops.gpu.wgmma import GROUP_WARPS, Wgmma, WgmmaWait
from tilewright.ir.types import SharedType, TileType
from tilewright.runtime.launch import specialization
from tilewright.transforms.gpu import inline_fetches
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


def flat(a, rows, b, c, M: ct.Constant[int], N: ct.Constant[int], K: ct.Constant[int]):
    """The same from an array of one axis, in which those out of range end."""
    i, j = ct.bid(0), ct.bid(1)
    total = ct.zeros((M, N), ct.float32)
    starts = ct.load(rows, (i,), (M,)) * b.shape[1]
    for k in range(ct.cdiv(b.shape[1], K)):
        columns = k * K + ct.arange(K, dtype=ct.int32)
        x = ct.gather(a, starts[:, None] + columns[None, :])
        y = ct.load(b, (j, k), (N, K), padding_mode=ct.PaddingMode.ZERO)
        total = ct.mma(x, ct.transpose(y), total)
    ct.store(c, (i, j), total.astype(c.dtype))


def right(a, rows, b, c, M: ct.Constant[int], N: ct.Constant[int], K: ct.Constant[int]):
    """The same transposed: rows of ``a`` are columns of the right operand."""
    i, j = ct.bid(0), ct.bid(1)
    total = ct.zeros((N, M), ct.float32)
    chosen = ct.load(rows, (i,), (M,))
    for k in range(ct.cdiv(a.shape[1], K)):
        columns = k * K + ct.arange(K, dtype=ct.int32)
        x = ct.load(b, (j, k), (N, K), padding_mode=ct.PaddingMode.ZERO)
        y = ct.gather(a, (chosen[:, None], columns[None, :]))
        total = ct.mma(x, ct.transpose(y), total)
    ct.store(c, (i, j), ct.transpose(total).astype(c.dtype))


def both(a, rows, b, c, M: ct.Constant[int], N: ct.Constant[int], K: ct.Constant[int]):
    """Rows of both operands by their numbers."""
    i, j = ct.bid(0), ct.bid(1)
    total = ct.zeros((M, N), ct.float32)
    chosen = ct.load(rows, (i,), (M,))
    others = j * N + ct.arange(N, dtype=ct.int32)
    for k in range(ct.cdiv(a.shape[1], K)):
        columns = k * K + ct.arange(K, dtype=ct.int32)
        x = ct.gather(a, (chosen[:, None], columns[None, :]))
        y = ct.gather(b, (others[:, None], columns[None, :]))
        total = ct.mma(x, ct.transpose(y), total)
    ct.store(c, (i, j), total.astype(c.dtype))


def in_steps(a, rows, b, c, M: ct.Constant[int], N: ct.Constant[int], K: ct.Constant[int]):
    """Each step has rows of its own."""
    i, j = ct.bid(0), ct.bid(1)
    total = ct.zeros((M, N), ct.float32)
    for k in range(ct.cdiv(a.shape[1], K)):
        columns = k * K + ct.arange(K, dtype=ct.int32)
        x = ct.gather(a, (ct.load(rows, (i + k,), (M,))[:, None], columns[None, :]))
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


def computed(a, b, c, M: ct.Constant[int], N: ct.Constant[int], K: ct.Constant[int]):
    """Both operands are no tiles of arrays as they are: the left one is clamped, the right one doubled."""
    i, j = ct.bid(0), ct.bid(1)
    total = ct.zeros((M, N), ct.float32)
    for k in range(ct.cdiv(a.shape[1], K)):
        x = ct.load(a, (i, k), (M, K), padding_mode=ct.PaddingMode.ZERO)
        y = ct.load(b, (k, j), (K, N), padding_mode=ct.PaddingMode.ZERO)
        total = ct.mma(ct.maximum(x, 0), y + y, total)
    ct.store(c, (i, j), total.astype(c.dtype))


def clamped(a, b, c, M: ct.Constant[int], N: ct.Constant[int], K: ct.Constant[int]):
    """The left operand is clamped."""
    i, j = ct.bid(0), ct.bid(1)
    total = ct.zeros((M, N), ct.float32)
    for k in range(ct.cdiv(a.shape[1], K)):
        x = ct.load(a, (i, k), (M, K), padding_mode=ct.PaddingMode.ZERO)
        total = ct.mma(ct.maximum(x, 0), ct.load(b, (k, j), (K, N), padding_mode=ct.PaddingMode.ZERO), total)
    ct.store(c, (i, j), total.astype(c.dtype))


def scaled(a, scales, b, c, M: ct.Constant[int], N: ct.Constant[int], K: ct.Constant[int]):
    """Each step scales the columns of its left operand."""
    i, j = ct.bid(0), ct.bid(1)
    total = ct.zeros((M, N), ct.float32)
    for k in range(ct.cdiv(a.shape[1], K)):
        x = ct.load(a, (i, k), (M, K), padding_mode=ct.PaddingMode.ZERO)
        x = x * ct.load(scales, (k,), (K,), padding_mode=ct.PaddingMode.ZERO)[None, :]
        total = ct.mma(x, ct.load(b, (k, j), (K, N), padding_mode=ct.PaddingMode.ZERO), total)
    ct.store(c, (i, j), total.astype(c.dtype))


def summed(a, b, c, M: ct.Constant[int], N: ct.Constant[int], K: ct.Constant[int]):
    """The left operand is a sum of two tiles."""
    i, j = ct.bid(0), ct.bid(1)
    total = ct.zeros((M, N), ct.float32)
    for k in range(ct.cdiv(a.shape[1], K)):
        x = ct.load(a, (i, k), (M, K)) + ct.load(a, (j, k), (M, K))
        total = ct.mma(x, ct.load(b, (k, j), (K, N)), total)
    ct.store(c, (i, j), total.astype(c.dtype))


def both_clamped(a, b, c, M: ct.Constant[int], N: ct.Constant[int], K: ct.Constant[int]):
    """Both operands are computed."""
    i, j = ct.bid(0), ct.bid(1)
    total = ct.zeros((M, N), ct.float32)
    for k in range(ct.cdiv(a.shape[1], K)):
        x, y = ct.maximum(ct.load(a, (i, k), (M, K)), 0), ct.maximum(ct.load(b, (k, j), (K, N)), 0)
        total = ct.mma(x, y, total)
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
    elif kernel is clamped:
        a, b, c, *_ = arguments
        wanted = np.maximum(a, 0).astype(np.float64) @ b.astype(np.float64)
    elif kernel is scaled:
        a, scales, b, c, *_ = arguments
        wanted = (a * scales).astype(np.float64) @ b.astype(np.float64)
    elif kernel is in_steps:
        a, rows, b, c, m, _, k = arguments
        wanted = np.zeros(c.shape)
        for i, step in itertools.product(range(c.shape[0] // m), range(-(-b.shape[1] // k))):
            chosen, at = rows[(i + step) * m :][:m], slice(step * k, (step + 1) * k)
            there = (chosen >= 0) & (chosen < len(a))
            left = np.where(there[:, None], a[chosen * there, at].astype(np.float64), 0)
            wanted[i * m :][:m] += left @ b[:, at].astype(np.float64).T
    elif kernel is computed:
        a, b, c, *_ = arguments
        wanted = np.maximum(a, 0).astype(np.float64) @ (2 * b).astype(np.float64)
    else:
        a, rows, b, c, *_ = arguments
        a = a.reshape(-1, b.shape[1])
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
        (right, (64, 64, 64), np.float16, 208),
        (right, (64, 128, 64), E4M3, 208),
        (both, (64, 64, 64), BF16, 208),
        (both, (128, 128, 64), np.float16, 48),
        (both, (64, 64, 64), E4M3, 80),
        (flat, (64, 64, 64), BF16, 192),
    ],
)
def test_rows_that_threads_gather(where: str, kernel: Any, tile: Tile, dtype: Any, depth: int) -> None:
    arguments = gather_arguments(tile, dtype, depth)
    if kernel is flat:
        arguments = arguments[0].reshape(-1), *arguments[1:]
    with interpreters()[where] as backend:
        found = run(kernel, arguments, backend)
    mmas = found.ops_of(Wgmma)
    assert len(mmas) == (2 if dtype is E4M3 else 1), "steps of 64 bytes are done two at once, and the one that is left"
    for mma in mmas:
        assert mma.block is not None and mma.acc.layout is not None
        assert mma.pending == 1, "an MMA op is in flight while the next tiles arrive"
        assert not any(isinstance(op, (GpuMma, SharedStore)) for op in mma.block.ops)
        assert any(isinstance(op, AsyncCopy) for op in mma.block.ops)
        at = mma.block.ops.index(mma)
        barriers = [mma.block.ops.index(op) > at for op in mma.block.ops if isinstance(op, Barrier)]
        groups = mma.acc.layout.size(WARP) // GROUP_WARPS
        assert barriers == [False, True][:groups], "one before it; two groups wait when the one before has ended"


def test_an_index_is_compared_with_both_ends_at_once() -> None:
    a, *others = gather_arguments((64, 64, 64), BF16, 192)
    with interpreter_backend(None, target="sm_90") as backend:
        found = run(flat, (a.reshape(-1), *others), backend)
    (mma,) = (op for op in found.walk() if isinstance(op, Wgmma))
    assert mma.block is not None
    masks = [op.mask for op in mma.block.ops if isinstance(op, AsyncCopy)]
    assert [m.op.lhs.tile.element for m in masks if m is not None and isinstance(m.op, Cmp)] == [ct.uint32]


def test_results_wait_for_what_the_other_warp_group_multiplies(monkeypatch: pytest.MonkeyPatch) -> None:
    """They lie where operands were, whose last MMA op each group has waited for alone."""

    def drop(function: Function) -> None:
        (wait,) = (op for op in function.walk() if isinstance(op, WgmmaWait))
        assert wait.block is not None
        ops = wait.block.ops
        without(lambda op: isinstance(op, Barrier) and op in ops and ops.index(op) > ops.index(wait), function)

    after(InsertBarriers, drop, monkeypatch)
    with interpreter_backend(None, target="sm_90") as backend, pytest.raises(Fault, match="race"):
        run(gathered, gather_arguments((128, 128, 64), BF16), backend)


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


@pytest.mark.parametrize("where", interpreters())
@pytest.mark.parametrize("tile", [(64, 64, 64), (128, 64, 32), (64, 32, 16)])
def test_left_operands_that_are_computed_stay_in_registers(where: str, tile: Tile) -> None:
    """Right ones go to shared memory. Of 16 columns along k several steps are done at once, with one warp group."""
    a, b = integers((2 * tile[0], 208), BF16), integers((208, 2 * tile[1]), BF16)
    with interpreters()[where] as backend:
        found = run(computed, (a, b, aligned((2 * tile[0], 2 * tile[1]), np.float32), *tile), backend)
    ops = list(found.walk())
    mmas = [op for op in ops if isinstance(op, Wgmma)]
    assert mmas and all(isinstance(op.x.type, TileType) and isinstance(op.y.type, SharedType) for op in mmas)
    assert not any(isinstance(op, (GpuMma, GlobalLoad)) for op in ops)


def test_left_operands_in_registers_race_without_the_barrier_before_the_next_fetch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    a, b = integers((128, 208), BF16), integers((208, 64), BF16)
    monkeypatch.setattr(inline_fetches, "_is_left_to_registers", lambda fetch: False)
    with pytest.raises(Fault) as found, interpreter_backend(None, target="sm_90") as backend:
        run(clamped, (a, b, aligned((128, 64), np.float32), 64, 32, 16), backend)
    assert found.value.category == "race"


@pytest.mark.parametrize("where", interpreters())
@pytest.mark.parametrize(
    ("tile", "ahead"), [((128, 128, 64), [True]), ((64, 128, 64), [False]), ((64, 32, 32), [False, True])]
)
def test_scales_of_columns_are_loaded_by_each_thread(where: str, tile: Tile, ahead: list[bool]) -> None:
    """A step ahead, unless one warp group has as many that fewer CTAs would share an SM."""
    a, b = integers((2 * tile[0], 208), BF16), integers((208, 2 * tile[1]), BF16)
    scales = aligned((208,), BF16)
    scales[...] = np.random.default_rng(2).integers(-2, 3, scales.shape)
    with interpreters()[where] as backend:
        found = run(scaled, (a, scales, b, aligned((2 * tile[0], 2 * tile[1]), np.float32), *tile), backend)
    loops = [op for op in found.walk() if isinstance(op, For) and any(isinstance(o, Wgmma) for o in op.body.ops)]
    assert len(loops) == len(ahead)  # of two short steps at once, and of what is left
    for loop, loads_ahead in zip(loops, ahead):
        (load,) = (op for op in loop.body.ops if isinstance(op, GlobalLoad))
        assert (load.result in loop.next_values) == loads_ahead
        assert not any(isinstance(op, (GpuMma, SharedStore)) for op in loop.walk())


@pytest.mark.parametrize("where", interpreters())
@pytest.mark.parametrize(("tile", "dtype"), [((64, 64, 64), np.float16), ((128, 128, 32), BF16), ((64, 32, 64), E4M3)])
def test_rows_of_each_step_are_copied_ahead_by_numbers_that_are_loaded_before(
    where: str, tile: Tile, dtype: Any
) -> None:
    a, b = integers((90, 208), dtype), integers((2 * tile[1], 208), dtype)
    rows = aligned((9 * tile[0],), np.int32)
    rows[...] = np.random.default_rng(1).integers(-1, 91, rows.shape)
    with interpreters()[where] as backend:
        found = run(in_steps, (a, rows, b, aligned((2 * tile[0], 2 * tile[1]), np.float32), *tile), backend)
    (loop,) = (op for op in found.walk() if isinstance(op, For) and any(isinstance(o, AsyncCopy) for o in op.body.ops))
    (number,) = (op for op in loop.body.ops if isinstance(op, GlobalLoad))
    assert number.result in loop.next_values  # those of the next copy, beside which nothing waits for them
    assert not any(isinstance(op, (GpuMma, SharedStore)) for op in loop.walk())


@pytest.mark.parametrize(
    ("kernel", "dtype"),
    [
        (flat, np.float16),
        (gathered, np.float16),
        (right, BF16),
        (both, E4M3),
        (in_steps, np.float16),
        (summed, np.float16),
        (clamped, np.float16),
        (both_clamped, np.float16),
        (in_steps, E4M3),
    ],
)
def test_operands_that_are_computed_stay(kernel: Any, dtype: Any) -> None:
    arguments = gather_arguments((64, 64, 64), dtype)
    if kernel in (clamped, summed, both_clamped):
        arguments = arguments[0], *arguments[2:]
    if kernel is flat:
        arguments = arguments[0].reshape(-1), *arguments[1:]
    function = specialization(ct.kernel(kernel), arguments, "reference").function
    assert not has_slower_mma(function, GpuBackend("sm_90"))
