"""Operands that threads gather and convert: copies run ahead, of which each thread makes what it puts into shared
memory."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from backends.gpu.test_gathered_operands import integers, interpreters
from support.gpu_products import BF16, E4M3, aligned

import tilewright as ct
from tilewright.ir.core import Function
from tilewright.ir.ops.control import For
from tilewright.ir.ops.gpu.memory import AsyncCopy, GlobalLoad
from tilewright.ir.ops.gpu.mma import GpuMma
from tilewright.ir.ops.gpu.wgmma import Wgmma
from tilewright.transforms.gpu.insert_barriers import InsertBarriers
from tilewright.transforms.instrumentation import observed_passes

Tile = tuple[int, int, int]


def across(a, rows, b, c, M: ct.Constant[int], N: ct.Constant[int], K: ct.Constant[int]):
    """Each step has rows of the right operand by their numbers."""
    i, j = ct.bid(0), ct.bid(1)
    total = ct.zeros((M, N), ct.float32)
    for k in range(ct.cdiv(a.shape[1], K)):
        columns = j * N + ct.arange(N, dtype=ct.int32)
        y = ct.gather(b, (ct.load(rows, (k,), (K,))[:, None], columns[None, :]))
        x = ct.load(a, (i, k), (M, K), padding_mode=ct.PaddingMode.ZERO)
        total = ct.mma(x, y.astype(a.dtype), total)
    ct.store(c, (i, j), total.astype(c.dtype))


def along(a, rows, b, c, M: ct.Constant[int], N: ct.Constant[int], K: ct.Constant[int]):
    """The right operand has rows as columns."""
    i, j = ct.bid(0), ct.bid(1)
    total = ct.zeros((M, N), ct.float32)
    chosen = ct.load(rows, (j,), (N,))
    for k in range(ct.cdiv(a.shape[1], K)):
        y = ct.gather(b, (chosen[:, None], (k * K + ct.arange(K, dtype=ct.int32))[None, :]))
        x = ct.load(a, (i, k), (M, K), padding_mode=ct.PaddingMode.ZERO)
        total = ct.mma(x, ct.transpose(y.astype(a.dtype)), total)
    ct.store(c, (i, j), total.astype(c.dtype))


def doubled(a, rows, b, c, M: ct.Constant[int], N: ct.Constant[int], K: ct.Constant[int]):
    """The same, and threads compute it."""
    i, j = ct.bid(0), ct.bid(1)
    total = ct.zeros((M, N), ct.float32)
    chosen = ct.load(rows, (j,), (N,))
    for k in range(ct.cdiv(a.shape[1], K)):
        y = ct.gather(b, (chosen[:, None], (k * K + ct.arange(K, dtype=ct.int32))[None, :])).astype(a.dtype)
        x = ct.load(a, (i, k), (M, K), padding_mode=ct.PaddingMode.ZERO)
        total = ct.mma(x, ct.transpose(y + y), total)
    ct.store(c, (i, j), total.astype(c.dtype))


def left(a, rows, b, c, M: ct.Constant[int], N: ct.Constant[int], K: ct.Constant[int]):
    """Rows of the left operand, which is ``b`` here."""
    i, j = ct.bid(0), ct.bid(1)
    total = ct.zeros((N, M), ct.float32)
    chosen = ct.load(rows, (j,), (N,))
    for k in range(ct.cdiv(a.shape[1], K)):
        x = ct.gather(b, (chosen[:, None], (k * K + ct.arange(K, dtype=ct.int32))[None, :]))
        y = ct.load(a, (i, k), (M, K), padding_mode=ct.PaddingMode.ZERO)
        total = ct.mma(x.astype(a.dtype), ct.transpose(y), total)
    ct.store(c, (i, j), ct.transpose(total).astype(c.dtype))


def run(kernel: Any, tile: Tile, stored: Any, dtype: Any, backend: str, depth: int = 208, start: int = 0) -> Function:
    """Launch it on rows that begin at column ``start``, compare with the exact product, and give the function."""
    m, n, _ = tile
    a, c = integers((2 * m, depth), dtype), aligned((2 * m, 2 * n), np.float32)
    rows = aligned((depth if kernel is across else 2 * n,), np.int32)
    rows[...] = np.random.default_rng(1).integers(-1, 91, rows.shape)
    b = integers((90, (2 * n if kernel is across else depth) + start), stored)[:, start:]
    there = (rows >= 0) & (rows < len(b))
    chosen = np.where(there[:, None], b[rows * there].astype(np.float64), 0) * (2 if kernel is doubled else 1)
    found: list[Function] = []

    def see(name: str, function: Function) -> None:
        if name == InsertBarriers.name:
            found.append(function)

    with observed_passes(see):
        ct.launch(None, (2, 2), ct.kernel(kernel), (a, rows, b, c, *tile), backend=backend)
    np.testing.assert_array_equal(c, a.astype(np.float64) @ (chosen if kernel is across else chosen.T))
    return found[-1]


@pytest.mark.parametrize("where", interpreters())
@pytest.mark.parametrize(
    ("kernel", "tile", "stored", "dtype"),
    [
        (across, (64, 64, 64), np.int8, np.float16),
        (across, (128, 128, 64), np.int8, BF16),
        (across, (64, 128, 32), ml_dtypes.float8_e5m2, np.float16),
        (along, (128, 64, 64), np.int8, BF16),
        (along, (64, 64, 64), E4M3, np.float16),
        (along, (64, 64, 32), np.float32, BF16),
        (doubled, (64, 64, 64), np.int8, np.float16),
        (left, (64, 64, 64), np.int8, BF16),
        (left, (64, 128, 32), np.float32, np.float16),
    ],
)
def test_they_are_copied_ahead(where: str, kernel: Any, tile: Tile, stored: Any, dtype: Any) -> None:
    with interpreters()[where] as backend:
        found = run(kernel, tile, stored, dtype, backend)
    mmas = found.ops_of((GpuMma, Wgmma))
    assert len(mmas) == (2 if tile[2] == 32 and kernel is not left else 1), "of several steps at once, and what is left"
    for mma in mmas:
        assert isinstance(mma, Wgmma) and mma.pending != 0, "it is in flight while the next ones arrive"
        (loop,) = (op for op in found.ops_of(For) if mma in op.body.ops)
        assert any(isinstance(op, AsyncCopy) for op in loop.body.ops)
        numbers = [op.result for op in loop.body.ops if isinstance(op, GlobalLoad)]
        depth = mma.x.type.shape[-1]
        assert all(v.tile.size <= depth and v in loop.next_values for v in numbers), "numbers, one step on"


@pytest.mark.parametrize("where", interpreters())
def test_what_cannot_be_copied_goes_through_registers(where: str) -> None:
    """Rows of bytes that begin anywhere."""
    with interpreters()[where] as backend:
        found = run(along, (64, 64, 64), np.int8, np.float16, backend, start=1)
    assert found.ops_of(Wgmma) and not found.ops_of((AsyncCopy, GpuMma))


@pytest.mark.parametrize("where", interpreters())
def test_what_has_no_room_beside_its_copies_goes_through_registers(where: str) -> None:
    with interpreters()[where] as backend:
        found = run(along, (64, 256, 64), np.float32, np.float16, backend, depth=80)
    assert found.ops_of(Wgmma) and not found.ops_of((AsyncCopy, GpuMma))
