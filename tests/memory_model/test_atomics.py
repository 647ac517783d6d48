"""Atomics: no update is lost, and old values are those of some order, at every width; bounds, masks, repeated indices.

The test of that: each update leads from an old value to a new one, and all of them together lead from the initial value
to the final one. So the new values with the initial one are the old values with the final one, as multisets.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewright as ct
from tilewright.ir import dtypes
from tilewright.ir.dtypes import DType

LANES, PLACES = 32, 8
SIZES = {"reference": (4, 4), "cpu": (48, 100)}  # blocks, and calls of each
WORDS = (dtypes.int32, dtypes.int64, dtypes.uint32, dtypes.uint64)
SINGLES = (*WORDS, dtypes.float32, dtypes.float64)
Step = Callable[[np.ndarray, np.ndarray], np.ndarray]

KINDS: dict[str, tuple[Callable[..., Any], Step, tuple[DType, ...]]] = {
    "xchg": (ct.atomic_xchg, lambda old, update: update, SINGLES),
    "add": (ct.atomic_add, np.add, (*SINGLES, dtypes.float16, dtypes.bfloat16)),
    "max": (ct.atomic_max, np.maximum, WORDS),
    "min": (ct.atomic_min, np.minimum, WORDS),
    "and": (ct.atomic_and, np.bitwise_and, WORDS),
    "or": (ct.atomic_or, np.bitwise_or, WORDS),
    "xor": (ct.atomic_xor, np.bitwise_xor, WORDS),
}
CASES = [(kind, dtype) for kind, (_, _, allowed) in KINDS.items() for dtype in allowed]
ORDERS = [
    (order, scope)
    for order in ("RELAXED", "ACQUIRE", "RELEASE", "ACQ_REL")
    for scope in (ct.MemoryScope.BLOCK, ct.MemoryScope.DEVICE, ct.MemoryScope.SYS)
]


def bits(x: np.ndarray) -> np.ndarray:
    return x.view(f"u{x.itemsize}")


def updates(dtype: DType, shape: tuple[int, ...]) -> np.ndarray:
    rng = np.random.default_rng(dtype.bitwidth)
    if dtype.is_integer:
        return rng.integers(0, 1 << dtype.bitwidth, shape, f"u{dtype.bytes}").view(dtype.storage)
    return rng.integers(-8, 9, shape).astype(dtype.storage)


def places(shape: tuple[int, ...]) -> np.ndarray:
    """Few places, so that blocks meet there, and repeated ones within each call."""
    return np.random.default_rng(0).integers(0, PLACES, shape).astype(np.int32)


def meet(gate):
    """Wait for all blocks, so that they run at the same time."""
    ct.atomic_add(gate, 0, 1)
    while ct.atomic_add(gate, 0, 0) < ct.num_blocks(0):
        pass


def new_gate() -> np.ndarray:
    return np.zeros(1, np.int32)


def assert_chained(initial: np.ndarray, final: np.ndarray, index: np.ndarray, old: np.ndarray, new: np.ndarray) -> None:
    for place in range(initial.size):
        here = index == place
        before = np.append(bits(old)[here], bits(final)[place])
        after = np.append(bits(new)[here], bits(initial)[place])
        np.testing.assert_array_equal(np.sort(before), np.sort(after))


@pytest.mark.parametrize(("kind", "dtype"), CASES, ids=str)
def test_no_update_is_lost(backend: str, kind: str, dtype: DType) -> None:
    operation, step, _ = KINDS[kind]

    @ct.kernel
    def kernel(x, index, update, old, rounds, gate):
        b = ct.bid(0)
        meet(gate)
        for r in range(rounds):
            i = ct.load(index, (b, r, 0), (1, 1, LANES)).reshape((LANES,))
            u = ct.load(update, (b, r, 0), (1, 1, LANES)).reshape((LANES,))
            ct.store(old, (b, r, 0), operation(x, i, u).reshape((1, 1, LANES)))

    blocks, rounds = SIZES[backend]
    index, update = places((blocks, rounds, LANES)), updates(dtype, (blocks, rounds, LANES))
    initial = np.arange(PLACES).astype(dtype.storage)
    x, old = initial.copy(), np.zeros_like(update)
    ct.launch(None, (blocks,), kernel, (x, index, update, old, rounds, new_gate()))
    assert_chained(initial, x, index, old, step(old, update).astype(dtype.storage))


@pytest.mark.parametrize(("order", "scope"), ORDERS, ids=lambda v: getattr(v, "name", v))
def test_every_order_and_scope(backend: str, order: str, scope: ct.MemoryScope) -> None:
    """Each is at least atomic among its threads: tickets of a counter are handed out once. BLOCK is for one block."""
    shared = scope is not ct.MemoryScope.BLOCK

    @ct.kernel
    def kernel(counter, old, rounds, gate):
        b = ct.bid(0)
        meet(gate)
        for r in range(rounds):
            place = ct.where(shared, 0, b) + ct.zeros((LANES,), ct.int32)
            tickets = ct.atomic_add(counter, place, 1, memory_order=order, memory_scope=scope)
            ct.store(old, (b, r, 0), tickets.reshape((1, 1, LANES)))

    blocks, rounds = SIZES[backend]
    counter, old = np.zeros(blocks, np.int32), np.zeros((blocks, rounds, LANES), np.int32)
    ct.launch(None, (blocks,), kernel, (counter, old, rounds, new_gate()))
    tickets = np.sort(old.reshape((1, -1) if shared else (blocks, -1)))
    np.testing.assert_array_equal(tickets, np.broadcast_to(np.arange(tickets.shape[1]), tickets.shape))
    assert counter.sum() == old.size


@pytest.mark.parametrize("dtype", SINGLES, ids=str)
def test_compare_and_swap(backend: str, dtype: DType) -> None:
    """Swaps that mostly fail and some that succeed; a failed one leaves the value."""

    @ct.kernel
    def kernel(x, index, update, old, rounds, gate):
        b = ct.bid(0)
        meet(gate)
        for r in range(rounds):
            i = ct.load(index, (b, r, 0), (1, 1, LANES)).reshape((LANES,))
            u = ct.load(update, (b, r, 0), (1, 1, LANES)).reshape((LANES,))
            ct.store(old, (b, r, 0), ct.atomic_cas(x, i, u, u + 1).reshape((1, 1, LANES)))

    blocks, rounds = SIZES[backend]
    index = places((blocks, rounds, LANES))
    update = np.random.default_rng(1).integers(0, 4, index.shape).astype(dtype.storage)
    initial = np.zeros(PLACES, dtype.storage)
    x, old = initial.copy(), np.zeros_like(update)
    ct.launch(None, (blocks,), kernel, (x, index, update, old, rounds, new_gate()))
    assert_chained(initial, x, index, old, np.where(old == update, update + 1, old).astype(dtype.storage))
    assert (x > 0).any()


def test_compare_and_swap_compares_bits() -> None:
    """-0 is not +0, and NaN is itself."""

    @ct.kernel
    def kernel(x, expected, old):
        i = ct.arange(4, dtype=ct.int32)
        ct.store(old, (0,), ct.atomic_cas(x, i, ct.load(expected, (0,), (4,)), 7.0))

    for dtype in (np.float32, np.float64):
        x = np.array([0.0, -0.0, np.nan, 1.0], dtype)
        expected, before, old = np.array([-0.0, -0.0, np.nan, 2.0], dtype), x.copy(), np.zeros(4, dtype)
        ct.launch(None, (1,), kernel, (x, expected, old))
        np.testing.assert_array_equal(bits(x), bits(np.array([0.0, 7.0, 7.0, 1.0], dtype)))
        np.testing.assert_array_equal(bits(old), bits(before))


@pytest.mark.parametrize("dtype", (dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64), ids=str)
def test_sums_round_to_nearest_and_keep_small_numbers(dtype: DType) -> None:
    """Neighbours in one machine word stay untouched; a subnormal sum is not flushed; overflow gives infinity."""

    @ct.kernel
    def kernel(x, update):
        i = ct.arange(8, dtype=ct.int32)
        ct.atomic_add(x, i * 2 + 1, ct.load(update, (0,), (8,)))

    least = np.finfo(np.float64).smallest_subnormal if dtype is dtypes.float64 else None
    if least is None:
        least = float(np.array([1], f"u{dtype.bytes}").view(dtype.storage)[0])
    unit, top = 2.0**-dtype.mantissa_bits, 2.0 ** ((1 << (dtype.exponent_bits - 1)) - 1)
    a = np.array([1, 1, 1 + unit, least, top, -0.0, np.inf, 3]).astype(dtype.storage)
    b = np.array([unit / 2, unit * 0.75, unit / 2, least, top, -0.0, -np.inf, -3]).astype(dtype.storage)
    x = np.full(17, 99).astype(dtype.storage)
    x[1::2] = a
    ct.launch(None, (1,), kernel, (x, b))
    np.testing.assert_array_equal(x[1::2].astype(np.float64), (a + b).astype(np.float64))
    assert np.signbit(x[11].astype(np.float64))
    assert (x[::2] == 99).all()


@pytest.mark.parametrize("index_dtype", dtypes.INTEGERS, ids=str)
def test_indices_outside_are_skipped(index_dtype: DType) -> None:
    """The array is the middle of a larger one, which must not change."""

    @ct.kernel
    def kernel(x, index, old, swapped):
        i = ct.load(index, (0,), (16,))
        ct.store(old, (0,), ct.atomic_add(x, i, 5))
        ct.store(swapped, (0,), ct.atomic_cas(x, i, 77, 99))

    candidates = [
        -1,
        -7,
        -8,
        7,
        8,
        9,
        127,
        128,
        255,
        2**15,
        2**31 - 1,
        2**31,
        2**32 - 1,
        2**33,
        2**62,
        -(2**31),
        -(2**63),
    ]
    inside = [0, 3, 7]
    outside = [c for c in candidates if c not in inside and index_dtype.min <= c <= index_dtype.max][: 16 - len(inside)]
    index = np.array([*inside, *outside, *[3] * (13 - len(outside))]).astype(index_dtype.storage)
    memory = np.arange(100, 124, dtype=np.int32)
    before, x = memory.copy(), memory[8:16]
    old, swapped = np.zeros(16, np.int32), np.zeros(16, np.int32)
    ct.launch(None, (1,), kernel, (x, index, old, swapped))
    known = index.astype(object)
    valid = (known >= 0) & (known < 8)
    counts = np.bincount(index[valid].astype(np.int64), minlength=8)
    before[8:16] += (5 * counts).astype(np.int32)
    np.testing.assert_array_equal(memory, before)
    assert (swapped[~valid] == 77).all(), "outside, cas returns what was expected"
    for place in inside:
        start = 108 + place
        here = np.sort(old[valid & (known == place)])
        np.testing.assert_array_equal(here, start + 5 * np.arange(counts[place]))


def test_two_dimensions_and_strides() -> None:
    @ct.kernel
    def kernel(x):
        rows = ct.arange(8, dtype=ct.int32)[:, None] - 2
        columns = ct.arange(8, dtype=ct.int32)[None, :] - 1
        ct.atomic_add(x, (rows, columns), 1)

    memory = np.zeros((12, 10), np.int64)
    for view in (memory[2:6, 1:9:2], memory.T[1:9:3, 3:8], memory[::-1, ::-1][4:8, 4:8]):
        memory[:] = 0
        expected = memory.copy()
        view[:6, :7] += 1
        expected, memory[:] = memory.copy(), 0
        ct.launch(None, (3,), kernel, (view,))
        np.testing.assert_array_equal(memory, 3 * expected)


def test_masks_of_raw_memory() -> None:
    @ct.kernel
    def kernel(x, update, mask, old, swapped):
        raw = x.get_raw_memory()
        offset = ct.arange(16, dtype=ct.int32) % 4
        m = ct.load(mask, (0,), (16,))
        ct.store(old, (0,), raw.atomic_add_offset(offset, ct.load(update, (0,), (16,)), mask=m))
        ct.store(swapped, (0,), raw.atomic_cas_offset(offset, 55, 66, mask=m & (offset == 0)))

    mask = np.array([i % 3 == 1 for i in range(16)])
    update = (1 << np.arange(16)).astype(np.int32)
    x, old, swapped = np.zeros(6, np.int32), np.zeros(16, np.int32), np.zeros(16, np.int32)
    ct.launch(None, (1,), kernel, (x, update, mask, old, swapped))
    expected = [update[mask & (np.arange(16) % 4 == place)].sum() for place in range(4)]
    np.testing.assert_array_equal(x, [*expected, 0, 0])
    assert (swapped[~(mask & (np.arange(16) % 4 == 0))] == 55).all()
    assert_chained(np.zeros(4, np.int32), x[:4], np.where(mask, np.arange(16) % 4, -1), old, old + update)


@pytest.mark.parametrize("kind", ("add", "max", "min", "and", "or", "xor"))
def test_views_skip_what_is_outside(kind: str) -> None:
    @ct.kernel
    def kernel(x, update):
        view = x.tiled_view((4, 8))
        tile = ct.load(update, (0, 0), (4, 8))
        if ct.static_eval(kind == "add"):
            view.atomic_store_add((ct.bid(0) % 2, ct.bid(1) % 2), tile)
        elif ct.static_eval(kind == "max"):
            view.atomic_store_max((ct.bid(0) % 2, ct.bid(1) % 2), tile)
        elif ct.static_eval(kind == "min"):
            view.atomic_store_min((ct.bid(0) % 2, ct.bid(1) % 2), tile)
        elif ct.static_eval(kind == "and"):
            view.atomic_store_and((ct.bid(0) % 2, ct.bid(1) % 2), tile)
        elif ct.static_eval(kind == "or"):
            view.atomic_store_or((ct.bid(0) % 2, ct.bid(1) % 2), tile)
        else:
            view.atomic_store_xor((ct.bid(0) % 2, ct.bid(1) % 2), tile)

    memory = np.arange(100, dtype=np.uint32).reshape(10, 10)
    x, before = memory[1:7, 1:9], memory.copy()  # 6 rows: the second tile is half outside; 8 columns: it is wholly so
    update = np.random.default_rng(5).integers(0, 256, (4, 8)).astype(np.uint32)
    ct.launch(None, (10, 1), kernel, (x, update))
    step = KINDS[kind][1]
    for _ in range(5):
        before[1:5, 1:9] = step(before[1:5, 1:9], update)
        before[5:7, 1:9] = step(before[5:7, 1:9], update[:2])
    np.testing.assert_array_equal(memory, before)


@pytest.mark.parametrize("dtype", (dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64), ids=str)
def test_views_add_floats(dtype: DType) -> None:
    @ct.kernel
    def kernel(x, rounds):
        view = x.tiled_view((16,))
        for _ in range(rounds):
            view.atomic_store_add((0,), 1.0)

    x = np.zeros(13, dtype.storage)
    ct.launch(None, (16,), kernel, (x, 16))
    assert (x == 256).all()


@pytest.mark.parametrize("start", [0, 1, 2, 4])
@pytest.mark.parametrize("dtype", [dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64], ids=str)
def test_rows_of_floats_that_blocks_add_to(backend: str, dtype: DType, start: int) -> None:
    """From any element on, and no whole number of what is swapped at once."""

    @ct.kernel
    def kernel(x, index, update, rounds):
        b, o = ct.bid(0), ct.arange(64, dtype=ct.int32)
        for r in range(rounds):
            ct.atomic_add(x, (ct.gather(index, (b, r)), o), ct.gather(update, (b, r, o)))

    blocks, rounds = SIZES[backend]
    index = places((blocks, rounds))
    update = np.random.default_rng(start).integers(-1, 2, (blocks, rounds, 37)).astype(dtype.storage)
    whole = np.zeros((PLACES, 48), dtype.storage)
    expected = np.zeros((PLACES, 48))
    np.add.at(expected[:, start : start + 37], index, update.astype(np.float64))
    ct.launch(None, (blocks,), kernel, (whole[:, start : start + 37], index, update, rounds))
    np.testing.assert_array_equal(whole.astype(np.float64), expected)
