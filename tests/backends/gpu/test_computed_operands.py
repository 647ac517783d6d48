"""Operands that a step computes, of products whose MMA ops stay in flight: quantized weights, halves of left ones."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import pytest
from support.gpu_interpreter import interpreter_backend
from support.gpu_products import BF16, aligned
from support.gpu_stage import Fault
from support.passes import after, without
from support.ptx.backend import ptx_backend

import tilewright as ct
from tilewright.ir.core import Function
from tilewright.ir.ops.gpu.memory import GlobalLoad
from tilewright.ir.ops.gpu.mma import GpuMma
from tilewright.ir.ops.gpu.wgmma import Wgmma, WgmmaWait
from tilewright.ir.types import TileType
from tilewright.transforms.gpu.insert_barriers import InsertBarriers
from tilewright.transforms.gpu.load_left_operands import LoadLeftOperands
from tilewright.transforms.instrumentation import observed_passes

Tile = tuple[int, int, int]


def weights(a, w, scales, c, M: ct.Constant[int], N: ct.Constant[int], K: ct.Constant[int]):
    """``a @ (w * scales).T``: a scale for each row and step."""
    i, j = ct.bid(0), ct.bid(1)
    total = ct.zeros((M, N), ct.float32)
    for k in range(ct.cdiv(a.shape[1], K)):
        x = ct.load(a, (i, k), (M, K), padding_mode=ct.PaddingMode.ZERO)
        y = ct.load(w, (j, k), (N, K), padding_mode=ct.PaddingMode.ZERO).astype(a.dtype)
        y = y * ct.load(scales, (j, k), (N, 1), padding_mode=ct.PaddingMode.ZERO)
        total = ct.mma(x, ct.transpose(y), total)
    ct.store(c, (i, j), total.astype(c.dtype))


def nibbles(a, w, scales, c, M: ct.Constant[int], N: ct.Constant[int], K: ct.Constant[int]):
    """Two weights of a byte, for columns of ``a`` that lie K apart: each step adds two products to the sum."""
    i, j = ct.bid(0), ct.bid(1)
    total = ct.zeros((M, N), ct.float32)
    for k in range(ct.cdiv(a.shape[1], 2 * K)):
        packed = ct.load(w, (k, j), (K, N), padding_mode=ct.PaddingMode.ZERO)
        scale = ct.load(scales, (j, k), (N, 1), padding_mode=ct.PaddingMode.ZERO).reshape((1, N))
        low, high = (packed & 15).astype(a.dtype) - 8, (packed >> 4).astype(a.dtype) - 8
        x = ct.load(a, (i, 2 * k), (M, K), padding_mode=ct.PaddingMode.ZERO)
        total = ct.mma(x, low * scale, total)
        x = ct.load(a, (i, 2 * k + 1), (M, K), padding_mode=ct.PaddingMode.ZERO)
        total = ct.mma(x, high * scale, total)
    ct.store(c, (i, j), total.astype(c.dtype))


def packed(a, w, scales, c, M: ct.Constant[int], N: ct.Constant[int], K: ct.Constant[int]):
    """Eight weights of an int32, which lie side by side along k, by rows."""
    i, j = ct.bid(0), ct.bid(1)
    total = ct.zeros((M, N), ct.float32)
    shifts = (ct.arange(8, dtype=ct.int32) * 4)[None, None, :]
    for k in range(ct.cdiv(a.shape[1], K)):
        words = ct.load(w, (j, k), (N, K // 8), padding_mode=ct.PaddingMode.ZERO)
        y = ((words[:, :, None] >> shifts) & 15).reshape((N, K)) - 8
        y = y.astype(a.dtype) * ct.load(scales, (j, k), (N, 1), padding_mode=ct.PaddingMode.ZERO)
        total = ct.mma(ct.load(a, (i, k), (M, K), padding_mode=ct.PaddingMode.ZERO), ct.transpose(y), total)
    ct.store(c, (i, j), total.astype(c.dtype))


def joined(a, w, scales, c, M: ct.Constant[int], N: ct.Constant[int], K: ct.Constant[int]):
    """Two weights of a byte, for rows of a step that lie half of it apart."""
    i, j = ct.bid(0), ct.bid(1)
    total = ct.zeros((M, N), ct.float32)
    for k in range(ct.cdiv(a.shape[1], K)):
        both = ct.load(w, (k, j), (K // 2, N), padding_mode=ct.PaddingMode.ZERO)
        y = ct.cat((both & 15, both >> 4), 0).astype(a.dtype) - 8
        y = y * ct.load(scales, (j, k), (N, 1), padding_mode=ct.PaddingMode.ZERO).reshape((1, N))
        total = ct.mma(ct.load(a, (i, k), (M, K), padding_mode=ct.PaddingMode.ZERO), y, total)
    ct.store(c, (i, j), total.astype(c.dtype))


def clamped(a, w, scales, c, M: ct.Constant[int], N: ct.Constant[int], K: ct.Constant[int]):
    """The left operand is clamped; the right one is loaded."""
    i, j = ct.bid(0), ct.bid(1)
    total = ct.zeros((M, N), ct.float32)
    for k in range(ct.cdiv(a.shape[1], K)):
        x = ct.maximum(ct.load(a, (i, k), (M, K), padding_mode=ct.PaddingMode.ZERO), 0)
        total = ct.mma(x, ct.load(w, (k, j), (K, N), padding_mode=ct.PaddingMode.ZERO), total)
    ct.store(c, (i, j), total.astype(c.dtype))


def scaled(a, w, scales, c, M: ct.Constant[int], N: ct.Constant[int], K: ct.Constant[int]):
    """The same, whose columns are scaled."""
    i, j = ct.bid(0), ct.bid(1)
    total = ct.zeros((M, N), ct.float32)
    for k in range(ct.cdiv(a.shape[1], K)):
        x = ct.load(a, (i, k), (M, K), padding_mode=ct.PaddingMode.ZERO)
        x = x * ct.load(scales, (k, 0), (K, 1), padding_mode=ct.PaddingMode.ZERO).reshape((1, K))
        total = ct.mma(x, ct.load(w, (k, j), (K, N), padding_mode=ct.PaddingMode.ZERO), total)
    ct.store(c, (i, j), total.astype(c.dtype))


def narrowed(a, w, scales, c, M: ct.Constant[int], N: ct.Constant[int], K: ct.Constant[int]):
    """The left operand is converted from 32 bits."""
    i, j = ct.bid(0), ct.bid(1)
    total = ct.zeros((M, N), ct.float32)
    for k in range(ct.cdiv(a.shape[1], K)):
        x = ct.load(a, (i, k), (M, K), padding_mode=ct.PaddingMode.ZERO).astype(w.dtype)
        total = ct.mma(x, ct.load(w, (k, j), (K, N), padding_mode=ct.PaddingMode.ZERO), total)
    ct.store(c, (i, j), total.astype(c.dtype))


def differences(a, w, scales, c, M: ct.Constant[int], N: ct.Constant[int], K: ct.Constant[int]):
    """Two products a step, one of them subtracted, as of complex numbers."""
    i, j = ct.bid(0), ct.bid(1)
    total = ct.zeros((M, N), ct.float32)
    for k in range(ct.cdiv(a.shape[1], 2 * K)):
        x = ct.load(a, (i, 2 * k), (M, K), padding_mode=ct.PaddingMode.ZERO)
        total = ct.mma(x, ct.load(w, (2 * k, j), (K, N), padding_mode=ct.PaddingMode.ZERO), total)
        x = ct.load(a, (i, 2 * k + 1), (M, K), padding_mode=ct.PaddingMode.ZERO)
        total = ct.mma(-x, ct.load(w, (2 * k + 1, j), (K, N), padding_mode=ct.PaddingMode.ZERO), total)
    ct.store(c, (i, j), total.astype(c.dtype))


def interpreters() -> dict[str, AbstractContextManager[str]]:
    return {"dialect": interpreter_backend(None, target="sm_90"), "ptx": ptx_backend(None, "sm_90")}


def integers(shape: tuple[int, int], dtype: Any, low: int = -2, high: int = 3) -> Any:
    made = aligned(shape, dtype)
    made[...] = np.random.default_rng(sum(shape)).integers(low, high, shape)
    return made


def run(kernel: Any, backend: str, tile: Tile, arrays: tuple[Any, Any, Any]) -> list[Wgmma]:
    """Run ``kernel`` with two tiles of rows and of columns, compare with the reference, and give the MMA ops."""
    found: list[Function] = []

    def see(name: str, function: Function) -> None:
        if name == InsertBarriers.name:
            found.append(function)

    results = [aligned((arrays[0].shape[0], 2 * tile[1]), np.float32) for _ in range(2)]
    with observed_passes(see):
        for out, where in zip(results, (backend, "reference")):
            ct.launch(None, (2, 2), ct.kernel(kernel), (*arrays, out, *tile), backend=where)
    np.testing.assert_array_equal(*results)
    assert not found[-1].ops_of(GpuMma)
    assert all(op.result.tile.rank == 0 or 1 in op.result.tile.shape for op in found[-1].ops_of(GlobalLoad))
    return found[-1].ops_of(Wgmma)


@pytest.mark.parametrize("where", interpreters())
@pytest.mark.parametrize("tile", [(64, 64, 64), (64, 128, 32), (16, 64, 64), (32, 128, 32), (128, 64, 32)])
def test_weights_by_rows_are_converted_in_registers(where: str, tile: Tile) -> None:
    """They are the left operand."""
    a, w = integers((2 * tile[0] - 8, 208), BF16), integers((2 * tile[1], 208), np.int8)
    with interpreters()[where] as backend:
        found = run(weights, backend, tile, (a, w, integers((2 * tile[1], 8), BF16)))
    assert all(isinstance(op.x.type, TileType) and op.acc.tile.shape == tile[1::-1] for op in found)


@pytest.mark.parametrize("where", interpreters())
@pytest.mark.parametrize("tile", [(64, 64, 64), (16, 64, 64)])
@pytest.mark.parametrize("kernel", [packed, joined])
def test_packed_weights_are_fetched_as_they_are(where: str, tile: Tile, kernel: Any) -> None:
    a, rng = integers((2 * tile[0], 192), BF16), np.random.default_rng(1)
    shape, dtype = ((2 * tile[1], 24), np.int32) if kernel is packed else ((96, 2 * tile[1]), np.uint8)
    w = aligned(shape, dtype)
    w[...] = rng.integers(0, 1 << 8 * w.itemsize, shape).astype(f"u{w.itemsize}").view(dtype)
    with interpreters()[where] as backend:
        found = run(kernel, backend, tile, (a, w, integers((2 * tile[1], 8), BF16)))
    in_registers = isinstance(found[0].x.type, TileType)
    assert [(op.pending, in_registers) for op in found] == [(None, True) if kernel is packed else (1, False)]


@pytest.mark.parametrize("where", interpreters())
@pytest.mark.parametrize("tile", [(64, 64, 32), (64, 64, 64)])
def test_products_that_add_to_one_sum_stay_in_flight(where: str, tile: Tile) -> None:
    a, w = integers((2 * tile[0], 6 * tile[2]), BF16), integers((3 * tile[2], 2 * tile[1]), np.uint8, 0, 256)
    with interpreters()[where] as backend:
        found = run(nibbles, backend, tile, (a, w, integers((2 * tile[1], 8), BF16)))
    assert [op.pending for op in found] == [None, 2]


@pytest.mark.parametrize("where", interpreters())
def test_left_operands_of_several_products_stay_in_registers(where: str) -> None:
    tile = 64, 64, 64
    with interpreters()[where] as backend:
        found = run(differences, backend, tile, left_arguments(tile))
    assert [isinstance(op.x.type, TileType) for op in found] == [False, True]


def left_arguments(tile: Tile) -> tuple[Any, Any, Any]:
    return integers((2 * tile[0], 208), BF16), integers((208, 2 * tile[1]), BF16), integers((208, 1), BF16)


@pytest.mark.parametrize("where", interpreters())
@pytest.mark.parametrize(("kernel", "tile"), [(clamped, (128, 128, 64)), (scaled, (128, 128, 32))])
def test_left_operands_are_computed_by_halves(where: str, kernel: Any, tile: Tile) -> None:
    with interpreters()[where] as backend:
        *widened, first, second = run(kernel, backend, tile, left_arguments(tile))
    assert (first.first, second.first, len(widened)) == (0, tile[2] // 2, tile[2] < 64)
    assert all(isinstance(op.x.type, TileType) and op.pending is None for op in (*widened, first, second))


@pytest.mark.parametrize("where", interpreters())
@pytest.mark.parametrize("tile", [(128, 128, 32), (64, 128, 64)])
def test_left_operands_that_are_converted_from_32_bits_stay_in_registers(where: str, tile: Tile) -> None:
    _, w, scales = left_arguments(tile)
    with interpreters()[where] as backend:
        found = run(narrowed, backend, tile, (integers((2 * tile[0], 208), np.float32), w, scales))
    assert found and all(isinstance(op.x.type, TileType) for op in found)


def test_left_operands_of_which_a_step_loads_more_stay_whole() -> None:
    tile = 128, 128, 64
    with interpreter_backend(None, target="sm_90") as backend:
        (op,) = run(scaled, backend, tile, left_arguments(tile))
    assert isinstance(op.x.type, TileType) and op.first == 0


def test_halves_are_held_until_they_were_read(monkeypatch: pytest.MonkeyPatch) -> None:
    def drop(function: Function) -> None:
        *_, wait = (op for op in function.walk() if isinstance(op, WgmmaWait) and op.pending)
        without(lambda op: op is wait, function)

    after(LoadLeftOperands, drop, monkeypatch)
    tile = 128, 128, 32
    with interpreter_backend(None, target="sm_90") as backend, pytest.raises(Fault, match="registers"):
        run(scaled, backend, tile, left_arguments(tile))
