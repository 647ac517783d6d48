"""Print, assert, checked mode and local arrays, as PTX in its interpreter: what the reference prints and reports."""

from __future__ import annotations

import re
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from support.irbuild import KernelBuilder, run
from support.ptx.backend import PtxBackend, ptx_backend

import tilewright as ct
from tilewright.ir import dtypes
from tilewright.ir.dtypes import DType
from tilewright.ir.errors import TileError
from tilewright.ir.ops.arith import Sub
from tilewright.ir.ops.memory import Load, LocalArray, Store
from tilewright.ir.ops.shape import PtrOffset, Reshape

DTYPES = (
    *(np.bool_, np.int8, np.uint16, np.int32, np.uint64, np.float16, np.float32, np.float64),
    *(ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2, ml_dtypes.float4_e2m1fn),
)


@ct.kernel
def prints(x: ct.Array, n: int) -> None:
    t = ct.load(x, (0, 0), (4, 64))
    print("tile", t, "number", n)
    if ct.bid(0) == 1:
        ct.printf("%d of %d\n", ct.bid(0), n)


@pytest.mark.parametrize("dtype", DTYPES)
def test_prints(dtype: Any, capsys: pytest.CaptureFixture[str]) -> None:
    x = np.random.default_rng(1).integers(0, 5, (4, 64)).astype(np.float32).astype(dtype)
    texts = []
    with ptx_backend(2) as ptx:
        for backend in ("reference", ptx):
            ct.launch(None, (2,), prints, (x, 7), backend=backend)
            texts.append(capsys.readouterr().out)
    assert texts[0] == texts[1]
    assert "1 of 7" in texts[0]


@ct.kernel
def asserts(x: ct.Array, out: ct.Array, most: int) -> None:
    t = ct.load(x, (ct.bid(0),), (64,))
    ct.assert_(t < most, "an element is too large")
    ct.store(out, (ct.bid(0),), t)


def test_a_failed_assert_names_its_line_and_block_and_ends_the_block() -> None:
    x = np.arange(192, dtype=np.int32)
    out = np.zeros_like(x)
    with ptx_backend(2) as backend, pytest.raises(TileError, match=r"too large.*block \(2, 0, 0\)") as found:
        ct.launch(None, (3,), asserts, (x, out, 130), backend=backend)
    assert found.value.loc is not None and found.value.loc.line == asserts_line()
    assert (out == np.where(x < 128, x, 0)).all()


def asserts_line() -> int:
    with open(__file__) as file:
        return next(n for n, line in enumerate(file, 1) if line.lstrip().startswith("ct.assert_"))


@ct.kernel
def rows(x: ct.Array, at: ct.Array, out: ct.Array) -> None:
    where = ct.load(at, (0,), (32,))
    ct.scatter(out, ct.arange(32, dtype=ct.int32), ct.gather(x, where, check_bounds=False))


def test_checked_mode_reports_what_the_reference_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """Line, block and element of the access that leaves its array."""
    monkeypatch.setenv("TILEWRIGHT_CHECK", "1")
    x, at, out = np.arange(100, dtype=np.float32), np.arange(32, dtype=np.int32), np.zeros(32, np.float32)
    at[21] = 105
    messages = []
    with ptx_backend(1) as ptx:
        for backend in ("cpu", ptx):
            with pytest.raises(TileError) as found:
                ct.launch(None, (1,), rows, (x, at, out), backend=backend)
            messages.append(re.sub(r"0x\w+", "", str(found.value)))
    assert messages[0] == messages[1]
    assert "105" in messages[0] and "21" in messages[0]


@pytest.mark.parametrize("dtype", [dtypes.int8, dtypes.float32, dtypes.int64], ids=str)
def test_local_arrays_belong_to_their_block(dtype: DType) -> None:
    """Each block reverses its part of x through an array of its own; another array keeps it as it was."""
    k = KernelBuilder()
    x, y = k.array("x", dtype, 1), k.array("y", dtype, 2)
    lane = k.iota(64)
    first, second = (k.fill(k.emit(LocalArray, dtype=dtype, count=64), (64,)) for _ in range(2))
    tile = k.load_tile(x, (64,), [k.bid(0)])
    for array in (first, second):
        k.b.emit_op(Store, k.emit(PtrOffset, array, lane), tile, None)
    back = k.emit(PtrOffset, first, k.emit(Sub, k.fill(k.constant(63), (64,)), lane))
    for row, at in enumerate((back, k.emit(PtrOffset, second, lane))):
        part = k.emit(Reshape, k.emit(Load, at, None, None), shape=(1, 64))
        k.store_tile(y, part, [k.constant(row), k.bid(0)])
    given = (np.arange(192) - 32).astype(dtype.storage)
    out = np.zeros((2, 192), dtype.storage)
    run(PtxBackend(2, "sm_80"), k.function(), (3,), x=given, y=out)
    assert (out[0].reshape(3, 64) == given.reshape(3, 64)[:, ::-1]).all()
    assert (out[1] == given).all()
