"""Blocks that wait for each other: message passing, locks, tickets, barriers. Weak accesses carry the data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewright as ct

# More blocks than threads, which are more than cores; blocks only wait for earlier ones.
BLOCKS = {"reference": 40, "cpu": 400}
WORDS = 64


def launch(backend: str, kernel: Any, *arrays: np.ndarray) -> int:
    ct.launch(None, (BLOCKS[backend],), kernel, arrays)
    return BLOCKS[backend]


@pytest.mark.parametrize("sent_by", ("store", "xchg", "add"))
@pytest.mark.parametrize("received_by", ("load", "add", "cas"))
def test_a_message_goes_through_all_blocks(backend: str, sent_by: str, received_by: str) -> None:
    """Each block waits for the flag of the one before, reads its data, and sends on what it makes of them."""

    @ct.kernel
    def kernel(data, flags):
        b = ct.bid(0)
        if ct.static_eval(received_by == "load"):
            while ct.load(flags, (b,), (1,), memory_order="ACQUIRE", memory_scope="DEVICE").item() == 0:
                pass
        elif ct.static_eval(received_by == "add"):
            while ct.atomic_add(flags, b, 0, memory_order="ACQUIRE") == 0:
                pass
        else:
            while ct.atomic_cas(flags, b, 1, 2, memory_order="ACQUIRE") != 1:
                pass
        received = ct.load(data, (b, 0), (1, WORDS))
        ct.store(data, (b + 1, 0), received + 1)
        if ct.static_eval(sent_by == "store"):
            ct.store(flags, (b + 1,), ct.full((1,), 1, ct.int32), memory_order="RELEASE", memory_scope="DEVICE")
        elif ct.static_eval(sent_by == "xchg"):
            ct.atomic_xchg(flags, b + 1, 1, memory_order="RELEASE")
        else:
            ct.atomic_add(flags, b + 1, 1, memory_order="RELEASE")

    n = BLOCKS[backend]
    data, flags = np.zeros((n + 1, WORDS), np.int64), np.zeros(n + 1, np.int32)
    data[0], flags[0] = np.arange(WORDS), 1
    launch(backend, kernel, data, flags)
    np.testing.assert_array_equal(data, np.arange(n + 1)[:, None] + np.arange(WORDS))


def test_data_are_read_again_after_each_flag(backend: str) -> None:
    """A reader in a loop must not keep what it loaded before: nothing in its own block writes there."""

    @ct.kernel
    def kernel(data, turn, out, rounds):
        b = ct.bid(0)
        for r in range(rounds):
            if b == 0:
                while ct.atomic_add(turn, 0, 0, memory_order="ACQUIRE") != 2 * r:
                    pass
                ct.store(data, (0,), ct.full((WORDS,), r * r, ct.int32))
                ct.atomic_xchg(turn, 0, 2 * r + 1, memory_order="RELEASE")
            else:
                while ct.atomic_add(turn, 0, 0, memory_order="ACQUIRE") != 2 * r + 1:
                    pass
                ct.store(out, (r, 0), ct.load(data, (0,), (WORDS,)).reshape((1, WORDS)))
                ct.atomic_xchg(turn, 0, 2 * r + 2, memory_order="RELEASE")

    rounds = 200 if backend == "cpu" else 20
    data, turn, out = np.zeros(WORDS, np.int32), np.zeros(1, np.int32), np.zeros((rounds, WORDS), np.int32)
    ct.launch(None, (2,), kernel, (data, turn, out, rounds))
    np.testing.assert_array_equal(out, np.broadcast_to((np.arange(rounds) ** 2)[:, None], out.shape))


def spin_lock(cells):
    while ct.atomic_cas(cells, 0, 0, 1, memory_order="ACQUIRE") != 0:
        pass


def spin_unlock(cells):
    ct.atomic_xchg(cells, 0, 0, memory_order="RELEASE")


def ticket_lock(cells):
    mine = ct.atomic_add(cells, 0, 1, memory_order="RELAXED")
    while ct.atomic_add(cells, 1, 0, memory_order="ACQUIRE") != mine:
        pass


def ticket_unlock(cells):
    ct.atomic_add(cells, 1, 1, memory_order="RELEASE")


def strong_store_unlock(cells):
    ct.store(cells, (0,), ct.zeros((1,), ct.int32), memory_order="RELEASE", memory_scope="DEVICE")


@pytest.mark.parametrize(
    ("lock", "unlock"),
    [(spin_lock, spin_unlock), (spin_lock, strong_store_unlock), (ticket_lock, ticket_unlock)],
    ids=["spin", "spin, strong store", "ticket"],
)
def test_critical_sections(backend: str, lock: Callable[..., None], unlock: Callable[..., None]) -> None:
    """Weak loads and stores under a lock lose nothing, though every block changes every element."""

    @ct.kernel
    def kernel(cells, total, largest):
        for _ in range(5):
            lock(cells)
            ct.store(total, (0,), ct.load(total, (0,), (WORDS,)) + ct.arange(WORDS, dtype=ct.int64))
            most = ct.gather(largest, ct.bid(0) * 0)
            if most < ct.bid(0):
                ct.scatter(largest, ct.bid(0) * 0, ct.bid(0))
            unlock(cells)

    cells, total, largest = np.zeros(2, np.int32), np.zeros(WORDS, np.int64), np.zeros(1, np.int32)
    n = launch(backend, kernel, cells, total, largest)
    np.testing.assert_array_equal(total, 5 * n * np.arange(WORDS))
    assert largest[0] == n - 1


def test_work_is_handed_out_once(backend: str) -> None:
    """Blocks take items by a ticket counter until none is left."""

    @ct.kernel
    def kernel(counter, items, owner):
        limit = items.shape[0]
        item = ct.atomic_add(counter, 0, 1, memory_order="RELAXED")
        while item < limit:
            ct.scatter(items, item, ct.gather(items, item) + 1)
            ct.scatter(owner, item, ct.bid(0))
            item = ct.atomic_add(counter, 0, 1, memory_order="RELAXED")

    counter, items = np.zeros(1, np.int32), np.arange(5000 if backend == "cpu" else 500, dtype=np.int32)
    owner, expected = np.full(items.size, -1, np.int32), items + 1
    n = launch(backend, kernel, counter, items, owner)
    np.testing.assert_array_equal(items, expected)
    assert counter[0] == items.size + n and (owner >= 0).all()


def test_the_last_block_sees_the_work_of_all(backend: str) -> None:
    """Partial results, then a counter: whoever counts last adds them up (ACQ_REL makes all of them visible)."""

    @ct.kernel
    def kernel(x, partial, counter, out):
        b, n = ct.bid(0), ct.num_blocks(0)
        ct.scatter(partial, b, ct.sum(ct.load(x, (b,), (WORDS,))))
        if ct.atomic_add(counter, 0, 1) == n - 1:
            total = ct.zeros((), ct.int64)
            for i in range(n):
                total = total + ct.gather(partial, i)
            ct.scatter(out, 0, total)

    n = BLOCKS[backend]
    x = np.random.default_rng(4).integers(-1000, 1000, n * WORDS)
    for _ in range(10 if backend == "cpu" else 1):
        partial, counter, out = np.zeros(n, np.int64), np.zeros(1, np.int32), np.zeros(1, np.int64)
        launch(backend, kernel, x, partial, counter, out)
        assert out[0] == x.sum()


def test_a_barrier_of_all_blocks(backend: str) -> None:
    """Up to 64 blocks may wait for each other in any direction: here each reads what all wrote in the round before."""

    @ct.kernel
    def kernel(x, arrived, rounds):
        b, n = ct.bid(0), ct.num_blocks(0)
        for r in range(rounds):
            ct.scatter(x, (r + 1, b), ct.sum(ct.gather(x, (r, ct.arange(16, dtype=ct.int32)))) % 1000 + b)
            ct.atomic_add(arrived, 0, 1, memory_order="RELEASE")
            while ct.atomic_add(arrived, 0, 0, memory_order="ACQUIRE") < n * (r + 1):
                pass

    rounds, n = 20 if backend == "cpu" else 4, 16
    x, arrived = np.zeros((rounds + 1, n), np.int64), np.zeros(1, np.int32)
    x[0] = np.arange(n)
    expected = x.copy()
    for r in range(rounds):
        expected[r + 1] = expected[r].sum() % 1000 + np.arange(n)
    ct.launch(None, (n,), kernel, (x, arrived, rounds))
    np.testing.assert_array_equal(x, expected)


def test_blocks_wait_for_later_ones(backend: str) -> None:
    """The first block waits for the second, and so on: none may keep the others from running."""

    @ct.kernel
    def kernel(flags, out):
        b = ct.bid(0)
        while ct.load(flags, (b + 1,), (1,), memory_order="ACQUIRE", memory_scope="DEVICE").item() == 0:
            pass
        ct.scatter(out, b, ct.gather(out, b + 1) + 1)
        ct.atomic_xchg(flags, b, 1, memory_order="RELEASE")

    n = 64 if backend == "cpu" else 20
    flags, out = np.zeros(n + 1, np.int32), np.zeros(n + 1, np.int32)
    flags[n] = 1
    ct.launch(None, (n,), kernel, (flags, out))
    np.testing.assert_array_equal(out, np.arange(n + 1)[::-1])
