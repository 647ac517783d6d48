"""Products of what ``arange`` reaches in order: the TMA unit copies that as it copies tiles of views."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.gpu_interpreter import interpreter_backend
from support.gpu_products import BF16, aligned
from support.ptx.backend import ptx_backend

import tilewright as ct
from tilewright.ir.core import Function
from tilewright.ir.ops.gpu.memory import AsyncCopy, GlobalLoad, GlobalStore
from tilewright.ir.ops.gpu.tma import TmaLoad, TmaStore
from tilewright.ir.ops.gpu.wgmma import Wgmma
from tilewright.transforms.gpu.insert_barriers import InsertBarriers
from tilewright.transforms.instrumentation import observed_passes

Int = ct.Constant[int]
SHAPES = [(128, 64, 256), (80, 88, 240), (64, 40, 112)]  # depth, rows and columns; the last two have edges


def gathered(a, b, c, M: Int, N: Int, K: Int):  # type: ignore[no-untyped-def]
    i, j = ct.bid(0), ct.bid(1)
    total = ct.zeros((M, N), ct.float32)
    m, n = i * M + ct.arange(M, dtype=ct.int32), j * N + ct.arange(N, dtype=ct.int32)
    for k in range(ct.cdiv(a.shape[1], K)):
        along = k * K + ct.arange(K, dtype=ct.int32)
        x, y = ct.gather(a, (m[:, None], along[None, :])), ct.gather(b, (along[:, None], n[None, :]))
        total = ct.mma(x, y.astype(a.dtype), total)
    ct.scatter(c, (m[:, None], n[None, :]), total.astype(c.dtype))


def turned(a, b, c, M: Int, N: Int, K: Int):  # type: ignore[no-untyped-def]
    """Both operands lie across k."""
    i, j = ct.bid(0), ct.bid(1)
    total = ct.zeros((M, N), ct.float32)
    m, n = i * M + ct.arange(M, dtype=ct.int32), j * N + ct.arange(N, dtype=ct.int32)
    for k in range(ct.cdiv(a.shape[0], K)):
        along = k * K + ct.arange(K, dtype=ct.int32)
        x, y = ct.gather(a, (along[:, None], m[None, :])), ct.gather(b, (along[:, None], n[None, :]))
        total = ct.mma(ct.transpose(x), y.astype(a.dtype), total)
    ct.scatter(c, (m[:, None], n[None, :]), total.astype(c.dtype))


def run(kernel: Any, shape: tuple[int, int, int], right: Any, backend: str) -> Function:
    """Compare with the exact product; what is compiled."""
    found: list[Function] = []

    def see(name: str, function: Function) -> None:
        if name == InsertBarriers.name:
            found.append(function)

    depth, rows, columns = shape
    generator = np.random.default_rng(0)
    a, b, c = aligned((rows, depth), BF16), aligned((depth, columns), right), aligned((rows, columns), BF16)
    a[...], b[...] = (generator.integers(-1, 2, x.shape) for x in (a, b))
    left = np.ascontiguousarray(a.T) if kernel is turned else a
    with observed_passes(see):
        grid = -(-rows // 64), -(-columns // 128)
        ct.launch(None, grid, ct.kernel(kernel), (left, b, c, 64, 128, 32), backend=backend)
    np.testing.assert_array_equal(c.astype(np.float32), a.astype(np.float32) @ b.astype(np.float32))
    return found[-1]


@pytest.mark.parametrize("right", [BF16, np.int8])
@pytest.mark.parametrize("kernel", [gathered, turned])
@pytest.mark.parametrize("shape", SHAPES)
def test_the_tma_unit_copies_operands_and_results(shape: tuple[int, int, int], kernel: Any, right: Any) -> None:
    with interpreter_backend(None, target="sm_90") as backend:
        function = run(kernel, shape, right, backend)
    assert function.ops_of(Wgmma) and function.ops_of(TmaLoad) and function.ops_of(TmaStore)
    assert not function.ops_of((AsyncCopy, GlobalLoad, GlobalStore))


@pytest.mark.parametrize("right", [BF16, np.int8])
@pytest.mark.parametrize("kernel", [gathered, turned])
def test_as_instructions(kernel: Any, right: Any) -> None:
    with ptx_backend(None, "sm_90") as backend:
        run(kernel, SHAPES[1], right, backend)
