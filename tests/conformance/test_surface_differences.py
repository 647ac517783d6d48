"""Where the original's source and its documents differ: what is promised holds, what is accepted works."""

from __future__ import annotations

import math
import re
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from support.tile_code import gives, refuses

import tilewright as ct

X = np.array([0.5, 1.0, 1.5, 2.0])
F = X.astype(np.float32)
V = np.arange(8, dtype=np.int32)
TTE = ct.TileTypeError
TAU = 2 * math.pi


def test_row_1_constants_keep_double_precision(backend: str) -> None:
    """A float64 tile plus ``math.pi`` is exact, ``static_eval`` sees all digits, and 1e40 is finite."""
    gives(
        lambda x: (x + math.pi, x * TAU, x - 0.1, ct.where(x > 1, math.pi, x), ct.full((4,), math.pi, ct.float64)),
        (X + math.pi, X * TAU, X - 0.1, np.where(X > 1, math.pi, X), np.full(4, math.pi)),
        X,
    )
    gives(lambda x: x + ct.static_eval(math.pi * 1e40), X + math.pi * 1e40, X)
    gives(lambda x: x * 1e40, X * 1e40, X)
    gives(
        lambda x: (ct.maximum(x, 0.1), x % 0.3, ct.float64(0.1) + 0.2),
        (np.maximum(X, 0.1), X % 0.3, np.float64(0.1 + 0.2)),
        X,
    )

    def stored(x):
        ct.static_assert(ct.static_eval(math.pi == 3.141592653589793))
        half = math.pi / 2
        return x + half

    gives(stored, X + math.pi / 2, X)
    found = []

    @ct.kernel
    def parameter(x, out, c: ct.Constant[float]):
        ct.static_eval(found.append(c))
        ct.store(out, 0, ct.load(x, 0, 4) + c)

    out = np.zeros(4)
    ct.launch(None, (1,), parameter, (X, out, math.pi))
    np.testing.assert_array_equal(out, X + math.pi)
    assert found == [math.pi]


def test_row_1_integers_stop_at_64_bits(backend: str) -> None:
    gives(lambda: (2**63).astype(ct.uint64), np.uint64(2**63))
    refuses(lambda: 2**64, ct.TileValueError)


def test_row_2_tuples_and_dtypes_are_arguments(backend: str) -> None:
    @ct.kernel
    def kernel(pair, dtype, out):
        ct.store(out, 0, ct.load(pair[0], 0, 4).astype(dtype) + pair[1])

    for dtype, target in ((ct.int32, np.int32), (np.float32, np.float32)):
        out = np.zeros(4, target)
        ct.launch(None, (1,), kernel, ((V, 2), dtype, out))
        np.testing.assert_array_equal(out, V[:4] + 2)


def test_row_3_return_in_loops_and_both_names_of_view_atomics(backend: str) -> None:
    @ct.kernel
    def kernel(out):
        view = out.tiled_view((4,))
        for i in range(4):
            if i == 2:
                return
            view.atomic_add((i,), 1)
            view.atomic_store_add((i,), 10)
            ct.atomic_xchg(out, 0, 100)

    out = np.zeros(8, np.int32)
    ct.launch(None, (1,), kernel, (out,))
    np.testing.assert_array_equal(out, [100, *[11] * 7])


def test_row_4_mma_of_any_rank_and_all_scale_dtypes(backend: str) -> None:
    x = np.arange(32, dtype=np.float32).reshape(2, 1, 2, 8) % 5
    y = np.arange(64, dtype=np.float32).reshape(1, 2, 8, 4) % 3
    gives(lambda x, y: ct.mma(x, y, ct.zeros((2, 2, 2, 4), ct.float32)), x @ y, x, y)
    ones = np.ones((2, 32), ml_dtypes.float4_e2m1fn)
    scale = np.full((2, 2), 15 << 3, np.uint8)  # 1.0 in float8_e5m3fnu

    def scaled(x, s):
        s = ct.bitcast(s, ct.float8_e5m3fnu)
        return ct.mma_scaled(x, s, ct.transpose(x), ct.transpose(s), ct.zeros((2, 2), ct.float32))

    gives(scaled, np.full((2, 2), 32, np.float32), ones, scale)


