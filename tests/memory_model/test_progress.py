"""Any number of blocks may wait for others, whatever their numbers; where none can progress, that is an error."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as ct
from tilewright.analysis.waiting_loops import advances, may_wait
from tilewright.backends.cpu import parallel
from tilewright.backends.reference import scheduler
from tilewright.ir.ops.control import Loop

BLOCKS = {"reference": 40, "cpu": 300}
CPP = """#include "cuda_tile.h"
namespace ct = cuda::tiles;
__tile__ int read(int* flag) { return ct::atomic_add(flag, 0, ct::memory_order_acquire_t{}); }
__tile_global__ void waits(int* flag) {
    while (read(flag) == 0) {}
}
__tile_global__ void ends(int* flag) {
    if (ct::bid().x + 1 == ct::num_blocks().x) {
        ct::atomic_add(flag, 1, ct::memory_order_release_t{});
    } else {
        while (read(flag) == 0) {}
    }
}
"""


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "PATIENCE", 0.1)
    monkeypatch.setattr(scheduler, "STUCK_TURNS", 20)


def test_consumers_come_before_their_producer(backend: str) -> None:
    @ct.kernel
    def kernel(flags, out):
        b, last = ct.bid(0), ct.num_blocks(0) - 1
        if b < last:
            while ct.load(flags, (b + 1,), (1,), memory_order="ACQUIRE", memory_scope="DEVICE").item() == 0:
                pass
        ct.store(out, (b,), ct.load(out, (b + 1,), (1,)) + 1)
        ct.atomic_xchg(flags, b, 1, memory_order="RELEASE")

    n = {"reference": 25, "cpu": 150}[backend]
    flags, out = np.zeros(n + 1, np.int32), np.zeros(n + 1, np.int32)
    ct.launch(None, (n,), kernel, (flags, out))
    np.testing.assert_array_equal(out, np.arange(n, -1, -1))


def test_barriers_of_the_whole_grid(backend: str) -> None:
    @ct.kernel
    def kernel(arrived, x, out):
        b, n = ct.bid(0), ct.num_blocks(0)
        for phase in range(3):
            ct.store(x, (phase, b), ct.full((1, 1), b + phase, ct.int32))
            ct.atomic_add(arrived, 0, 1, memory_order="ACQ_REL")
            while ct.atomic_add(arrived, 0, 0, memory_order="ACQUIRE") < n * (phase + 1):
                pass
            ct.store(out, (phase, b), ct.load(x, (phase, (b + 1) % n), (1, 1)))

    n = {"reference": 20, "cpu": 300}[backend]
    arrived, x, out = np.zeros(1, np.int32), np.zeros((3, n), np.int32), np.zeros((3, n), np.int32)
    ct.launch(None, (n,), kernel, (arrived, x, out))
    np.testing.assert_array_equal(out, (np.arange(n) + 1) % n + np.arange(3)[:, None])


def test_blocks_that_count_how_often_they_look_let_others_begin(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """All blocks but the last one change memory while they wait, which nothing waits for."""
    monkeypatch.setenv("TILEWRIGHT_NUM_THREADS", "2")

    @ct.kernel
    def kernel(flag, looks, out):
        b = ct.bid(0)
        if b + 1 < ct.num_blocks(0):
            while ct.atomic_add(flag, 0, 0, memory_order="ACQUIRE") == 0:
                ct.atomic_add(looks, b, 1)
        ct.atomic_add(flag, 0, 1, memory_order="RELEASE")
        ct.store(out, (b,), ct.full((1,), b, ct.int32))

    flag, looks, out = np.zeros(1, np.int32), np.zeros(8, np.int32), np.zeros(8, np.int32)
    ct.launch(None, (8,), kernel, (flag, looks, out))
    assert flag[0] == 8
    np.testing.assert_array_equal(out, np.arange(8))


def test_loops_that_go_on_by_their_own_updates_advance() -> None:
    """More threads would only take processors from those that work."""

    @ct.kernel
    def kernel(counter, flag, looks):
        while ct.atomic_add(counter, 0, 1) < 100:
            pass
        turn = 0
        while turn < 50:
            if ct.atomic_cas(counter, 0, turn, turn + 1) == turn:
                turn += 1
        while ct.atomic_add(flag, 0, 0) == 0:
            if ct.atomic_add(looks, 0, 1) == 7:
                ct.atomic_add(looks, 1, 1)
        while ct.atomic_or(flag, 0, 0) + ct.atomic_add(looks, 0, 2) < 1000:
            pass

    arrays = tuple(np.zeros(2, np.int32) for _ in range(3))
    traced = kernel.trace(kernel.regions(arrays)[0])
    loops = [op for op in traced.walk() if isinstance(op, Loop)]
    assert all(map(may_wait, loops))
    assert list(map(advances, loops)) == [True, True, False, True]


@pytest.mark.usefixtures("impatient")
def test_blocks_that_pass_something_on_for_long_are_not_stuck(backend: str) -> None:
    """Loops that change memory, each in its turn, but do not end."""

    @ct.kernel
    def kernel(turn, rounds):
        b, n, done = ct.bid(0), ct.num_blocks(0), 0
        while done < rounds:
            if ct.atomic_cas(turn, 0, b, (b + 1) % n) == b:
                done += 1

    turn, rounds = np.zeros(1, np.int32), {"reference": 5, "cpu": 20_000}[backend]
    ct.launch(None, (3,), kernel, (turn, rounds))
    assert turn[0] == 0


@ct.kernel
def waits_by_load(flag):
    while ct.load(flag, (0,), (1,), memory_order="ACQUIRE", memory_scope="DEVICE").item() == 0:
        pass


@ct.kernel
def waits_by_add(flag):
    while ct.atomic_add(flag, 0, 0) == 0:
        pass


@ct.kernel
def waits_by_cas(flag):
    while ct.atomic_cas(flag, 0, 5, 6) != 5:
        pass


@ct.kernel
def waits_by_exchange(flag):
    while ct.atomic_xchg(flag, 0, 0) == 0:
        pass


@ct.kernel
def waits_by_max(flag):
    while ct.atomic_max(flag, 0, 0) == 0:
        pass


KINDS = (waits_by_load, waits_by_add, waits_by_cas, waits_by_exchange, waits_by_max)


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("blocks", (1, 12))
@pytest.mark.parametrize("kernel", KINDS, ids=lambda k: k.name)
def test_a_deadlock_is_an_error_that_says_where_blocks_wait(backend: str, kernel: Any, blocks: int) -> None:
    flag, line = np.zeros(1, np.int32), kernel.__wrapped__.__code__.co_firstlineno + 2
    with pytest.raises(ct.TileError, match="deadlock: every block that is left waits for memory that none") as caught:
        ct.launch(None, (blocks,), kernel, (flag,))
    found = caught.value.message
    for block in range(min(blocks, 8)):
        assert f"block ({block}, 0, 0) at {__file__}:{line}:" in found
    assert (f"and {blocks - 8} more" in found) == (blocks > 8)
    assert caught.value.loc is not None and caught.value.loc.line == line


@pytest.mark.usefixtures("impatient")
def test_each_waiting_block_is_named_with_its_own_line(backend: str) -> None:
    @ct.kernel
    def kernel(flag):
        if ct.bid(0) == 0:
            while ct.atomic_add(flag, 0, 0) == 0:
                pass
        else:
            while ct.atomic_add(flag, 1, 0) == 0:
                pass

    with pytest.raises(ct.TileError, match="deadlock") as caught:
        ct.launch(None, (2,), kernel, (np.zeros(2, np.int32),))
    first = kernel.__wrapped__.__code__.co_firstlineno + 3
    assert f"block (0, 0, 0) at {__file__}:{first}:" in caught.value.message
    assert f"block (1, 0, 0) at {__file__}:{first + 3}:" in caught.value.message


@ct.kernel
def reads_again(flag):
    while ct.gather(flag, 0) == 0:
        pass


@ct.kernel
def carries_what_it_reads(flag):
    seen = ct.gather(flag, 0)
    before = seen
    while seen + before == 0:
        before = seen
        seen = ct.gather(flag, 0)


@ct.kernel
def counts_how_often_it_reads(flag):
    count = 0
    while ct.sum(ct.load(flag, (0,), (4,))) == 0:
        count = count + 1
    ct.scatter(flag, 0, count)


@ct.kernel
def has_no_end(flag):
    while True:
        if ct.bid(0) == 20:
            break


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("blocks", (1, 12))
@pytest.mark.parametrize("kernel", (reads_again, carries_what_it_reads, counts_how_often_it_reads, has_no_end))
def test_loops_that_read_without_an_order_do_not_hang(kernel: Any, blocks: int) -> None:
    with (
        ct.use_backend("cpu"),
        pytest.raises(ct.TileError, match=r"deadlock: .*; waiting for another .* order") as found,
    ):
        ct.launch(None, (blocks,), kernel, (np.zeros(4, np.int32),))
    first = kernel.__wrapped__.__code__.co_firstlineno
    assert found.value.loc is not None and first + 2 <= found.value.loc.line <= first + 6


def test_loops_that_look_at_other_places_or_write_are_not_waiting() -> None:
    @ct.kernel
    def kernel(links, out):
        place, steps = 0, 0
        while ct.gather(links, place) >= 0:
            place = ct.gather(links, place)
        low, high = 0, links.shape[0]
        while low < high:
            middle = (low + high) // 2
            if ct.gather(links, middle) < 5:
                low = middle + 1
            else:
                high = middle
        while ct.gather(out, 1) < 1000:
            ct.scatter(out, 1, ct.gather(out, 1) + 1)
            steps += 1
        ct.scatter(out, 0, place + low + steps)

    links, out = np.array([3, -1, 1, 2], np.int32), np.zeros(2, np.int32)
    with ct.use_backend("cpu"):
        ct.launch(None, (1,), kernel, (links, out))
        assert not any(map(may_wait, kernel.trace(kernel.regions((links, out))[0]).walk()))
    assert out.tolist() == [1 + 4 + 1000, 1000]


def test_a_failed_assertion_ends_those_that_wait_for_the_block(backend: str) -> None:
    @ct.kernel
    def kernel(flag):
        if ct.bid(0) == 1:
            ct.assert_(ct.num_blocks(0) < 2, "too many")
        while ct.atomic_add(flag, 0, 0) == 0:
            pass

    with pytest.raises(ct.TileError, match="too many"):
        ct.launch(None, (3,), kernel, (np.zeros(1, np.int32),))


@pytest.mark.usefixtures("impatient")
def test_tile_cpp(backend: str) -> None:
    pytest.importorskip("ziglang")
    module = ct.cpp.compile(CPP, name="waiting.cu")
    ct.launch(None, (BLOCKS[backend],), module.kernel("ends"), (np.zeros(1, np.int32),))
    with pytest.raises(ct.TileError, match=r"deadlock.*block \(0, 0, 0\) at .*waiting.cu:3:") as caught:
        ct.launch(None, (3,), module.kernel("waits"), (np.zeros(1, np.int32),))
    assert "block (2, 0, 0)" in caught.value.message
