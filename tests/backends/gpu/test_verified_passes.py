"""Kernels of which passes once made functions that are not well-formed: the verifier runs after each pass, and the
interpreter of PTX says that what they compute is right."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from ml_dtypes import bfloat16
from support.kernel_runs import compare, generated
from support.ptx.backend import ptx_backend

import tilewright as ct

ZERO = ct.PaddingMode.ZERO


@pytest.fixture(autouse=True)
def verified(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_VERIFY", "1")


def small(dtype: Any, *shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(len(shape)).integers(-2, 3, shape).astype(dtype)


def check_kernel(kernel: Any, grid: tuple[int, ...], *arguments: Any) -> None:
    """Assert that the last of ``arguments``, an array, is the same after launches by both backends."""
    *given, out = arguments
    found, wanted = out.copy(), out.copy()
    ct.launch(None, grid, kernel, (*given, wanted), backend="reference")
    with ptx_backend(None, "sm_90", realign=True) as backend:
        ct.launch(None, grid, kernel, (*given, found), backend=backend)
    np.testing.assert_array_equal(found, wanted)


@ct.kernel(occupancy=1)
def two_products(x, y, z, n, out):  # type: ignore[no-untyped-def]
    plane = ct.bid(0)
    a = b = ct.zeros((64, 64), ct.float32)
    for k in range(n):
        left = ct.maximum(ct.transpose(ct.load(x, (k, 0), (16, 64), padding_mode=ZERO)), 0)
        a = ct.mma(left, ct.load(y, (plane + 1, k, 0), (1, 16, 64), padding_mode=ZERO).reshape((16, 64)), a)
        b = ct.mma(left, ct.load(z, (k, 0), (16, 64), padding_mode=ZERO), b)
    ct.store(out, (0, 0), a + b)


def test_warp_groups_multiply_one_of_two_products_of_a_computed_operand() -> None:
    """``mma.sync`` does the other one, whose right operand begins anywhere; the thread that fetches does neither."""
    x, y, z = small(bfloat16, 32, 64), small(bfloat16, 2, 32, 33), small(bfloat16, 32, 64)
    check_kernel(two_products, (1,), x, y, z, 2, np.zeros((64, 64), np.float32))


@ct.kernel
def attention_like(x, ys, z, out):  # type: ignore[no-untyped-def]
    row = ct.bid(0)
    y, a, c = ys[row], ct.load(x, (row, 0), (128, 32)), ct.zeros((128, 32), ct.float32)
    for k in range(2):
        b = ct.mma(a, ct.load(y, (0, k), (32, 128)), ct.zeros((128, 128), ct.float32))
        c = ct.mma(b.astype(ct.float16), ct.load(z, (k, 0), (128, 32), padding_mode=ZERO), c)
    ct.store(out, (row, 0), c)


def test_what_is_fetched_before_a_loop_of_an_array_of_a_list() -> None:
    """The map of the second tile that is copied is known when the first one is copied."""
    x, ys, z = small(np.float16, 256, 32), [small(np.float16, 32, 256) for _ in range(2)], small(np.float16, 256, 32)
    check_kernel(attention_like, (2,), x, ys, z, np.zeros((256, 32), np.float32))


def test_a_store_stays_behind_what_is_exchanged_for_it() -> None:
    """In random kernel 904603 of rare things another tile is exchanged between a load for a store and the store."""
    kernel = generated(904603, "rare")
    with ptx_backend(None, "sm_90", realign=True) as backend:
        compare(kernel, backend)
