"""Operators in place: what they change has to have memory of its own, down to single elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.operators import scale_in_place, scale_kernel

import tilewright as ct
from tilewright.ops.in_place import Memory
from tilewright.runtime.overlap import elements_overlap

windows = np.lib.stride_tricks.sliding_window_view


@ct.op("tests::twice_into", "n, n ->", mutates="out")
def twice_into(stream: Any, x: Any, out: Any) -> None:
    ct.launch(stream, (ct.cdiv(x.shape[0], 256),), scale_kernel, (x, out, 2.0, 256))


def memory(array: np.ndarray[Any, Any]) -> Memory:
    return Memory(array.ctypes.data, array.shape, array.strides, array.itemsize)


@pytest.mark.parametrize(
    ("view", "expected"),
    [
        (lambda x: x, False),
        (lambda x: x[::-1, ::2], False),
        (lambda x: x.T, False),
        (lambda x: x[:, None], False),
        (lambda x: np.broadcast_to(x[:1], (4, 6)), True),
        (lambda x: np.broadcast_to(x[:1], (0, 6)), False),
        (lambda x: windows(x.ravel(), 3), True),
        (lambda x: windows(x.ravel(), 3)[::3], False),
        (lambda x: np.lib.stride_tricks.as_strided(x, (3, 2), (16, 24)), False),  # 0 24, 16 40, 32 56: mixed, but apart
        (lambda x: np.lib.stride_tricks.as_strided(x, (4, 4), (24, 16)), True),  # 2 * 24 is 3 * 16
    ],
)
def test_elements_that_share_memory(view: Callable[[Any], Any], expected: bool) -> None:
    found = view(np.zeros((4, 6)))
    assert elements_overlap(found.shape, found.strides, found.itemsize) is expected
    addresses = [
        memory(found).address + sum(i * s for i, s in zip(index, found.strides)) for index in np.ndindex(found.shape)
    ]
    assert (len(set(addresses)) < len(addresses)) is expected


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (slice(0, 5), slice(5, 10), False),
        (slice(0, None, 2), slice(1, None, 2), False),
        (slice(0, None, 2), slice(9, None, -2), False),
        (slice(0, None, 2), slice(4, -1, 1), True),
        (slice(0, 6), slice(3, 9), True),
        (slice(0, 10), slice(0, 10), True),
        (slice(0, 0), slice(0, 0), False),
    ],
)
def test_parts_of_an_array(first: slice, second: slice, expected: bool) -> None:
    x = np.arange(10.0)
    assert memory(x[first]).overlaps(memory(x[second])) is expected
    if expected:
        with pytest.raises(
            ValueError, match="tests::twice_into: 'out' is changed in place, but shares memory with 'x'"
        ):
            twice_into(x[first], x[second])
        return
    wanted = x[first] * 2
    twice_into(x[first], x[second])
    np.testing.assert_array_equal(x[second], wanted)


def test_an_array_that_overlaps_itself_is_refused() -> None:
    x = np.zeros(9)
    with pytest.raises(ValueError, match="tests::scale_: 'x' is changed in place, but several of its elements share"):
        scale_in_place(np.lib.stride_tricks.as_strided(x, (4,), (0,)))
