"""Products to which tiles of their shape are added: these are copied to where operands were, in both interpreters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from support.gpu_interpreter import interpreter_backend
from support.gpu_products import BF16, aligned
from support.ptx.backend import ptx_backend

import tilewright as ct
from tilewright.ir.core import Function
from tilewright.ir.ops.gpu.memory import GlobalLoad
from tilewright.ir.ops.gpu.specialize import WarpSpecialize
from tilewright.ir.ops.gpu.tma import TmaLoad
from tilewright.transforms.gpu.insert_barriers import InsertBarriers
from tilewright.transforms.instrumentation import observed_passes

Int = ct.Constant[int]
DEPTH = 128


def with_others(a, b, gate, residual, c, M: Int, N: Int):  # type: ignore[no-untyped-def]
    i, j = ct.bid(0), ct.bid(1)
    total = ct.zeros((M, N), ct.float32)
    for k in range(ct.cdiv(a.shape[1], 32)):
        x = ct.load(a, (i, k), (M, 32), padding_mode=ct.PaddingMode.ZERO)
        y = ct.load(b, (k, j), (32, N), padding_mode=ct.PaddingMode.ZERO)
        total = ct.mma(x, y, total)
    total = total * ct.load(gate, (i, j), (M, N), padding_mode=ct.PaddingMode.ZERO).astype(ct.float32)
    total += ct.load(residual, (i, j), (M, N), padding_mode=ct.PaddingMode.ZERO).astype(ct.float32)
    ct.store(c, (i, j), total.astype(c.dtype))


def accumulated(a, b, gate, residual, c, M: Int, N: Int):  # type: ignore[no-untyped-def]
    """To what is stored to."""
    i, j = ct.bid(0), ct.bid(1)
    total = ct.zeros((M, N), ct.float32)
    for k in range(ct.cdiv(a.shape[1], 32)):
        total = ct.mma(ct.load(a, (i, k), (M, 32)), ct.load(b, (k, j), (32, N)), total)
    total = total * ct.load(gate, (i, j), (M, N)).astype(ct.float32)
    ct.store(c, (i, j), total + ct.load(c, (i, j), (M, N)))


def of_one_step(a, b, gate, residual, c, M: Int, N: Int):  # type: ignore[no-untyped-def]
    """The MMA op may still read where it is copied to."""
    i, j = ct.bid(0), ct.bid(1)
    total = ct.mma(ct.load(a, (i, 0), (M, DEPTH)), ct.load(b, (0, j), (DEPTH, N)), ct.zeros((M, N), ct.float32))
    others = ct.load(residual, (i, j), (M, N)), ct.load(gate, (i, j), (M, N))
    ct.store(c, (i, j), total * others[1].astype(ct.float32) + others[0].astype(ct.float32))


@dataclass(frozen=True)
class Case:
    shape: tuple[int, int]
    tile: tuple[int, int]
    gate: Any
    residual: Any

    def run(self, backend: str, kernel: Any = with_others) -> None:
        generator = np.random.default_rng(1)

        def numbers(shape: tuple[int, int], dtype: Any) -> Any:
            found = aligned(shape, dtype)
            found[...] = generator.integers(-4, 5, shape)
            return found

        m, n = self.shape
        a, b = numbers((m, DEPTH), BF16), numbers((DEPTH, n), BF16)
        gate, residual, c = numbers((m, n), self.gate), numbers((m, n), self.residual), numbers((m, n), np.float32)
        x, y, g = (v.astype(np.float32) for v in (a, b, gate))
        expected = (x @ y) * g + (c if kernel is accumulated else residual).astype(np.float32)
        grid = tuple(-(-n // t) for n, t in zip(self.shape, self.tile))
        ct.launch(None, grid, ct.kernel(kernel), (a, b, gate, residual, c, *self.tile), backend=backend)
        np.testing.assert_array_equal(c, expected)

    def seen(self, kernel: Any = with_others) -> Function:
        """What the interpreter of the gpu stage runs."""
        found: list[Function] = []

        def see(name: str, function: Function) -> None:
            if name == InsertBarriers.name:
                found.append(function)

        with observed_passes(see), interpreter_backend(None, target="sm_90") as backend:
            self.run(backend, kernel)
        return found[-1]


CASES = [
    Case((128, 128), (128, 128), BF16, np.float32),
    Case((136, 136), (128, 128), np.float16, BF16),  # edges
    Case((128, 256), (128, 256), BF16, BF16),
]


@pytest.mark.parametrize("kernel", [with_others, of_one_step])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_they_are_copied(case: Case, kernel: Any) -> None:
    function = case.seen(kernel)
    (roles,) = function.ops_of(WarpSpecialize)
    assert sum(isinstance(op, TmaLoad) for op in roles.consumer.ops) == 2
    assert not function.ops_of(GlobalLoad)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_as_instructions(case: Case) -> None:
    with ptx_backend(None, "sm_90") as backend:
        case.run(backend)


def test_what_is_stored_to_is_loaded_by_threads() -> None:
    function = CASES[0].seen(accumulated)
    (roles,) = function.ops_of(WarpSpecialize)
    assert not any(isinstance(op, TmaLoad) for op in roles.consumer.ops)
    assert len(function.ops_of(GlobalLoad)) == 2
