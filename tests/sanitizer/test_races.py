"""Races between blocks, schedules, and blocks that wait for each other."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest

import tilewright as ct

ACQUIRE, RELEASE, RELAXED = ct.MemoryOrder.ACQUIRE, ct.MemoryOrder.RELEASE, ct.MemoryOrder.RELAXED
ORDERS = ("in-order", "reverse", "interleave", "random")


def launch(kernel: Any, blocks: int, *args: Any, **options: Any) -> list[str]:
    with ct.sanitize(**options) as report:
        ct.launch(None, (blocks,), kernel, args)
    return [v.category.name for v in report.violations]


@ct.kernel
def pass_on(
    data: Any, flag: Any, out: Any, RELEASES: ct.Constant[bool], ACQUIRES: ct.Constant[bool], WIDE: ct.Constant[bool]
) -> None:
    """Block 0 writes data and raises a flag; the others wait for the flag and read the data."""
    scope = ct.MemoryScope.DEVICE if WIDE else ct.MemoryScope.BLOCK
    i = ct.bid(0)
    if i == 0:
        ct.store(data, (0,), ct.full((4,), 7, ct.int32))
        ct.atomic_xchg(flag, 0, 1, memory_order=RELEASE if RELEASES else RELAXED, memory_scope=scope)
    else:
        while ct.atomic_or(flag, 0, 0, memory_order=ACQUIRE if ACQUIRES else RELAXED, memory_scope=scope) == 0:
            pass
        ct.store(out, (i,), ct.load(data, (0,), (4,)))


@pytest.mark.parametrize("order", ORDERS)
def test_a_release_that_is_acquired_orders_blocks(order: str) -> None:
    def found(releases: bool, acquires: bool, wide: bool) -> set[str]:
        data, flag, out = np.zeros(4, np.int32), np.zeros(1, np.int32), np.zeros(16, np.int32)
        kinds = launch(pass_on, 4, data, flag, out, releases, acquires, wide, schedule=order)
        np.testing.assert_array_equal(out, [0] * 4 + [7] * 12)  # it happens to work
        return set(kinds)

    assert found(True, True, True) == set()
    assert found(False, True, True) == found(True, False, True) == found(True, True, False) == {"data-race"}


@ct.kernel
def chain(values: Any, turn: Any) -> None:
    """Each block waits for its turn, works on what the last one left, and hands it on: order by way of others."""
    i = ct.bid(0)
    while ct.atomic_cas(turn, 0, i, i, memory_order=ACQUIRE) != i:
        pass
    ct.store(values, (0,), ct.load(values, (0,), (4,)) * 2 + i)
    ct.atomic_xchg(turn, 0, i + 1, memory_order=RELEASE)


@ct.kernel
def count_up(counter: Any, data: Any, total: Any, N: ct.Constant[int]) -> None:
    """Every block writes its part and counts; the last one to count reads all parts."""
    i = ct.bid(0)
    ct.store(data, (i,), ct.full((4,), i, ct.int32))
    if ct.atomic_add(counter, 0, 1) == N - 1:
        ct.store(total, (0,), ct.sum(ct.load(data, (0,), (4 * N,)), keepdims=True))


@pytest.mark.parametrize("order", ORDERS)
def test_order_by_way_of_other_blocks(order: str) -> None:
    values = np.ones(4, np.int32)
    assert launch(chain, 6, values, np.zeros(1, np.int32), schedule=order, seed=3) == []
    want = 1
    for i in range(6):
        want = want * 2 + i
    np.testing.assert_array_equal(values, want)
    total = np.zeros(1, np.int32)
    args = np.zeros(1, np.int32), np.zeros(32, np.int32), total, 8
    assert launch(count_up, 8, *args, schedule=order, seed=3) == []
    assert total[0] == 4 * sum(range(8))


@ct.kernel
def neighbours(x: Any, SHIFT: ct.Constant[int]) -> None:
    i = ct.bid(0)
    ct.store(x, (i,), ct.gather(x, (i + SHIFT) * 4 + ct.arange(4, dtype=ct.int32)))


@ct.kernel
def count_blindly(counter: Any, result: Any) -> None:
    """The last block reads the count, though no block waits for another."""
    ct.atomic_add(counter, 0, 1)
    if ct.bid(0) == ct.num_blocks(0) - 1:
        ct.store(result, (0,), ct.load(counter, (0,), (1,)))


@ct.kernel
def meet(data: Any, counter: Any, total: Any, N: ct.Constant[int], ADDS: ct.Constant[int]) -> None:
    """Every block writes its part, counts, and waits until all have."""
    i = ct.bid(0)
    ct.store(data, (i,), ct.full((4,), i, ct.int32))
    ct.atomic_add(counter, 0, 1, memory_order=ct.static_eval((ct.MemoryOrder.ACQ_REL, RELEASE, RELAXED)[ADDS]))
    while ct.atomic_or(counter, 0, 0, memory_order=ACQUIRE) < N:
        pass
    ct.store(total, (i,), ct.sum(ct.load(data, (0,), (4 * N,)), keepdims=True))


@pytest.mark.parametrize("order", ORDERS)
def test_an_atomic_without_a_use_orders_nothing_before_it(order: str) -> None:
    """What came first in this run is luck; but the order that others have released at the element goes on."""
    counter, result = np.zeros(1, np.int32), np.zeros(1, np.int32)
    assert set(launch(count_blindly, 4, counter, result, schedule=order, seed=1)) == {"data-race"}
    for adds, kinds in enumerate([set(), set(), {"data-race"}]):
        counter, totals = np.zeros(1, np.int32), np.zeros(4, np.int32)
        args = np.zeros(16, np.int32), counter, totals, 4, adds
        assert set(launch(meet, 4, *args, schedule=order, seed=1)) == kinds


def test_reads_race_with_writes_in_any_order() -> None:
    for order in ORDERS:
        assert launch(neighbours, 4, np.zeros(16, np.int32), 1, schedule=order) == ["data-race"]
        assert launch(neighbours, 4, np.zeros(16, np.int32), 0, schedule=order) == []
        assert launch(neighbours, 1, np.zeros(16, np.int32), 1, schedule=order) == []  # one block is no race


def test_a_race_names_both_sides() -> None:
    with ct.sanitize() as report:
        ct.launch(None, (4,), neighbours, (np.zeros(16, np.int32), 1))
    (race,) = report.violations
    (other,) = race.related
    assert race.block == (1, 0, 0) and other.block == (0, 0, 0) and other.message == "read here"
    assert race.place is not None and (race.place.argument, race.place.index) == ("x", (4,))
    assert race.count == 3 and race.elements == 12 and race.element == (0,)


@ct.kernel
def many_releases(counter: Any, data: Any) -> None:
    i = ct.bid(0)
    for _ in range(200):
        ct.atomic_add(counter, 0, 1)
        ct.scatter(data, i, ct.gather(data, i) + 1)
    ct.gather(data, 3)


def test_what_nothing_refers_to_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Dropping records and clocks, here all the time, changes no result."""
    races = importlib.import_module("tilewright.sanitizer.races")
    found = []
    for snapshots, records in ((256, 1 << 16), (2, 4)):
        monkeypatch.setattr(races, "_SNAPSHOTS", snapshots)
        monkeypatch.setattr(races, "_RECORDS", records)
        with ct.sanitize() as report:
            ct.launch(None, (4,), many_releases, (np.zeros(1, np.int32), np.zeros(4, np.int32)))
        found.append([(v.category.name, v.line, v.block, v.place, v.count, v.related) for v in report.violations])
        assert launch(chain, 6, np.ones(4, np.int32), np.zeros(1, np.int32), schedule="random") == []
        assert launch(neighbours, 4, np.zeros(16, np.int32), 1) == ["data-race"]
    assert found[0] == found[1] and found[0]


