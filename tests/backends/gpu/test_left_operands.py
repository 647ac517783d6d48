"""Left operands that threads load from where they were fetched: of tfloat32, as warp groups read them along k alone, and
computed ones, for which a product is transposed if that is the right one."""

from __future__ import annotations

from contextlib import AbstractContextManager

import numpy as np
import pytest
from support.gpu_interpreter import interpreter_backend
from support.gpu_products import Product, aligned
from support.gpu_stage import Fault
from support.passes import after, without
from support.ptx.backend import ptx_backend

import tilewright as ct
from tilewright.ir.core import Function
from tilewright.ir.ops.gpu.wgmma import Wgmma, WgmmaWait
from tilewright.ir.types import TileType
from tilewright.transforms.gpu.insert_barriers import InsertBarriers
from tilewright.transforms.gpu.load_left_operands import LoadLeftOperands
from tilewright.transforms.instrumentation import observed_passes


def interpreters() -> dict[str, AbstractContextManager[str]]:
    return {"dialect": interpreter_backend(None, target="sm_90"), "ptx": ptx_backend(None, "sm_90")}


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


RIGHT, TURNED, SEVERAL = range(3)


@ct.kernel
def computed(
    a: ct.Array, b: ct.Array, c: ct.Array, M: ct.Constant[int], N: ct.Constant[int], K: ct.Constant[int],
    FORM: ct.Constant[int],
) -> None:  # fmt: skip
    i, j = ct.bid(0), ct.bid(1)
    total = ct.zeros((M, N), ct.float32)
    for k in range(ct.cdiv(a.shape[1], K)):
        x = ct.load(a, (i, k), (M, K), padding_mode=ct.PaddingMode.ZERO)
        if FORM == TURNED:
            y = ct.transpose(ct.load(b, (j, k), (N, K), padding_mode=ct.PaddingMode.ZERO) * 2)
        else:
            y = ct.load(b, (k, j), (K, N), padding_mode=ct.PaddingMode.ZERO)
        if FORM == SEVERAL:
            x = x * ct.load(a, (0, k), (M, K), padding_mode=ct.PaddingMode.ZERO)
        if FORM == RIGHT:
            y = ct.maximum(y, 0) * (1 + k % 2)
        total = ct.mma(x, y, total)
    ct.store(c, (i, j), total.astype(c.dtype))


@pytest.mark.parametrize("form", [RIGHT, TURNED, SEVERAL])
@pytest.mark.parametrize("tile", [(64, 64, 32), (128, 128, 64), (64, 128, 16)])
@pytest.mark.parametrize("where", interpreters())
def test_computed_operands_stay_in_registers(where: str, tile: tuple[int, int, int], form: int) -> None:
    """Results of transposed products are transposed by matrices on their way to shared memory."""
    rng, (m, n, k) = np.random.default_rng(7), tile
    a, c = aligned((m + 8, 2 * k + 8), np.float16), aligned((m + 8, n + 8), np.float16)
    b = aligned((n + 8, 2 * k + 8) if form == TURNED else (2 * k + 8, n + 8), np.float16)
    a[...], b[...] = (rng.integers(-2, 3, x.shape) for x in (a, b))
    wanted, found = np.zeros_like(c), list[Function]()

    def see(name: str, function: Function) -> None:
        if name == InsertBarriers.name:
            found.append(function)

    ct.launch(None, (2, 2), computed, (a, b, wanted, *tile, form), backend="reference")
    with interpreters()[where] as backend, observed_passes(see):
        ct.launch(None, (2, 2), computed, (a, b, c, *tile, form), backend=backend)
    np.testing.assert_array_equal(c, wanted)
    mmas = [op for op in found[-1].walk() if isinstance(op, Wgmma)]  # of halves, where these are deep enough
    assert mmas and all(isinstance(op.x.type, TileType) for op in mmas)
    assert {op.acc.tile.shape for op in mmas} == {(m, n) if form == SEVERAL else (n, m)}
