"""Whose memory an access is, and how much memory the sanitizer takes for it."""

from __future__ import annotations

import tracemalloc
from typing import Annotated, Any

import numpy as np

import tilewright as ct
from tilewright.sanitizer.arrays import BYTES_PER_ELEMENT


@ct.kernel
def from_list(
    xs: Annotated[Any, ct.ListAnnotation(element=ct.ArrayAnnotation())],
    out: Any,
    WHICH: ct.Constant[int],
    SHIFT: ct.Constant[int],
) -> None:
    x = xs[WHICH]
    ct.store(out, (0,), x.get_raw_memory().load_offset(ct.arange(4, dtype=ct.int32) + SHIFT))


def test_arrays_of_a_list_are_told_apart() -> None:
    whole = np.zeros(8, np.int32)
    arrays = [whole[:4], whole[4:]]  # neighbours: what leaves one is in the other

    def found(which: int, shift: int) -> list[str]:
        with ct.sanitize() as report:
            ct.launch(None, (1,), from_list, (arrays, np.zeros(4, np.int32), which, shift))
        return [v.category.name for v in report.violations]

    assert found(0, 0) == found(1, 0) == []
    assert found(0, 1) != [] and found(1, -1) != []


def test_an_index_outside_a_list_is_one_violation() -> None:
    with ct.sanitize() as report:
        ct.launch(None, (1,), from_list, ([np.zeros(4, np.int32)], np.zeros(4, np.int32), 1, 0))
    (found,) = report.violations
    assert found.category.name == "out-of-bounds" and found.operands == {"index": 1, "last": 0} and found.count == 1


@ct.kernel
def increment(x: Any, T: ct.Constant[int]) -> None:
    i = ct.bid(0)
    ct.store(x, (i,), ct.load(x, (i,), (T,)) + 1)
    ct.atomic_add(x, i * T + ct.arange(T, dtype=ct.int32), 1)


def test_memory_is_bounded_by_what_is_touched() -> None:
    n, tile = 1 << 19, 1 << 12
    x = np.zeros(n, np.int32)
    with ct.sanitize() as report:
        ct.launch(None, (1,), increment, (x[:tile], tile))  # compiled
        tracemalloc.start()
        ct.launch(None, (n // tile,), increment, (x, tile))
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert report.clean
    assert peak <= BYTES_PER_ELEMENT * n + (4 << 20), peak / n
