"""MMA ops of float32 with all its bits on Hopper: sums of three products of tfloat32, in the interpreter of PTX."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from backends.gpu.test_float64 import product
from support.ptx.backend import ptx_backend

import tilewright as ct
from tilewright.backends.gpu.compiler import compile_to_ptx
from tilewright.runtime.launch import specialization

INF = np.float32(np.inf)


def multiplied(a: Any, b: Any, tile: tuple[int, int, int]) -> Any:
    (m, n, _), c = tile, np.zeros((a.shape[0], b.shape[1]), np.float32)
    with ptx_backend(None, "sm_90") as name:
        ct.launch(None, (a.shape[0] // m, b.shape[1] // n), product, (a, b, c, *tile), backend=name)
    return c


@pytest.mark.parametrize("tile", [(32, 32, 32), (64, 64, 16), (16, 64, 8), (64, 8, 32), (128, 128, 16)])
def test_products_have_more_bits_than_tfloat32(tile: tuple[int, int, int]) -> None:
    rng = np.random.default_rng(sum(tile))
    m, n, k = tile
    a, b = (rng.standard_normal(shape).astype(np.float32) for shape in ((m, 3 * k), (3 * k, n)))
    found, wide = multiplied(a, b, tile), a.astype(float) @ b.astype(float)
    # Each operand has 11 bits, and what is left of it 11 of its 13; the product of what is left of both is missing.
    assert (abs(found - wide) <= 3 * 2.0**-20 * (abs(a).astype(float) @ abs(b).astype(float))).all()


def test_small_integers_are_multiplied_exactly() -> None:
    rng = np.random.default_rng(1)
    a, b = (rng.integers(-1024, 1025, shape).astype(np.float32) for shape in ((32, 64), (64, 32)))
    np.testing.assert_array_equal(multiplied(a, b, (32, 32, 32)), a @ b)


@pytest.mark.filterwarnings("ignore:invalid value")
@pytest.mark.parametrize("tile", [(32, 32, 32), (128, 64, 32)])
def test_what_is_no_number_goes_where_it_does_in_float32(tile: tuple[int, int, int]) -> None:
    """Also beside numbers of which tfloat32 leaves nothing, and some; the largest numbers stay finite."""
    rng = np.random.default_rng(2)
    a = rng.choice(np.float32([0, 1, -1, 1.0001, -2.9999]), (tile[0], 32))
    b = rng.choice(np.float32([1, -1, 1.0001, -2.9999]), (32, tile[1]))
    a[[3, 7, 11], [5, 9, 13]] = INF, -INF, np.nan
    a[20] = 0
    a[20, 4] = np.finfo(np.float32).max
    b[[2, 6, 9, 8], [1, 12, 20, 30]] = INF, -INF, INF, np.nan
    b[4, 4] = 1
    found = multiplied(a, b, tile)
    with np.errstate(all="ignore"):
        wide = a.astype(float) @ b.astype(float)
    np.testing.assert_array_equal(np.isnan(found), np.isnan(wide))
    infinite = np.isinf(wide)
    np.testing.assert_array_equal(np.where(infinite, found, 0), np.where(infinite, wide, 0))
    assert np.isfinite(found[20, 4]) and abs(found[20, 4] / np.finfo(np.float32).max - 1) < 1e-5


@pytest.mark.parametrize(("target", "shape"), [("sm_80", set()), ("sm_90", {"m16n8k8"})])
def test_tensor_cores_of_hopper_multiply_them(target: str, shape: set[str]) -> None:
    arrays = [np.zeros((64, 64), np.float32) for _ in range(3)]
    function = specialization(product, (*arrays, 64, 64, 32), "reference").function
    assert set(re.findall(r"mma\.sync\.aligned\.(\w+)", compile_to_ptx(function, target, None).ptx)) == shape
