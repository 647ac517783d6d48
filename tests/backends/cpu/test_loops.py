"""Loops that follow each other in a kernel, compiled for a CPU."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import tilewright as ct
from tilewright.backends.cpu.codegen import polls
from tilewright.ir.ops.control import For


@ct.kernel
def two_lists(x, first, second):
    """Blocks take turns with the items of two lists, as if they were one."""
    blocks = ct.num_blocks(0)
    for item in range(ct.bid(0), first, blocks):
        ct.store(x, (item,), ct.load(x, (item,), (4,)) + 1)
    item = (ct.bid(0) + blocks - first % blocks) % blocks
    while item < second:
        ct.store(x, (first + item,), ct.load(x, (first + item,), (4,)) + 2)
        item += blocks


@pytest.mark.parametrize("blocks", [1, 2, 3, 7, 20])
def test_a_loop_without_end_after_a_counted_one(blocks: int) -> None:
    """LLVM gets through it, and each item is done once."""
    for first, second in ((0, 5), (5, 0), (9, 8)):
        x = np.zeros(4 * (first + second), np.float32)
        ct.launch(None, (blocks,), two_lists, (x, first, second))
        np.testing.assert_array_equal(x, np.repeat([1, 2], [4 * first, 4 * second]))


@ct.kernel
def nested(x):
    total = 0
    for a in range(2):
        for b in range(2):
            for c in range(2):
                for d in range(2):
                    for e in range(2):
                        total += a + b + c + d + e
    ct.store(x, (0,), ct.full((1,), total, ct.int32))


def test_what_nested_loops_do_is_estimated_by_one_look_at_each(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.zeros(1, np.int32)
    function = nested.trace(nested.described((x,), None)[0])
    loops = [op for op in function.walk() if isinstance(op, For)]
    looks = itertools.count()
    count = polls.constant_trip_count
    monkeypatch.setattr(polls, "constant_trip_count", lambda op: (next(looks), count(op))[1])
    assert not polls.is_polled(loops[0])
    assert next(looks) == len(loops) == 5
