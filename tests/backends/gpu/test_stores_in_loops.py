"""Stores of loops that reach other elements in each iteration wait for none of those before; others do."""

from __future__ import annotations

import numpy as np
import pytest
from support.gpu_interpreter import interpreter_backend
from support.ptx.backend import ptx_backend

import tilewright as ct
from tilewright.ir.core import Function
from tilewright.ir.ops.gpu.memory import Barrier
from tilewright.transforms.gpu.insert_barriers import InsertBarriers
from tilewright.transforms.instrumentation import observed_passes

Int = ct.Constant[int]


@ct.kernel
def rows(x, out, N: Int):  # type: ignore[no-untyped-def]
    for i in range(x.shape[0]):
        ct.store(out, (i, ct.bid(0)), ct.load(x, (i, ct.bid(0)), (1, N)) * 2)


@ct.kernel
def pairs_of_rows(x, out, N: Int):  # type: ignore[no-untyped-def]
    for i in range(x.shape[0]):
        ct.store(out, (i // 2, ct.bid(0)), ct.load(x, (i, ct.bid(0)), (1, N)) * 2)


@ct.kernel
def twice(x, out, N: Int):  # type: ignore[no-untyped-def]
    for i in range(x.shape[0]):
        ct.store(out, (i, ct.bid(0)), ct.load(x, (i, ct.bid(0)), (1, N)))
        ct.store(out, (i, 1 - ct.bid(0)), ct.load(x, (i, 1 - ct.bid(0)), (1, N)) * 2)


@ct.kernel
def sums(x, out, N: Int):  # type: ignore[no-untyped-def]
    for i in range(1, x.shape[0]):
        before = ct.load(out, (i - 1, ct.bid(0)), (1, N))
        ct.store(out, (i, ct.bid(0)), ct.load(x, (i, ct.bid(0)), (1, N)) + before)


@ct.kernel
def columns(x, out, N: Int):  # type: ignore[no-untyped-def]
    for i in range(ct.cdiv(x.shape[1], N)):
        ct.store(out, (0, i), ct.load(x, (0, i), (4, N), padding_mode=ct.PaddingMode.ZERO) + 1)


@pytest.mark.parametrize("make", [lambda: interpreter_backend(4), lambda: ptx_backend(4)], ids=["gpu", "ptx"])
@pytest.mark.parametrize(
    ("kernel", "wait"), [(rows, False), (columns, False), (pairs_of_rows, True), (twice, True), (sums, True)]
)
def test_stores_wait_where_they_may_meet(kernel, wait: bool, make) -> None:  # type: ignore[no-untyped-def]
    x = np.random.default_rng(0).standard_normal((6, 500 if kernel is columns else 512)).astype(np.float32)
    found, expected, counts = np.zeros_like(x), np.zeros_like(x), []

    def counted(name: str, function: Function) -> None:
        if name == InsertBarriers.name:
            counts.append(len(function.ops_of(Barrier)))

    grid = (1,) if kernel in (twice, columns) else (2,)
    with make() as backend, observed_passes(counted):
        ct.launch(None, grid, kernel, (x, found, 256), backend=backend)
    ct.launch(None, grid, kernel, (x, expected, 256), backend="reference")
    assert (found == expected).all() and found.any()
    assert counts and (max(counts) > 0) is wait


@pytest.mark.parametrize("extent", [0, 1, 63, 64, 65, 2**31 - 65, 2**31 - 64, 2**31 - 1])
def test_tiles_at_the_end_of_what_32_bits_can_say(extent: int) -> None:
    """Masks in 32 bits: those of an array as long as ``extent``, of tiles up to the last index."""
    tiles = ((np.int32(extent) - np.int32(1)) >> np.int32(6)) + np.int32(1)
    for index in (0, 1, int(tiles) - 1, int(tiles), 2**25, 2**31 - 1):
        if index >= 0:
            with np.errstate(over="ignore"):
                left = np.int32(extent) - np.minimum(np.int32(index), tiles) * np.int32(64)
            inside = np.arange(64) < left
            assert (inside == (index * 64 + np.arange(64) < extent)).all()


@ct.kernel
def one_tile(x, out, i: int, N: Int):  # type: ignore[no-untyped-def]
    ct.store(out, (0,), ct.load(x, (i,), (N,), padding_mode=ct.PaddingMode.ZERO) + 1)
    ct.store(x, (i,), ct.zeros((N,), ct.float32))


@pytest.mark.parametrize("index", [-(2**31), -(2**26), -1, 0, 2, 3, 4, 2**26, 2**31 - 1])
@pytest.mark.parametrize("make", [lambda: interpreter_backend(2), lambda: ptx_backend(2)], ids=["gpu", "ptx"])
def test_tiles_outside(index: int, make) -> None:  # type: ignore[no-untyped-def]
    """Also those whose first element 32 bits cannot say."""
    results = []
    with make() as backend:
        for name in (backend, "reference"):
            x, out = np.arange(200, dtype=np.float32), np.zeros(64, np.float32)
            ct.launch(None, (1,), one_tile, (x, out, index, 64), backend=name)
            results.append((x, out))
    assert all((a == b).all() for a, b in zip(*results))