def test_row_5_ranks_and_offsets_are_checked_as_documented() -> None:
    matrix = np.zeros((2, 4), np.float32)
    error = refuses(lambda x: ct.store(x, (1, 0), ct.zeros((4,), ct.float32)), TTE, matrix, load=False)
    assert "rank" in error.message
    refuses(lambda x: x.get_raw_memory().load_offset(1.5), TTE, F, load=False)


def test_row_6_view_stores_cast_by_promotion_and_both_names_of_the_exception(backend: str) -> None:
    @ct.kernel
    def kernel(out):
        out.tiled_view((4,)).store(0, ct.arange(4, dtype=ct.int16))

    out = np.zeros(4, np.float32)
    ct.launch(None, (1,), kernel, (out,))
    np.testing.assert_array_equal(out, range(4))
    refuses(lambda x: x.tiled_view((4,)).store(0, ct.zeros((4,), ct.float64)), TTE, F, load=False)
    refuses(lambda x: ct.static_assert(False), ct.TileStaticAssertionError, F)


def test_row_7_names_of_1_7_and_worker_warps(backend: str) -> None:
    for warps in (1, 2, 4, 8, 16, 32):
        ct.kernel(num_worker_warps=warps)
    with pytest.raises(ValueError):
        ct.kernel(num_worker_warps=3)

    def again(x):
        ct.static_assert(x.foreign_pointer.dtype == ct.foreign_pointer_dtype(x.dtype))
        return ct.load(ct.Array.from_foreign(x.foreign_pointer, (4,), (1,)), 0, 4)

    gives(again, F, F, load=False)


def test_row_8_rounding_to_nearest_away(backend: str) -> None:
    halves = np.array([1 + 2**-11, -1 - 2**-11], np.float32)  # between two float16 values
    away = np.array([1 + 2**-10, -1 - 2**-10], np.float16)
    bf16 = np.array([1.5, -2.5], ml_dtypes.bfloat16)
    gives(lambda x: x.astype(ct.float16, rounding_mode=ct.RoundingMode.RA), bf16.astype(np.float16), bf16)
    gives(lambda x: x.astype(ct.float16), np.array([1, -1], np.float16), halves)
    tf32 = lambda x: x.astype(ct.tfloat32, rounding_mode="RA").astype(ct.float32)
    gives(tf32, away.astype(np.float32), halves)


def test_row_9_num_tiles_is_a_method(backend: str) -> None:
    gives(lambda x: (x.tiled_view((2,)).num_tiles(0), ct.num_tiles(x, 0, 2)), (np.int32(2), np.int32(2)), F, load=False)


def test_row_10_no_internal_errors() -> None:
    for bad in (
        lambda x: ct.add("a", x),
        lambda x: ct.sub(None, x),
        lambda x: ct.mul((1, 2), x),
        lambda x: ct.truediv(x, ct.float32),
        lambda x: ct.argmax(x.astype(ct.float8_e4m3fn)),
        lambda x: ct.argmin(x.astype(ct.tfloat32)),
        lambda x: ct.matmul(x, ct.float32(2)),
        lambda x: ct.matmul(2.0, 3.0),
        lambda x: ct.cdiv(x, 2.0),
        lambda x: ct.pow(x.astype(ct.int32), x.astype(ct.int32)),
        lambda x: ct.atan2(x.astype(ct.int32), 1),
    ):
        refuses(bad, TTE, F)
    # Elsewhere: an unknown conversion of an f-string, and one that is not possible at run time.
    refuses(lambda x: print(f"{ct.bid(0):y}"), TTE, F)
    refuses(lambda x: print(f"{ct.bid(0):^9}"), ct.TileUnsupportedFeatureError, F)


def test_no_source_file_raises_an_internal_error_for_a_mistake() -> None:
    """``TileInternalError`` is for defects; the front end must not use it for what a program does wrong."""
    front_end = Path(ct.__file__).parent / "frontend" / "python"
    raised = [str(p) for p in front_end.rglob("*.py") if re.search(r"TileInternalError", p.read_text())]
    assert raised == []
