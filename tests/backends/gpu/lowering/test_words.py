"""Elements in words: loads, conversions and stores of wide accesses, for every value of 8 and 16 bits."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from support.ptx.backend import ptx_backend

import tilewright as ct


@ct.kernel
def convert(x, same, wide, back, half, N: ct.Constant[int]):
    v = ct.load(x, (ct.bid(0),), (N,), padding_mode=ct.PaddingMode.ZERO)
    ct.store(same, (ct.bid(0),), v)
    as_float = v.astype(ct.float32)
    ct.store(wide, (ct.bid(0),), as_float)
    ct.store(back, (ct.bid(0),), (as_float * 1.5).astype(x.dtype))
    ct.store(half, (ct.bid(0),), v.astype(ct.float16))


@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2])
def test_every_value(dtype: Any, target: str) -> None:
    unsigned = np.dtype(f"u{np.dtype(dtype).itemsize}")
    step = 5 if unsigned.itemsize == 2 else 1
    x = np.arange(0, 1 << 8 * unsigned.itemsize, step).astype(unsigned).view(dtype)[:8192]
    results = []
    with ptx_backend(4, target) as ptx:
        for backend in (ptx, "reference"):
            same, wide, back = np.zeros_like(x), np.zeros(x.size, np.float32), np.zeros_like(x)
            half = np.zeros(x.size, np.float16)
            ct.launch(None, (-(-x.size // 2048),), convert, (x, same, wide, back, half, 2048), backend=backend)
            assert same.tobytes() == x.tobytes()
            results.append((wide, back, half))
    for ours, theirs in zip(*results):
        bits = f"u{ours.dtype.itemsize}"
        nan = np.isnan(ours.astype(np.float32)) & np.isnan(theirs.astype(np.float32))
        assert ((ours.view(bits) == theirs.view(bits)) | nan).all()


@ct.kernel
def widen(x, brain, half, N: ct.Constant[int]):
    v = ct.load(x, (ct.bid(0),), (N,))
    ct.store(brain, (ct.bid(0),), v.astype(ct.bfloat16))
    ct.store(half, (ct.bid(0),), v.astype(ct.float16))


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_bytes_as_floats_of_16_bits(dtype: Any) -> None:
    """In pairs, without float32 between."""
    x = np.arange(256).astype(dtype)
    brain, half = np.zeros(256, ml_dtypes.bfloat16), np.zeros(256, np.float16)
    with ptx_backend(1, "sm_90") as name:
        ct.launch(None, (1,), widen, (x, brain, half, 256), backend=name)
    np.testing.assert_array_equal(brain.astype(np.int64), x)
    np.testing.assert_array_equal(half.astype(np.int64), x)


@ct.kernel
def to_eight_bits(x, e4m3, e5m2, N: ct.Constant[int]):
    v = ct.load(x, (ct.bid(0),), (N,), padding_mode=ct.PaddingMode.ZERO)
    ct.store(e4m3, (ct.bid(0),), v.astype(ct.float8_e4m3fn))
    ct.store(e5m2, (ct.bid(0),), v.astype(ct.float8_e5m2))


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_conversions_to_eight_bits(dtype: Any) -> None:
    """By instructions, which saturate, and what the language says beyond the range."""
    halves = np.arange(0, 1 << 16, 3).astype(np.uint16).view(np.float16)
    limits = np.array(
        [448, 464, 464.1, 480, 57344, 61439.9, 61440, 65536, np.inf, np.nan, 2.0**-17, 2.0**-10], np.float32
    )
    x = halves if dtype is np.float16 else np.concatenate([halves.astype(np.float32) * 1.001, limits, -limits])
    results = []
    with ptx_backend(4, "sm_90") as ptx:
        for backend in (ptx, "reference"):
            made = [np.zeros(x.size, d) for d in (ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2)]
            ct.launch(None, (-(-x.size // 2048),), to_eight_bits, (x, *made, 2048), backend=backend)
            results.append(made)
    for ours, theirs in zip(*results):
        nan = np.isnan(ours.astype(np.float32)) & np.isnan(theirs.astype(np.float32))
        wrong = (ours.view(np.uint8) != theirs.view(np.uint8)) & ~nan
        assert not wrong.any(), (x[wrong][:5], ours[wrong][:5], theirs[wrong][:5])


@ct.kernel
def clamped(x, out, most: ct.Constant[float], N: ct.Constant[int]):
    v = ct.minimum(ct.maximum(ct.load(x, (ct.bid(0),), (N,)), -most), most).astype(out.dtype)
    ct.store(out, (ct.bid(0),), v)


@pytest.mark.parametrize("most", [448.0, 464.0, 465.0, 57344.0, 61440.0])
@pytest.mark.parametrize(("dtype", "last"), [(ml_dtypes.float8_e4m3fn, 464), (ml_dtypes.float8_e5m2, 61439)])
def test_what_is_clamped(dtype: Any, last: float, most: float) -> None:
    """Whether or not anything is beyond the range after that."""
    x = np.concatenate([np.linspace(-70000, 70000, 4000), np.linspace(-500, 500, 4184), [np.inf] * 4, [-np.inf] * 4])
    x = x.astype(np.float32)
    found = [np.zeros(x.size, dtype) for _ in range(2)]
    with ptx_backend(4, "sm_90") as ptx:
        for backend, out in zip((ptx, "reference"), found):
            ct.launch(None, (x.size // 2048,), clamped, (x, out, most, 2048), backend=backend)
    ours, theirs = found
    ptx = clamped.compile_for("sm_90", (x, ours, most, 2048)).stage("PTX")
    assert ptx.count("cvt.rn.satfinite") == 2048 // 128 // 2  # two elements each, of a thread
    assert ("beyond" in ptx) == (most > last)
    nan = np.isnan(ours.astype(np.float32)) & np.isnan(theirs.astype(np.float32))
    assert ((ours.view(np.uint8) == theirs.view(np.uint8)) | nan).all()


@ct.kernel
def as_bytes(x, y, of_bytes, of_floats, N: ct.Constant[int], D: ct.Constant[ct.DType]):
    ct.store(of_bytes, (0,), ct.pack_to_bytes(ct.unpack_from_bytes(ct.load(x, (0,), (2 * N,)), D)))
    ct.store(of_floats, (0,), ct.pack_to_bytes(ct.load(y, (0,), (N,))))


@pytest.mark.parametrize(
    ("first", "stored", "dtype"), [(0x7C00, np.float16, ct.float16), (0x7F80, ml_dtypes.bfloat16, ct.bfloat16)]
)
def test_bytes_keep_signaling_nans(first: int, stored: Any, dtype: ct.DType) -> None:
    bits = np.arange(first, first + 128, dtype=np.uint16)
    of_bytes, of_floats = np.zeros(256, np.uint8), np.zeros(256, np.uint8)
    with ptx_backend(2, "sm_90") as ptx:
        arguments = (bits.view(np.uint8), bits.view(stored), of_bytes, of_floats, 128, dtype)
        ct.launch(None, (1,), as_bytes, arguments, backend=ptx)
    assert of_bytes.tobytes() == of_floats.tobytes() == bits.tobytes()


@ct.kernel
def narrow(x, half, brain, e4m3, e5m2, byte, N: ct.Constant[int]):
    v = ct.load(x, (ct.bid(0),), (N,))
    ct.store(half, (ct.bid(0),), v.astype(ct.float16))
    ct.store(brain, (ct.bid(0),), v.astype(ct.bfloat16))
    ct.store(e4m3, (ct.bid(0),), v.astype(ct.float8_e4m3fn))
    ct.store(e5m2, (ct.bid(0),), v.astype(ct.float8_e5m2))
    ct.store(byte, (ct.bid(0),), v.astype(ct.int8))


@pytest.mark.parametrize("size", [1, 2, 4, 8])
@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
def test_fewer_elements_than_a_word_has(target: str, size: int) -> None:
    """Numbers that every dtype has, from every dtype to every other one."""
    results = ml_dtypes.bfloat16, np.float16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2, np.int8
    for dtype in (*results, np.float32):
        x = np.array([1, -2, 3, -4, 5, -6, 7, 0][:size]).astype(dtype)
        outs = [np.zeros(size, of) for of in (np.float16, ml_dtypes.bfloat16, *results[2:])]
        with ptx_backend(1, target) as name:
            ct.launch(None, (1,), narrow, (x, *outs, size), backend=name)
        for out in outs:
            np.testing.assert_array_equal(out.astype(np.int64), x.astype(np.int64))
