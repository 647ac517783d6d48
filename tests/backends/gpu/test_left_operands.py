"""Left operands that threads load from where they were fetched, to be seen transposed or to compute something of them."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import pytest
from support.gpu_interpreter import interpreter_backend
from support.gpu_products import BF16, E4M3, Product, aligned
from support.passes import after, without
from support.ptx.backend import ptx_backend

import tilewright as ct
from tilewright.backends.gpu.interpreter import Fault
from tilewright.ir.core import Function
from tilewright.ir.ops.gpu.memory import SharedStore
from tilewright.ir.ops.gpu.mma import GpuMma
from tilewright.ir.ops.gpu.wgmma import Wgmma, WgmmaWait
from tilewright.ir.types import TileType
from tilewright.transforms.gpu.insert_barriers import InsertBarriers
from tilewright.transforms.gpu.load_left_operands import LoadLeftOperands
from tilewright.transforms.instrumentation import observed_passes


def interpreters() -> dict[str, AbstractContextManager[str]]:
    return {"dialect": interpreter_backend(None, target="sm_90"), "ptx": ptx_backend(None, "sm_90")}


def clamped(a, scales, b, c, M: ct.Constant[int], N: ct.Constant[int], K: ct.Constant[int]):
    """Rows are scaled, with other numbers in each step, before they are clamped."""
    i, j = ct.bid(0), ct.bid(1)
    total = ct.zeros((M, N), ct.float32)
    for k in range(ct.cdiv(a.shape[1], K)):
        x = ct.load(a, (i, k), (M, K), padding_mode=ct.PaddingMode.ZERO).astype(b.dtype)
        scale = ct.load(scales, (i, k), (M, 1), padding_mode=ct.PaddingMode.ZERO)
        y = ct.load(b, (k, j), (K, N), padding_mode=ct.PaddingMode.ZERO)
        total = ct.mma(ct.maximum(x * scale, 0), y, total)
    ct.store(c, (i, j), total.astype(c.dtype))


def run(where: str, tile: tuple[int, int, int], dtype: Any) -> Function:
    """Launch ``clamped``, compare with the exact product, and give the function of the gpu stage."""
    found: list[Function] = []

    def see(name: str, function: Function) -> None:
        if name == InsertBarriers.name:
            found.append(function)

    (m, n, k), rng = tile, np.random.default_rng(0)
    a, b = aligned((2 * m, 208), dtype), aligned((208, 2 * n), BF16)
    scales, c = aligned((2 * m, -(-208 // k)), BF16), aligned((2 * m, 2 * n), np.float32)
    for x in (a, b, scales):
        x[...] = rng.integers(-3, 4, x.shape)
    with interpreters()[where] as backend, observed_passes(see):
        ct.launch(None, (2, 2), ct.kernel(clamped), (a, scales, b, c, *tile), backend=backend)
    scaled = a.astype(np.float64) * np.repeat(scales.astype(np.float64), k, axis=1)[:, :208]
    np.testing.assert_array_equal(c, np.maximum(scaled, 0) @ b.astype(np.float64))
    return found[-1]


@pytest.mark.parametrize("where", interpreters())
@pytest.mark.parametrize(("tile", "dtype"), [((64, 64, 64), BF16), ((128, 128, 32), BF16), ((64, 64, 64), E4M3)])
def test_what_is_computed_stays_in_registers(where: str, tile: tuple[int, int, int], dtype: Any) -> None:
    ops = list(run(where, tile, dtype).walk())
    (first, second) = (op for op in ops if isinstance(op, Wgmma))
    assert isinstance(first.x.type, TileType) and isinstance(second.x.type, TileType)
    assert first.block is not None
    assert not any(isinstance(op, (GpuMma, SharedStore)) for op in first.block.ops)


TRANSPOSED = [
    Product((72, 80, 96), (64, 64, 32), np.float32, rounded=True),
    Product((256, 64, 160), (256, 64, 32), np.float32, rounded=True),
    Product((128, 128, 64), (128, 128, 32), np.float32, rounded=True),
    Product((64, 136, 72), (64, 128, 32), np.float32, rounded=True, left=True),
]


@pytest.mark.parametrize("product", TRANSPOSED, ids=str)
@pytest.mark.parametrize("where", interpreters())
def test_rows_of_tfloat32_across_k_are_loaded_to_registers(where: str, product: Product) -> None:
    found: list[Function] = []

    def see(name: str, function: Function) -> None:
        if name == InsertBarriers.name:
            found.append(function)

    with interpreters()[where] as backend, observed_passes(see):
        product.run(backend)
    mmas = [op for op in found[-1].walk() if isinstance(op, Wgmma)]
    assert len(mmas) == 2 and all(isinstance(op.x.type, TileType) for op in mmas)


def test_registers_are_held_until_they_were_read(monkeypatch: pytest.MonkeyPatch) -> None:
    def drop(function: Function) -> None:
        *_, wait = (op for op in function.walk() if isinstance(op, WgmmaWait) and op.pending)
        without(lambda op: op is wait, function)

    after(LoadLeftOperands, drop, monkeypatch)
    with interpreter_backend(None, target="sm_90") as backend, pytest.raises(Fault, match="registers"):
        TRANSPOSED[2].run(backend)
