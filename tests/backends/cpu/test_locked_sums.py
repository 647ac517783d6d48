"""Additions of floats to neighbours, which go by locks, beside others that do not."""

from __future__ import annotations

import ctypes
import multiprocessing
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import tilewright as ct
from tilewright.backends.cpu import target
from tilewright.backends.cpu.codegen.kernel import lower
from tilewright.backends.cpu.codegen.pipeline import optimize
from tilewright.backends.cpu.context import EXCLUSION_WORDS, LOCKED_BYTES, Exclusion
from tilewright.backends.cpu.exclusion import EXCLUSION
from tilewright.runtime.launch import specialization

_C = 256


@ct.kernel
def by_locks(x, rows, table, C: ct.Constant[int]):
    i, o = ct.bid(0), ct.arange(C, dtype=ct.int32)
    ct.atomic_add(table, (ct.gather(rows, i), o), ct.gather(x, (i, o), padding_value=0.0))


@ct.kernel
def by_swaps(x, rows, table, C: ct.Constant[int]):
    i, o = ct.bid(0), ct.arange(C, dtype=ct.int32)
    value = ct.gather(x, (i, o), padding_value=0.0)
    ct.atomic_add(table, (ct.gather(rows, i), o), value, memory_scope=ct.MemoryScope.SYS)


@ct.kernel
def by_both(x, rows, table, C: ct.Constant[int]):
    i, o = ct.bid(0), ct.arange(C, dtype=ct.int32)
    row, value = ct.gather(rows, i), ct.gather(x, (i, o), padding_value=0.0)
    ct.atomic_add(table, (row, o), value)
    ct.atomic_add(table, (row, (o * 5) % C), value)


def _given(count: int, rows: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    x = np.random.default_rng(0).integers(-8, 8, (count, _C - 5)).astype(np.float32)
    return x, np.random.default_rng(1).integers(0, rows, count).astype(np.int32), np.zeros((rows, _C), np.float32)


def _sums(x: np.ndarray, rows: np.ndarray, table: np.ndarray) -> np.ndarray:
    found = np.zeros_like(table)
    np.add.at(found[:, : x.shape[1]], rows, x)
    return found


def _text(kernel: Any, entry: str | None = None, *, may_alias: bool = False) -> str:
    found = specialization(kernel, (*_given(4, 2), _C), "cpu").function
    return lower(optimize(replace(found, may_alias=may_alias)), target.host(), entry).text


def test_which_additions_go_by_locks() -> None:
    assert 'call i1 @"lock"' in _text(by_locks)
    assert "cmpxchg" in _text(by_locks)  # for launches beside others that swap
    assert 'call i1 @"lock"' not in _text(by_swaps)
    assert 'call i1 @"lock"' not in _text(by_locks, "entry")
    assert 'call i1 @"lock"' not in _text(by_locks, may_alias=True)
    counted = {
        k: f"i64 {Exclusion.SWAPPING if k is not by_locks else Exclusion.LOCKING}\n" for k in (by_locks, by_both)
    }
    for kernel, word in counted.items():
        assert f"%workers.at = getelementptr i64, ptr %exclusion, {word}" in _text(kernel)


@pytest.mark.parametrize("first", [0, 1, 3])
def test_where_locks_change(first: int) -> None:
    """Neighbours of which some have another lock."""
    x, rows, _ = _given(300, 200)
    memory = np.zeros(200 * (_C - 5) + first, np.float32)
    table = memory[first:].reshape(200, _C - 5)
    assert table.nbytes > 2 * LOCKED_BYTES
    ct.launch(None, (300,), by_locks, (x, rows, table, _C), backend="cpu")
    np.testing.assert_array_equal(table, _sums(x, rows, table))


def _at_once(*run: Callable[[], None]) -> None:
    threads = [threading.Thread(target=each) for each in run]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@pytest.mark.parametrize("other", [by_locks, by_swaps, by_both], ids=lambda k: k.__name__)
def test_launches_at_once(other: Any) -> None:
    """Of threads that add to the same few rows, as long as any of them does."""
    x, rows, table = _given(2000, 3)
    wanted = _sums(x, rows, table)

    def launch(kernel: Any) -> None:
        for _ in range(30):
            ct.launch(None, (2000,), kernel, (x, rows, table, _C), backend="cpu")

    _at_once(lambda: launch(by_locks), lambda: launch(other))
    if other is by_both:
        places = (np.arange(_C) * 5) % _C
        moved = np.zeros_like(wanted)
        moved[:, places] = wanted
        np.testing.assert_array_equal(table, 60 * wanted + 30 * moved)
    else:
        np.testing.assert_array_equal(table, 60 * wanted)


def _locks() -> Any:
    return (ctypes.c_int64 * (EXCLUSION_WORDS - Exclusion.LOCKS)).from_address(EXCLUSION + 8 * Exclusion.LOCKS)


def test_swaps_begin_when_no_lock_is_held() -> None:
    x, rows, table = _given(10, 3)
    ct.launch(None, (10,), by_swaps, (x, rows, table, _C), backend="cpu")
    others, locks = ctypes.c_int64.from_address(EXCLUSION + 8 * Exclusion.LOCKING), _locks()
    others.value, locks[80] = 1, 1
    try:
        thread = threading.Thread(target=ct.launch, args=(None, (10,), by_swaps, (x, rows, table, _C)))
        thread.start()
        thread.join(0.2)
        waited, before = thread.is_alive(), table.copy()
    finally:
        others.value, locks[80] = 0, 0
    thread.join()
    assert waited
    np.testing.assert_array_equal(before, _sums(x, rows, table))
    np.testing.assert_array_equal(table, 2 * before)


def _adds(results: Any) -> None:
    x, rows, table = _given(10, 3)
    ct.launch(None, (10,), by_locks, (x, rows, table, _C), backend="cpu")
    results.put(np.array_equal(table, _sums(x, rows, table)))


def test_locks_of_threads_that_a_child_does_not_have() -> None:
    x, rows, table = _given(10, 3)
    ct.launch(None, (10,), by_locks, (x, rows, table, _C), backend="cpu")
    locks, context = _locks(), multiprocessing.get_context("fork")
    results = context.Queue()
    try:
        locks[:] = [1] * len(locks)
        child = context.Process(target=_adds, args=(results,))
        child.start()
    finally:
        locks[:] = [0] * len(locks)
    try:
        assert results.get(timeout=60)
    finally:
        child.kill()
        child.join()
