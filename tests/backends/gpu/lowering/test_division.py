"""Quotients by one number, or by few, are correctly rounded, whichever way they are computed."""

from __future__ import annotations

import numpy as np
import pytest
from support.ptx.backend import ptx_backend

import tilewright as ct


@ct.kernel
def divided(x, by, out, T: ct.Constant[int]):
    i = ct.bid(0)
    ct.store(out, (i, 0), ct.load(x, (i, 0), (1, T)) / ct.load(by, (i,), (1,)))


@ct.kernel
def divided_rows(x, by, out, T: ct.Constant[int]):
    i = ct.bid(0)
    ct.store(out, (i, 0), ct.load(x, (i, 0), (2, T)) / ct.load(by, (i,), (2,))[:, None])


@ct.kernel
def rounded(x, by, out, T: ct.Constant[int]):
    i = ct.bid(0)
    ct.store(out, (i, 0), (ct.load(x, (i, 0), (1, T)) / ct.load(by, (i,), (1,))).astype(out.dtype))


def test_more_quotients_of_a_thread_than_it_has_registers_for() -> None:
    x = np.resize(rows(), (2, 8192))
    by, found = np.array([1.7, 3.0], np.float32), [[np.zeros(x.shape, t) for _ in range(2)] for t in ("f4", "f2")]
    with ptx_backend(1, "sm_90") as ptx:
        for kernel, outs in zip((divided, rounded), found):
            for backend, out in zip((ptx, "reference"), outs):
                ct.launch(None, (len(x),), kernel, (x, by, out, x.shape[1]), backend=backend)
    for ours, theirs in found:
        assert_same(ours.astype(np.float32), theirs.astype(np.float32), x)


def rows() -> np.ndarray:
    """Rows of usual numbers, and such with zeros of both signs, with numbers near the ends of the range, and beyond."""
    rng = np.random.default_rng(1)
    usual = rng.standard_normal((6, 256)).astype(np.float32)
    usual[1, ::3], usual[2, ::5] = 0, -0.0
    usual[3] *= np.exp2(rng.integers(-99, 90, 256)).astype(np.float32)
    mixed = usual.copy()
    for row, special in zip(mixed, (np.inf, np.nan, 1e-44, 3e38, -1e-31, -np.inf)):
        row[7] = special
    return np.concatenate([usual, mixed])


@pytest.mark.parametrize("scale", [1.0, 3e-6, 1.5e7, 1e-30, -2.0, 0.0, np.inf, np.nan])
def test_as_the_reference(scale: float) -> None:
    x = rows()
    by = (np.linspace(1, 1.999, len(x)) * scale).astype(np.float32)
    found = [np.zeros_like(x) for _ in range(2)]
    with ptx_backend(1, "sm_90") as ptx:
        for backend, out in zip((ptx, "reference"), found):
            ct.launch(None, (len(x),), divided, (x, by, out, 256), backend=backend)
    assert_same(*found, x)


@pytest.mark.parametrize("scale", [1.0, 1e-29, 1e-43, 1e33, -2.0, 0.0, np.inf, np.nan])
@pytest.mark.parametrize(
    ("dtype", "dropped"), [(ct.bfloat16, 16), (ct.float16, 13), (ct.float8_e4m3fn, 20), (ct.float8_e5m2, 21)]
)
def test_what_is_rounded(scale: float, dtype: ct.DType, dropped: int) -> None:
    """Also where a quotient lies beside the middle of two numbers, or on it, and where a thread has only infinities."""
    x = rows()
    by = (np.linspace(1, 1.999, len(x)) * scale).astype(np.float32)
    middles = (x[::2].view(np.uint32) >> dropped << dropped | 1 << dropped - 1).view(np.float32)
    offsets = np.arange(x.shape[1], dtype=np.int32) % 9 - 4
    with np.errstate(all="ignore"):
        x[::2] = ((middles * by[::2, None]).view(np.int32) + offsets).view(np.float32)
    x[1] = np.inf
    found = [np.zeros(x.shape, dtype.storage) for _ in range(2)]
    with ptx_backend(1, "sm_90") as ptx:
        for backend, out in zip((ptx, "reference"), found):
            ct.launch(None, (len(x),), rounded, (x, by, out, 256), backend=backend)
    ours, theirs = (out.astype(np.float32) for out in found)
    assert_same(ours, theirs, x)


@pytest.mark.parametrize("by", [(1.5, 3.25), (1.5, 0.0), (np.nan, 7.0)])
def test_by_several_numbers(by: tuple[float, float]) -> None:
    """A thread has elements of two rows."""
    x = rows()[:10]
    found = [np.zeros_like(x) for _ in range(2)]
    divisors = np.resize(np.array(by, np.float32), len(x))
    with ptx_backend(1, "sm_90") as ptx:
        for backend, out in zip((ptx, "reference"), found):
            ct.launch(None, (len(x) // 2,), divided_rows, (x, divisors, out, 256), backend=backend)
    assert_same(*found, x)


def assert_same(ours: np.ndarray, theirs: np.ndarray, x: np.ndarray) -> None:
    same = (ours.view(np.uint32) == theirs.view(np.uint32)) | (np.isnan(ours) & np.isnan(theirs))
    assert same.all(), (x[~same][:5], ours[~same][:5], theirs[~same][:5])