@ct.kernel
def lock_twice(locks: Any) -> None:
    """Blocks take two locks in opposite order."""
    i = ct.bid(0)
    while ct.atomic_cas(locks, i, 0, 1) != 0:
        pass
    for _ in range(8):
        ct.atomic_add(locks, 2, 1)
    while ct.atomic_cas(locks, 1 - i, 0, 1) != 0:
        pass
    ct.atomic_xchg(locks, i, 0)
    ct.atomic_xchg(locks, 1 - i, 0)


def test_deadlock_says_what_each_block_waits_for() -> None:
    assert launch(lock_twice, 2, np.zeros(3, np.int32)) == []
    with ct.sanitize(schedule="interleave") as report:
        ct.launch(None, (2,), lock_twice, (np.zeros(3, np.int32),))
    (deadlock,) = report.of("deadlock")
    assert deadlock.message == "2 blocks wait for memory that none of them changes"
    waits = [(r.block, r.message) for r in deadlock.related]
    assert waits == [
        ((0, 0, 0), "waits at locks[1], which holds 1"),
        ((1, 0, 0), "waits at locks[0], which holds 1"),
    ]


@ct.kernel
def arrive(log: Any, place: Any) -> None:
    ct.scatter(log, ct.atomic_add(place, 0, 1), ct.bid(0))


def test_schedules_differ_and_can_be_replayed() -> None:
    def arrivals(**options: Any) -> list[int]:
        log = np.full(64, -1, np.int32)
        launch(arrive, 64, log, np.zeros(1, np.int32), **options)
        return log.tolist()

    assert arrivals() == list(range(64))
    assert arrivals(schedule="reverse") == list(range(64))[::-1]
    one, two = (arrivals(schedule="random", seed=seed) for seed in (1, 2))
    assert sorted(one) == sorted(two) == list(range(64)) and one != two
    assert arrivals(schedule="random", seed=1) == one


@ct.kernel
def copy(x: Any, out: Any) -> None:
    ct.store(out, (ct.bid(0),), ct.load(x, (ct.bid(0),), (4,)))


@ct.kernel
def move(arrays: Any) -> None:
    ct.store(arrays[0], (0,), ct.load(arrays[1], (0,), (4,)))


def test_overlapping_arrays_of_a_list() -> None:
    x, y = np.ones(4, np.float32), np.ones(4, np.float32)
    assert launch(move, 1, [x, y]) == []
    assert launch(move, 1, [x, x]) == ["overlapping-arguments"]


def test_overlapping_arguments() -> None:
    memory = np.arange(12, dtype=np.int32)
    with ct.sanitize() as report:
        ct.launch(None, (2,), copy, (memory[4:], memory[:8]))
    (found,) = report.violations
    assert found.category.name == "overlapping-arguments" and found.line == copy.function.__code__.co_firstlineno + 1
    assert "'x' and 'out'" in found.message and found.place is not None and found.place.argument == "out"
    assert launch(copy, 1, memory[:6], memory[6:]) == []
    assert launch(copy, 1, memory[0::2][:4], memory[1::2][:4]) == []  # between each other, but not the same elements
