"""Stores past the caches: the same results wherever arrays begin, and nothing beside them is touched."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilewright as ct
from tilewright.backends.cpu import target
from tilewright.backends.cpu.codegen import views
from tilewright.backends.cpu.codegen.kernel import lower
from tilewright.backends.cpu.codegen.pipeline import optimize
from tilewright.runtime.launch import specialization


@pytest.fixture(autouse=True)
def every_array_is_large(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(target, "last_level_cache", lambda: 1)
    monkeypatch.setattr(views, "_LONG_ROW", 0)
    target._host.cache_clear()
    yield
    target._host.cache_clear()


@ct.kernel
def combine(x, y, out, T: ct.Constant[int]):
    i = ct.bid(0)
    ct.store(out, (i,), ct.load(x, (i,), (T,)) * 3 + ct.load(y, (i,), (T,)))


@ct.kernel
def differences(x, out, R: ct.Constant[int], C: ct.Constant[int]):
    tile = ct.load(x, (ct.bid(0), ct.bid(1)), (R, C), padding_mode=ct.PaddingMode.ZERO)
    ct.store(out, (ct.bid(0), ct.bid(1)), tile - ct.max(tile, axis=1, keepdims=True))


@ct.kernel
def twice(x, out, T: ct.Constant[int]):
    i = ct.bid(0)
    tile = ct.load(x, (i,), (T,))
    ct.store(out, (i,), tile + 1)
    ct.store(out, (i,), ct.load(out, (i,), (T,)) * 2)


@ct.kernel
def turned(x, out, T: ct.Constant[int]):
    ct.store(out, (ct.bid(1), ct.bid(0)), ct.transpose(ct.load(x, (ct.bid(0), ct.bid(1)), (T, T))))


@ct.kernel
def stored_twice(x, out, copy, T: ct.Constant[int]):
    i = ct.bid(0)
    powers = ct.exp(ct.load(x, (i,), (T,)))
    ct.store(out, (i,), powers)
    ct.store(copy, (i,), powers)


@ct.kernel
def totals(x, out, last, S: ct.Constant[int], C: ct.Constant[int]):
    total = ct.zeros((1, C), ct.int32)
    for i in range(S):
        total += ct.load(x, (i, 0), (1, C))
        ct.store(out, (i, 0), total * 2)
    ct.store(last, (0, 0), total)


@ct.kernel
def picked(table, rows, out, R: ct.Constant[int], C: ct.Constant[int]):
    at = ct.load(rows, (ct.bid(0),), (R,))
    ct.store(out, (ct.bid(0), 0), ct.gather(table, (at[:, None], ct.arange(C, dtype=ct.int32)[None, :])))


@ct.kernel
def flattened(x, out, R: ct.Constant[int], C: ct.Constant[int]):
    i = ct.bid(0)
    tile = ct.load(x, (i,), (R * C,), padding_mode=ct.PaddingMode.ZERO).reshape((R, C))
    ct.store(out, (i,), (tile - ct.max(tile, axis=1, keepdims=True)).reshape((R * C,)))


DTYPES = [np.int8, np.float16, ml_dtypes.bfloat16, np.float32, np.int64, np.float64]


def values(n: int, dtype: Any, skip: int = 0) -> np.ndarray:
    """``n`` small numbers; they begin ``skip`` elements after the start of a cache line."""
    room = np.zeros(n * np.dtype(dtype).itemsize + 64 * 8 + 64, np.uint8)
    start = -room.ctypes.data % 64 + skip * np.dtype(dtype).itemsize
    found = room[start : start + n * np.dtype(dtype).itemsize].view(dtype)
    found[:] = np.random.default_rng(n + skip).integers(-9, 10, n).astype(dtype)
    return found


def agree(kernel: Any, grid: tuple[int, ...], inputs: list[np.ndarray], out: np.ndarray, rest: tuple[int, ...]) -> None:
    """Both backends write the same to ``out``, which is part of a larger array."""
    whole = out if out.base is None else out.base
    before, results = whole.copy(), []
    for backend in ("reference", "cpu"):
        whole[...] = before
        ct.launch(None, grid, kernel, (*inputs, out, *rest), backend=backend)
        results.append(whole.copy())
    np.testing.assert_array_equal(results[0].view(np.uint8), results[1].view(np.uint8))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("skip", [0, 1, 5, 15])
def test_vectors_of_any_alignment(dtype: Any, skip: int) -> None:
    n = 1000  # of which the last block has less than a tile
    inputs = [values(n, dtype), values(n, dtype, 3)]
    agree(combine, (4,), inputs, values(n, dtype, skip), (256,))


@pytest.mark.parametrize("columns", [64, 96, 100, 512])
@pytest.mark.parametrize("tile", [(1, 128), (4, 32), (2, 512)])
def test_rows(columns: int, tile: tuple[int, int]) -> None:
    x = values(9 * columns, np.float32).reshape(9, columns)
    out = values(9 * (columns + 28), np.float32, 2).reshape(9, columns + 28)[:, :columns]
    agree(differences, (-(-9 // tile[0]), -(-columns // tile[1])), [x], out, tile)


@pytest.mark.parametrize("skip", [0, 3])
@pytest.mark.parametrize("offset", [0, 1, 40])
def test_stores_over_what_is_loaded(skip: int, offset: int) -> None:
    """Elements that two vectors compute are not computed from what the first has stored."""
    memory = values(600, np.float32, skip)
    x, out = memory[:512], memory[offset : offset + 512]
    wanted = x * 4
    ct.launch(None, (1,), combine, (x, x, out, 512), backend="cpu")
    np.testing.assert_array_equal(out, wanted)


@pytest.mark.parametrize("skip", [0, 7])
def test_an_array_that_is_read_again(skip: int) -> None:
    agree(twice, (4,), [values(1024, np.int32)], values(1024, np.int32, skip), (256,))


@pytest.mark.parametrize("skip", [0, 3])
def test_a_tile_that_is_stored_twice(skip: int) -> None:
    """Elements of the first store that two vectors compute are exponentials, and not those of exponentials."""
    x = values(1024, np.float32) / 100
    out, copy = values(1024, np.float32, skip), values(1024, np.float32, skip)
    ct.launch(None, (4,), stored_twice, (x, out, copy, 256), backend="cpu")
    np.testing.assert_allclose(out, np.exp(x), rtol=1e-6)
    np.testing.assert_array_equal(copy, out)


@pytest.mark.parametrize("skip", [0, 5, 16])
def test_sums_that_are_kept_on_the_way(skip: int) -> None:
    """They are added to once, wherever the rows that are stored begin."""
    x, last = values(6 * 64, np.int32).reshape(6, 64), np.empty((1, 64), np.int32)
    out = values(6 * 64, np.int32, skip).reshape(6, 64)
    ct.launch(None, (1,), totals, (x, out, last, 6, 64), backend="cpu")
    np.testing.assert_array_equal(out, 2 * np.cumsum(x, axis=0))
    np.testing.assert_array_equal(last[0], x.sum(axis=0))


@pytest.mark.parametrize("skip", [0, 7])
def test_transposed(skip: int) -> None:
    x = values(64 * 96, np.float32).reshape(64, 96)
    agree(turned, (2, 3), [x], values(64 * 96, np.float32, skip).reshape(96, 64), (32,))


@pytest.mark.parametrize("dtype", [np.int8, np.float32, np.float64])
@pytest.mark.parametrize("skip", [0, 5])
@pytest.mark.parametrize("shape", [(64, 8), (4, 128)])
def test_rows_that_are_put_together(dtype: Any, skip: int, shape: tuple[int, int]) -> None:
    agree(flattened, (3,), [values(1300, dtype)], values(1300, dtype, skip), shape)


@pytest.mark.parametrize("dtype", [np.int8, np.float16, np.float32, np.float64])
@pytest.mark.parametrize("skip", [0, 5])
@pytest.mark.parametrize("last", [19, 20, -1])  # two of which the table does not have
def test_rows_that_are_picked(dtype: Any, skip: int, last: int) -> None:
    table, rows = values(20 * 96, dtype, 3).reshape(20, 96), np.arange(12, dtype=np.int32)[::-1].copy()
    rows[7] = last
    agree(picked, (3,), [table, rows], values(12 * 64, dtype, skip).reshape(12, 64), (4, 64))


def test_what_is_streamed() -> None:
    """Whole vectors of arrays that the kernel only writes."""
    x = values(1024, np.float32)

    def code(kernel: Any, *arguments: Any) -> str:
        return lower(optimize(specialization(kernel, arguments, "cpu").function), target.host()).text

    streamed = code(combine, x, x, x, 256)
    assert "!nontemporal" in streamed
    assert ("sfence" in streamed) == ('triple = "x86_64' in streamed)  # others order these stores as all others
    assert "!nontemporal" not in code(twice, x, x, 256)
    assert "!nontemporal" in code(flattened, x, x, 4, 64)


def test_the_cache_of_a_whole_socket_is_not_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    """A virtual machine with two processors is told of all of it."""
    monkeypatch.setattr(target.os, "cpu_count", lambda: 2)
    for socket, ours in ((260 << 20, 16 << 20), (8 << 20, 8 << 20)):
        target._host.cache_clear()
        monkeypatch.setattr(target, "last_level_cache", lambda size=socket: size)
        assert target.host().cache_bytes == ours
