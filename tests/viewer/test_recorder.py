"""Recordings of launches: elements of strided arrays, groups of runs, and what blocks did."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tilewright as ct
from tilewright.backends.launch_arguments import Buffer
from tilewright.ir.dtypes import int32
from tilewright.sanitizer.windows import elements_of
from tilewright.viewer.layout import box_numbers, element_numbers
from tilewright.viewer.recorder import GROUP_COLUMNS, KINDS, Recorder, Recording, runs


def buffer(shape: tuple[int, ...], strides: tuple[int, ...]) -> Buffer:
    return Buffer("x", 0, 0, 0, int32, True, shape, strides)


@given(st.data())
def test_elements_of_strided_arrays(data: st.DataObject) -> None:
    """Every element is found by its distance, whatever the order and the signs of the strides."""
    shape = tuple(data.draw(st.lists(st.integers(1, 5), min_size=0, max_size=3)))
    order = data.draw(st.permutations(range(len(shape))))
    strides, size = [0] * len(shape), data.draw(st.integers(1, 3))
    for axis in order:
        strides[axis] = size * data.draw(st.sampled_from([1, -1]))
        size *= shape[axis] + data.draw(st.integers(0, 2))
    places = np.indices(shape).reshape(len(shape), int(np.prod(shape)))
    distances = (np.array(strides, np.int64).reshape(-1, 1) * places).sum(0)
    mixed = np.array(data.draw(st.permutations(distances.tolist())), np.int64)
    found = element_numbers(buffer(shape, tuple(strides)), mixed)
    np.testing.assert_array_equal(found, np.arange(distances.size))
    others = np.setdiff1d(np.arange(-2 * size, 2 * size), distances)
    assert element_numbers(buffer(shape, tuple(strides)), others).size == 0


@given(st.data())
def test_boxes_are_the_same_wherever_they_begin(data: st.DataObject) -> None:
    """The elements of a box are those of one elsewhere, moved; and no window that leaves the array is a box."""
    shape = tuple(data.draw(st.lists(st.integers(1, 6), min_size=1, max_size=3)))
    axes = data.draw(st.permutations(range(len(shape))))
    strides, size = [0] * len(shape), data.draw(st.integers(1, 3))
    for axis in axes:
        strides[axis] = size * data.draw(st.sampled_from([1, -1]))
        size *= shape[axis] + data.draw(st.integers(0, 2))
    order = data.draw(st.permutations(range(len(shape))))
    lengths = tuple(data.draw(st.integers(1, shape[a])) for a in order)
    steps = tuple(strides[a] for a in order)
    array, found = buffer(shape, tuple(strides)), []
    for _ in range(2):
        start = [data.draw(st.integers(0, shape[a] - n)) for a, n in zip(order, lengths)]
        distance = sum(at * step for at, step in zip(start, steps))
        numbers = box_numbers(array, np.array([distance]), lengths, steps)
        index = [at for _, at in sorted(zip(order, start))]
        assert numbers is not None and numbers.tolist() == [np.ravel_multi_index(index, shape)]
        found.append(element_numbers(array, elements_of(distance, lengths, steps)) - numbers)
    np.testing.assert_array_equal(*found)
    assert found[0].size == np.prod(lengths)
    beyond = tuple(n + shape[a] for n, a in zip(lengths, order))
    assert box_numbers(array, np.zeros(1, np.int64), beyond, steps) is None


@pytest.mark.parametrize("strides", [(1, 1), (2, 1), (0, 1)])
def test_arrays_whose_elements_meet_have_no_boxes(strides: tuple[int, int]) -> None:
    assert box_numbers(buffer((4, 3), strides), np.zeros(1, np.int64), (2, 2), strides) is None


@given(st.lists(st.integers(0, 60), max_size=40))
def test_groups_hold_the_elements(elements: list[int]) -> None:
    wanted = sorted(set(elements))
    found: list[int] = []
    for start, length, count, step in runs(np.array(wanted, np.int64)).tolist():
        for k in range(count):
            found += range(start + k * step, start + k * step + length)
    assert found == wanted


def test_a_window_of_a_matrix_is_one_group() -> None:
    window = (np.arange(16)[:, None] * 100 + np.arange(8) + 205).reshape(-1)
    assert runs(window).tolist() == [[205, 8, 16, 100]]


@ct.kernel
def work(x, out, total):
    i = ct.bid(0)
    tile = ct.load(x, (i,), (8,), padding_mode=ct.PaddingMode.ZERO)
    ct.store(out, (i,), tile)
    ct.atomic_add(total, (0,), ct.sum(tile))


@ct.kernel
def wrong(x, out):
    ct.store(out, (0,), ct.load(x, (0,), (4,)) // 0)
    ct.scatter(out, ct.bid(0) + 3, 1, check_bounds=False)


def record(grid: tuple[int, ...], kernel: object, *arguments: object, limit: int = 1000) -> Recording:
    recorder = Recorder(limit)
    with ct.sanitize(sinks=[recorder]):
        ct.launch(None, grid, kernel, arguments)
    (found,) = recorder.finish()
    return found


def test_accesses_in_order() -> None:
    x = np.arange(40, dtype=np.int32).reshape(20, 2)[:, 1]
    found = record((3,), work, x, np.zeros(20, np.int32), np.zeros(1, np.int32))
    assert (found.kernel, found.grid, [a.name for a in found.arrays]) == ("work", (3, 1, 1), ["x", "out", "total"])
    events = np.array(found.events).reshape(-1, 6).tolist()
    groups = np.array(found.groups).reshape(-1, len(GROUP_COLUMNS)).tolist()
    lines = [loc.line - work.function.__code__.co_firstlineno for loc in found.locations]
    seen = [(KINDS[k], block, lines[place], array, padding, groups[g]) for k, block, place, array, padding, g in events]
    assert seen[:3] == [
        ("read", 0, 3, 0, 0, [0, 8, 1, 0]),
        ("write", 0, 4, 1, 0, [0, 8, 1, 0]),
        ("atomic", 0, 5, 2, 0, [0, 1, 1, 0]),
    ]
    assert seen[6:8] == [("read", 2, 3, 0, 4, [16, 4, 1, 0]), ("write", 2, 4, 1, 4, [16, 4, 1, 0])]


def test_violations_belong_to_their_access() -> None:
    found = record((2,), wrong, np.zeros(4, np.int32), np.zeros(4, np.int32))
    marks = [(m.violation.category.name, m.event) for m in found.marks if m.violation.block == (1, 0, 0)]
    assert ("division-by-zero", None) in marks  # no access is at fault
    assert any(name in ("unchecked-bounds", "out-of-bounds") for name, _ in marks)
    raced = [m for m in found.marks if m.violation.category.name == "data-race"]
    assert raced and all(m.event is not None and m.array == 1 and m.element is not None for m in raced)


@ct.kernel
def copy(x, out):
    ct.store(out, (ct.bid(0),), ct.load(x, (ct.bid(0),), (8,)))


@pytest.mark.parametrize("limit", [0, 5, 16, 21, 31])
def test_the_limit_bounds_what_is_kept_of_blocks_that_run_together(limit: int) -> None:
    found = record((8,), copy, np.zeros(64), np.zeros(64), limit=limit)
    assert found.event_count == (limit + 1) // 2 and found.event_count + found.dropped == 16


@pytest.mark.parametrize("limit", [0, 3, 7])
def test_the_limit_bounds_what_is_kept(limit: int) -> None:
    found = record((3,), work, *(np.zeros(n, np.int32) for n in (20, 20, 1)), limit=limit)
    assert found.event_count <= limit and found.event_count + found.dropped == 9
