"""Pointers, and loads, stores and atomics through them."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.tile_code import gives, refuses

import tilewright as ct

A = np.arange(6 * 10, dtype=np.float32).reshape(6, 10)
V = np.arange(20, dtype=np.int32)
TTE = ct.TileTypeError


def run(kernel: Any, *args: Any, grid: tuple[int, ...] = (1,)) -> None:
    ct.launch(None, grid, kernel, args)


def test_raw_memory_loads_and_stores(backend: str) -> None:
    def loads(a):
        m = a.get_raw_memory()
        ct.static_assert(m.dtype == ct.float32)
        k = ct.arange(8, dtype=ct.int32)
        odd = k % 2 == 1
        return (
            m.load_offset(k * 7),
            m.load_offset(k.astype(ct.uint8), mask=odd),
            m.load_offset(k, mask=odd, padding_value=-1, latency=3),
            m.load_offset(12),
            ct.where(odd, m.load_offset(k.astype(ct.int64), mask=odd, padding_value=None), 5.0),
            m.load_offset(k[:, None] + k[None, :], mask=odd, padding_value=k[:, None].astype(ct.float32)),
        )

    k = np.arange(8)
    flat = A.ravel()
    odd = k % 2 == 1
    grid = (k[:, None] + k).astype(np.float32)
    gives(
        loads,
        (
            flat[k * 7],
            np.where(odd, flat[:8], np.float32(0)),
            np.where(odd, flat[:8], np.float32(-1)),
            flat[12],
            np.where(odd, flat[:8], np.float32(5)),
            np.where(odd, grid, k[:, None].astype(np.float32)),
        ),
        A,
        load=False,
    )

    @ct.kernel
    def stores(a):
        m = a.get_raw_memory()
        k = ct.arange(4, dtype=ct.int32)
        m.store_offset(k * 2, k)
        m.store_offset(k * 2 + 1, 100, mask=k > 1, latency=1)
        m.store_offset(9, 7)

    v = np.full(10, -1, np.int64)
    run(stores, v)
    np.testing.assert_array_equal(v, [0, -1, 1, -1, 2, 100, 3, 100, -1, 7])


ATOMICS: dict[str, Callable[[int, int], int]] = {
    "xchg": lambda old, new: new,
    "add": operator.add,
    "max": max,
    "min": min,
    "and": operator.and_,
    "or": operator.or_,
    "xor": operator.xor,
}


@pytest.mark.parametrize("name", ATOMICS)
def test_atomics_in_all_three_forms(backend: str, name: str) -> None:
    before = np.array([3, 12, 5, -7, 9, 1, 2, 6], np.int32)
    update = np.array([6, 10, -5, 0], np.int32)

    @ct.kernel
    def by_index(a, u, old):
        ct.store(
            old,
            0,
            ATOMIC(a, ct.arange(4, dtype=ct.int32) * 2, ct.load(u, 0, (4,)), memory_order=ct.MemoryOrder.RELAXED),
        )

    @ct.kernel
    def by_offset(a, u, old):
        k = ct.arange(4, dtype=ct.int32)
        m = a.get_raw_memory()
        ct.store(old, 0, getattr(m, f"atomic_{NAME}_offset")(k * 2, ct.load(u, 0, (4,)), mask=k != 1))

    @ct.kernel
    def by_view(a, u):
        getattr(a.tiled_view((4,)), f"atomic_store_{NAME}")((1,), ct.load(u, 0, (4,)))

    ATOMIC, NAME = getattr(ct, f"atomic_{name}"), name
    a, old = before.copy(), np.zeros(4, np.int32)
    run(by_index, a, update, old)
    np.testing.assert_array_equal(old, before[::2])
    np.testing.assert_array_equal(a[::2], [ATOMICS[name](x, y) for x, y in zip(before[::2].tolist(), update.tolist())])
    np.testing.assert_array_equal(a[1::2], before[1::2])
    a = before.copy()
    run(by_offset, a, update, old)
    want = before.copy()
    for k in (0, 2, 3):
        want[2 * k] = ATOMICS[name](int(before[2 * k]), int(update[k]))
    np.testing.assert_array_equal(a, want)
    np.testing.assert_array_equal(old[[0, 2, 3]], before[[0, 4, 6]])
    if name != "xchg":
        a = before.copy()
        run(by_view, a, update)
        np.testing.assert_array_equal(a[:4], before[:4])
        np.testing.assert_array_equal(
            a[4:], [ATOMICS[name](x, y) for x, y in zip(before[4:].tolist(), update.tolist())]
        )


def test_compare_and_swap(backend: str) -> None:
    @ct.kernel
    def swap(a, old, raw_old):
        k = ct.arange(4, dtype=ct.int32)
        ct.store(old, 0, ct.atomic_cas(a, k * 3, k * 3, -k))  # the last index is outside: it yields ``expected``
        m = a.get_raw_memory()
        ct.store(raw_old, 0, m.atomic_cas_offset(k + 1, 5, k, mask=k < 2, memory_scope="BLOCK", memory_order="ACQUIRE"))

    a = np.arange(8, dtype=np.int32)
    old, raw_old = np.zeros(4, np.int32), np.zeros(4, np.int32)
    run(swap, a, old, raw_old)
    np.testing.assert_array_equal(a, [0, 1, 2, -1, 4, 5, -2, 7])
    np.testing.assert_array_equal(old, [0, 3, 6, 9])
    np.testing.assert_array_equal(raw_old, [1, 2, 5, 5])


ATOMIC_DTYPES = {
    "atomic_cas": "int32 int64 uint32 uint64 float32 float64",
    "atomic_xchg": "int32 int64 uint32 uint64 float32 float64",
    "atomic_add": "int32 int64 uint32 uint64 float32 float64 float16 bfloat16",
    **{f"atomic_{n}": "int32 int64 uint32 uint64" for n in ("max", "min", "and", "or", "xor")},
}


@pytest.mark.parametrize("name", ATOMIC_DTYPES)
def test_atomic_dtypes(backend: str, name: str) -> None:
    @ct.kernel
    def atomic(a, ONE: ct.Constant):
        update = ONE.astype(a.dtype)
        ct.static_assert(update.dtype == a.dtype)
        getattr(ct, NAME)(a, 1, *((update,) * (2 if NAME == "atomic_cas" else 1)))

    NAME = name
    for dtype in ct.DType, *(getattr(ct, n) for n in dir(ct) if isinstance(getattr(ct, n), ct.DType)):
        if not isinstance(dtype, ct.DType) or dtype.name in (
            "tfloat32",
            "float8_e5m3fnu",
            "float8_e8m0fnu",
            "float4_e2m1fn",
        ):
            continue
        a = np.zeros(2, dtype.storage)
        if dtype.name in ATOMIC_DTYPES[name].split():
            run(atomic, a, 1)
        else:
            with pytest.raises(TTE, match="not available for arrays of"):
                run(atomic, a, 1)


@pytest.mark.parametrize(
    "bad",
    [
        lambda a: ct.atomic_and(a, 0, ct.int64(1)),
        lambda a: ct.atomic_add(a, 0, 1.5),
        lambda a: ct.atomic_add(a, 0, ct.int64(1)),
        lambda a: ct.atomic_add(a, (0, 0), 1),
        lambda a: ct.atomic_add(a, 0.0, 1),
        lambda a: ct.atomic_add(a, 0, 1, memory_order=ct.MemoryOrder.WEAK),
        lambda a: ct.atomic_add(a, 0, 1, memory_scope=ct.MemoryScope.NONE),
        lambda a: ct.atomic_add(a, 0, 1, memory_scope="CLUSTER"),
        lambda a: ct.atomic_add(a, 0, 1, memory_scope="device"),
        lambda a: ct.atomic_add(a, 0, 1, mask=True),
        lambda a: ct.atomic_add(a, 0, ct.zeros((2,), ct.int32)),
        lambda a: ct.atomic_add(a, 0, update=1),
        lambda a: ct.atomic_cas(a, 0, 1),
        lambda a: a.tiled_view((4,)).atomic_store_add((0, 0), 1),
        lambda a: a.tiled_view((4,)).atomic_store_add((0,), 1.5),
        lambda a: a.tiled_view((4,)).atomic_store_xchg((0,), 1),
        lambda a: a.get_raw_memory().atomic_add_offset(0, ct.int64(1)),
        lambda a: a.get_raw_memory().load_offset(ct.zeros((2,), ct.float32)),
        lambda a: a.get_raw_memory().load_offset(0, mask=1),
        lambda a: a.get_raw_memory().load_offset(0, True),
    ],
    ids=range(20),
)
def test_mistakes_with_atomics_and_raw_memory(bad: Callable[..., Any]) -> None:
    refuses(bad, TTE, V, load=False)


def test_a_bitwise_update_has_the_dtype_of_the_array(backend: str) -> None:
    @ct.kernel
    def narrow(a):
        ct.atomic_or(a, 0, 3)

    a = np.zeros(1, np.int32)
    run(narrow, a)
    assert a[0] == 3
    for dtype in (np.int64, np.uint32, np.uint64):
        with pytest.raises(TTE, match="equal dtypes"):
            run(narrow, np.zeros(1, dtype))


def test_repeated_indices_in_one_atomic(backend: str) -> None:
    @ct.kernel
    def histogram(a, index):
        ct.atomic_add(a, ct.load(index, 0, (16,)), 1, check_bounds=False)

    index = np.array([0, 1, 1, 3, 3, 3, 0, 2, 2, 1, 3, 3, 0, 0, 0, 2], np.int32)
    a = np.zeros(4, np.int32)
    run(histogram, a, index)
    np.testing.assert_array_equal(a, np.bincount(index))


def test_atomics_outside_the_array_do_nothing(backend: str) -> None:
    @ct.kernel
    def add(a):
        ct.atomic_add(a, ct.arange(8, dtype=ct.int32) - 2, 1)
        a.tiled_view((4,)).atomic_store_add(1, 10)

    whole = np.zeros(9, np.int32)
    run(add, whole[2:7])
    np.testing.assert_array_equal(whole, [0, 0, 1, 1, 1, 1, 11, 0, 0])
