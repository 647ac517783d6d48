"""Left operands of tfloat32 that threads load from where they were fetched, as warp groups read them along k alone."""

from __future__ import annotations

from contextlib import AbstractContextManager

import numpy as np
import pytest
from support.gpu_interpreter import interpreter_backend
from support.gpu_products import Product
from support.passes import after, without
from support.ptx.backend import ptx_backend

from tilewright.backends.gpu.interpreter import Fault
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
