"""Tiles of the next block or iteration are fetched where that is worth it, and results stay what they are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as ct
from tilewright.backends.cpu import target
from tilewright.backends.cpu.codegen.kernel import lower
from tilewright.backends.cpu.codegen.pipeline import optimize
from tilewright.runtime.launch import specialization

LOWEST = ct.PaddingMode.NEG_INF


@ct.kernel
def softmax(x, out, C: ct.Constant[int]):
    i = ct.bid(0)
    tile = ct.load(x, (i, 0), (1, C), padding_mode=LOWEST)
    weights = ct.exp(tile - ct.max(tile, axis=1, keepdims=True))
    ct.store(out, (i, 0), weights / ct.sum(weights, axis=1, keepdims=True))


@ct.kernel
def persistent_softmax(x, out, C: ct.Constant[int]):
    for i in range(ct.bid(0), x.shape[0], ct.num_blocks(0)):
        tile = ct.load(x, (i, 0), (1, C), padding_mode=LOWEST)
        weights = ct.exp(tile - ct.max(tile, axis=1, keepdims=True))
        ct.store(out, (i, 0), weights / ct.sum(weights, axis=1, keepdims=True))


@ct.kernel
def centered(x, out, C: ct.Constant[int]):
    tile = ct.load(x, (ct.bid(0), 0), (1, C), padding_mode=LOWEST)
    ct.store(out, (ct.bid(0), 0), tile - ct.max(tile, axis=1, keepdims=True))


@ct.kernel
def powers(x, out, C: ct.Constant[int]):
    ct.store(out, (ct.bid(0), 0), ct.exp(ct.load(x, (ct.bid(0), 0), (1, C))))


@ct.kernel
def sums_of_pieces(x, out, C: ct.Constant[int]):
    total = ct.zeros((4, 128), ct.float32)
    for k in range(ct.num_tiles(x, 1, (4, C))):
        total = total + ct.sum(ct.load(x, (0, k), (4, C)).reshape((4, C // 128, 128)), axis=1)
    ct.store(out, (0, 0), total)


@ct.kernel
def persistent_sums(x, out, C: ct.Constant[int]):
    for i in range(ct.bid(0), x.shape[0], ct.num_blocks(0)):
        ct.store(out, (i, 0), ct.sum(ct.load(x, (i, 0), (1, C)), axis=1, keepdims=True))


@ct.kernel
def sums(x, out, C: ct.Constant[int]):
    for i in range(x.shape[0]):
        ct.store(out, (i, 0), ct.sum(ct.load(x, (i, 0), (1, C)), axis=1, keepdims=True))


@ct.kernel
def softmax_of_one(x, out, C: ct.Constant[int]):
    """All blocks read the same row."""
    tile = ct.load(x, (0, 0), (1, C), padding_mode=LOWEST)
    weights = ct.exp(tile - ct.max(tile, axis=1, keepdims=True))
    ct.store(out, (ct.bid(0), 0), weights / ct.sum(weights, axis=1, keepdims=True))


@ct.kernel
def running_sums(x, out, C: ct.Constant[int]):
    ct.store(out, (ct.bid(0), 0), ct.cumsum(ct.load(x, (ct.bid(0), 0), (4, C)), axis=1))


@ct.kernel
def histogram(x, out, C: ct.Constant[int]):
    for i in range(x.shape[0]):
        found = ct.load(x, (i, 0), (1, C)).astype(ct.int32)
        ct.atomic_add(out, (0, found), 1.0, memory_order=ct.MemoryOrder.RELAXED, memory_scope=ct.MemoryScope.BLOCK)


@ct.kernel
def products(x, out, C: ct.Constant[int]):
    total = ct.zeros((C, C), ct.float32)
    for k in range(ct.num_tiles(x, 0, (64, C))):
        total = ct.mma(ct.full((C, 64), 1, x.dtype), ct.load(x, (k, ct.bid(0)), (64, C)), total)
    ct.store(out, (0, 0), total)


@ct.kernel
def products_of_rows(x, out, C: ct.Constant[int]):
    total = ct.zeros((C, C), ct.float32)
    for k in range(ct.num_tiles(x, 0, (64, C))):
        total = ct.mma(ct.full((C, 64), 1, x.dtype), ct.load(x, (k, 0), (64, C)), total)
    ct.store(out, (0, 0), total)


def arrays(columns: int) -> tuple[np.ndarray, np.ndarray]:
    x = np.random.default_rng(columns).standard_normal((6, columns), dtype=np.float32)
    return x, np.empty_like(x)


def fetches(kernel: Any, columns: int, tile: int, *, to_write: bool = False) -> bool:
    function = optimize(specialization(kernel, (*arrays(columns), tile), "cpu").function)
    calls = [line for line in lower(function, target.host()).text.splitlines() if "call" in line and "prefetch" in line]
    return any(f", i32 {int(to_write)}, i32" in line for line in calls)


@pytest.mark.parametrize("kernel", [softmax, persistent_softmax])
def test_long_rows_that_are_read_again_beside_exponentials(kernel: Any) -> None:
    assert fetches(kernel, 3000, 4096) and fetches(kernel, 1000, 1024)
    assert fetches(kernel, 300, 512) == (kernel is persistent_softmax)  # processors fetch what comes next in memory
    assert not fetches(kernel, 300_000, 1 << 19)  # several do not fit into a cache


@pytest.mark.parametrize("kernel", [centered, powers, softmax_of_one])
def test_memory_is_busy_or_there_is_no_next_tile(kernel: Any) -> None:
    assert not fetches(kernel, 3000, 4096)


def test_iterations_whose_next_tile_is_no_run_in_memory() -> None:
    assert fetches(sums_of_pieces, 3000, 128)
    assert not fetches(sums_of_pieces, 3000, 2048)  # long enough for processors to fetch
    assert fetches(persistent_sums, 1000, 1024)
    assert not fetches(sums, 1000, 1024)


def test_short_rows_that_are_copied_for_products() -> None:
    assert fetches(products, 3000, 64)
    assert not fetches(products, 3000, 512)  # long enough for processors to fetch
    assert not fetches(products_of_rows, 64, 64)  # one behind the other


@ct.kernel
def products_of_halves(x, out, C: ct.Constant[int]):
    """The result is rounded on its way."""
    total = ct.zeros((C, C), ct.float32)
    for k in range(ct.num_tiles(x, 0, (64, C))):
        total = ct.mma(ct.full((C, 64), 1, x.dtype), ct.load(x, (k, 0), (64, C)), total)
    ct.store(out, (0, 0), total * 0.5)


def test_lines_that_a_product_is_stored_to() -> None:
    assert fetches(products, 3000, 64, to_write=True) and fetches(products_of_rows, 100, 128, to_write=True)
    assert not fetches(products, 3000, 256, to_write=True)  # too large a part of a cache
    assert not fetches(products_of_halves, 3000, 64, to_write=True)
    assert not fetches(softmax, 3000, 4096, to_write=True)


@ct.kernel
def two_products(x, out, C: ct.Constant[int]):
    """The view of out is made behind both loops, of which the first one may have no iteration."""
    first, second = ct.zeros((C, C), ct.float32), ct.zeros((C, C), ct.float32)
    for k in range(ct.num_tiles(x, 0, (64, C)) - 2):
        first = ct.mma(ct.full((C, 64), 1, x.dtype), ct.load(x, (k, 0), (64, C)), first)
    for k in range(ct.num_tiles(x, 0, (64, C))):
        second = ct.mma(ct.full((C, 64), 2, x.dtype), ct.load(x, (k, 0), (64, C)), second)
    ct.store(out, (1, 0), second)
    ct.store(out, (0, 0), first)


@pytest.mark.parametrize("rows", [100, 300])
def test_two_products_that_are_stored_to_one_array(rows: int) -> None:
    x, out = np.ones((rows, 64), np.float32), np.empty((128, 64), np.float32)
    ct.launch(None, (1,), two_products, (x, out, 64), backend="cpu")
    np.testing.assert_array_equal(out[64:], 2 * rows)
    np.testing.assert_array_equal(out[:64], min(rows, 64 * (-(-rows // 64) - 2)))


@pytest.mark.parametrize("columns", [64, 100])
@pytest.mark.parametrize("strides", ["rows", "columns", "every second"])
def test_products_that_are_stored_to_arrays_of_all_kinds(columns: int, strides: str) -> None:
    x = np.random.default_rng(columns).integers(-9, 9, (130, columns)).astype(np.float32)
    results = []
    for backend in ("cpu", "reference"):
        out = np.zeros((2 * columns, 2 * columns), np.float32)
        given = {"rows": out[:64, :64], "columns": out.T[:64, :70], "every second": out[::2, ::2]}[strides]
        ct.launch(None, (1,), products, (x, given, 64), backend=backend)
        results.append(out)
    np.testing.assert_array_equal(*results)


def test_stores_past_the_caches_of_what_was_made_of_a_tile() -> None:
    assert fetches(running_sums, 100, 128)
    assert not fetches(running_sums, 3000, 1 << 14)  # both do not fit into a cache


def test_atomic_operations_on_what_was_made_of_a_tile() -> None:
    assert fetches(histogram, 3000, 4096)
    assert not fetches(histogram, 3000, 1 << 16)


def test_results_of_atomic_operations() -> None:
    x = np.random.default_rng(0).integers(0, 3000, (6, 4096)).astype(np.float32)
    out = np.zeros((1, 3000), np.float32)
    ct.launch(None, (1,), histogram, (x, out, 1024), backend="cpu")
    np.testing.assert_array_equal(out[0], np.bincount(x[:, :1024].astype(int).ravel(), minlength=3000))


@pytest.mark.parametrize("kernel", [softmax, persistent_softmax])
def test_results(kernel: Any) -> None:
    x, out = arrays(3000)
    ct.launch(None, (3 if kernel is persistent_softmax else 6,), kernel, (x, out, 4096), backend="cpu")
    wanted = np.exp(x - x.max(1, keepdims=True))
    np.testing.assert_allclose(out, wanted / wanted.sum(1, keepdims=True), rtol=1e-5)


@ct.kernel
def sums_of_blocks(x, out, C: ct.Constant[int]):
    ct.atomic_add(out, (0, ct.arange(C, dtype=ct.int32)), ct.load(x, (ct.bid(0), 0), (1, C)).reshape((C,)))


def test_floats_are_added_to_lines_that_are_fetched() -> None:
    assert fetches(sums_of_blocks, 64, 64, to_write=True)
